"""Bursts of sessions without turns: an idle gap ends one, whenever its events are noticed."""

import os
from collections.abc import Iterator

import pytest

from gitshadow.maintenance import reindex, setup
from gitshadow.maintenance.startup_repair import mend
from gitshadow.model import Burst
from gitshadow.recording.context import Desk, open_desk
from gitshadow.store.journal import bursts
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import discover
from tests.support.repo import Repo

_ALWAYS_APART_NS = 1
_NEVER_APART_NS = 3_600_000_000_000


@pytest.fixture
def desk(repo: Repo) -> Iterator[Desk]:
    layout = discover(str(repo.root))
    assert layout is not None
    setup.initialise(layout, os.environ, force=True)
    opened = open_desk(layout, os.environ, lock_timeout_s=1.0)
    mend(opened)
    yield opened
    if opened.workspace.lock.held:
        opened.close()


def found(desk: Desk) -> list[Burst]:
    """Return the bursts, oldest first."""
    ws = desk.workspace
    return bursts.list_bursts(ws.db, ws.layout.worktree)[::-1]


def test_pause_ends_a_burst_also_within_one_batch(repo: Repo, desk: Desk) -> None:
    """A late start or a spool brings hours of work at once."""
    desk.workspace.recorder.idle_gap_ns = _ALWAYS_APART_NS
    for path in ("a", "b", "c"):
        repo.write(path, "person\n")
    desk.observer.settle()
    assert [one.ordinal for one in found(desk)] == [1, 2, 3]
    assert [one.open for one in found(desk)] == [False, False, True]
    assert len({one.id for one in found(desk)}) == 3
    assert all(one.first_seq == one.last_seq for one in found(desk))


def test_burst_goes_on_in_the_next_batch_and_ends_within_it(
    repo: Repo, desk: Desk
) -> None:
    desk.workspace.recorder.idle_gap_ns = _NEVER_APART_NS
    repo.write("a", "person\n")
    desk.observer.settle()
    repo.write("b", "person\n")
    desk.observer.settle()
    assert len(found(desk)) == 1
    desk.workspace.recorder.idle_gap_ns = _ALWAYS_APART_NS
    repo.write("a", "later\n")
    repo.write("b", "later still\n")
    desk.observer.settle()
    assert [one.open for one in found(desk)] == [False, False, True]


def test_bursts_of_one_batch_are_the_same_after_a_reindex(
    repo: Repo, desk: Desk
) -> None:
    desk.workspace.recorder.idle_gap_ns = _ALWAYS_APART_NS
    repo.write("a", "person\n")
    repo.write("b", "person\n")
    desk.observer.settle()
    layout, known = desk.workspace.layout, [one.id for one in found(desk)]
    desk.close()
    reindex.reindex(layout)
    db = Db.open(layout.journal, create=False)
    try:
        again = bursts.list_bursts(db, layout.worktree)[::-1]
    finally:
        db.close()
    assert [one.id for one in again] == known
