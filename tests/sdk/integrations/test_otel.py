"""AN-39: spans as OpenTelemetry's own SDK gets them; none unless a program asks for them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from gitshadow.sdk.integrations.otel import OpenTelemetry
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.values import Inverse, Reversibility
from tests.sdk.turns.front import Front
from tests.sdk.turns.world import BoomError

SECRET = "tok-4711-secret"


@pytest.fixture(params=["sync", "async"])
def front(request: pytest.FixtureRequest, place: Path) -> Iterator[Front]:
    """Return a front; both tell the same."""
    made = Front.make(request.param, place)
    yield made
    made.close()


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Return where the spans come to."""
    return InMemorySpanExporter()


@pytest.fixture
def host(exporter: InMemorySpanExporter) -> Host:
    """Return a host that tells OpenTelemetry, and a program that has set it up."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Host(telemetry=OpenTelemetry(provider))


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """Return the spans of a name, as they ended."""
    return [one for one in exporter.get_finished_spans() if one.name == name]


def attribute(span: ReadableSpan, name: str) -> object:
    """Return one attribute of a span, or None."""
    return (span.attributes or {}).get(name)


async def test_a_call_is_a_span_with_its_id(
    front: Front, host: Host, exporter: InMemorySpanExporter
) -> None:
    """AN-39: after the conventions for tools that are executed."""
    await front.session(host=host).called("draft.create", "call_1", title="x")
    (span,) = exporter.get_finished_spans()
    assert span.name == "execute_tool draft.create"
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.name": "draft.create",
        "gen_ai.tool.call.id": "call_1",
        "gitshadow.turn": "t-1",
        "gitshadow.session": "s",
        "gitshadow.outcome": "success",
    }
    assert span.status.status_code is StatusCode.UNSET


async def test_the_span_of_an_undo_links_to_the_calls(
    front: Front, host: Host, exporter: InMemorySpanExporter
) -> None:
    """AN-39: also from another opening, by what the journal keeps."""
    await front.session(host=host).called("draft.create", title="x")
    front.world.trouble["undo:draft"] = [OSError("down")]
    report = await front.session(host=host).undo("t-1")
    assert report.ok
    (call,) = named(exporter, "execute_tool draft.create")
    first, second = named(exporter, "undo draft.create")
    assert [attribute(one, "gitshadow.outcome") for one in (first, second)] == [
        *("failed", "done")
    ]
    for undo in (first, second):
        assert [link.context.span_id for link in undo.links] == [call.context.span_id]
        assert undo.links[0].context.trace_id == call.context.trace_id
        assert attribute(undo, "gen_ai.tool.call.id") == "t-1.1"
        assert attribute(undo, "gitshadow.handler") == "draft.delete"


async def test_a_tools_own_spans_are_below_its_calls(
    front: Front, host: Host, exporter: InMemorySpanExporter
) -> None:
    """AN-39: plain functions and coroutine functions."""
    seen: list[int] = []

    def look() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    async def looked() -> None:
        look()

    front.tools.add("toy.look", looked if front.name == "async" else look)
    await front.session(host=host).called("toy.look")
    (span,) = exporter.get_finished_spans()
    assert seen == [span.context.span_id]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_what_a_call_came_to_is_told(
    front: Front, host: Host, exporter: InMemorySpanExporter
) -> None:
    """AN-39: outcomes, and the type of what was raised."""
    policy = Policy(non_reversible="deny")
    with pytest.raises(BoomError):
        async with front.session(host=host, policy=policy).turn() as turn:
            await turn.call("mail.send", to="x")
            await turn.call("toy.soft_fail")
            await turn.call("toy.boom")
    spans = exporter.get_finished_spans()
    assert [attribute(one, "gitshadow.outcome") for one in spans] == [
        *("denied", "failed", "raised")
    ]
    assert [attribute(one, "error.type") for one in spans] == [None, None, "BoomError"]
    assert spans[2].status.status_code is StatusCode.ERROR


async def test_nothing_secret_is_in_a_span(
    front: Front, host: Host, exporter: InMemorySpanExporter
) -> None:
    """AN-15, AN-39: no argument, no result, no text of an error."""

    def post(token: str) -> None:
        raise BoomError(f"rejected {token}")

    front.tools.add(
        "api.put",
        lambda token: token,
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("api.post", token="x"),
    )
    front.tools.add("api.post", post, secrets=("token",))
    with pytest.raises(BoomError):
        async with front.session(host=host).turn() as turn:
            await turn.call("api.put", token=SECRET)
            await turn.call("api.post", token=SECRET)
    spans = exporter.get_finished_spans()
    assert len(spans) >= 2
    for span in spans:
        assert SECRET not in span.to_json()
        assert "rejected" not in span.to_json()


async def test_a_held_call_is_told_when_it_is_sent(
    front: Front, host: Host, exporter: InMemorySpanExporter
) -> None:
    """AN-19, AN-39."""
    front.tools.add("mail.later", lambda to: None, hold=True)
    await front.session(host=host).called("mail.later", to="x")
    spans = named(exporter, "execute_tool mail.later")
    assert [attribute(one, "gitshadow.outcome") for one in spans] == [
        *("held", "success")
    ]


async def test_without_a_provider_nothing_happens(front: Front) -> None:
    """AN-39: the API alone, in a program that has set nothing up."""
    session = front.session(host=Host(telemetry=OpenTelemetry()))
    async with session.turn() as turn:
        assert (await turn.call("draft.create", title="x")).ok
    assert (await session.undo("t-1")).ok


def test_turns_do_not_load_it() -> None:
    """AN-39: off by default, and not even imported."""
    program = (
        "import sys, gitshadow; gitshadow.AgentUndo, gitshadow.AsyncAgentUndo;"
        "sys.exit('opentelemetry' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
