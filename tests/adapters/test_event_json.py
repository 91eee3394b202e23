"""What is read of a payload, as JSON and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters import event_json, registry
from gitshadow.adapters.base import BadPayload, FileEdit, HookEvent, HookPhase
from gitshadow.model import ToolClass
from tests.support.payloads import ENV, stored


def again(found: HookEvent | BadPayload) -> object:
    raw = json.dumps(event_json.document(found)).encode()
    return registry.parse(event_json.NAME, raw, {})


def test_every_stored_payload_is_read_again_as_the_same_event() -> None:
    found = [registry.parse(one.agent, one.raw, ENV) for one in stored()]
    events = [one for one in found if one is not None]
    assert len(events) > 400
    assert [again(one) for one in events] == events
    assert {one.agent for one in events if isinstance(one, HookEvent)} >= {
        *set(registry.KNOWN_AGENTS)
    }


@given(
    paths=st.lists(st.binary(min_size=1)).map(tuple),
    texts=st.tuples(st.none() | st.binary(), st.binary()),
    number=st.none() | st.integers(0, 2**40),
    prompt=st.none() | st.text(min_size=1),
)
def test_any_event_is_read_again_as_it_was(
    paths: tuple[bytes, ...],
    texts: tuple[bytes | None, bytes],
    number: int | None,
    prompt: str | None,
) -> None:
    event = HookEvent(
        agent="a",
        host="b",
        native_session="s",
        phase=HookPhase.AFTER,
        raw_event="e",
        tool_class=ToolClass.WRITE,
        paths=paths,
        changed=paths,
        cwd=b"/\xff",
        prompt=prompt,
        awaited=("x",),
        duration_ns=number,
        edit=FileEdit(*texts),
    )
    assert again(event) == event


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"phase": "prompt"},
        {"phase": 1, "tool_class": []},
        {"phase": "prompt", "edit": 1},
        {"phase": "prompt", "paths": 5},
        {"phase": "prompt", "cwd": {"a": 1}},
        {"phase": "prompt", "later": 1},
    ],
)
def test_other_object_is_a_bad_payload(document: object) -> None:
    raw = json.dumps(document).encode()
    assert isinstance(registry.parse(event_json.NAME, raw, {}), BadPayload)
