"""What a context does when something goes wrong in the middle: disk, refs, Git, payloads."""

import ctypes
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeGuard

import pytest

from gitshadow.api import run
from gitshadow.attribution.delivery import HookDelivery
from gitshadow.errors import JournalError
from gitshadow.maintenance import reindex, setup
from gitshadow.maintenance.startup_repair import mend
from gitshadow.model import (
    Call,
    CommitEvent,
    Event,
    EventKind,
    Gap,
    HeadChange,
    Oid,
    PathChange,
    RepoPath,
    ToolClass,
)
from gitshadow.platform.watching import Hints
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.service import hook_intake
from gitshadow.store.journal import events, meta, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.layout import Layout, discover
from tests.support.repo import Repo

_FAIL = (
    "CREATE TEMP TRIGGER full BEFORE INSERT ON events"
    " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
)
_HEAL = "DROP TRIGGER full"


def layout_of(repo: Repo) -> Layout:
    found = discover(str(repo.root))
    assert found is not None
    return found


@pytest.fixture
def open_it() -> Iterator[Callable[[Repo], RecorderContext]]:
    """Return a function that opens a worktree as a command does."""
    opened: list[RecorderContext] = []

    def open_again(repo: Repo) -> RecorderContext:
        for context in opened:
            _close(context)
        opened.clear()
        layout = layout_of(repo)
        if not layout.initialised:
            setup.initialise(layout, os.environ, force=True)
        context = open_context(layout, os.environ, lock_timeout_s=1.0)
        opened.append(context)
        mend(context)
        return context

    yield open_again
    for context in opened:
        _close(context)


def _close(context: RecorderContext) -> None:
    """Close a context unless the test did."""
    if context.workspace.lock.held:
        context.close()


def rows(context: RecorderContext, *paths: str) -> list[Event]:
    """Return the events of paths, oldest first, with each path that Git switched."""
    wanted = tuple(RepoPath(os.fsencode(path)) for path in paths) or None
    db = context.workspace.db
    found = events.rows(db, EventFilter(paths=wanted))[::-1]
    return [
        row
        for row in events.unfolded(db, found)
        if not (wanted and isinstance(row, HeadChange))
        and not (wanted and _is_switched(row) and row.path not in wanted)
    ]


def kinds(context: RecorderContext, *paths: str) -> list[str]:
    return [row.kind.value for row in rows(context, *paths)]


def changes(context: RecorderContext, *paths: str) -> list[PathChange]:
    """Return the rows of paths but gaps, oldest first."""
    found = [row for row in rows(context, *paths) if not isinstance(row, Gap)]
    assert all(isinstance(row, PathChange) for row in found)
    return events.path_changes(found)


def switched(context: RecorderContext, *paths: str) -> list[bool]:
    """Return of each change of paths whether Git switched it."""
    return [_is_switched(row) for row in rows(context, *paths)]


def _is_switched(row: Event) -> TypeGuard[PathChange]:
    return isinstance(row, PathChange) and row.switched


def rebuilt(repo: Repo) -> list[tuple[object, ...]]:
    """Return what the refs alone say, after a reindex."""
    _, unreadable = reindex.reindex(layout_of(repo))
    assert unreadable == ()
    db = Db.open(layout_of(repo).journal, create=False)
    try:
        return [
            _gist(row)
            for row in events.rows(db, EventFilter())[::-1]
            if not isinstance(row, Gap)
        ]
    finally:
        db.close()


def _gist(row: CommitEvent) -> tuple[object, ...]:
    if isinstance(row, PathChange):
        return row.seq, row.kind, row.path, row.before, row.after, row.commit
    return row.seq, row.kind, row.commit


def gists(context: RecorderContext) -> list[tuple[object, ...]]:
    return [_gist(row) for row in rows(context) if not isinstance(row, Gap)]


def check_rebuilt(repo: Repo, context: RecorderContext) -> None:
    """Close a context and check that the refs alone say what its journal said."""
    known = gists(context)
    context.close()
    assert rebuilt(repo) == known


def test_a_file_that_becomes_a_directory_is_deleted_first_whatever_came_later(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: `a` gives way to `a/x`; a later write beside it moves the top's ctime."""
    context = open_it(repo)
    repo.delete("a")
    repo.write("a/x", "in a\n")
    repo.write("z", "later\n")
    context.observer.settle()
    assert kinds(context, "a") == ["delete", "create"]
    tree = context.workspace.recorder.tree
    assert context.workspace.repo.trees.entry(tree, RepoPath(b"a/x")) is not None
    check_rebuilt(repo, context)


def test_a_directory_that_becomes_a_file_is_emptied_first(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: `d/x` gives way to a file `d`."""
    repo.write("d/x", "x\n")
    context = open_it(repo)
    repo.delete("d")
    repo.write("d", "file\n")
    repo.write("z", "later\n")
    context.observer.settle()
    check_rebuilt(repo, context)


def test_a_moved_file_leaves_its_name_before_a_directory_takes_it(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: a directory made before, then moved to where a file was moved away from."""
    context = open_it(repo)
    repo.write("tmp/x", "x\n")
    repo.rename("a", "moved")
    os.rename(repo.path("tmp"), repo.path("a"))
    context.observer.settle()
    assert kinds(context, "moved") == ["rename"]
    check_rebuilt(repo, context)


def test_a_write_is_recorded_once_when_its_rows_failed_at_first(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """LAW-09: the ref moved, the journal failed, and the process lives on."""
    context = open_it(repo)
    repo.write("a", "one\n")
    context.workspace.db.run(_FAIL)
    with pytest.raises(JournalError):
        context.observer.settle()
    context.workspace.db.run(_HEAL)
    repo.write("b", "two\n")
    context.observer.settle()
    assert kinds(context, "a") == ["modify"]
    assert kinds(context, "b") == ["modify"]
    check_rebuilt(repo, context)


def test_odd_modes_follow_the_journal_when_rows_failed(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """LAW-01: a mode that could not be journalled is known all the same afterwards."""
    context = open_it(repo)
    context.workspace.recorder.publish_pin("warm", "refs/agent-undo/pin-warm", 1)
    repo.write("a", "one\n", 0o600)
    context.workspace.db.run(_FAIL)
    with pytest.raises(JournalError):
        context.observer.settle()
    context.workspace.db.run(_HEAL)
    os.chmod(repo.path("a"), 0o644)
    context.observer.settle()
    assert changes(context, "a")[-1].after is not None
    check_rebuilt(repo, context)


def test_what_was_published_before_a_stale_ref_lock_has_its_rows(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """ROB-06, LAW-09: a batch of two sessions, of which the second cannot be published."""
    context = open_it(repo)
    first, second = (_session_with_chain(context, repo, "c") for _ in range(2))
    lock = Path(repo.root, ".git", "refs", "agent-undo", f"{second}.lock")
    lock.touch()
    # One that is new is waited for.
    os.utime(lock, (1, 1))
    repo.write("b", "by the second\n")
    repo.write("a", "by the first\n")
    _record_as(context, {"a": first, "b": second})
    assert [row.kind for row in changes(context, "a")] == [EventKind.MODIFY]
    assert changes(context, "b") == []
    assert EventKind.GAP in [row.kind for row in rows(context)]
    lock.unlink()
    context.observer.settle()
    assert [row.kind for row in changes(context, "b")] == [EventKind.MODIFY]
    check_rebuilt(repo, context)


def _session_with_chain(context: RecorderContext, repo: Repo, path: str) -> str:
    """Open a session by hand whose chain stands; return its ref's name."""
    session = str(run(context, "session_start", {"agent": "generic"})["session"])
    repo.write(path, f"first of {session}\n")
    params = {"paths": [path], "session": session, "cwd": str(repo.root)}
    run(context, "record", params)
    assert rows(context, path)[-1].attribution.session == session  # type: ignore[union-attr]
    return session


def _record_as(context: RecorderContext, writers: dict[str, str]) -> None:
    """Record a batch, each path of which is a session's by its named window."""
    ws = context.workspace
    for number, (path, session) in enumerate(writers.items()):
        call = Call(
            id=f"call-{number}",
            session=session,
            turn=None,
            tool="Write",
            tool_class=ToolClass.WRITE,
            opened_ns=context.pipeline.settled_ns // 1000 * 1000,
            paths=(RepoPath(path.encode()),),
        )
        with ws.db.write():
            turns.open_call(ws.db, call)
    context.observer.settle()


@pytest.mark.parametrize("failed", ["rows", "ref"])
def test_a_switch_is_gits_doing_also_when_its_record_failed_at_first(
    repo: Repo, open_it: Callable[[Repo], RecorderContext], failed: str
) -> None:
    """LAW-09: HEAD is known to have moved only once its commit and its row stand."""
    repo.git("checkout", "-q", "-b", "other")
    repo.write("a", "of the other branch\n")
    repo.commit("second")
    repo.git("checkout", "-q", "main")
    context = open_it(repo)
    repo.git("checkout", "-q", "other")
    if failed == "rows":
        context.workspace.db.run(_FAIL)
        with pytest.raises(JournalError):
            context.observer.settle()
        context = open_it(repo)
    else:
        lock = _lock_only_ref(repo)
        context.observer.settle()
        lock.unlink()
    context.observer.settle()
    gap = [False] if failed == "ref" else []
    assert switched(context, "a") == [*gap, True]
    assert kinds(context).count("head") == 1


def _lock_only_ref(repo: Repo) -> Path:
    """Leave a lock behind on the only ref of ours."""
    (ref,) = Path(repo.root, ".git", "refs", "agent-undo").iterdir()
    lock = ref.with_suffix(".lock")
    lock.touch()
    os.utime(lock, (1, 1))
    return lock


def test_recording_goes_on_after_git_dropped_the_commit_that_head_was_at(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: amend, expire, gc: the HEAD that was known is in no object store any more."""
    context = open_it(repo)
    repo.write("a", "second\n")
    repo.commit("second")
    context.observer.settle()
    known = context.workspace.recorder.row.head
    context.close()
    repo.git("commit", "-q", "--amend", "-m", "amended")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    context = _reopen(repo)
    try:
        assert known is not None
        assert not context.workspace.repo.has(known)
        repo.write("b", "after\n")
        context.observer.settle()
        assert kinds(context, "b") == ["modify"]
        assert "gap" not in kinds(context)
    finally:
        context.close()


def _reopen(repo: Repo) -> RecorderContext:
    context = open_context(layout_of(repo), os.environ, lock_timeout_s=1.0)
    mend(context)
    return context


def test_switched_paths_are_gits_doing_when_another_path_is_recorded_first(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: a hook's named path is recorded before the hints of the checkout come."""
    repo.git("checkout", "-q", "-b", "other")
    repo.write("a", "of the other branch\n")
    repo.commit("second")
    repo.git("checkout", "-q", "main")
    context = open_it(repo)
    repo.git("checkout", "-q", "other")
    context.observer.store([RepoPath(b"b")])
    context.observer.hints(Hints(frozenset({RepoPath(b"a")})))
    context.observer.settle()
    assert switched(context, "a") == [True]


def test_lost_events_wait_for_the_git_command_that_rewrites_the_tree(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: a checkout of thousands of files overflows a batch while it is under way."""
    repo.git("checkout", "-q", "-b", "other")
    repo.write("a", "of the other branch\n")
    repo.commit("second")
    repo.git("checkout", "-q", "main")
    context = open_it(repo)
    lock = Path(repo.root, ".git", "index.lock")
    # A process of its own, since the lock is waited for until who had it has ended.
    with lock.open("wb") as stream:
        git = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=stream)
    with git:
        repo.write("a", "of the other branch\n")
        context.observer.hints(Hints(frozenset({RepoPath(b"a")}), lost=True))
        assert kinds(context, "a") == []
        lock.unlink()
        repo.git("symbolic-ref", "HEAD", "refs/heads/other")
    while context.observer.due() is not None:
        context.observer.tick()
    assert switched(context, "a") == [True]


def test_a_write_that_could_not_be_recorded_keeps_its_own_time(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """ATT: what failed before a window opened is not that window's afterwards."""
    context = open_it(repo)
    lock = _lock_only_ref(repo)
    repo.write("a", "before the window\n")
    wrote_ns = os.lstat(repo.path("a")).st_mtime_ns
    context.observer.settle()
    assert changes(context, "a") == []
    lock.unlink()
    context.observer.settle()
    assert [row.ts_ns for row in changes(context, "a")] == [wrote_ns // 1000 * 1000]


def test_a_ref_with_lost_objects_never_comes_to_point_at_the_users_commit(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: after power loss even the baseline of a chain is broken."""
    repo.write("untracked", "only we have it\n")
    context = open_it(repo)
    state = context.workspace.states.get(RepoPath(b"untracked"))
    assert state is not None
    _lose(repo, state.version.oid)
    _reboot(context)
    context = open_it(repo)
    context.observer.settle()
    known = gists(context)
    context.close()
    assert known[-1] in rebuilt(repo)


def test_a_ref_goes_back_below_every_lost_object_not_only_that_of_its_tip(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """CAP: after power loss a blob of the second newest commit is missing."""
    context = open_it(repo)
    repo.write("a", "lost with the power\n")
    context.observer.settle()
    repo.write("b", "not lost\n")
    context.observer.settle()
    after = changes(context, "a")[-1].after
    assert after is not None
    repo.write("a", "written meanwhile\n")
    _lose(repo, after.oid)
    _reboot(context)
    context = open_it(repo)
    context.observer.settle()
    missing = repo.git("rev-list", "--objects", "--missing=print", "--all")
    assert not [line for line in missing.splitlines() if line.startswith("?")]


def _lose(repo: Repo, oid: Oid) -> None:
    os.unlink(Path(repo.root, ".git", "objects", oid[:2], oid[2:]))


def _reboot(context: RecorderContext) -> None:
    with context.workspace.db.write():
        meta.put(context.workspace.db, "boot_id", "another")


def test_a_payload_that_another_process_took_is_no_gap(
    repo: Repo,
    open_it: Callable[[Repo], RecorderContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worktrees of a repository share the spool: each file is one's who is quicker."""
    context = open_it(repo)
    spool = Path(context.workspace.layout.spool_dir)
    payload = json.dumps({"hook_event_name": "SessionStart", "session_id": "s"})
    document = {"agent": "claude-code", "payload": payload, "cwd": str(repo.root)}
    for name in ("1-1.json", "2-1.json"):
        (spool / name).write_text(json.dumps(document))
    taken: list[object] = []

    def take(
        context: RecorderContext, delivery: HookDelivery, *, addressed: bool
    ) -> None:
        for name in os.listdir(spool):
            os.unlink(spool / name)
        taken.append(json.loads(delivery.payload)["hook_event_name"])

    monkeypatch.setattr(hook_intake, "take", take)
    hook_intake.drain_spool(context)
    assert taken == ["SessionStart"]
    assert "gap" not in kinds(context)


@pytest.mark.parametrize("changed", [False, True])
def test_what_was_carried_over_from_head_enters_without_a_contradiction(
    repo: Repo, open_it: Callable[[Repo], RecorderContext], changed: bool
) -> None:
    """CAP: a tracked file was too large at `init`, and the limit is raised later."""
    repo.git("config", "agent-undo.maxFileSize", "50")
    repo.write("small", "x\n")
    context = open_it(repo)
    assert context.workspace.states.get(RepoPath(b"a")) is None
    repo.git("config", "--unset", "agent-undo.maxFileSize")
    if changed:
        repo.append("a", "one more\n")
    context = open_it(repo)
    context.observer.settle()
    assert context.workspace.states.get(RepoPath(b"a")) is not None
    assert {row.kind for row in changes(context, "a")} <= {EventKind.COVERAGE}
    check_rebuilt(repo, context)


@contextmanager
def _like_everybody() -> Iterator[None]:
    """Have root meet permissions as others do: without CAP_DAC_OVERRIDE and its reading half."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    fewer = (ctypes.c_uint32 * 6)(*held)
    fewer[0] &= ~0b110
    assert libc.capset(header, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0


def test_what_could_not_be_read_at_init_was_not_created_by_who_touches_it_later(
    repo: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """LAW-03: a file that stood there all along is never deleted by an undo."""
    repo.write("locked", "older than we are\n", 0)
    with _like_everybody():
        context = open_it(repo)
        assert context.workspace.states.get(RepoPath(b"locked")) is None
        context.observer.settle()
    os.chmod(repo.path("locked"), 0o644)
    context.observer.settle()
    assert [row.kind for row in changes(context, "locked")] == [EventKind.COVERAGE]
