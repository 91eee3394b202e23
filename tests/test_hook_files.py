"""The hook files for agents are ready to be copied and harmless where nothing is installed."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.claude import Claude
from tests.support.shadow import Shadow

SETTINGS = Path(__file__).parent.parent / "hooks" / "claude-code" / "settings.json"
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
)


def handlers() -> dict[str, dict[str, object]]:
    """Return the one handler of each event."""
    hooks = json.loads(SETTINGS.read_text(encoding="utf-8"))["hooks"]
    found = {}
    for event, ((entry,),) in ((event, (entries,)) for event, entries in hooks.items()):
        (found[event],) = entry["hooks"]
    return found


def run_handler(
    handler: dict[str, object], payload: dict[str, object], path: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", str(handler["command"])],
        input=json.dumps(payload).encode(),
        env={**os.environ, "PATH": path},
        capture_output=True,
        timeout=30,
        check=False,
    )


def test_settings_name_every_event_and_none_runs_in_the_background() -> None:
    found = handlers()
    assert tuple(found) == EVENTS
    assert {handler["type"] for handler in found.values()} == {"command"}
    assert all("async" not in handler for handler in found.values())
    assert all(handler["timeout"] in range(3, 11) for handler in found.values())


def test_handlers_do_nothing_where_the_command_is_not_installed() -> None:
    for event, handler in handlers().items():
        done = run_handler(handler, {"hook_event_name": event}, "/usr/bin:/bin")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), event


def test_handlers_record_a_call_where_it_is(shadow_n: Shadow) -> None:
    claude, found = Claude(shadow_n), handlers()
    about = {
        "tool_name": "Write",
        "tool_input": {"file_path": str(shadow_n.repo.root / "a"), "content": "x"},
        "tool_use_id": "toolu_1",
    }

    def send(event: str, fields: Mapping[str, object]) -> None:
        payload = claude.payload(event, **fields)
        done = run_handler(found[event], payload, os.environ["PATH"])
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    send("UserPromptSubmit", {"prompt": "write it"})
    send("PreToolUse", about)
    shadow_n.repo.write("a", "x")
    send("PostToolUse", about)
    send("Stop", {})
    (row,) = shadow_n.log()
    assert (row["path"], row["agent"], row["confidence"]) == (
        "a",
        "claude-code",
        "certain",
    )
