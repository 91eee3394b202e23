"""Alerts: once per turn and kind, kept, told to the agent once, and never about people."""

import os
import pty
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.capture.patterns import parse_patterns
from gitshadow.guards import outlets, watch
from gitshadow.guards.watch import Guard
from gitshadow.reporting import notices
from gitshadow.store.journal import alerts
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of
from tests.support.waiting import until


class Seen:
    """An outlet that keeps what it shows."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show(self, line: str, process: ProcessId | None) -> None:
        """Keep a line."""
        self.lines.append(line)


@pytest.fixture
def studio(repo: Repo) -> Iterator[Studio]:
    """Return a recorded repository that alerts at more than two deletions."""
    repo.git("config", "agent-undo.alertDeletes", "2")
    repo.git("config", "--add", "agent-undo.protect", "*.env")
    repo.git("config", "--add", "agent-undo.protect", "/secret/")
    with studio_of(repo) as made:
        yield made


def guard_of(studio: Studio) -> tuple[Guard, list[str]]:
    """Return a guard, and the lines that it shows."""
    seen = Seen()
    return Guard(studio.context, [seen]), seen.lines


def delete(studio: Studio, who: str, *paths: str) -> None:
    """Let an agent delete files by a shell."""
    told = {
        "tool_name": "Bash",
        "tool_input": {"command": "rm"},
        "tool_use_id": f"toolu_{'-'.join(paths)}",
    }
    studio.hook(who, "PreToolUse", **told)
    for path in paths:
        (studio.repo.root / path).unlink()
    studio.hook(who, "PostToolUse", **told, tool_response={})


def written(studio: Studio, who: str, *paths: str) -> None:
    for path in paths:
        studio.write(who, path, "x\n")


def test_many_deletions_in_a_turn_alert_once(studio: Studio) -> None:
    written(studio, "S1", "a", "b", "c", "d")
    guard, lines = guard_of(studio)
    delete(studio, "S1", "a", "b")
    guard.tick()
    assert lines == []
    delete(studio, "S1", "c")
    guard.tick()
    assert lines == ["claude-code deleted 3 files (t1)"]
    delete(studio, "S1", "d")
    guard.tick()
    assert len(lines) == 1
    (kept,) = alerts.all_alerts(studio.context.workspace.db)
    assert kept.text == "deleted 4 files"


def test_deletions_of_two_turns_do_not_add_up(studio: Studio) -> None:
    written(studio, "S1", "a", "b", "c", "d")
    guard, lines = guard_of(studio)
    delete(studio, "S1", "a", "b")
    studio.prompt("S1", "and again")
    delete(studio, "S1", "c", "d")
    guard.tick()
    assert lines == []


def test_files_that_come_back_in_the_turn_do_not_count(studio: Studio) -> None:
    written(studio, "S1", "a", "b", "c")
    guard, lines = guard_of(studio)
    delete(studio, "S1", "a", "b")
    written(studio, "S1", "a")
    delete(studio, "S1", "c")
    guard.tick()
    assert lines == []


def test_what_a_person_does_alerts_nobody(studio: Studio) -> None:
    for path in ("a", "b", "c", "x.env"):
        studio.hand(path, "x\n")
    guard, lines = guard_of(studio)
    for path in ("a", "b", "c", "x.env"):
        (studio.repo.root / path).unlink()
    studio.context.observer.settle()
    guard.tick()
    assert lines == []


def test_a_protected_path_alerts(studio: Studio) -> None:
    guard, lines = guard_of(studio)
    written(studio, "S1", "ok.txt", "deep/my.env", "secret/a/b")
    guard.tick()
    assert lines == [
        "claude-code changed a protected path: deep/my.env and 1 more (t1)"
    ]


def event(studio: Studio, name: str, path: Path) -> HookEvent:
    """Return the event of a file tool."""
    raw = (
        f'{{"hook_event_name": "{name}", "session_id": "S1", "cwd": "{studio.repo.root}",'
        f' "tool_name": "Write", "tool_use_id": "t", "tool_input": {{"file_path": "{path}"}}}}'
    )
    found = registry.parse("claude-code", raw.encode(), {})
    assert isinstance(found, HookEvent)
    return found


def test_a_write_outside_of_the_repository_alerts(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "TEMPORARY", ())
    monkeypatch.setattr(tempfile, "tempdir", "/nothing")
    written(studio, "S1", "a")
    session, turn = studio.session("S1"), studio.turns["S1"]
    guard, lines = guard_of(studio)
    link = studio.repo.root.parent / "link"
    link.symlink_to(studio.repo.root)
    outside = Path("/etc/a\x1bb")
    guard.saw(event(studio, "PreToolUse", Path("/etc/hosts")), session, turn)
    guard.saw(event(studio, "PostToolUse", studio.repo.root / "a"), session, turn)
    guard.saw(event(studio, "PostToolUse", link / "a"), session, turn)
    guard.tick()
    assert lines == []
    raw = event(studio, "PostToolUse", Path("/etc/hosts"))
    guard.saw(raw, session, turn)
    guard.tick()
    assert lines == ["claude-code wrote outside the repository: /etc/hosts (t1)"]
    assert watch.alarming_outside([bytes(outside)], ()) == [bytes(outside)]


def test_directories_for_temporary_files_do_not_count() -> None:
    paths = [b"/tmp/x", b"/tmpx", b"/scratch/y", b"/home/a"]
    tops = ("/tmp", "/scratch")
    assert watch.alarming_outside(paths, tops) == [b"/tmpx", b"/home/a"]


def test_a_protected_path_is_one_in_any_case_where_git_ignores_case(repo: Repo) -> None:
    repo.git("config", "core.ignoreCase", "true")
    repo.git("config", "agent-undo.protect", "/secret/")
    with studio_of(repo) as studio:
        guard, lines = guard_of(studio)
        written(studio, "S1", "Secret/key")
        guard.tick()
        assert "changed a protected path: Secret/key" in lines[0]


def test_the_agent_is_told_once_with_its_next_prompt(studio: Studio) -> None:
    guard, _ = guard_of(studio)
    written(studio, "S1", "x.env")
    written(studio, "S2", "y")
    guard.tick()
    assert notices.take(studio.context, studio.session("S2")) == ""
    said = notices.take(studio.context, studio.session("S1"))
    assert "changed a protected path: x.env" in said
    assert notices.take(studio.context, studio.session("S1")) == ""


def test_lists_show_alerts(studio: Studio) -> None:
    guard, _ = guard_of(studio)
    written(studio, "S1", "x.env")
    guard.tick()
    text = "changed a protected path: x.env"
    alerted = studio.run("status")["alerts"]
    assert isinstance(alerted, list)
    assert [(row["id"], row["text"]) for row in alerted] == [("t1", text)]
    shown = studio.run("history")["rows"]
    assert isinstance(shown, list)
    turns = [row for row in shown if row["kind"] == "turn"]
    assert [row["alerts"] for row in turns] == [[text]]


def test_nothing_alerts_where_it_is_turned_off(repo: Repo) -> None:
    repo.git("config", "agent-undo.protect", "*")
    repo.git("config", "agent-undo.alerts", "false")
    with studio_of(repo) as studio:
        guard, lines = guard_of(studio)
        written(studio, "S1", "x.env")
        guard.tick()
        assert lines == []
        assert alerts.all_alerts(studio.context.workspace.db) == []


def test_only_the_newest_alerts_are_kept(studio: Studio) -> None:
    db = studio.context.workspace.db
    for number in range(210):
        alerts.put(db, alerts.Alert("x", number, "s", "a", str(number), "text"))
    found = alerts.all_alerts(db)
    assert [one.ts_ns for one in found[:2]] == [209, 208]
    assert len(found) == 200


def test_a_pattern_of_a_directory_protects_what_is_below() -> None:
    protected = parse_patterns(["/secret/", "*.env", "!public.env"])
    paths = (b"secret/a/b", b"a/x.env", b"public.env", b"secrets", b"secret")
    assert [watch.is_protected(path, protected) for path in paths] == [
        *(True, True, False, False, False),
    ]


def test_the_title_is_written_to_a_terminal_of_a_living_process() -> None:
    ours, theirs = pty.openpty()
    words = ["sleep", "30"]
    child = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs)
    try:
        started = process_start(child.pid)
        assert started is not None
        title = outlets.TerminalTitle()
        title.show("gone", ProcessId(child.pid, started + 1))
        title.show("a \x1b]0;b\x07 é", ProcessId(child.pid, started))
        assert os.read(ours, 100) == b"\x1b]2;a ?]0;b? ?\x07"
    finally:
        child.kill()
        child.wait()
        os.close(ours)
        os.close(theirs)


def test_a_desktop_is_asked_only_where_there_is_one(tmp_path: Path) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/said\n')
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert len(outlets.outlets(path)) == 1
    assert len(outlets.outlets({"DISPLAY": ":0", "PATH": "/nothing"})) == 1
    _, desktop = outlets.outlets({"DISPLAY": ":0", **path})
    desktop.show("deleted\n3 files", None)
    said = tmp_path / "said"
    until(lambda: said.exists() and said.read_text().endswith("files|"))
    assert said.read_text() == "--app-name=gitshadow|gitshadow|deleted?3 files|"
