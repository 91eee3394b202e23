"""With `agent-undo.prompts = off`, no way in leaves the text of a prompt on the disk.

Invariant: all bytes are searched below the repository, the home, state and temporary directories,
while a daemon runs and after it was killed.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import until

SECRET = "the merger with Zebulon is on"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory for temporary files of every process of a test."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    return path


@pytest.fixture
def running(repo: Repo, temporary: Path, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the command in R, whose daemon runs with another environment."""
    made = make_shadow(repo, daemon=True)
    made.ok("init")
    made.ok("start")
    return made


def places_with(shadow: Shadow, text: str = SECRET) -> list[str]:
    """Return where a text is: files, and objects of the repository."""
    names = ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR")
    tops = {
        shadow.repo.root,
        *(Path(os.environ[name]) for name in names if name in os.environ),
    }
    found = [
        str(path)
        for top in tops
        for path in top.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and text.encode() in path.read_bytes()
    ]
    objects = shadow.repo.git("cat-file", "--batch", "--batch-all-objects", "--buffer")
    return [*found, *(["an object"] if text in objects else [])]


def kill_daemon(shadow: Shadow) -> None:
    for pid in shadow.daemons():
        os.kill(pid, signal.SIGKILL)
    until(lambda: shadow.daemons() == [])


def payload(shadow: Shadow, event: str, **fields: object) -> bytes:
    whole = {
        "session_id": "s1",
        "transcript_path": "/home/u/.claude/t.jsonl",
        "cwd": str(shadow.repo.root),
        "hook_event_name": event,
        **fields,
    }
    return json.dumps(whole).encode()


@pytest.mark.parametrize("value", ["off", "OFF", "of"])
def test_environment_of_a_hook_reaches_a_daemon_that_runs(
    running: Shadow, value: str
) -> None:
    """KEEP-14: also a value that is no value of the setting."""
    env = {"GITSHADOW_PROMPTS": value}
    asked = payload(running, "UserPromptSubmit", prompt=SECRET)
    running.ok("hook", "claude-code", stdin=asked, env=env)
    running.ok("exec", "--", "sh", "-c", f": {SECRET}", env=env)
    assert len(running.ok("turns", "--json").rows()) == 2
    assert places_with(running) == []
    kill_daemon(running)
    assert places_with(running) == []


@pytest.fixture
def theirs(tmp_path: Path, make_shadow: Callable[..., Shadow]) -> Path:
    """Return another repository whose prompts are kept, with its history as a file."""
    other = make_shadow(Repo.create(tmp_path / "theirs"), daemon=False)
    other.ok("init")
    asked = payload(other, "UserPromptSubmit", prompt=SECRET)
    other.ok("hook", "claude-code", stdin=asked)
    write(other, "a")
    other.ok("hook", "claude-code", stdin=payload(other, "Stop"))
    other.ok("export", "-o", str(tmp_path / "events.jsonl"))
    assert SECRET in (tmp_path / "events.jsonl").read_text()
    return other.repo.root


def write(shadow: Shadow, name: str) -> None:
    """Have the agent write one file."""
    call = {
        "tool_name": "Write",
        "tool_use_id": f"call-{name}",
        "tool_input": {"file_path": str(shadow.repo.root / name)},
    }
    shadow.ok("hook", "claude-code", stdin=payload(shadow, "PreToolUse", **call))
    shadow.repo.write(name, "agent\n")
    shadow.ok("hook", "claude-code", stdin=payload(shadow, "PostToolUse", **call))


def test_no_way_in_and_no_verb_writes_a_prompt(
    running: Shadow, theirs: Path, tmp_path: Path
) -> None:
    """KEEP-14: hooks, exec, record, alerts, undo, reports, staging and imports."""
    running.repo.git("config", "agent-undo.prompts", "off")
    running.repo.git("config", "agent-undo.alertDeletes", "2")
    transcript = tmp_path / "transcript.jsonl"
    said = {"type": "user", "message": {"role": "user", "content": SECRET}}
    transcript.write_text(json.dumps(said) + "\n")
    asked = {"prompt": SECRET, "transcript_path": str(transcript)}
    running.ok(
        "hook", "claude-code", stdin=payload(running, "UserPromptSubmit", **asked)
    )
    write(running, "new")
    running.ok("exec", "--", "sh", "-c", f"rm -f a b c # {SECRET}")
    assert running.ok("status", "--json").json()["alerts"]
    running.ok("record", "new")
    running.ok("oops", "--yes")
    # What was undone, and the alert, are told at the next prompt.
    running.ok(
        "hook", "claude-code", stdin=payload(running, "UserPromptSubmit", **asked)
    )
    write(running, "newer")
    running.ok("hook", "claude-code", stdin=payload(running, "Stop"))
    found = running.ok("turns", "--json").rows()
    assert {row["prompt"] for row in found} == {None}
    turn = next(str(row["id"]) for row in found if "/" not in str(row["id"]))
    for words in (
        ("redo", "--yes"),
        ("report",),
        ("show", turn, "--transcript"),
        ("stage", "--yes", turn),
        ("commit", "--yes", turn),
        ("fetch", str(theirs)),
        ("import", str(tmp_path / "events.jsonl")),
    ):
        print(running.ok(*words).out)
    assert places_with(running) == []
    kill_daemon(running)
    assert places_with(running) == []
    running.ok("reindex")
    assert places_with(running) == []


def test_prompts_are_found_where_they_are_kept(running: Shadow) -> None:
    asked = payload(running, "UserPromptSubmit", prompt=SECRET)
    running.ok("hook", "claude-code", stdin=asked)
    assert places_with(running)
    assert places_with(running, "begun by exec") == []
    running.ok("exec", "--", "sh", "-c", ": begun by exec")
    assert places_with(running, "begun by exec")
