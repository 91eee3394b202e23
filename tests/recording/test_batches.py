"""One batch with several changes: what is a rename in it, and what the refs give back of it."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.model import EventKind
from gitshadow.platform.linux import files as linux_files
from gitshadow.store import machine
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.replay import rebuild
from tests.support.context import desk_of
from tests.support.journal_dump import dump_all
from tests.support.repo import Repo


def test_files_that_git_switched_are_no_renames(repo: Repo) -> None:
    """Git deletes one empty file and creates another, in the inode that it just gave back."""
    repo.write("p/empty", "")
    repo.write("p/same", "the same bytes\n")
    repo.commit("old")
    repo.git("branch", "old")
    repo.git("rm", "-q", "p/empty", "p/same")
    repo.write("r/empty", "")
    repo.write("r/same", "the same bytes\n")
    repo.commit("new")
    with desk_of(repo) as context:
        repo.git("checkout", "-q", "old")
        context.observer.settle()
        rows = events.changes(context.workspace.db, EventFilter())
        found = {(row.path, row.kind) for row in rows if row.switched}
    assert found == {
        (b"p/empty", EventKind.CREATE),
        (b"p/same", EventKind.CREATE),
        (b"r/empty", EventKind.DELETE),
        (b"r/same", EventKind.DELETE),
    }


def test_three_paths_that_change_places_are_rebuilt_from_the_refs(repo: Repo) -> None:
    """LAW-07: each commit's diff is exactly its rows, whatever had to make room first."""
    repo.write("p/f", "one\n")
    repo.write("U", "file\n")
    with desk_of(repo) as context:
        repo.delete("U")
        os.rename(repo.path("p"), repo.path("U"))
        repo.write("p", "x\n")
        repo.mkdir("U/9")
        context.observer.settle()
        ws = context.workspace
        ours = machine.current(ws.db)
        assert ours is not None
        fresh = Db.open(str(repo.root.parent / "fresh.db"), create=True)
        with closing(fresh), fresh.write():
            assert rebuild(fresh, ws.repo, {ours}).broken == ()
            assert dump_all(fresh) == dump_all(ws.db)


@pytest.mark.parametrize("knows_births", [True, False])
def test_file_from_elsewhere_is_marked_where_no_birth_is_known_too(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows_births: bool
) -> None:
    """Without a time of birth an old mtime tells: a copy that keeps it is then left, too."""
    if not knows_births:
        monkeypatch.setattr(linux_files, "_statx", lambda: None)
    (tmp_path / "old").write_text("old\n")
    os.utime(tmp_path / "old", (1_000_000_000, 1_000_000_000))
    with desk_of(repo) as context:
        context.observer.settle()
        os.rename(tmp_path / "old", repo.path("old"))
        repo.write("new", "new\n")
        repo.write("empty", "")
        context.observer.settle()
        rows = events.changes(
            context.workspace.db, EventFilter(kinds=(EventKind.CREATE,))
        )
        marks = {row.path: row.moved_in for row in rows}
    assert marks == {b"old": True, b"new": False, b"empty": False}
