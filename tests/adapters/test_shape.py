"""The table-driven reader: keys, their order, and what is wrong with a payload."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import Shape
from gitshadow.model import JsonObject, JsonValue, ToolClass

SHAPE = Shape(
    agent="codex",
    event=("event", "meta.event"),
    phases={
        "begin": HookPhase.SESSION_START,
        "ask": HookPhase.PROMPT,
        "pre": HookPhase.BEFORE,
        "post": HookPhase.AFTER,
        "child": HookPhase.SUBAGENT_START,
    },
    session=("session", "meta.ids.root"),
    turn=("turn",),
    call=("call",),
    tool=("tool",),
    tool_input=("input",),
    cwd=("cwd", "roots"),
    subagent=("child",),
    duration_ms=("ms",),
    background_tasks=("tasks",),
    path_keys=("path", "files[]", "edits[].path"),
    patch_keys=("patch",),
    tools={
        ToolClass.WRITE: frozenset({"write"}),
        ToolClass.SHELL: frozenset({"sh"}),
    },
)
WRITE: JsonObject = {
    "event": "pre",
    "session": "s",
    "tool": "write",
    "input": {"path": "a"},
}


def read(payload: JsonObject, shape: Shape = SHAPE) -> HookEvent:
    found = shape.read(Payload(payload))
    assert isinstance(found, HookEvent)
    return found


def test_first_readable_key_counts_when_several_may_hold_a_field() -> None:
    payload = {**WRITE, "session": 7, "meta": {"ids": {"root": "r"}}}
    assert read(payload).native_session == "r"


def test_dotted_key_leads_through_json_text() -> None:
    payload = {**WRITE, "session": None, "meta": '{"ids": {"root": "r"}}'}
    assert read(payload).native_session == "r"


def test_paths_are_named_once_in_the_order_of_the_keys() -> None:
    given: JsonObject = {
        "path": "a",
        "files": ["b", "a", 7],
        "edits": [{"path": "c"}, 1],
        "patch": "*** Begin Patch\n*** Delete File: d\n*** Add File: b\n",
    }
    assert read({**WRITE, "input": given}).paths == (b"a", b"b", b"c", b"d")


def test_tool_opens_a_window_for_any_path_when_it_writes_and_names_none() -> None:
    found = read({**WRITE, "input": {"where": "a"}})
    assert (found.tool_class, found.paths) == (ToolClass.OTHER, ())


def test_shell_names_no_path_even_when_its_input_has_one() -> None:
    found = read({**WRITE, "tool": "sh"})
    assert (found.tool_class, found.paths) == (ToolClass.SHELL, ())


def test_tool_may_do_anything_when_it_is_not_listed() -> None:
    assert read({**WRITE, "tool": "new"}).tool_class is ToolClass.OTHER


def test_call_id_is_derived_from_the_input_when_there_is_none() -> None:
    before, after = read(WRITE), read({**WRITE, "event": "post", "result": 1})
    assert before.call_derived is True
    assert before.call_id == after.call_id
    assert read({**WRITE, "input": '{"path":"a"}'}).call_id == before.call_id
    assert read({**WRITE, "call": "c1"}).call_derived is False


def test_subagent_has_a_session_below_its_parent() -> None:
    found = read({**WRITE, "child": "k"})
    assert (found.native_session, found.parent_session) == ("s/k", "s")


def test_subagent_event_is_ignored_when_the_agent_names_none() -> None:
    payload = Payload({"event": "child", "session": "s"})
    assert replace(SHAPE, subagent=()).read(payload) is None


def test_phase_is_the_given_one_when_the_module_knows_better() -> None:
    found = SHAPE.read(Payload({"event": "odd", "session": "s"}), HookPhase.TURN_END)
    assert isinstance(found, HookEvent)
    assert (found.phase, found.raw_event) == (HookPhase.TURN_END, "odd")


def test_cwd_is_the_first_item_when_it_is_a_list() -> None:
    assert read({**WRITE, "roots": ["/a", "/b"]}).cwd == b"/a"
    assert read({**WRITE, "roots": []}).cwd is None


def test_prompt_is_read_in_the_prompt_phase_alone() -> None:
    assert read({**WRITE, "prompt": "p"}).prompt is None
    assert read({"event": "ask", "session": "s", "prompt": "p"}).prompt == "p"


def test_numbers_are_bounded_when_they_are_durations_and_counts() -> None:
    found = read({**WRITE, "ms": 2.5, "tasks": [1, 2]})
    assert (found.duration_ns, found.background_tasks) == (2_500_000, 2)
    assert read({**WRITE, "ms": -1, "tasks": 3}).duration_ns is None


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "the payload has no hook event"),
        ({"event": "pre"}, "the pre payload has no session"),
        ({"event": "pre", "session": "s"}, "the pre payload has no tool"),
        ({"event": "child", "session": "s"}, "the child payload has no subagent"),
    ],
)
def test_payload_is_bad_when_a_needed_field_is_missing(
    payload: JsonObject, reason: str
) -> None:
    assert SHAPE.read(Payload(payload)) == BadPayload(reason)


def test_event_is_ignored_when_it_is_not_listed() -> None:
    assert SHAPE.read(Payload({"event": "moonrise"})) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
KEYS = sorted({*WRITE, "meta", "turn", "call", "cwd", "roots", "child", "ms", "tasks"})


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_reading_never_raises_when_fields_have_any_value(
    changes: dict[str, JsonValue],
) -> None:
    """ATT-10: a wrong type is an absent value."""
    found = SHAPE.read(Payload({**WRITE, **changes}))
    assert found is None or isinstance(found, HookEvent | BadPayload)
