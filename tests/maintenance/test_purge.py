"""A purged content is in no object of ours; the rest of the history is as it was."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.errors import RefusedError, UsageError
from gitshadow.maintenance import purge
from gitshadow.maintenance.upkeep import pack_now
from gitshadow.service import in_process
from gitshadow.sharing.mirror import mirror_now
from gitshadow.store.journal import purge as journal
from gitshadow.store.journal.db import Db
from gitshadow.store.purge import Rewriter, is_purged, stand_in
from gitshadow.store.repo import Repo as Store
from tests.support.audit import audit, audit_states
from tests.support.journal_dump import dump
from tests.support.packed import Shelf
from tests.support.purging import (
    SECRET,
    Killed,
    die_at,
    holders,
    leaks,
    play,
    remains,
)
from tests.support.repo import Repo, ten_lines
from tests.support.reports import reasons, states
from tests.support.studio import layout_of, studio_of


def test_the_bytes_are_in_no_object(repo: Repo) -> None:
    """KEEP-09: loose or packed, chain, pin or exposed; after the user's gc, by a search of all."""
    with studio_of(repo) as studio:
        play(studio)
        studio.run("expose", session=studio.session("S1"))
        Path(studio.context.workspace.layout.pages_dir).mkdir()
        Path(studio.context.workspace.layout.pages_dir, "x.html").write_bytes(SECRET)
        assert holders(repo)
        done = studio.run("purge", paths=["k"])
        assert (done["names"], done["contents"]) == (["k"], 3)
        assert remains(done)["objects"] == 3
        audit(repo)
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []
        assert leaks(repo) == []
        left = remains(studio.run("purge", paths=[]))
        assert left["objects"] == 0
        audit(repo)
    repo.fsck()


def test_everything_else_is_as_it_was(repo: Repo) -> None:
    """KEEP-09: other paths' undo works, undoing the purged one says so; rows stay."""
    with studio_of(repo) as studio:
        play(studio)
        before = [
            (row["seq"], row["path"], row["kind"])
            for row in studio.rows("log", limit=1000)
        ]
        studio.run("purge", paths=["k"])
        repo.git("gc", "-q", "--prune=now")
        assert [
            (r["seq"], r["path"], r["kind"]) for r in studio.rows("log", limit=1000)
        ] == before
        report = studio.undo(studio.session("S2"))
        assert states(report)["b"] == "reversed"
        assert reasons(report)["k"] == "purged"
        assert report["status"] == "partial"
        assert repo.read("b") == ten_lines("b").encode()
        assert not repo.exists("k")
        audit(repo)


def test_what_refs_hold_still_rebuilds_the_journal(repo: Repo) -> None:
    """KEEP-09, LAW-07: a reindex after a purge gives the same rows."""
    with studio_of(repo) as studio:
        play(studio)
        studio.run("purge", paths=["k"])
    layout = layout_of(repo)
    with closing(Db.open(layout.journal, create=False)) as db:
        before = dump(db, "events")
    in_process.run(layout, "reindex", {})
    with closing(Db.open(layout.journal, create=False)) as db:
        assert dump(db, "events") == before


def test_a_file_that_still_stands_is_not_recorded_again(repo: Repo) -> None:
    """KEEP-09: until somebody writes to it; a new mtime or mode alone is no write."""
    with studio_of(repo) as studio:
        studio.write("S1", "k", b"one " + SECRET)
        studio.write("S1", "d/n", "other\n")
        studio.end("S1")
        done = studio.run("purge", paths=["k"])
        assert done["on_disk"] == ["k"]
        os.utime(repo.path("k"))
        studio.hand("a", "mine\n")
        studio.write("S2", "b", "agent\n")
        repo.chmod("k", 0o755)
        studio.run("flush")
        os.utime(repo.path("k"))
        studio.run("flush")
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []
        studio.hand("k", "clean\n")
        assert [
            row["kind"] for row in studio.rows("log", limit=1000) if row["path"] == "k"
        ] == [
            "modify",
            "mode",
            "create",
        ]
        audit(repo)
    repo.fsck()


def test_all_names_that_the_file_had_are_cleared(repo: Repo) -> None:
    """KEEP-09: a rename does not hide it."""
    with studio_of(repo) as studio:
        studio.write("S1", "old", b"a long secret line\n" * 9 + SECRET)
        repo.rename("old", "new")
        studio.context.observer.settle()
        studio.end("S1")
        done = studio.run("purge", paths=["new"])
        assert done["names"] == ["new", "old"]
        repo.delete("new")
        studio.context.observer.settle()
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []


def test_a_directory_is_all_that_lies_in_it(repo: Repo) -> None:
    with studio_of(repo) as studio:
        studio.write("S1", "d/e/k", SECRET)
        studio.write("S1", "d2", "other\n")
        studio.end("S1")
        done = studio.run("purge", paths=["d"])
        assert (done["contents"], done["on_disk"]) == (1, ["d/e/k"])
        repo.delete("d")
        studio.context.observer.settle()
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []
        assert studio.run("cat", path="d2")["oid"] == repo.blob("d2")


def test_the_whole_worktree_is_refused(repo: Repo) -> None:
    """Its entries have no name in a tree, so what was written was a tree that Git cannot read."""
    with studio_of(repo) as studio:
        studio.write("S1", "k", SECRET)
        with pytest.raises(UsageError, match="the whole worktree"):
            studio.run("purge", paths=["."])
    repo.fsck()


def test_copies_of_the_users_are_named_and_left(repo: Repo) -> None:
    """KEEP-09: commits, index, and other names in the history."""
    with studio_of(repo) as studio:
        studio.write("S1", "k", SECRET)
        studio.write("S1", "copy", SECRET)
        commit = studio.commit("the user's own")
        repo.write("staged", b"staged " + SECRET)
        repo.git("add", "staged")
        studio.context.observer.settle()
        studio.end("S1")
        index = (repo.git_dir / "index").read_bytes()
        left = remains(studio.run("purge", paths=["k", "staged"]))
        assert left["objects"] == 2
        assert isinstance(left["commits"], list)
        (named,) = left["commits"]
        assert named["commit"] == commit
        assert left["staged"] == ["copy", "k", "staged"]
        assert left["history"] == ["copy"]
        assert named["refs"] == ["refs/heads/main"]
        assert (repo.git_dir / "index").read_bytes() == index
        assert repo.git("rev-parse", "HEAD") == commit
        assert repo.git("show", "HEAD:k") == SECRET.decode()


def test_copy_in_a_commit_that_is_replaced_is_named(repo: Repo) -> None:
    """Git keeps what git-replace(1) hides."""
    repo.write("theirs", SECRET)
    hidden = repo.commit("with the secret")
    repo.git("rm", "-q", "theirs")
    repo.commit("without it")
    shown = repo.git("commit-tree", "HEAD^{tree}", "-m", "nothing to see")
    repo.git("replace", hidden, shown)
    repo.git("reflog", "expire", "--expire=now", "--all")
    with studio_of(repo) as studio:
        studio.write("S1", "k", SECRET)
        studio.end("S1")
        left = remains(studio.run("purge", paths=["k"]))
        assert isinstance(left["commits"], list)
        assert hidden in {one["commit"] for one in left["commits"]}


_STEPS = (
    (purge, "_rename"),
    (purge, "_release"),
    (journal, "rename"),
    (journal, "rename_trees"),
    (Rewriter, "tip"),
    (Store, "move_ref"),
    (shutil, "rmtree"),
)


@pytest.mark.parametrize("at", range(1, 12))
def test_a_crash_at_any_step_is_done_again(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """KEEP-09: an interrupted purge is gone on with by whoever comes next."""
    with studio_of(repo) as studio:
        play(studio)
        die_at(monkeypatch, at, *_STEPS)
        try:
            studio.run("purge", paths=["k"])
        except Killed:
            assert journal.under_way(studio.context.workspace.db) is not None
        monkeypatch.undo()
    with studio_of(repo) as studio:
        assert journal.under_way(studio.context.workspace.db) is None
        assert [
            row for row in studio.rows("log", limit=1000) if row["kind"] == "gap"
        ] == []
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []
        audit(repo)
    repo.fsck()


def test_a_purge_of_what_nobody_recorded_changes_nothing(repo: Repo) -> None:
    with studio_of(repo) as studio:
        studio.hand("a", "mine\n")
        refs = repo.shadow_refs()
        done = studio.run("purge", paths=["nowhere"])
        assert (done["contents"], done["rewritten"]) == (0, [])
        assert repo.shadow_refs() == refs
        assert remains(done)["objects"] == 0


def test_cat_says_that_it_was_purged(repo: Repo) -> None:
    with studio_of(repo) as studio:
        studio.write("S1", "k", SECRET)
        studio.end("S1")
        studio.run("purge", paths=["k"])
        with pytest.raises(RefusedError, match="purged"):
            studio.run("cat", path="k")


def test_nothing_tells_the_content_from_what_stands_for_it() -> None:
    one, other = stand_in("1" * 40, b"salt"), stand_in("1" * 40, b"pepper")  # type: ignore[arg-type]
    assert is_purged(one)
    assert is_purged(other)
    assert one != other
    assert not is_purged(one + b"x")
    assert not is_purged(b"agent-undo: this content was purged\n")


def test_packs_that_hold_it_are_given_to_git(repo: Repo) -> None:
    """KEEP-08: none is removed by us; others stay ours."""
    with studio_of(repo) as studio:
        play(studio)
        assert Shelf(repo).names()
        studio.run("purge", paths=["k"])
        assert Shelf(repo).names() == []
        pack_now(studio.context.workspace.layout, os.environ)
        repo.git("gc", "-q", "--prune=now")
        audit_states(repo)
    repo.fsck()


def test_the_mirror_forgets_it_too(repo: Repo, tmp_path: Path) -> None:
    """KEEP-09, KEEP-06: what is purged or pruned on purpose goes from the mirror at once."""
    repo.git("config", "agent-undo.mirror", str(tmp_path / "mirror"))
    with studio_of(repo) as studio:
        play(studio)
        ws = studio.context.workspace
        place = mirror_now(ws, ws.git)
        assert place is not None
        mirror = Repo(Path(place))
        assert holders(mirror)
        assert studio.run("purge", paths=["k"])["mirror"] is None
        assert holders(mirror) == []
        pinned = [ref for ref in repo.shadow_refs() if "pin-" in ref]
        assert studio.run("prune", all=True)["mirror"] is None
        assert list(mirror.shadow_refs()) == pinned


def test_a_mirror_that_is_away_is_named(repo: Repo, tmp_path: Path) -> None:
    repo.git("config", "agent-undo.mirror", str(tmp_path / "mirror"))
    with studio_of(repo) as studio:
        play(studio)
        ws = studio.context.workspace
        place = mirror_now(ws, ws.git)
        assert place is not None
        Path(place, "HEAD").unlink()
        assert studio.run("prune", all=True)["mirror"] is not None
