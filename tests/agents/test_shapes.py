"""What is said of a newer version's payloads, beside those that are stored."""

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.agents import shapes
from tests.agents.recording import FIXTURES, RecordedTurn, load, store
from tests.agents.replay import recorded
from tests.agents.shapes import Difference, compare

AGENT = "codex"
Payload = dict[str, object]
Turns = Mapping[str, RecordedTurn]


def changed(change: Callable[[Payload], Payload | None]) -> dict[str, RecordedTurn]:
    """Return the stored turns with another payload in each call, or without the call."""
    found = {}
    for script, turn in load(AGENT).items():
        steps = []
        for step in copy.deepcopy(turn.steps):
            payload = step.get("payload")
            if not isinstance(payload, dict):
                steps.append(step)
            elif (other := change(payload)) is not None:
                steps.append({**step, "payload": other})
        found[script] = RecordedTurn(steps, turn.asked)
    return found


def without(key: str) -> Callable[[Payload], Payload]:
    return lambda payload: {k: v for k, v in payload.items() if k != key}


def differences(new: Turns) -> dict[str, Difference]:
    return {one.event: one for one in compare(AGENT, load(AGENT), new)}


def test_a_version_differs_from_itself_in_nothing() -> None:
    assert compare(AGENT, load(AGENT), load(AGENT)) == []


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("tool_use_id", "call_id of the host"),
        ("turn_id", "turn_id"),
        ("cwd", "cwd"),
        ("tool_input", "paths"),
        ("agent_id", "subagent_id"),
    ],
)
def test_a_field_that_is_gone_and_that_the_adapter_reads_is_lost(
    key: str, part: str
) -> None:
    found = differences(changed(without(key)))
    said = {line.split(" (")[0] for one in found.values() for line in one.lines}
    assert said == {f"- {key}"}
    assert part in {part for one in found.values() for part in one.lost}


def test_a_field_that_is_gone_and_that_nobody_reads_is_only_listed() -> None:
    found = differences(changed(without("permission_mode")))
    assert found["PreToolUse apply_patch"] == Difference(
        "PreToolUse apply_patch", ["- permission_mode (string)"]
    )
    assert [one for one in found.values() if one.lost] == []


def test_a_renamed_field_is_one_gone_and_one_new() -> None:
    new = changed(lambda one: {"dir" if k == "cwd" else k: v for k, v in one.items()})
    assert differences(new)["Stop"].lines == ["- cwd (string)", "+ dir (string)"]


def test_a_field_of_another_type_is_named_with_both_types() -> None:
    new = changed(lambda one: {**one, "cwd": {"path": "/r"}})
    stop = differences(new)["Stop"]
    assert "~ cwd: string is now object" in stop.lines
    assert stop.lost == ("cwd",)


def test_new_and_missing_words_of_a_field_are_listed() -> None:
    new = changed(
        lambda one: (
            {**one, "permission_mode": "yolo"} if "permission_mode" in one else one
        )
    )
    assert differences(new)["Stop"].lines == [
        "= permission_mode: -bypassPermissions +yolo"
    ]


def test_an_event_that_is_gone_is_lost_with_all_its_tools() -> None:
    new = changed(lambda one: None if one["hook_event_name"] == "PostToolUse" else one)
    lost = {event for event, one in differences(new).items() if one.lost}
    assert lost >= {"PostToolUse apply_patch", "PostToolUse Bash"}
    assert {event.split(" ")[0] for event in lost} == {"PostToolUse"}


def test_a_tool_of_another_name_is_one_gone_and_one_new() -> None:
    new = changed(
        lambda one: (
            {**one, "tool_name": "put_patch"}
            if one.get("tool_name") == "apply_patch"
            else one
        )
    )
    found = differences(new)
    assert found["PreToolUse apply_patch"] == Difference(
        "PreToolUse apply_patch", ["- gone"]
    )
    assert found["PreToolUse put_patch"] == Difference(
        "PreToolUse put_patch", ["+ new"]
    )


def test_what_an_adapter_lost_is_printed_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(AGENT, load(AGENT), tmp_path)
    assert shapes.main(tmp_path, []) == 0
    assert "  no differences\n" in capsys.readouterr().out
    store(AGENT, changed(without("turn_id")), tmp_path)
    assert shapes.main(tmp_path, []) == 1
    told = capsys.readouterr().out
    assert "    - turn_id (string)\n" in told
    assert "    ! the adapter no longer finds: turn_id\n" in told


OLDER = FIXTURES.with_name("older_payloads")
"""What Copilot CLI 1.0.40 sent: no subagents, and the input of a tool as a text."""


def test_the_payloads_of_an_older_version_have_all_that_the_newer_ones_gained() -> None:
    found = compare("copilot", load("copilot", OLDER), load("copilot"))
    by_event = {one.event: one for one in found}
    assert [one for one in found if one.lost] == []
    assert by_event["subagentStart"].lines == ["+ new"]
    assert "~ toolArgs: string is now object" in by_event["preToolUse create"].lines


def test_a_version_without_subagents_loses_them_and_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shapes.main(OLDER, ["copilot"]) == 1
    told = capsys.readouterr().out
    head, *lines = told.splitlines()
    assert re.fullmatch(r"copilot [\d.]+ \(.*\) -> 1\.0\.40 \(.*\)", head)
    shared = [at for at, one in enumerate(lines) if " events: agentStop, " in one]
    assert lines[shared[0] + 1] == "    - agentId (string)"
    assert lines.count("    - agentId (string)") == 1
    assert "    ! the adapter no longer finds: subagent_id" in lines
    gone = lines.index("  subagentStart")
    assert lines[gone + 1 : gone + 3] == [
        "    - gone",
        "    ! the adapter no longer finds: all",
    ]


def test_an_agent_that_sent_nothing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shapes.main(tmp_path / "none", ["pi"]) == 0
    assert capsys.readouterr().out.startswith("pi: sent nothing")
    store(AGENT, load(AGENT), tmp_path)
    assert shapes.main(tmp_path, []) == 0
    told = capsys.readouterr().out.splitlines()
    assert sum("sent nothing" in line for line in told) == len(recorded()) - 1
