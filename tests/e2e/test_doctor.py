"""doctor --fix: what surrounds the journal is mended too."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from gitshadow import __version__
from gitshadow.ipc import command_client, wire
from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import until


def checks(shadow: Shadow, *words: str) -> dict[str, dict[str, object]]:
    found = shadow("doctor", "--json", *words).json()["checks"]
    assert isinstance(found, list)
    return {str(one["name"]): one for one in found}


def test_daemon_that_is_gone_is_started(shadow_d: Shadow) -> None:
    (pid,) = shadow_d.daemons()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not shadow_d.daemons())
    gone = checks(shadow_d)["daemon"]
    assert (gone["ok"], gone["remedy"]) == (False, "git agent-undo daemon start")
    fixed = shadow_d("doctor", "--fix")
    assert "fixed: started the daemon" in fixed.out
    assert "fixed: marked 1 gap as seen" in fixed.out
    whole = checks(shadow_d)
    assert (whole["daemon"]["ok"], whole["gaps"]["ok"]) == (True, True)


def test_hooks_that_point_nowhere_are_written_anew(shadow: Shadow) -> None:
    shadow.ok("hooks", "install", "claude-code", "--user", "--yes")
    (path,) = Path(shadow.environment()["HOME"]).glob(".claude/settings.json")
    whole = path.read_text(encoding="utf-8")
    program = json.loads(whole)["hooks"]["Stop"][0]["hooks"][0]["command"]
    real = next(word for word in program.split() if "git-agent-undo" in word)
    real = real.strip("'\";")
    path.write_text(whole.replace(real, "/nowhere/git-agent-undo"), encoding="utf-8")
    bad = checks(shadow)["hooks of claude-code"]
    assert bad["ok"] is False
    assert "/nowhere/git-agent-undo" in str(bad["message"])
    fixed = shadow("doctor", "--fix")
    assert "fixed: updated the hooks of claude-code" in fixed.out
    assert checks(shadow)["hooks of claude-code"]["ok"] is True
    assert path.read_text(encoding="utf-8") == whole


@pytest.mark.linux  # there is no command server elsewhere
@pytest.mark.parametrize("log", ["", "why it ended\n"])
def test_it_says_whether_the_command_server_runs(
    shadow: Shadow, log: str, tmp_path: Path
) -> None:
    # Beside the tests' own one.
    own = {"XDG_RUNTIME_DIR": str(tmp_path / "run"), command_client.OFF: "auto"}

    def said(**more: str) -> str:
        env = shadow.environment({**own, **more})
        words = [COMMAND, "doctor", "--json"]
        root = shadow.repo.root
        done = subprocess.run(words, cwd=root, env=env, capture_output=True, check=True)
        rows = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
        return str(rows["command server"]["message"])

    assert said(**{command_client.OFF: "off"}) == "off by your settings"
    shadow.repo.git("config", "agent-undo.server", "off")
    assert said() == "off by your settings"
    shadow.repo.git("config", "--unset", "agent-undo.server")
    env = shadow.environment(own)
    place = Path(command_client.directory(env, COMMAND))
    place.mkdir(mode=0o700, parents=True)
    (place / "log").write_text(log)
    end = f"; the last one failed: {place}/log" if log else ""
    assert said() == f"not running; the next command starts it{end}"
    until((place / wire.SOCKET_NAME).exists)
    pid = int((place / "lock").read_text())
    assert said().startswith(f"running, {pid}, version {__version__}, ")
    os.kill(pid, signal.SIGTERM)


@pytest.mark.kinds
def test_journal_that_is_gone_is_built_anew(shadow: Shadow) -> None:
    shadow.repo.write("a", "written\n")
    shadow.ok("flush")
    before = len(shadow.log())
    shadow("stop")
    journal = shadow.repo.common_dir / "agent-undo" / "journal.db"
    for path in journal.parent.glob("journal.db*"):
        path.unlink()
    journal.write_bytes(b"no journal at all" * 100)
    bad = shadow("doctor")
    assert (bad.code, "hint: git agent-undo doctor --fix" in bad.out) == (1, True)
    fixed = shadow("doctor", "--fix")
    assert "fixed: rebuilt the journal from the refs" in fixed.out
    assert len(shadow.log()) >= before


def test_journal_is_built_anew_where_the_newest_content_is_lost_too(
    shadow: Shadow,
) -> None:
    """What was lost is read from the disk again, where it still stands there."""
    shadow.repo.write("a", "written\n")
    shadow.ok("flush")
    shadow("stop")
    lost = shadow.repo.git("hash-object", "--stdin", stdin=b"written\n")
    for path in (shadow.repo.common_dir / "agent-undo").glob("journal.db*"):
        path.unlink()
    (shadow.repo.common_dir / "objects" / lost[:2] / lost[2:]).unlink()
    fixed = shadow("doctor", "--fix")
    assert "fixed: rebuilt the journal from the refs" in fixed.out
    assert shadow.repo.git("cat-file", "blob", lost) == "written"
    assert checks(shadow)["objects"]["ok"] is True


def test_page_that_is_damaged_is_found_and_the_rest_is_salvaged(
    shadow: Shadow,
) -> None:
    """The old file is set aside; what it still gives comes over."""
    for number in range(40):
        shadow.repo.write(f"f{number}", f"{number}\n")
    shadow.ok("flush")
    shadow("stop")
    journal = shadow.repo.common_dir / "agent-undo" / "journal.db"
    data = bytearray(journal.read_bytes())
    at = data.rfind(b"f39", 0, len(data)) // 4096 * 4096
    data[at : at + 4096] = b"\xff" * 4096
    journal.write_bytes(bytes(data))
    fixed = shadow("doctor", "--fix")
    assert "fixed: rebuilt the journal from the refs" in fixed.out
    assert [path.name for path in journal.parent.glob("*damaged-?")] == [
        "journal.db.damaged-1"
    ]
    assert checks(shadow)["journal"]["ok"] is True
    assert "f39" in {row["path"] for row in shadow.log()}


def test_hooks_that_codex_never_approved_are_fine_when_one_of_them_came(
    shadow: Shadow,
) -> None:
    """It was told to run them all the same."""
    shadow.ok("hooks", "install", "codex", "--user", "--yes")
    assert checks(shadow)["hooks of codex"]["ok"] is False
    payload = {
        "session_id": "s",
        "turn_id": "t",
        "model": "m",
        "cwd": str(shadow.repo.root),
        "hook_event_name": "SessionStart",
    }
    shadow.ok("hook", "codex", stdin=json.dumps(payload).encode())
    assert checks(shadow)["hooks of codex"]["ok"] is True
    shown = shadow("status").out
    assert "codex (user): installed, last event" in shown
    assert "is not running its hooks" not in shown


def test_an_event_that_no_longer_comes_is_named(shadow: Shadow) -> None:
    claude = Claude(shadow, "s")
    for number in range(3):
        claude.prompt(f"write {number}")
        path = f"{number}.txt"
        claude.pre("Write", {"file_path": str(shadow.repo.root / path)})
        shadow.repo.write(path, "written\n")
        shadow.ok("flush")
        claude.stop()
    problem = "claude-code reports that tool calls start, but not that they end"
    found = checks(shadow)["hook events"]
    assert (found["ok"], found["message"]) == (False, problem)
    assert "settings of claude-code that replace" in str(found["remedy"])
    assert shadow.status()["unreported"] == [
        {"agent": "claude-code", "problem": problem}
    ]
