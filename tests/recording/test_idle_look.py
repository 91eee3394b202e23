"""What the daemon looks at by itself: not after each write, and all the same when it is idle."""

import os
from collections.abc import Iterator

import pytest

from gitshadow.attribution import lifecycle
from gitshadow.attribution.process import ProcessId
from gitshadow.model import EventKind, HeadChange, RepoPath
from gitshadow.platform.watching import Hints
from gitshadow.recording import observer
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import events, sessions
from gitshadow.store.journal.events import EventFilter
from tests.support.context import desk_of
from tests.support.repo import Repo
from tests.support.sql_work import counted_sql

_NEVER_S = 1e9


@pytest.fixture
def context(repo: Repo) -> Iterator[RecorderContext]:
    with desk_of(repo) as opened:
        yield opened


def test_nothing_is_looked_at_again_right_after_a_write(
    repo: Repo, context: RecorderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAW-08: each look costs stamps of the clock, HEAD and a query."""
    monkeypatch.setattr(observer, "_LOOK_S", _NEVER_S)
    repo.write("a", "written\n")
    context.observer.hints(Hints(frozenset({RepoPath(b"a")})))
    while context.observer.due() is not None:
        context.observer.tick()
    (row,) = events.rows(context.workspace.db, EventFilter(paths=(RepoPath(b"a"),)))
    assert row.kind is EventKind.MODIFY
    stamp = os.stat(context.workspace.layout.stamp).st_ctime_ns
    context.observer.tick()
    assert os.stat(context.workspace.layout.stamp).st_ctime_ns == stamp


@pytest.fixture
def idle(context: RecorderContext, monkeypatch: pytest.MonkeyPatch) -> RecorderContext:
    """Return a context at which nothing has happened for a while."""
    monkeypatch.setattr(observer, "_LOOK_S", 0.0)
    return context


def test_session_of_a_dead_process_ends_although_nobody_writes(
    idle: RecorderContext,
) -> None:
    """ATT-08."""
    ws = idle.workspace
    gone = ProcessId(os.getpid(), 1)
    who = lifecycle.Who(agent="claude-code", native_id="s1", process=gone)
    with ws.db.write():
        lifecycle.see_session(ws.db, who, ws.clock.now_ns(), may_open=True)
    idle.observer.tick()
    found = sessions.find_native(ws.db, "claude-code", "s1")
    assert found is not None
    assert found.end_reason == "process gone"


def test_move_of_head_that_no_hint_tells_of_is_noticed(
    repo: Repo, idle: RecorderContext
) -> None:
    """CAP-18: `update-ref` alone touches nothing that is watched."""
    repo.git("commit", "-q", "--allow-empty", "-m", "second")
    idle.observer.tick()
    (row,) = events.rows(idle.workspace.db, EventFilter(kinds=(EventKind.HEAD,)))
    head = repo.git("rev-parse", "--short=8", "HEAD").strip()
    assert isinstance(row, HeadChange)
    assert row.note == f'commit {head} "second"'


def test_a_look_at_rest_asks_the_journal_only_which_sessions_live(
    idle: RecorderContext,
) -> None:
    """LAW-08: a daemon at rest looks every two seconds."""
    idle.observer.settle()
    idle.observer.tick()
    with counted_sql(idle.workspace.db) as work:
        for _ in range(5):
            idle.observer.tick()
    assert len(work.statements) == 5
    assert {
        "FROM sessions WHERE ended_ns IS NULL" in one for one in work.statements
    } == {True}
