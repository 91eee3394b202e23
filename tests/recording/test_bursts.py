"""Bursts of sessions without turns: an idle gap ends one, whenever its events are noticed."""

import os
from collections.abc import Iterator

import pytest

from gitshadow.maintenance import reindex, setup
from gitshadow.maintenance.startup_repair import mend
from gitshadow.model import Burst
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.store.journal import bursts
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import discover
from tests.support.repo import Repo

_ALWAYS_APART_NS = 1
_NEVER_APART_NS = 3_600_000_000_000


@pytest.fixture
def context(repo: Repo) -> Iterator[RecorderContext]:
    layout = discover(str(repo.root))
    assert layout is not None
    setup.initialise(layout, os.environ, force=True)
    opened = open_context(layout, os.environ, lock_timeout_s=1.0)
    mend(opened)
    yield opened
    if opened.workspace.lock.held:
        opened.close()


def found(context: RecorderContext) -> list[Burst]:
    """Return the bursts, oldest first."""
    ws = context.workspace
    return bursts.list_bursts(ws.db, ws.layout.worktree)[::-1]


def test_pause_ends_a_burst_also_within_one_batch(
    repo: Repo, context: RecorderContext
) -> None:
    """A late start or a spool brings hours of work at once."""
    context.workspace.recorder.idle_gap_ns = _ALWAYS_APART_NS
    for path in ("a", "b", "c"):
        repo.write(path, "person\n")
    context.observer.settle()
    assert [one.ordinal for one in found(context)] == [1, 2, 3]
    assert [one.open for one in found(context)] == [False, False, True]
    assert len({one.id for one in found(context)}) == 3
    assert all(one.first_seq == one.last_seq for one in found(context))


def test_burst_goes_on_in_the_next_batch_and_ends_within_it(
    repo: Repo, context: RecorderContext
) -> None:
    context.workspace.recorder.idle_gap_ns = _NEVER_APART_NS
    repo.write("a", "person\n")
    context.observer.settle()
    repo.write("b", "person\n")
    context.observer.settle()
    assert len(found(context)) == 1
    context.workspace.recorder.idle_gap_ns = _ALWAYS_APART_NS
    repo.write("a", "later\n")
    repo.write("b", "later still\n")
    context.observer.settle()
    assert [one.open for one in found(context)] == [False, False, True]


def test_bursts_of_one_batch_are_the_same_after_a_reindex(
    repo: Repo, context: RecorderContext
) -> None:
    context.workspace.recorder.idle_gap_ns = _ALWAYS_APART_NS
    repo.write("a", "person\n")
    repo.write("b", "person\n")
    context.observer.settle()
    layout, known = context.workspace.layout, [one.id for one in found(context)]
    context.close()
    reindex.reindex(layout)
    db = Db.open(layout.journal, create=False)
    try:
        again = bursts.list_bursts(db, layout.worktree)[::-1]
    finally:
        db.close()
    assert [one.id for one in again] == known
