"""Whose rows are once a window is known better: judged again, and the same after `reindex`."""

import json
import os
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from gitshadow.api import run
from gitshadow.attribution.delivery import HookDelivery
from gitshadow.attribution.lifecycle import close_gone
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.attribution.process_evidence import EXIT_THREAD, Exits
from gitshadow.capture.recorder import Recorder
from gitshadow.daemon.server import Service
from gitshadow.errors import JournalBusyError
from gitshadow.maintenance import startup_repair
from gitshadow.messages.codec import decode
from gitshadow.messages.undo import FileUndoAnswer
from gitshadow.model import Oid, PathChange
from gitshadow.platform.linux import processes
from gitshadow.platform.linux.inotify import InotifyWatcher
from gitshadow.recording.context import RecorderContext
from gitshadow.render.report import report_lines
from gitshadow.render.style import View
from gitshadow.service import hook_intake
from gitshadow.store.journal import corrections, events, prune, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.machine import ours
from gitshadow.store.refs import chain_ref
from gitshadow.store.replay import rebuild
from tests.support.context import desk_of
from tests.support.journal_dump import dump_all
from tests.support.repo import Repo
from tests.support.waiting import until


@pytest.fixture
def context(repo: Repo) -> Iterator[RecorderContext]:
    with desk_of(repo) as context:
        yield context


def tell(
    context: RecorderContext,
    agent: str,
    payload: dict[str, object],
    *,
    pids: Sequence[ProcessId] = (),
    own: ProcessId | None = None,
    at_ns: int | None = None,
) -> None:
    """Deliver a payload as the hook program does."""
    whole = {"cwd": context.workspace.layout.root, **payload}
    delivery = HookDelivery(
        agent=agent,
        payload=json.dumps(whole).encode(),
        pids=tuple(pids),
        own=own,
        at_ns=at_ns,
    )
    hook_intake.take(context, delivery)


def seen(context: RecorderContext, repo: Repo, path: str, text: str) -> None:
    """Write a file that the watcher records at once."""
    repo.write(path, text)
    context.observer.store([os.fsencode(path)])  # type: ignore[list-item]


def listed(document: Mapping[str, object], key: str) -> list[dict[str, object]]:
    found = document[key]
    assert isinstance(found, list)
    return found


def rows(context: RecorderContext, path: str) -> list[PathChange]:
    wanted = EventFilter(paths=[os.fsencode(path)])  # type: ignore[list-item]
    return events.changes(context.workspace.db, wanted)[::-1]


def told(row: PathChange) -> tuple[str, str | None]:
    assert row.attribution is not None
    return row.attribution.confidence.value, row.attribution.call


def same_from_refs(context: RecorderContext, tmp_path: Path) -> None:
    """Build another journal from the refs alone and compare what LAW-07 names."""
    ws = context.workspace
    fresh = Db.open(str(tmp_path / "again.db"), create=True)
    try:
        with fresh.write():
            rebuild(fresh, ws.repo, ours(ws.layout))
        assert dump_all(fresh) == dump_all(ws.db)
        known = ws.db.rows("SELECT * FROM corrections ORDER BY seq")
        assert fresh.rows("SELECT * FROM corrections ORDER BY seq") == known
    finally:
        fresh.close()


def copilot(event: str, tool: str, **arguments: object) -> dict[str, object]:
    """Return a payload of Copilot, which sends no call ids."""
    payload: dict[str, object] = {
        "sessionId": "s1",
        "timestamp": 1,
        "toolName": tool,
        "toolArgs": json.dumps(arguments),
    }
    if event == "postToolUse":
        payload["toolResult"] = {"resultType": "success", "textResultForLlm": ""}
    return payload


def test_calls_side_by_side_keep_their_windows_when_they_have_no_ids(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    root = context.workspace.layout.root
    calls: list[tuple[str, dict[str, object]]] = [
        ("create", {"path": f"{root}/p1", "file_text": "1"}),
        ("bash", {"command": "echo 3 > p3"}),
        ("create", {"path": f"{root}/p2", "file_text": "2"}),
    ]
    for tool, given in calls:
        tell(context, "copilot", copilot("preToolUse", tool, **given))
    for path in ("p1", "p2", "p3"):
        seen(context, repo, path, path)
    for tool, given in calls:
        tell(context, "copilot", copilot("postToolUse", tool, **given))
    tools = {
        path: (row.attribution.tool, row.attribution.confidence.value)
        for path in ("p1", "p2", "p3")
        for row in rows(context, path)
    }
    assert tools == {
        "p1": ("create", "certain"),
        "p2": ("create", "certain"),
        "p3": ("bash", "medium"),
    }
    same_from_refs(context, tmp_path)


def generic(event: str, **fields: object) -> dict[str, object]:
    return {"event": event, "session": "prog", "agent": "prog", **fields}


def a_dead_process() -> ProcessId:
    """Return a process that has ended, with the start that it had."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{pid}/stat", encoding="ascii") as handle:
        started = int(handle.read().rpartition(")")[2].split()[19])
    os.waitpid(pid, 0)
    return ProcessId(pid, started)


def here() -> ProcessId:
    return ProcessId(os.getpid(), process_start(os.getpid()) or 0)


def test_the_window_of_a_program_closes_when_it_died_before_its_event_was_taken(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    """What comes from the spool names a process that is gone, and its living parent."""
    dead = a_dead_process()
    now_ns = context.workspace.clock.now_ns()
    path = os.path.join(context.workspace.layout.root, "a")
    told_of = [
        generic("prompt", turn="t1"),
        generic("before", turn="t1", call="c1", tool="w", paths=[path]),
    ]
    for number, payload in enumerate(told_of):
        tell(
            context,
            "generic",
            payload,
            pids=[dead, here()],
            own=dead,
            at_ns=now_ns + number,
        )
    seen(context, repo, "a", "a person's\n")
    (row,) = rows(context, "a")
    assert told(row) == ("ambiguous", None)
    repo.delete("a")
    context.observer.settle()
    assert told(rows(context, "a")[-1]) == ("unknown", None)
    (session,) = sessions.by_prefix(context.workspace.db, "prog")
    assert row.attribution.candidates == (session.id,)
    assert session.end_reason == "process gone"
    same_from_refs(context, tmp_path)


def test_a_write_after_the_program_was_last_seen_is_nobodys_for_sure(
    context: RecorderContext, repo: Repo
) -> None:
    ws = context.workspace
    dead = a_dead_process()
    path = os.path.join(ws.layout.root, "a")
    tell(context, "generic", generic("prompt", turn="t1"), pids=[here()], own=here())
    before = generic("before", turn="t1", call="c1", tool="w", paths=[path])
    tell(context, "generic", before, pids=[here()], own=here())
    (session,) = sessions.by_prefix(ws.db, "prog")
    with ws.db.write():
        ws.db.run("UPDATE sessions SET pid = ?, pid_started = ?", dead)
    context.processes.alive[dead] = ws.clock.now_ns()
    seen(context, repo, "a", "x\n")
    assert told(rows(context, "a")[-1]) == ("ambiguous", None)
    assert rows(context, "a")[-1].attribution.candidates == (session.id,)
    call = turns.get_call(ws.db, session.id, "c1")
    assert call is not None
    assert call.closed_ns is not None
    seen(context, repo, "a", "a person's\n")
    assert told(rows(context, "a")[-1]) == ("unknown", None)


def wake_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each thread wait for an end in one sleep, however busy the machine is."""
    slept = defaultdict[int, Iterator[int]](count)
    monkeypatch.setattr(
        processes, "_switches", lambda: (next(slept[threading.get_ident()]), 0)
    )
    monkeypatch.setattr(processes, "_queued_ns", lambda: 0)


def test_a_write_right_before_a_kill_is_the_shells_when_the_end_was_noted(
    context: RecorderContext, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake_at_once(monkeypatch)
    layout = context.workspace.layout
    watcher = InotifyWatcher(layout.root, layout.git_dir, lambda: None)
    context.observer.start(watcher)
    others = noting()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as agent, closing(watcher):
        process = ProcessId(agent.pid, process_start(agent.pid) or 0)
        for event in ("prompt", "before"):
            told_of = generic(event, turn="t1", call="c1", tool="Bash")
            tell(context, "generic", told_of, pids=[process, here()])
        repo.write("a", "by the shell\n")
        agent.kill()
        agent.wait()
        until(lambda: noting() == others)
        repo.write("b", "a person's, later\n")
        context.observer.settle()
    assert told(rows(context, "a")[-1]) == ("medium", "c1")
    assert told(rows(context, "b")[-1]) == ("unknown", None)


def test_a_write_right_after_a_kill_is_nobodys_at_a_path_that_a_call_names(
    context: RecorderContext, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake_at_once(monkeypatch)
    layout = context.workspace.layout
    watcher = InotifyWatcher(layout.root, layout.git_dir, lambda: None)
    context.observer.start(watcher)
    others = noting()
    path = os.path.join(layout.root, "a")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as agent, closing(watcher):
        process = ProcessId(agent.pid, process_start(agent.pid) or 0)
        for event in ("prompt", "before"):
            told_of = generic(event, turn="t1", call="c1", tool="w", paths=[path])
            tell(context, "generic", told_of, pids=[process, here()])
        repo.write("a", "by the program\n")
        context.observer.settle()
        agent.kill()
        agent.wait()
        until(lambda: noting() == others)
        repo.write("a", "a person's, right after it\n")
        context.observer.settle()
    first, second = map(told, rows(context, "a"))
    assert (first, second) == (("certain", "c1"), ("unknown", None))


def test_nobody_is_named_by_time_while_the_end_of_an_agent_is_not_noted(
    context: RecorderContext, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Exits, "_wait", lambda *_: None)  # the thread does not run yet
    layout = context.workspace.layout
    watcher = InotifyWatcher(layout.root, layout.git_dir, lambda: None)
    context.observer.start(watcher)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as agent, closing(watcher):
        process = ProcessId(agent.pid, process_start(agent.pid) or 0)
        for event in ("prompt", "before"):
            told_of = generic(event, turn="t1", call="c1", tool="Bash")
            tell(context, "generic", told_of, pids=[process, here()])
        repo.write("a", "by the shell\n")
        context.observer.settle()
        repo.write("b", "by the shell, right before the end\n")
        agent.kill()
        agent.wait()
        repo.write("c", "a person's, right after it\n")
        context.observer.settle()
        repo.write("d", "a person's, later\n")
        context.observer.settle()
    (session,) = sessions.by_prefix(context.workspace.db, "prog")
    assert told(rows(context, "a")[-1]) == ("medium", "c1")
    for path in ("b", "c"):
        assert told(rows(context, path)[-1]) == ("ambiguous", None)
        assert rows(context, path)[-1].attribution.candidates == (session.id,)
    assert told(rows(context, "d")[-1]) == ("unknown", None)
    assert session.end_reason == "process gone"


def test_processes_of_ended_sessions_are_forgotten(context: RecorderContext) -> None:
    ws = context.workspace
    dead = a_dead_process()
    tell(context, "generic", generic("prompt", turn="t1"), pids=[here()], own=here())
    with ws.db.write():
        ws.db.run("UPDATE sessions SET pid = ?, pid_started = ?", dead)
    context.processes.alive[dead] = ws.clock.now_ns()
    context.processes.close_gone(ws.clock.now_ns())
    context.processes.close_gone(ws.clock.now_ns())
    assert context.processes.alive == {}


def test_the_daemon_does_not_rest_while_it_counts_what_a_shell_writes(
    context: RecorderContext,
) -> None:
    """The older the last count, the more of the shell's bytes speak against a person."""
    layout = context.workspace.layout
    watcher = InotifyWatcher(layout.root, layout.git_dir, lambda: None)
    context.observer.start(watcher)
    service = Service(context)
    found = []
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as agent, closing(watcher):
        process = ProcessId(agent.pid, process_start(agent.pid) or 0)
        for event in ("prompt", "before"):
            told_of = generic(event, turn="t1", call="c1", **{"class": "shell"})
            tell(context, "generic", told_of, pids=[process, here()])
            found.append(service.rests)
    assert found == [True, False]


def noting() -> list[threading.Thread]:
    """Return the threads that wait for the end of a process."""
    return [one for one in threading.enumerate() if one.name == EXIT_THREAD]


def test_a_process_that_was_missed_long_ago_ends_when_it_was_last_seen(
    context: RecorderContext,
) -> None:
    ws = context.workspace
    dead = a_dead_process()
    tell(context, "generic", generic("prompt", turn="t1"), pids=[here()], own=here())
    with ws.db.write():
        ws.db.run("UPDATE sessions SET pid = ?, pid_started = ?", dead)
    now_ns = ws.clock.now_ns()
    long_ago = now_ns + 1
    close_gone(ws.db, sessions.live(ws.db), now_ns + 10**10, {dead: long_ago})
    (session,) = sessions.by_prefix(ws.db, "prog")
    assert session.ended_ns == long_ago


def claude(event: str, call: str, path: str, **fields: object) -> dict[str, object]:
    return {
        "hook_event_name": event,
        "session_id": "s1",
        "prompt_id": "t1",
        "tool_name": "Write",
        "tool_use_id": call,
        "tool_input": {"file_path": path, "content": "x"},
        **fields,
    }


def waited(
    context: RecorderContext, repo: Repo, event: str = "PostToolUse", **fields: object
) -> None:
    """Have a person write while a call waits for five seconds, and the call end."""
    path = os.path.join(context.workspace.layout.root, "a")
    tell(context, "claude-code", claude("PreToolUse", "c1", path))
    seen(context, repo, "a", "a person's\n")
    assert told(rows(context, "a")[-1]) == ("certain", "c1")
    at_ns = context.workspace.clock.now_ns() + 5_000_000_000
    tell(context, "claude-code", claude(event, "c1", path, **fields), at_ns=at_ns)


@pytest.mark.parametrize("duration", [0, 12, 12.5])
def test_a_row_goes_back_when_its_call_ran_later(
    context: RecorderContext, repo: Repo, tmp_path: Path, duration: float
) -> None:
    waited(context, repo, duration_ms=duration)
    assert told(rows(context, "a")[-1]) == ("low", None)
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("waited_ns", [0, 60_000_000_000], ids=["at once", "waited"])
def test_a_row_stays_when_the_end_of_its_call_comes_long_after_its_edit_was_reported(
    context: RecorderContext, repo: Repo, tmp_path: Path, waited_ns: int
) -> None:
    """Cursor reports an edited file first, and other programs' hooks may take a while."""
    path = os.path.join(context.workspace.layout.root, "a")
    call: dict[str, object] = {"conversation_id": "c1", "generation_id": "g1"}
    call |= {"tool_name": "Write", "tool_use_id": "u1", "cursor_version": "2.7.12"}
    call |= {"tool_input": {"file_path": path, "content": "x"}}
    at_ns = context.workspace.clock.now_ns() - waited_ns
    tell(context, "cursor", {**call, "hook_event_name": "preToolUse"}, at_ns=at_ns)
    seen(context, repo, "a", "the agent's\n")
    edit: dict[str, object] = {"conversation_id": "c1", "generation_id": "g1"}
    edit |= {"file_path": path, "edits": [], "cursor_version": "2.7.12"}
    tell(context, "cursor", {**edit, "hook_event_name": "afterFileEdit"})
    end = {**call, "hook_event_name": "postToolUse", "duration": 36.8}
    at_ns = context.workspace.clock.now_ns() + 30_000_000_000
    tell(context, "cursor", end, at_ns=at_ns)
    assert told(rows(context, "a")[-1]) == ("certain", "u1")
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("tool", ["ai_agent", "afterFileEdit"])
def test_an_edit_told_of_afterwards_begins_at_the_last_checkpoint_of_its_path(
    context: RecorderContext, repo: Repo, tmp_path: Path, tool: str, *, noticed: bool
) -> None:
    """What was recorded by then is not the agent's; what came later is, with a daemon too."""
    root = context.workspace.layout.root
    path = os.path.join(root, "a")
    seen(context, repo, "a", "a person's\n")
    if noticed:
        notice = {"type": "human", "repo_working_dir": root}
        tell(context, "generic", {**notice, "will_edit_filepaths": ["a", "b"]})
    seen(context, repo, "a", "the agent's\n")
    if tool == "ai_agent":
        edit: dict[str, object] = {"type": tool, "conversation_id": "c1"}
        edit |= {"repo_working_dir": root, "edited_filepaths": ["a"]}
        tell(context, "generic", {**edit, "agent_name": "prog"})
    else:
        edit = {"hook_event_name": tool, "conversation_id": "c1", "file_path": path}
        edit |= {"generation_id": "g1", "edits": [], "cursor_version": "1.7.2"}
        tell(context, "cursor", edit)
    person, agent = [told(row)[0] for row in rows(context, "a")]
    assert agent == "certain"
    assert (person == "unknown") == noticed
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("unseen", [False, True], ids=["seen", "unseen"])
def test_a_row_goes_back_when_the_hook_failed_and_comes_again_from_the_spool(
    context: RecorderContext,
    repo: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    unseen: bool,
) -> None:
    """The end of the call is stored by then, and the rows are not judged again yet."""
    path = os.path.join(context.workspace.layout.root, "a")
    if not unseen:
        tell(context, "claude-code", claude("PreToolUse", "c1", path))
    seen(context, repo, "a", "written\n")
    at_ns = rows(context, "a")[-1].ts_ns + (1 if unseen else 5_000_000_000)
    after = claude("PostToolUse", "c1", path, duration_ms=1000 if unseen else 1)

    def busy(*_: object) -> None:
        raise JournalBusyError("cannot write the journal: it is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "correct", busy)
        with pytest.raises(JournalBusyError):
            tell(context, "claude-code", after, at_ns=at_ns)
    assert told(rows(context, "a")[-1]) == (
        ("unknown", None) if unseen else ("certain", "c1")
    )
    tell(context, "claude-code", after, at_ns=at_ns + 1_000_000)
    assert told(rows(context, "a")[-1]) == (
        ("certain", "c1") if unseen else ("low", None)
    )
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("late", ["begin", "end", "both"])
def test_a_row_is_its_calls_when_a_busy_daemon_heard_the_hook_after_it_gave_up(
    context: RecorderContext, repo: Repo, tmp_path: Path, late: str
) -> None:
    """The spool has the time at which the agent went on; later writes are not the call's."""
    path = os.path.join(context.workspace.layout.root, "a")
    seen(context, repo, "a", "by the agent\n")
    agent_ns = rows(context, "a")[-1].ts_ns
    seen(context, repo, "a", "by a person\n")
    person_ns = rows(context, "a")[-1].ts_ns
    gave_up_ns = {"PreToolUse": agent_ns - 1000, "PostToolUse": agent_ns + 1000}
    heard_ns = dict(gave_up_ns)
    if late != "end":
        heard_ns["PreToolUse"] = person_ns + 1_000_000_000
    if late != "begin":
        heard_ns["PostToolUse"] = person_ns + 2_000_000_000
    for moments in (heard_ns, gave_up_ns, heard_ns):
        for event, at_ns in moments.items():
            given = {"duration_ms": 1} if event == "PostToolUse" else {}
            payload = claude(event, "c1", path, **given)
            tell(context, "claude-code", payload, at_ns=at_ns)
    assert [told(row) for row in rows(context, "a")] == [
        ("certain", "c1"),
        ("unknown", None),
    ]
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("event", ["PermissionDenied", "PostToolUseFailure"])
def test_a_row_goes_back_when_its_call_did_not_run(
    context: RecorderContext, repo: Repo, tmp_path: Path, event: str
) -> None:
    waited(context, repo, event, duration_ms=1)
    assert told(rows(context, "a")[-1]) == ("low", None)
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("duration", [-5, 1e300, None, "12", True, 10**9, 6_000])
def test_a_row_stays_when_the_duration_says_nothing_else(
    context: RecorderContext, repo: Repo, tmp_path: Path, duration: object
) -> None:
    waited(context, repo, duration_ms=duration)
    assert told(rows(context, "a")[-1]) == ("certain", "c1")
    same_from_refs(context, tmp_path)


def test_a_row_of_a_temporary_stays_when_its_call_ran_at_that_time(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    """The call names the file that the temporary is to become."""
    path = os.path.join(context.workspace.layout.root, "a")
    began_ns = context.workspace.clock.now_ns() - 5_000_000_000
    tell(context, "claude-code", claude("PreToolUse", "c1", path), at_ns=began_ns)
    seen(context, repo, "a.tmp.12.34", "the tool's\n")
    row = rows(context, "a.tmp.12.34")[-1]
    assert told(row) == ("certain", "c1")
    after = claude("PostToolUse", "c1", path, duration_ms=1)
    tell(context, "claude-code", after, at_ns=context.workspace.clock.now_ns())
    assert row.attribution is not None
    call = turns.get_call(context.workspace.db, row.attribution.session, "c1")
    assert call is not None
    assert call.began_ns is not None
    assert rows(context, "a.tmp.12.34") == [row]
    same_from_refs(context, tmp_path)


def test_a_corrected_row_is_lost_with_the_chain_that_holds_it_alone(
    context: RecorderContext, repo: Repo
) -> None:
    """A ref that goes back after a power cut takes the rows of its own commits along."""
    waited(context, repo)
    ws = context.workspace
    row = rows(context, "a")[-1]
    nobody = context.claimant.nobody("judged again")
    ws.recorder.correct({row: nobody}, ws.clock.now_ns())
    (row,) = [one for one in rows(context, "a") if one.seq == row.seq]
    chain = sessions.get_chain(ws.db, nobody.session, "main")
    assert chain is not None
    line = {info.oid for info in ws.repo.chain(chain.tip)}
    assert row.commit not in line
    holder = corrections.holder(ws.db, row.seq, nobody.session)
    assert row.commit in prune.commits_of(ws.db, holder)
    with ws.db.write():
        assert prune.drop_commits(ws.db, nobody.session, "main", line) == 0
        assert row in rows(context, "a")
        assert prune.drop_commits(ws.db, holder, "main", ()) > 0
    assert row not in rows(context, "a")


def test_a_row_stays_when_an_undo_has_taken_it_meanwhile(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    """Else `redo` and `blame` would not know what the undo took."""
    path = os.path.join(context.workspace.layout.root, "a")
    tell(context, "claude-code", claude("PreToolUse", "c1", path))
    seen(context, repo, "a", "a person's\n")
    asked = {"cwd": context.workspace.layout.root, "verb": "oops", "targets": []}
    run(context, "undo", {**asked, "yes": True})
    row = rows(context, "a")[-2]
    at_ns = context.workspace.clock.now_ns() + 5_000_000_000
    after = claude("PostToolUse", "c1", path, duration_ms=1)
    tell(context, "claude-code", after, at_ns=at_ns)
    assert rows(context, "a")[-2] == row
    assert told(row) == ("certain", "c1")
    same_from_refs(context, tmp_path)


def test_what_was_corrected_stays_so_when_a_crash_lost_the_journals_part(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    """The ref moved and the rows did not: start-up replays the correction."""
    waited(context, repo)
    ws = context.workspace
    saved = dump_all(ws.db)["events"]
    who = rows(context, "a")[-1]
    assert who.attribution is not None
    nobody = context.claimant.nobody("judged again")
    ws.recorder.correct({who: nobody}, ws.clock.now_ns())
    chain = sessions.get_chain(ws.db, who.attribution.session, "main")
    assert chain is not None
    corrected = dump_all(ws.db)
    parent = ws.repo.commit(chain.tip).parents[0]
    with ws.db.write():
        ws.db.run("UPDATE chains SET tip = ?, tip_seq = 0", (parent,))
        ws.db.run("DELETE FROM corrections")
        (row,) = [row for row in saved if row[0] == who.seq]
        marks = ", ".join("?" * len(row))
        ws.db.run(f"INSERT OR REPLACE INTO events VALUES ({marks})", row)
    context.pipeline.catch_up()
    assert dump_all(ws.db) == corrected
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("judged again", "the hook of its tool call names the path"),
        ("c3", "the hook of its tool call names the path"),
        ("and again", "judged again"),
    ],
)
def test_a_row_has_the_author_that_is_left_when_its_correction_is_lost(
    context: RecorderContext, repo: Repo, tmp_path: Path, lost: str, said: str
) -> None:
    """A correction has no row, so nothing but its own commit says what was before it."""
    ws = context.workspace
    first: list[PathChange] = []
    after: dict[str, Oid | None] = {}
    for step in ("c1", "c2", "judged again", "c3", "and again"):
        if len(step) == 2:
            tell(context, "claude-code", claude("PreToolUse", step, "a"))
            seen(context, repo, "a", f"written by {step}\n")
            tell(context, "claude-code", claude("PostToolUse", step, "a"))
            first = first or rows(context, "a")
            ref = chain_ref(chain_of(first[0]), "main")
        else:
            (row,) = [one for one in rows(context, "a") if one.seq == first[0].seq]
            nobody = context.claimant.nobody(step)
            ws.recorder.correct({row: nobody}, ws.clock.now_ns())
        after[step] = ws.repo.ref(ref)
    torn = after[lost]
    assert torn is not None
    (repo.common_dir / "objects" / torn[:2] / torn[2:]).unlink()
    startup_repair.repair(context)
    (row,) = [one for one in rows(context, "a") if one.seq == first[0].seq]
    assert row.attribution is not None
    assert row.attribution.reason == said
    same_from_refs(context, tmp_path)


def test_a_write_known_from_a_commit_has_no_exact_time_when_it_is_judged_again(
    context: RecorderContext,
    repo: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Either call may have written it, whenever the later one began."""
    # The time of the commit counts.
    monkeypatch.setattr("tests.support.repo._DATES", {})
    now_ns = context.workspace.clock.now_ns

    def bash(event: str, who: str, at_ns: int, **fields: object) -> None:
        said = {"tool_name": "Bash", "tool_input": {"command": "x"}, **fields}
        payload = {**claude(event, f"c-{who}", "", **said), "session_id": who}
        tell(context, "claude-code", payload, at_ns=at_ns)

    repo.git("checkout", "-q", "-b", "other")
    repo.write("a", "elsewhere\n")
    repo.commit("other")
    repo.git("checkout", "-q", "main")
    context.observer.settle()
    bash("PreToolUse", "one", now_ns())
    bash("PostToolUse", "one", now_ns())
    began_ns = now_ns()
    bash("PreToolUse", "two", began_ns)
    repo.write("a", "in a commit\n")
    repo.commit("theirs")
    repo.git("checkout", "-q", "other")
    context.observer.settle()
    row, last = rows(context, "a")[-2:]
    assert (row.inexact, last.inexact) == (True, False)
    assert told(row) == ("ambiguous", None)
    bash("PostToolUse", "two", began_ns + 10_000_000_000, duration_ms=9499.999)
    assert rows(context, "a")[-2:] == [row, last]
    same_from_refs(context, tmp_path)


def chain_of(row: PathChange) -> str:
    assert row.attribution is not None
    return row.attribution.session


def test_a_corrected_row_stays_when_the_chain_of_its_session_is_lost(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    """The refs alone give the row back only while its session has a baseline."""
    waited(context, repo)
    ws = context.workspace
    row = rows(context, "a")[-1]
    nobody = context.claimant.nobody("judged again")
    ws.recorder.correct({row: nobody}, ws.clock.now_ns())
    chain = sessions.get_chain(ws.db, nobody.session, "main")
    assert chain is not None
    for info in ws.repo.chain(chain.tip):
        (repo.common_dir / "objects" / info.oid[:2] / info.oid[2:]).unlink()
    startup_repair.repair(context)
    assert [one.seq for one in rows(context, "a")] == [row.seq]
    same_from_refs(context, tmp_path)


def test_a_corrected_row_stays_when_the_session_that_held_it_would_be_pruned(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    """Else an undo of the session whose row it is would not know of the write."""
    ws = context.workspace
    tell(context, "claude-code", claude("PreToolUse", "c1", "a"))
    seen(context, repo, "a", "written\n")
    tell(context, "claude-code", claude("PostToolUse", "c1", "a"))
    row = rows(context, "a")[-1]
    assert row.attribution is not None
    tell(context, "codex", {**claude("SessionStart", "", ""), "session_id": "s2"})
    (other,) = [one for one in sessions.live(ws.db) if one.agent == "codex"]
    who = replace(
        row.attribution, session=other.id, agent="codex", turn=None, call=None
    )
    ws.recorder.correct({row: who}, ws.clock.now_ns())
    tell(context, "claude-code", claude("SessionEnd", "", "", reason="other"))
    (row,) = [one for one in rows(context, "a") if one.seq == row.seq]
    done = run(context, "prune", {"cwd": ws.layout.root, "all": True})
    assert row in rows(context, "a")
    assert (done["open"], done["needed"]) == (1, 1)
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("going", ["holder", "owner"])
def test_what_was_corrected_goes_with_either_of_its_sessions(
    context: RecorderContext, repo: Repo, tmp_path: Path, going: str
) -> None:
    """With the one whose chain holds the commit, or the one whose row it is."""
    waited(context, repo)
    ws = context.workspace
    row = rows(context, "a")[-1]
    nobody = context.claimant.nobody("judged again")
    ws.recorder.correct({row: nobody}, ws.clock.now_ns())
    session = chain_of(row) if going == "holder" else nobody.session
    with ws.db.write():
        prune.bury(ws.db, session, 1, sessions.chains_of(ws.db, session))
        prune.drop_chains(ws.db, session)
        prune.drop_some(ws.db, session, 1_000)
    ws.repo.delete_ref(chain_ref(session, "main"))
    assert rows(context, "a") == []
    same_from_refs(context, tmp_path)


def test_an_edit_that_is_only_told_of_afterwards_is_its_agents(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    """Cursor says what it edited, and nothing before it; the row stands already."""
    seen(context, repo, "a", "x\n")
    assert told(rows(context, "a")[-1]) == ("unknown", None)
    payload: dict[str, object] = {
        "hook_event_name": "afterFileEdit",
        "conversation_id": "c1",
        "generation_id": "g1",
        "file_path": os.path.join(context.workspace.layout.root, "a"),
        "edits": [{"old_string": "a", "new_string": "x"}],
        "cursor_version": "1.7.2",
    }
    tell(context, "cursor", payload)
    (row,) = rows(context, "a")
    assert row.attribution is not None
    assert (row.attribution.agent, told(row)[0]) == ("cursor", "certain")
    same_from_refs(context, tmp_path)


def test_every_view_says_the_same_of_a_write_between_two_calls(
    context: RecorderContext, repo: Repo
) -> None:
    root = context.workspace.layout.root
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "go"}
    tell(context, "claude-code", {**prompt, "prompt_id": "t1"})
    seen(context, repo, "n", "a line\n")
    asked = {"cwd": root, "paths": ["n"], "limit": 5}
    (row,) = [one for one in listed(run(context, "log", asked), "rows") if one["path"]]
    assert (row["actor"], row["agent"], row["confidence"]) == ("unknown", None, "low")
    assert row["candidates"] == [row["session"]]
    (session,) = [
        one
        for one in listed(run(context, "sessions", {"cwd": root}), "rows")
        if one["id"] == row["session"]
    ]
    assert (session["events"], session["files"]) == (0, 0)
    blamed = run(context, "blame", {"cwd": root, "path": "n"})
    (owner,) = listed(blamed, "owners")
    assert (owner["actor"], owner.get("agent")) == ("unknown", None)
    assert owner["candidates"] == row["candidates"]


def test_a_plan_marks_what_rests_on_the_time_alone(
    context: RecorderContext, repo: Repo
) -> None:
    bash = {
        "session_id": "s1",
        "prompt_id": "t1",
        "tool_name": "Bash",
        "tool_use_id": "c1",
        "tool_input": {"command": "make"},
    }
    tell(context, "claude-code", {**bash, "hook_event_name": "PreToolUse"})
    seen(context, repo, "n", "shell\n")
    tell(context, "claude-code", {**bash, "hook_event_name": "PostToolUse"})
    path = os.path.join(context.workspace.layout.root, "a")
    tell(context, "claude-code", claude("PreToolUse", "c2", path))
    seen(context, repo, "a", "x")
    tell(context, "claude-code", claude("PostToolUse", "c2", path))
    asked = {"cwd": context.workspace.layout.root, "verb": "oops", "targets": []}
    plan = run(context, "undo", {**asked, "dry_run": True})
    marked = {
        str(item["path"]): item.get("by_timing") for item in listed(plan, "items")
    }
    assert marked == {"a": None, "n": True}
    shown = "\n".join(report_lines(decode(FileUndoAnswer, plan), View()))
    assert "delete    n  (-1, by timing)" in shown
    assert shown.count("by timing") == 1
