"""AN-27 for files alone: the user's hook commands are told of undos, and can stop none."""

import json
from pathlib import Path

import pytest

from gitshadow.cli import main
from gitshadow.commands import user_hooks
from gitshadow.errors import ExitCode
from gitshadow.sdk.turns import run_command
from tests.support.shadow import Shadow
from tests.support.waiting import until

CHANGED = "sh", "-c", "echo wrong > a"


def hook(shadow: Shadow, name: str, text: str) -> Path:
    """Configure a hook command, as a user does; return where it may leave something."""
    place = shadow.repo.root.parent / "hooks"
    place.mkdir(exist_ok=True)
    program = place / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    shadow.repo.git("config", f"agent-undo.{name}", f"'{program}' '$HOME x'")
    return place


def notes(report: dict[str, object]) -> str:
    found = report["notes"]
    assert isinstance(found, list)
    return "\n".join(found)


def test_hook_reads_what_json_prints(shadow: Shadow) -> None:
    """AN-27: with and without a daemon; run in the working tree, without a shell."""
    place = hook(shadow, "postUndo", 'cd "$(dirname "$0")" && cat > told')
    shadow.ok("exec", "--agent", "x", "--", *CHANGED)
    for verb in (("oops",), ("redo",), ("undo", "a"), ("restore", "--at", "now", "a")):
        (place / "told").unlink(missing_ok=True)
        report = shadow.ok(*verb, "--yes", "--json").json()
        if verb[0] == "restore":  # nothing to do, so nobody is told
            assert not (place / "told").exists()
        else:
            assert json.loads((place / "told").read_text()) == report
            assert (report["kind"], report["notes"]) == (verb[0], [])


def test_hook_knows_its_name_and_whose_work_it_is(shadow_n: Shadow) -> None:
    """AN-27: the client runs it, so that it has the user's own environment."""
    told = 'echo "$AGENT_UNDO_HOOK $AGENT_UNDO_SESSION $1 $MINE $PWD" > "$0.told"'
    place = hook(shadow_n, "postUndo", told)
    shadow_n.ok("exec", "--agent", "x", "--", *CHANGED)
    shadow_n.ok("oops", "--yes", env={"MINE": "here"})
    [session] = [
        row["id"]
        for row in shadow_n.ok("sessions", "--json").rows()
        if row["agent"] == "x"
    ]
    said = (place / "postUndo.told").read_text()
    assert said == f"post_undo {session} $HOME x here {shadow_n.repo.root}\n"


def test_hook_that_fails_is_a_note(shadow: Shadow) -> None:
    """AN-27: the undo stands, with its own exit code."""
    hook(shadow, "postUndo", "echo broken; exit 7")
    shadow.ok("exec", "--agent", "x", "--", *CHANGED)
    done = shadow("oops", "--yes", "--json")
    assert done.code == ExitCode.DONE
    assert (shadow.repo.root / "a").read_text() != "wrong\n"
    assert notes(done.json()).startswith("agent-undo.postUndo: ")
    assert notes(done.json()).endswith("postUndo ended with 7: broken")


def test_hook_before_an_undo_sees_its_plan_and_stops_nothing(shadow: Shadow) -> None:
    """AN-27: nothing stands between a person and the way back."""
    told = 'cat > "$0.told"; cp a "$0.a"; exit 1'
    place = hook(shadow, "preUndo", told)
    shadow.ok("exec", "--agent", "x", "--", *CHANGED)
    report = shadow.ok("oops", "--yes", "--json").json()
    plan = json.loads((place / "preUndo.told").read_text())
    assert (plan["status"], report["status"]) == ("planned", "reversed")
    assert (place / "preUndo.a").read_text() == "wrong\n"
    assert (shadow.repo.root / "a").read_text() != "wrong\n"
    assert notes(report).endswith("preUndo ended with 1")


def test_plan_alone_is_told_to_nobody(shadow_n: Shadow) -> None:
    """AN-27: neither a dry run nor a plan that nobody agreed to."""
    place = hook(shadow_n, "preUndo", 'touch "$0.told"')
    hook(shadow_n, "postUndo", 'touch "$0.told"')
    shadow_n.ok("exec", "--agent", "x", "--", *CHANGED)
    shadow_n.ok("oops", "--dry-run")
    assert shadow_n("oops").code == ExitCode.REFUSED
    assert sorted(one.name for one in place.iterdir()) == ["postUndo", "preUndo"]


def test_environment_names_a_hook_too(shadow: Shadow) -> None:
    """AN-27: that of the command, whatever the daemon's was; it wins over Git's settings."""
    place = hook(shadow, "postUndo", "exit 7")
    shadow.ok("exec", "--agent", "x", "--", *CHANGED)
    told = place / "told"
    report = shadow.ok(
        *("oops", "--yes", "--json"), env={"GITSHADOW_POST_UNDO": f"touch '{told}'"}
    ).json()
    assert (told.exists(), report["notes"]) == (True, [])


def test_file_that_comes_with_a_clone_runs_nothing(shadow_n: Shadow) -> None:
    """Safety: policy files never run code; Git's own settings alone name a hook."""
    shadow_n.repo.write(".agent-undo.toml", '[undo]\npostUndo = "touch told"\n')
    for path in (".gitconfig", "config", ".git-config"):
        shadow_n.repo.write(path, '[agent-undo]\n\tpostUndo = "touch told"\n')
    shadow_n.repo.git("add", ".")
    shadow_n.repo.git("commit", "-qm", "theirs")
    shadow_n.ok("exec", "--agent", "x", "--", *CHANGED)
    shadow_n.ok("oops", "--yes")
    assert not (shadow_n.repo.root / "told").exists()


def test_setting_that_cannot_be_read_changes_nothing(shadow: Shadow) -> None:
    """AN-27, bad input: said before anything is done, as for every setting."""
    shadow.ok("exec", "--agent", "x", "--", *CHANGED)
    shadow.repo.git("config", "agent-undo.postUndo", "echo 'x")
    done = shadow("oops", "--yes")
    shadow.repo.git("config", "--unset", "agent-undo.postUndo")
    assert (done.code, (shadow.repo.root / "a").read_text()) == (2, "wrong\n")
    assert "agent-undo.postUndo" in done.err


def test_hook_that_is_interrupted_at_once_is_killed(
    shadow_n: Shadow,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """AN-27: by a Ctrl-C before anything waits for it; in this process."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(shadow_n.repo.root)
    told = hook(shadow_n, "postUndo", 'echo $$ > "$0.pid"; exec sleep 600')
    told /= "postUndo.pid"

    def interrupted() -> None:
        until(lambda: told.exists() and told.read_text() != "")
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "current", interrupted)
    shadow_n.ok("exec", "--agent", "x", "--", *CHANGED)
    assert main(["oops", "--yes"]) == ExitCode.DONE
    assert "note: agent-undo.postUndo: interrupted" in capsys.readouterr().out
    assert not Path("/proc", told.read_text().strip()).exists()


def test_hook_that_takes_too_long_is_killed(
    shadow_n: Shadow,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """AN-27: an undo waits so long and no longer; in this process, with a shorter limit."""
    monkeypatch.setattr(user_hooks, "_TIMEOUT_S", 0.2)
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(shadow_n.repo.root)
    hook(shadow_n, "postUndo", "exec sleep 600")
    shadow_n.ok("exec", "--agent", "x", "--", *CHANGED)
    assert main(["oops", "--yes"]) == ExitCode.DONE
    assert "note: agent-undo.postUndo: no end after 0.2 s" in capsys.readouterr().out
    assert (shadow_n.repo.root / "a").read_text() != "wrong\n"
