"""Our entries in a user's file: laws of putting in and taking out, and known forms."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import entries, invocation, jsonc, merge
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.entries import Want
from gitshadow.hookfiles.placement import InstallScope, Shared
from gitshadow.model import JsonValue
from tests.hookfiles.test_jsonc import is_subsequence
from tests.hookfiles.texts import documents

PROGRAM = "/opt/it's here/git-agent-undo"
SHARED = [
    (agent.name, placement)
    for agent in AGENTS.values()
    for scope, placement in agent.placements.items()
    if isinstance(placement, Shared) and scope is InstallScope.PROJECT
]
NAMES = [name for name, _ in SHARED]
OTHERS = (
    "entire hooks claude-code pre-tool-use",
    "/home/dev/.git-ai/bin/git-ai checkpoint claude --hook-input stdin",
    "echo git-agent-undo hook claude-code >>/tmp/seen",
)


def want(name: str, command: str | None = None) -> Want:
    shape = dict(SHARED)[name].shape
    return Want(name, shape, command or invocation.for_user(name, PROGRAM))


def data_of(text: str) -> object:
    root = jsonc.parse(text).root
    return None if root is None else root.data


def put(text: str, wanted: Want) -> str | None:
    """Put our entries in; None where the text has something else in their place."""
    try:
        return merge.put_in(text, wanted)
    except ShadowError:
        return None


def missing(text: str, wanted: Want) -> list[str]:
    """Return the events without a right entry."""
    there = [
        one for one in merge.entries(text, wanted) if entries.is_right(one, wanted)
    ]
    there += merge.changed(text, wanted)
    names = {one.event for one in there}
    return [event.name for event in wanted.shape.events if event.name not in names]


@given(documents(), st.sampled_from(NAMES))
def test_every_character_of_the_text_stays(text: str, name: str) -> None:
    merged = put(text, want(name))
    if merged is not None:
        assert is_subsequence(text, merged)
        assert missing(merged, want(name)) == []


@given(documents(), st.sampled_from(NAMES))
def test_putting_in_twice_is_putting_in_once(text: str, name: str) -> None:
    merged = put(text, want(name))
    if merged is not None:
        assert merge.put_in(merged, want(name)) == merged


@given(documents(), st.sampled_from(NAMES))
def test_taking_out_gives_the_text_back(text: str, name: str) -> None:
    merged = put(text, want(name))
    if merged is not None:
        assert merge.take_out(merged, want(name), text) == text


@given(documents(), st.sampled_from(NAMES), st.sampled_from(OTHERS))
def test_what_others_add_between_stays(text: str, name: str, command: str) -> None:
    merged = put(text, want(name))
    if merged is None:
        return
    event = want(name).shape.events[0].name
    other = {"hooks": [{"type": "command", "command": command}]}
    mixed = add(merged, name, event, other)
    taken = merge.take_out(mixed, want(name), text)
    assert taken is not None
    assert merge.entries(taken, want(name)) == []
    assert listed(taken, name, event)[-1:] == [other]
    assert is_subsequence(text, taken)


def add(text: str, name: str, event: str, other: JsonValue) -> str:
    path = way(text, name, event)
    return jsonc.append(text, path, other)


def way(text: str, name: str, event: str) -> jsonc.Path:
    document = jsonc.parse(text)
    names = (*(merge._base(document, want(name).shape) or ()), event)
    path = merge._find(document, names, of_objects=False)
    assert path is not None
    return path


def listed(text: str, name: str, event: str) -> list[object]:
    found = jsonc.parse(text).at(way(text, name, event)).data
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text", ["", "\ufeff", "// mine\n", "/* mine */", "{}", "{\n}\n"]
)
def test_file_without_hooks_comes_back(name: str, text: str) -> None:
    merged = merge.put_in(text, want(name))
    assert missing(merged, want(name)) == []
    taken = merge.take_out(merged, want(name), text)
    assert taken == (text or None)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_ours_alone_goes_even_if_nobody_knows_its_past(name: str) -> None:
    command = invocation.for_project(name)
    text = merge.fresh(want(name, command))
    assert merge.take_out(text, want(name)) is None


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_synchronous_and_timed_in_the_right_unit(name: str) -> None:
    wanted = want(name)
    for event in wanted.shape.events:
        handler = entries.handler(event, wanted)
        assert "async" not in handler
        if name in ("gemini", "qwen"):
            assert handler["timeout"] in range(1000, 10_001)
        elif name not in ("windsurf", "devin", "antigravity"):
            assert handler["timeout"] in range(3, 11)


def test_older_entries_are_replaced_and_foreign_ones_stay() -> None:
    text = """{
  // what I use
  "hooks": {
    "PreToolUse": [
      {"matcher": "Edit", "hooks": [
        {"type": "command", "command": "git-agent-undo hook claude-code"},
        {"type": "command", "command": "entire hooks claude-code pre-tool-use"}
      ]},
      {"matcher": "*", "hooks": [
        {"type": "command", "command": "/old/git-agent-undo hook claude-code || true", "timeout": 5}
      ]}
    ],
    "PreCompact": [{"hooks": [{"type": "command", "command": "git-agent-undo hook claude-code"}]}]
  }
}
"""
    merged = merge.put_in(text, want("claude-code"))
    hooks = data_of(merged)
    assert isinstance(hooks, dict)
    events = hooks["hooks"]
    assert events["PreToolUse"][0]["hooks"] == [
        {"type": "command", "command": "entire hooks claude-code pre-tool-use"}
    ]
    assert len(events["PreToolUse"]) == 2
    assert "PreCompact" not in events
    found = merge.entries(merged, want("claude-code"))
    assert len(found) == len(want("claude-code").shape.events)
    assert "// what I use\n" in merged


def test_changed_timeout_stays_unless_its_unit_is_wrong() -> None:
    merged = merge.put_in("", want("gemini"))
    slow = merged.replace('"timeout": 5000', '"timeout": 9000', 1)
    assert merge.put_in(slow, want("gemini")) == slow
    wrong = merged.replace('"timeout": 5000', '"timeout": 5', 1)
    assert data_of(merge.put_in(wrong, want("gemini"))) != data_of(wrong)


def test_asynchronous_entry_is_replaced() -> None:
    merged = merge.put_in("", want("claude-code"))
    late = merged.replace('"timeout": 10', '"timeout": 10, "async": true', 1)
    assert "async" not in merge.put_in(late, want("claude-code"))


def test_groups_of_devin_are_joined_because_later_ones_get_no_input() -> None:
    theirs = {"matcher": "", "hooks": [{"type": "command", "command": "theirs"}]}
    text = json.dumps({"PostToolUse": [theirs]}, indent=2)
    merged = merge.put_in(text, want("devin"))
    assert len(listed(merged, "devin", "PostToolUse")) == 1
    assert merge.take_out(merged, want("devin"), text) == text


def test_cursor_keeps_its_version_while_others_need_it() -> None:
    text = merge.put_in("", want("cursor"))
    mixed = add(text, "cursor", "stop", {"command": "theirs"})
    taken = merge.take_out(mixed, want("cursor"), "")
    assert taken is not None
    assert data_of(taken) == {"version": 1, "hooks": {"stop": [{"command": "theirs"}]}}


def test_droid_keeps_the_form_that_the_file_has() -> None:
    text = '{\n  "Stop": []\n}\n'
    merged = merge.put_in(text, want("droid"))
    data = data_of(merged)
    assert isinstance(data, dict)
    assert "hooks" not in data
    assert merge.take_out(merged, want("droid"), text) == text


def test_openhands_gets_no_key_that_it_would_reject() -> None:
    data = data_of(merge.put_in("", want("openhands")))
    assert isinstance(data, dict)
    assert set(data) == {event.name for event in want("openhands").shape.events}
    for groups in data.values():
        (group,) = groups
        assert set(group) <= {"matcher", "hooks"}
        assert set(group["hooks"][0]) == {"type", "command", "timeout"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "the file is not an object"),
        ('{"hooks": []}', '"hooks" is not an object'),
        ('{"hooks": {"Stop": {}}}', '"Stop" is not a list'),
    ],
)
def test_file_of_another_form_is_an_error(text: str, words: str) -> None:
    with pytest.raises(ShadowError, match=words):
        merge.put_in(text, want("claude-code"))
