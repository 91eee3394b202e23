"""EN, OUT and REV rows: what one call records and gives back."""

from collections.abc import Mapping

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.call_records import key_of
from gitshadow.sdk.turns.errors import (
    RegistrationError,
    TimeLimitExceeded,
    ToolFailure,
    TurnClosed,
)
from gitshadow.sdk.turns.host import Context, Host
from gitshadow.sdk.turns.json_values import parse
from gitshadow.sdk.turns.policy import Limits, Policy, Proposal, Verdict
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import (
    Conflict,
    Outcome,
    OutcomeKind,
    UndoEntry,
)
from gitshadow.store.journal.saga_rows import SagaCall
from tests.sdk.turns.front import FREE, Front
from tests.sdk.turns.world import World, undone_by

HOUR_S = 3600.0


def only_call(front: Front) -> SagaCall:
    """Return the one call of turn 1 as the journal has it."""
    (found,) = front.session().au.calls("t-1")
    return found


async def test_an_entry_has_three_fields(front: Front) -> None:
    """EN-01."""
    front.tools.tool("timeline.trim_clip")(lambda: None)
    turn = await front.session().called("timeline.trim_clip", "c1")
    assert turn.inner.entries() == [
        UndoEntry("c1", "timeline.trim_clip", "Executed timeline.trim_clip")
    ]


async def test_a_tool_may_describe_its_calls(front: Front) -> None:
    """EN-02."""

    def describe(arguments: Mapping[str, object]) -> str:
        return f"trimmed {arguments['clip']}"

    front.tools.tool("timeline.trim", describe=describe)(lambda clip: None)
    turn = await front.session().called("timeline.trim", clip="a")
    assert [one.description for one in turn.inner.entries()] == ["trimmed a"]


def test_a_tools_name_has_a_domain() -> None:
    """EN-03."""
    tools = ToolRegistry()
    tools.domain("timeline").tool("trim")(lambda: None)
    assert [tool.name for tool in tools] == ["timeline.trim"]
    with pytest.raises(RegistrationError, match="cannot register trim"):
        tools.tool("trim")(lambda: None)
    with pytest.raises(RegistrationError, match="taken"):
        tools.tool("timeline.trim")(lambda: None)


async def test_something_else_may_do_the_work_of_a_tool(
    front: Front, world: World
) -> None:
    """AN-40: a framework runs it; class, capture and inverse are the registered tool's."""
    given: dict[str, object] = {}

    def framework(**arguments: object) -> dict[str, int]:
        given.update(arguments)
        return {"id": 4}

    async with front.session().turn() as turn:
        await turn.through(framework, "draft.create", title="x")
    call = only_call(front)
    assert given == {"title": "x", "idempotency_key": key_of(call, "do")}
    assert parse(str(call.inverse))["args"] == {"id": 4}
    assert world.calls == []


async def test_every_success_is_an_entry_in_order(front: Front) -> None:
    """EN-04."""
    async with front.session().turn() as turn:
        for number in range(5):
            await turn.call("draft.create", f"c{number}", title="x")
    assert [one.tool_call_id for one in turn.inner.entries()] == [
        *("c0", "c1", "c2", "c3", "c4")
    ]


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("mail.send", OutcomeKind.DENIED),
        ("toy.soft_fail", OutcomeKind.FAILED),
        ("toy.stale", OutcomeKind.CONFLICT),
        ("no.such", OutcomeKind.UNKNOWN_TOOL),
    ],
)
async def test_what_did_nothing_is_no_entry(
    front: Front, world: World, tool: str, kind: OutcomeKind
) -> None:
    """EN-05 to EN-08, OUT-01, OUT-02, OUT-04, OUT-05, REV-05: and the turn goes on."""
    policy = Policy(non_reversible="deny")
    arguments = {"to": "x"} if tool == "mail.send" else {}
    async with front.session(policy=policy).turn() as turn:
        outcome = await turn.call(tool, **arguments)
        await turn.call("crm.update", id=7, field="name", value="A")
    assert outcome.kind is kind
    assert [one.tool_name for one in turn.inner.entries()] == ["crm.update"]
    assert turn.inner.status == "committed"
    assert world.state["sent"] == []


async def test_what_a_model_reads_of_each_outcome(front: Front) -> None:
    """OUT-01, OUT-02, OUT-05."""

    def guard(proposal: Proposal) -> Verdict | None:
        denied = proposal.tool == "mail.send"
        return Verdict.deny("no mail today") if denied else None

    policy = Policy(non_reversible="allow", guards=(guard,))
    async with front.session(policy=policy).turn() as turn:
        assert (await turn.call("toy.soft_fail")).text == "no such customer"
        assert (await turn.call("mail.send", to="x")).text == "no mail today"
        assert (await turn.call("no.such")).text == "Unknown tool: no.such"


async def test_a_read_is_an_entry(front: Front) -> None:
    """EN-09."""
    turn = await front.session().called("notes.read", note="n")
    assert [one.tool_name for one in turn.inner.entries()] == ["notes.read"]


async def test_entries_are_filtered_by_tool(front: Front) -> None:
    """EN-10."""
    async with front.session().turn() as turn:
        await turn.call("notes.read", note="n")
        await turn.call("crm.update", id=7, field="name", value="A")
    found = turn.inner.entries(tool="crm.*")
    assert [one.tool_name for one in found] == ["crm.update"]


@pytest.mark.parametrize("yes", [True, False])
async def test_a_confirmation_decides(front: Front, world: World, yes: bool) -> None:
    """OUT-03."""
    policy = Policy(confirm=lambda proposal: yes)
    async with front.session(policy=policy).turn() as turn:
        outcome = await turn.call("mail.send", to="x")
        await turn.call("crm.update", id=7, field="name", value="A")
    assert outcome.ok is yes
    assert world.state["sent"] == (["x"] if yes else [])
    assert turn.inner.status == "committed"


async def test_nobody_to_ask_is_a_no(front: Front, world: World) -> None:
    """Settled: `ask` means deny where nobody can be asked."""
    async with front.session(policy=Policy()).turn() as turn:
        outcome = await turn.call("mail.send", to="x")
    assert outcome.text == "mail.send cannot be undone, but there is no one to ask"
    assert world.state["sent"] == []


async def test_a_deny_after_a_question_wins(front: Front) -> None:
    """AN-17: no prompt is shown."""
    asked: list[Proposal] = []

    def confirm(proposal: Proposal) -> bool:
        asked.append(proposal)
        return True

    policy = Policy(
        guards=(lambda p: Verdict.confirm("sure?"), lambda p: Verdict.deny("never")),
        confirm=confirm,
    )
    async with front.session(policy=policy).turn() as turn:
        outcome = await turn.call("draft.create", title="x")
    assert outcome == Outcome.denied("never")
    assert asked == []


async def test_the_first_question_is_asked(front: Front) -> None:
    """AN-17."""
    asked: list[str] = []

    def confirm(proposal: Proposal) -> bool:
        asked.append(proposal.question)
        return True

    policy = Policy(
        guards=(lambda p: Verdict.confirm("one?"), lambda p: Verdict.confirm("two?")),
        confirm=confirm,
    )
    await front.session(policy=policy).called("mail.send", to="x")
    assert asked == ["one?"]


async def test_a_tool_says_no_by_an_exception(front: Front) -> None:
    """OUT-08."""

    def refuse() -> None:
        raise ToolFailure("no")

    front.tools.tool("toy.refuse")(refuse)
    async with front.session().turn() as turn:
        outcome = await turn.call("toy.refuse")
    assert outcome == Outcome.failed("no")
    assert turn.inner.entries() == []
    assert turn.inner.status == "committed"


@pytest.mark.parametrize(
    ("late", "arguments"), [("draft.create", {"title": "b"}), ("toy.soft_fail", {})]
)
async def test_a_turn_takes_only_so_long(
    front: Front, world: World, late: str, arguments: dict[str, str]
) -> None:
    """OUT-07, AN-16: a tool that runs past the clock fails the turn, also one that did nothing.

    The next turn has its own time.
    """
    time_ns = [0]

    def later(name: str) -> None:
        time_ns[0] += 7_000_000_000

    world.before_call = later
    host = Host(clock=lambda: time_ns[0])
    session = front.session(policy=Policy(limits=Limits(seconds=10)), host=host)
    with pytest.raises(TimeLimitExceeded):
        async with session.turn() as turn:
            await turn.call("draft.create", title="a")
            await turn.call(late, **arguments)
    assert world.state["drafts"] == {}
    turn = await session.called(late, **arguments)
    assert turn.inner.status == "committed"


async def test_an_id_is_used_once_in_a_turn(front: Front) -> None:
    with pytest.raises(UsageError, match="the id c1 was already used"):
        async with front.session().turn() as turn:
            await turn.call("notes.read", "c1", note="a")
            await turn.call("notes.read", "c1", note="b")


async def test_a_turn_that_ended_takes_no_call(front: Front) -> None:
    async with front.session().turn() as turn:
        pass
    with pytest.raises(TurnClosed):
        await turn.call("notes.read", note="n")


class Document:
    """A host's document with a version."""

    def __init__(self, log: list[str]) -> None:
        self.revision = 3
        self.log = log

    def current_revision(self) -> int:
        self.log.append("read")
        return self.revision


async def test_the_revision_is_read_before_every_call(
    front: Front, world: World
) -> None:
    """REV-01."""
    log: list[str] = []
    world.before_call = log.append
    session = front.session(host=Host(revisions=Document(log)))
    async with session.turn() as turn:
        for note in "abc":
            await turn.call("notes.read", note=note)
    assert log == ["read", "notes.read"] * 3


async def test_the_revision_is_handed_over_fresh(front: Front) -> None:
    """REV-02, REV-04: each call gets the value just read."""
    document, seen = Document([]), []

    def bump(revision: int) -> None:
        seen.append(revision)
        document.revision += 1

    front.tools.tool("doc.bump")(bump)
    async with front.session(host=Host(revisions=document)).turn() as turn:
        await turn.call("doc.bump")
        await turn.call("doc.bump")
    assert seen == [3, 4]


async def test_without_a_provider_the_revision_is_none(
    front: Front, world: World
) -> None:
    """REV-03."""
    await front.session().called("toy.stale")
    assert world.args("toy.stale") == [{"revision": None}]


@pytest.mark.parametrize(
    ("conflict", "text"),
    [
        (Conflict("M", 3, 5, "D"), "Conflict: M\nState delta: D"),
        (Conflict("M", 3, 5, None), "Conflict: M"),
        (Conflict("M", 3, 5, ""), "Conflict: M"),
    ],
)
def test_a_conflict_is_rendered_to_the_letter(conflict: Conflict, text: str) -> None:
    """REV-06, REV-07, REV-08: without the numbers."""
    assert Outcome.conflict(conflict).text == text


async def test_the_journal_keeps_the_revisions_of_a_conflict(front: Front) -> None:
    """REV-08."""
    await front.session().called("toy.stale")
    kept = parse(only_call(front).content)
    assert (kept["expected"], kept["actual"]) == (3, 5)


async def test_a_model_may_try_again_after_a_conflict(front: Front) -> None:
    """REV-09."""
    document = Document([])

    def edit(base: int, revision: int) -> Outcome:
        if base != revision:
            return Outcome.conflict(Conflict("stale", base, revision))
        return Outcome.success("edited")

    front.tools.tool("doc.edit")(edit)
    async with front.session(host=Host(revisions=document)).turn() as turn:
        assert not (await turn.call("doc.edit", base=2)).ok
        assert (await turn.call("doc.edit", base=3)).ok
    assert len(turn.inner.entries()) == 1


class Weather:
    """A context source that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def summary(self) -> str:
        self.asked += 1
        return f"rain {self.asked}"


async def test_a_conflict_brings_the_present_state_along(front: Front) -> None:
    """REV-10, REV-11: a cached source is asked again, and stands after the two lines."""
    weather = Weather()
    session = front.session(host=Host(contexts=(Context("weather", weather, HOUR_S),)))
    async with session.turn() as turn:
        first = await turn.call("toy.stale")
        second = await turn.call("toy.stale")
    assert first.text == (
        "Conflict: M\nState delta: D\n\nCurrent state:\nweather: rain 1"
    )
    assert second.text.endswith("weather: rain 2")


async def test_without_sources_there_is_no_section(front: Front) -> None:
    """REV-12."""
    async with front.session().turn() as turn:
        outcome = await turn.call("toy.stale")
    assert outcome.text == "Conflict: M\nState delta: D"


async def test_entries_before_a_conflict_survive(front: Front, world: World) -> None:
    """REV-13."""
    async with front.session().turn() as turn:
        await turn.call("draft.create", title="x")
        await turn.call("toy.stale")
    assert world.state["drafts"] == {"9": "x"}
    assert turn.inner.status == "committed"


async def test_secret_arguments_are_never_written_down(front: Front) -> None:
    """AN-15: not in rows, not in the log, not in an error."""
    token = "tok-4711-secret"

    def post(token: str) -> None:
        raise ToolFailure(f"rejected {token}")

    front.tools.tool("api.post", secrets=("token",))(post)
    front.tools.tool("api.put", secrets=("token",), **undone_by("api.post", "token"))(
        lambda token: "ok"
    )
    session = front.session(policy=FREE)
    async with session.turn() as turn:
        await turn.call("api.post", token=token)
        await turn.call("api.put", token=token)
    stored = repr([session.au.calls("t-1"), session.au.log()])
    assert token not in stored
    assert "[redacted]" in stored
    last = session.au.calls("t-1")[1]
    assert last.inverse is None
    assert last.error == (
        "the inverse was not stored: it would store a secret: pass Secret(NAME) instead"
    )
