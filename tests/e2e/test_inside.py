"""What an agent's user sees of us besides hooks: conversation, rewinding it, and alerts."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import until

TALK = "a secret of the conversation"


def talk(path: Path, prompt: str) -> None:
    """Write the conversation of a turn as Claude Code does."""
    call = {"type": "tool_use", "name": "Write", "input": {"file_path": "/x/a"}}
    rows = [
        {"type": "user", "promptId": prompt, "message": {"content": "Please"}},
        {"type": "assistant", "message": {"content": [call]}},
        {
            "type": "assistant",
            "message": {"content": [{"type": "text", "text": f"{TALK}\x1b[2J"}]},
        },
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_turn_is_shown_with_its_conversation_which_is_not_stored(
    agent: Claude, tmp_path: Path
) -> None:
    path, shadow = tmp_path / "talk.jsonl", agent.shadow
    agent.extra["transcript_path"] = str(path)
    agent.prompt("Please")
    agent.write("a", "1\n")
    agent.stop()
    failed = shadow("show", "last", "--transcript")
    assert failed.code == 1
    assert f"cannot read the transcript {path}" in failed.err
    assert agent.prompt_id is not None
    talk(path, agent.prompt_id)
    shown = shadow.ok("show", "last", "--transcript").out
    assert shown.index("user:\n  Please\n") < shown.index("tool:\n  Write /x/a\n")
    assert f"assistant:\n  {TALK}" in shown
    assert "\x1b" not in shown
    assert "diff --git" not in shown
    said = shadow.ok("show", "last", "--transcript", "--json").json()["said"]
    assert isinstance(said, list)
    assert [one["who"] for one in said] == ["user", "tool", "assistant"]
    files = [one for one in (shadow.repo.root / ".git").rglob("*") if one.is_file()]
    assert not [one for one in files if TALK.encode() in one.read_bytes()]


def test_what_has_no_conversation_says_so(agent: Claude) -> None:
    agent.prompt("Please")
    agent.write("a", "1\n")
    burst = agent.shadow.ok("log", "--events", "-n", "1", "--json").rows()[0]["burst"]
    failed = agent.shadow("show", str(burst), "--transcript")
    assert failed.code == 2
    assert "cannot show the conversation of a burst: only that of a turn" in failed.err


def test_an_undo_says_how_to_rewind_the_conversation(agent: Claude) -> None:
    agent.prompt("Please")
    agent.write("a", "1\n")
    agent.stop()
    said = "the conversation in claude-code is not changed; to rewind it: /rewind"
    assert said not in agent.shadow.ok("oops", "--dry-run").out
    assert said in agent.shadow.ok("oops", "--yes").out
    assert said not in agent.shadow.ok("redo", "--yes").out


def test_many_deletions_are_shown_everywhere_once(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    for number in range(25):
        repo.write(f"old{number}.txt", "x\n")
    repo.commit("old files")
    shadow = make_shadow(repo, daemon=True)
    shadow.ok("init")
    agent = Claude(shadow)
    agent.prompt("Clean up")
    agent.shell("rm old*.txt")
    agent.stop()
    alert = "claude-code deleted 25 files"
    until(lambda: f"alert: {alert}" in shadow.ok("status").out)
    assert "(alert: deleted 25 files)" in shadow.ok("log").out
    (attention,) = shadow.ok("attention").out.splitlines()
    assert "  t1 " in attention
    assert attention.endswith("claude-code  deleted 25 files")
    assert "a turn of this session deleted 25 files" in agent.prompt("And now?")
    assert agent.prompt("And now?") == ""


def test_a_pruned_session_leaves_no_path_of_a_conversation(agent: Claude) -> None:
    agent.prompt("Please")
    agent.write("a", "1\n")
    agent.stop()
    agent.end()
    agent.shadow.ok("prune", "--keep", "0", "--yes")
    journal = agent.shadow.repo.root / ".git" / "agent-undo" / "journal.db"
    with sqlite3.connect(journal) as db:
        keys = [str(key) for (key,) in db.execute("SELECT key FROM meta")]
    assert not [key for key in keys if key.startswith("transcript:")]
