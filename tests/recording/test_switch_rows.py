"""A switch is one row: what it leaves in the journal, and what is asked about it afterwards."""

import os
from contextlib import closing

from gitshadow.messages.rows import EventRow
from gitshadow.model import EventKind, HeadChange, RepoPath
from gitshadow.query.rows import event_row
from gitshadow.render.style import View
from gitshadow.render.text import log_lines
from gitshadow.store import machine
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.replay import rebuild
from tests.support.audit import audit
from tests.support.journal_dump import dump_all
from tests.support.repo import Repo
from tests.support.sql_work import counted_sql
from tests.support.studio import Studio, studio_of

A, B, MODED = RepoPath(b"a"), RepoPath(b"b"), RepoPath(b"moded")


def branched(repo: Repo) -> Repo:
    """Give a repository two branches that differ in all that a tree can hold."""
    repo.write("a", "main\n")
    repo.write("moded", "main\n")
    repo.write("gone", "only here\n")
    repo.write("becomes", "a file\n")
    repo.write("dir/inner", "in a directory\n")
    repo.write("old name", "moves\n" * 9)
    repo.write("run", "#!/bin/sh\n")
    repo.commit("main")
    repo.git("checkout", "-q", "-b", "other")
    repo.write("a", "other\n")
    repo.write("moded", "other\n")
    repo.write("new", "only there\n")
    repo.git("rm", "-q", "-r", "gone", "becomes", "dir")
    repo.write("becomes/inner", "below\n")
    repo.write("dir", "a file now\n")
    repo.git("mv", "old name", "new name")
    os.chmod(repo.path("run"), 0o755)
    os.symlink("a", repo.path("link"))
    repo.commit("other")
    repo.git("checkout", "-q", "main")
    return repo


def head_rows(studio: Studio) -> list[HeadChange]:
    wanted = EventFilter(kinds=(EventKind.HEAD,))
    found = events.rows(studio.context.workspace.db, wanted)[::-1]
    return [row for row in found if isinstance(row, HeadChange)]


def switch(studio: Studio, branch: str) -> HeadChange:
    studio.repo.git("checkout", "-q", branch)
    studio.context.observer.settle()
    return head_rows(studio)[-1]


def rebuilt_is_equal(studio: Studio) -> None:
    ws = studio.context.workspace
    ours = machine.current(ws.db)
    assert ours is not None
    with closing(Db.in_memory()) as fresh, fresh.write():
        assert rebuild(fresh, ws.repo, {ours}).broken == ()
        assert dump_all(fresh) == dump_all(ws.db)


def listed(studio: Studio, seq: int, *paths: str) -> list[tuple[str, str]]:
    shown = studio.run("show", id=str(seq), paths=paths)["events"]
    assert isinstance(shown, list)
    return [(row["kind"], row["path"]) for row in shown]


def test_switch_is_one_row_whatever_it_changed(repo: Repo) -> None:
    with studio_of(branched(repo)) as studio:
        head = switch(studio, "other")
        db = studio.context.workspace.db
        assert (head.files, events.last_seq(db)) == (12, head.seq)
        assert listed(studio, head.seq) == [
            ("modify", "a"),
            ("delete", "becomes"),
            ("create", "becomes/inner"),
            ("create", "dir"),
            ("delete", "dir/inner"),
            ("delete", "gone"),
            ("create", "link"),
            ("modify", "moded"),
            ("create", "new"),
            ("create", "new name"),
            ("delete", "old name"),
            ("mode", "run"),
        ]
        back = switch(studio, "main")
        assert back.files == head.files
        rebuilt_is_equal(studio)
    audit(repo)


def test_log_and_journal_do_not_grow_with_the_files(repo: Repo) -> None:
    """Four thousand files were 4,000 rows and 18 MiB."""
    repo.git("checkout", "-q", "-b", "other")
    for number in range(4000):
        repo.write(f"many/{number % 20}/f{number}", f"{number}\n")
    repo.commit("other")
    repo.git("checkout", "-q", "main")
    with studio_of(repo) as studio:
        db, before = studio.context.workspace.db, len(log(studio))
        head = switch(studio, "other")
        assert head.files == 4000
        rows = log(studio)
        assert len(rows) == before + 1
        (line,) = log_lines(rows[:1], View())
        assert line.endswith("(git switched 4000 files)")
        states = db.number("SELECT SUM(LENGTH(path)) FROM file_state")
        events_bytes = db.number("SELECT SUM(LENGTH(note)) FROM events")
        assert states > 40_000 > 400 > events_bytes
        assert db.number("SELECT COUNT(*) FROM events") < 10


def log(studio: Studio, *paths: str) -> list[EventRow]:
    wanted = EventFilter(paths=tuple(RepoPath(os.fsencode(p)) for p in paths) or None)
    found = events.rows(studio.context.workspace.db, wanted)
    return [event_row(row) for row in found]


def test_log_of_a_path_lists_the_switches_that_changed_it(repo: Repo) -> None:
    with studio_of(branched(repo)) as studio:
        studio.write("S", "a", "agent\n")
        studio.commit("agent")
        there, back = switch(studio, "other"), switch(studio, "main")
        studio.hand("b", "untouched by git\n")
        seqs = [row.seq for row in log(studio, "a")]
        assert seqs[:2] == [back.seq, there.seq]
        assert len(seqs) == 3
        assert [row.kind for row in log(studio, "dir", "becomes")] == ["head", "head"]
        assert [row.path for row in log(studio, "b")] == ["b"]
        assert listed(studio, there.seq, "becomes") == [
            ("delete", "becomes"),
            ("create", "becomes/inner"),
        ]


def test_rows_of_a_path_are_asked_for_once_to_find_the_newest(repo: Repo) -> None:
    branched(repo)
    with studio_of(repo) as studio:
        studio.hand("a", "by hand\n")
        repo.commit("by hand")
        switch(studio, "other")
        pipeline, db = studio.context.pipeline, studio.context.workspace.db
        with counted_sql(db) as work:
            newest = pipeline._newest_at(A)
        assert isinstance(newest, HeadChange)
        assert len([one for one in work.statements if "UNION" in one]) == 1


def test_mode_that_no_tree_has_keeps_a_row(repo: Repo) -> None:
    branched(repo)
    os.chmod(repo.path("moded"), 0o600)
    with studio_of(repo) as studio:
        head = switch(studio, "other")
        db = studio.context.workspace.db
        (row,) = events.path_changes([events.get(db, head.seq + 1)])
        assert (row.path, row.switched, head.files) == (MODED, True, 12)
        assert [one and one.mode for one in (row.before, row.after)] == [
            0o100600,
            0o100644,
        ]
        found = events.history(db, None, (A, MODED), head.seq)
        assert [(one.seq, one.path) for one in found] == [
            (head.seq, A),
            (head.seq + 1, MODED),
        ]
        assert ("modify", "moded") in listed(studio, head.seq)
        rebuilt_is_equal(studio)
        # To the moment before: with its bytes and with its mode.
        studio.run("undo", verb="restore", yes=True, at=str(head.seq - 1))
    assert repo.read("moded") == b"main\n"
    assert os.stat(repo.path("moded")).st_mode & 0o777 == 0o600
    audit(repo)


def test_modes_of_an_unusual_umask_are_those_of_the_switch(repo: Repo) -> None:
    branched(repo)
    for name in ("a", "moded", "gone", "becomes", "dir/inner", "old name", "run"):
        os.chmod(repo.path(name), 0o664)
    os.chmod(repo.path("b"), 0o664)
    old = os.umask(0o002)
    try:
        with studio_of(repo) as studio:
            head = switch(studio, "other")
            assert (head.modes, head.files) == ((0o664, 0o755), 12)
            (row,) = events.history(studio.context.workspace.db, None, (A,), head.seq)
            assert row.after is not None
            assert row.after.mode == 0o100664
            rebuilt_is_equal(studio)
    finally:
        os.umask(old)


def test_undo_and_blame_see_through_switches_with_one_number(repo: Repo) -> None:
    branched(repo)
    with studio_of(repo) as studio:
        studio.write("S", "a", "main\nagent\n")
        studio.write("S", "fresh", "agent\n")
        studio.hand("a", "mine\nmain\nagent\n")
        studio.commit("work")
        for _ in range(2):
            switch(studio, "other")
            switch(studio, "main")
        found = studio.run("blame", path="a")
        lines, owners = found["lines"], found["owners"]
        assert isinstance(lines, list)
        assert isinstance(owners, list)
        actors = [owners[owner]["actor"] for _, owner, _ in lines]
        assert actors == ["unknown", "human", "agent"]
        report = studio.run("undo", verb="oops", yes=True)
        assert report["status"] == "reversed"
    assert repo.read("a") == b"mine\nmain\n"
    assert not os.path.lexists(repo.path("fresh"))


def test_restore_of_a_moment_before_a_switch_brings_files_back(repo: Repo) -> None:
    with studio_of(branched(repo)) as studio:
        studio.hand("mine", "mine\n")
        moment = events.last_seq(studio.context.workspace.db)
        switch(studio, "other")
        studio.run("undo", verb="restore", yes=True, at=str(moment))
        rebuilt_is_equal(studio)
    assert repo.git("status", "--short").splitlines() == [
        *(" M a", " M moded", " M run", "?? gone", "?? mine", '?? "old name"'),
    ]
    for path in ("a", "moded", "run", "gone", "old name"):
        assert repo.read(path).decode() == repo.git("show", f"main:{path}") + "\n"
    # No agent created it, so it is left.
    assert os.path.lexists(repo.path("new"))
    audit(repo)


def test_content_that_only_a_switch_brought_is_purged(repo: Repo) -> None:
    branched(repo)
    repo.git("checkout", "-q", "other")
    secret = repo.git("rev-parse", "HEAD:new")
    repo.git("checkout", "-q", "main")
    with studio_of(repo) as studio:
        head = switch(studio, "other")
        switch(studio, "main")
        studio.run("purge", paths=["new"], yes=True)
        db = studio.context.workspace.db
        changed = events.history(db, None, (RepoPath(b"new"),), head.seq)
        assert [row.kind for row in changed] == [EventKind.CREATE, EventKind.DELETE]
        versions = [row.after or row.before for row in changed]
        assert secret not in [one and one.oid for one in versions]
        rebuilt_is_equal(studio)
