"""Our own payload, as docs/hooks.md promises it."""

import json
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase, Parsed
from gitshadow.model import ToolClass

DOCS = Path(__file__).parents[2] / "docs" / "hooks.md"


def parse(**payload: object) -> Parsed:
    return registry.parse("generic", json.dumps(payload).encode(), {})


def event(**payload: object) -> HookEvent:
    parsed = parse(**payload)
    assert isinstance(parsed, HookEvent)
    return parsed


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("session_start", HookPhase.SESSION_START),
        ("prompt", HookPhase.PROMPT),
        ("before", HookPhase.BEFORE),
        ("after", HookPhase.AFTER),
        ("failed", HookPhase.FAILED),
        ("denied", HookPhase.DENIED),
        ("turn_end", HookPhase.TURN_END),
        ("session_end", HookPhase.SESSION_END),
    ],
)
def test_event_is_read_when_it_is_documented(name: str, phase: HookPhase) -> None:
    found = event(event=name, session="s1")
    assert (found.phase, found.agent, found.native_session) == (phase, "generic", "s1")
    assert f"`{name}`" in DOCS.read_text()


def test_before_carries_all_fields() -> None:
    found = event(
        event="before",
        session="s1",
        agent="my-agent",
        parent="s0",
        turn="t1",
        call="c1",
        tool="edit",
        paths=["src/a.py", "/abs/b"],
        cwd="/repo",
    )
    assert (found.agent, found.parent_session) == ("my-agent", "s0")
    assert (found.turn_id, found.call_id, found.tool) == ("t1", "c1", "edit")
    assert (found.paths, found.cwd) == ((b"src/a.py", b"/abs/b"), b"/repo")
    assert found.tool_class is ToolClass.WRITE


@pytest.mark.parametrize(
    ("named", "paths", "kind"),
    [
        (None, [], ToolClass.OTHER),
        (None, ["a"], ToolClass.WRITE),
        ("shell", [], ToolClass.SHELL),
        ("read", ["a"], ToolClass.READ),
        ("surprise", [], ToolClass.OTHER),
    ],
)
def test_class_is_guessed_from_paths_when_absent(
    named: str | None, paths: list[str], kind: ToolClass
) -> None:
    payload = {"class": named} if named else {}
    found = event(event="before", session="s", paths=paths, **payload)
    assert found.tool_class is kind


def test_call_is_known_by_tool_and_paths_when_it_has_no_id() -> None:
    before = event(event="before", session="s", tool="t", paths=["a"])
    after = event(event="after", session="s", tool="t", paths=["a"])
    assert (before.call_id, before.call_derived) == (after.call_id, True)


@pytest.mark.parametrize("paths", [[1], [""], {"a": 1}, 7, ["\0"]])
def test_payload_is_bad_when_paths_are_none(paths: object) -> None:
    assert parse(event="before", session="s", paths=paths) == BadPayload(
        "the field paths is not a list of paths"
    )


def test_payload_is_bad_when_it_names_no_session() -> None:
    assert parse(event="before") == BadPayload("the before payload has no session")


@pytest.mark.parametrize("pid", [True, "12", 1, 0, -5, 1 << 31, 12.0, None, [12]])
def test_what_cannot_be_a_process_is_left_out(pid: object) -> None:
    assert event(event="prompt", session="s", pid=pid).only_writer is None
    assert event(event="prompt", session="s", pid=12).only_writer == 12


def test_an_end_says_how_long_the_tool_ran_when_it_is_told() -> None:
    given = {"session": "s", "tool": "w", "call": "c"}
    assert event(event="after", duration_ms=12.5, **given).duration_ns == 12_500_000
    assert event(event="after", duration_ms=-1, **given).duration_ns is None


def test_event_is_ignored_when_it_is_unknown() -> None:
    assert parse(event="tea", session="s") is None


def test_documented_example_is_readable() -> None:
    """Every JSON document of docs/hooks.md is an event."""
    lines = DOCS.read_text().splitlines()
    found = [
        line[line.index("{") : line.rindex("}") + 1] for line in lines if '{"' in line
    ]
    parsed = [registry.parse("generic", text.encode(), {}) for text in found]
    assert len(parsed) == 5
    assert all(isinstance(one, HookEvent) for one in parsed)
