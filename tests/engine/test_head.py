"""Moves of HEAD: what Git switched, and what somebody else wrote meanwhile."""

from collections.abc import Iterator

import pytest

from gitshadow.capture.drafts import Draft
from gitshadow.engine.head import HeadMove, read_move, split_switched
from gitshadow.model import EventKind, FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.store.files import digest
from gitshadow.store.layout import discover
from gitshadow.store.repo import Repo as Store
from tests.support.repo import Repo

STAT = StatKey(0, 0, 0, 0)


@pytest.fixture
def store(repo: Repo) -> Iterator[Store]:
    found = discover(str(repo.root))
    assert found is not None
    made = Store.open(found)
    yield made
    made.close()


def state(store: Store, data: bytes, mode: int = 0o100644) -> FileState:
    oid = store.write_blob(data)
    return FileState(FileVersion(oid, mode), digest(data), STAT, 0)


def draft(
    path: str,
    before: FileState | None,
    after: FileState | None,
    old_path: str | None = None,
) -> Draft:
    return Draft(
        kind=EventKind.MODIFY,
        path=RepoPath(path.encode()),
        old_path=RepoPath(old_path.encode()) if old_path else None,
        before=before,
        after=after,
        begin_ns=0,
        end_ns=1,
    )


def moved(repo: Repo, store: Store, change: str) -> HeadMove:
    """Commit what the test did to the tree; return the move of HEAD that it made."""
    ref, oid = store.head()
    repo.commit(change)
    move = read_move(store, ref, oid)
    assert move is not None
    return move


def paths_of(split: tuple[list[Draft], list[Draft]]) -> tuple[list[bytes], list[bytes]]:
    switched, others = split
    return [one.path for one in switched], [one.path for one in others]


def split(
    store: Store, move: HeadMove, *drafts: Draft
) -> tuple[list[bytes], list[bytes]]:
    return paths_of(split_switched(store, move, drafts, store.read_blob))


# -- the move itself ---------------------------------------------------------------------------


def test_read_move_is_none_when_head_stayed(repo: Repo, store: Store) -> None:
    assert read_move(store, *store.head()) is None


def test_read_move_is_none_when_head_cannot_be_read(repo: Repo, store: Store) -> None:
    ref, oid = store.head()
    repo.write(".git/refs/heads/main", "")
    assert read_move(store, ref, oid) is None


def test_read_move_tells_a_commit_from_a_checkout(repo: Repo, store: Store) -> None:
    ref, old = store.head()
    new = repo.commit("second")
    move = read_move(store, ref, old)
    assert move == HeadMove("refs/heads/main", old, "refs/heads/main", Oid(new))
    assert not move.is_checkout
    repo.git("checkout", "-q", "-b", "side")
    away = read_move(store, ref, Oid(new))
    assert away is not None
    assert away.is_checkout
    assert away.describe() == (
        f"HEAD moved from main ({new[:10]}) to side ({new[:10]})"
    )


def test_describe_names_detached_and_unborn(repo: Repo, store: Store) -> None:
    tip = repo.git("rev-parse", "HEAD")
    repo.git("checkout", "-q", "--detach")
    move = read_move(store, "refs/heads/main", None)
    assert move is not None
    assert move.describe() == (
        f"HEAD moved from main (unborn) to detached ({tip[:10]})"
    )


# -- what was switched -------------------------------------------------------------------------


def test_split_gives_git_what_equals_both_heads(repo: Repo, store: Store) -> None:
    was = state(store, repo.read("a"))
    repo.write("a", "new\n")
    move = moved(repo, store, "edit")
    now = state(store, b"new\n")
    assert split(store, move, draft("a", was, now)) == ([b"a"], [])


def test_split_leaves_what_was_edited_before_or_after(repo: Repo, store: Store) -> None:
    was, mine = state(store, repo.read("a")), state(store, b"mine\n")
    repo.write("a", "new\n")
    move = moved(repo, store, "edit")
    now = state(store, b"new\n")
    assert split(store, move, draft("a", mine, now)) == ([], [b"a"])
    assert split(store, move, draft("a", was, mine)) == ([], [b"a"])


def test_split_leaves_paths_that_are_the_same_in_both_heads(
    repo: Repo, store: Store
) -> None:
    was = state(store, repo.read("b"))
    repo.write("a", "new\n")
    move = moved(repo, store, "edit")
    assert split(store, move, draft("b", was, state(store, b"x"))) == ([], [b"b"])
    assert split(store, move, draft("n", None, state(store, b"x"))) == ([], [b"n"])


def test_split_sees_created_and_deleted_paths(repo: Repo, store: Store) -> None:
    was = state(store, repo.read("a"))
    repo.delete("a")
    repo.write("n", "n\n")
    move = moved(repo, store, "swap")
    drafts = draft("a", was, None), draft("n", None, state(store, b"n\n"))
    assert split(store, move, *drafts) == ([b"a", b"n"], [])


def test_split_takes_a_rename_when_both_ends_are_gits(repo: Repo, store: Store) -> None:
    was = state(store, repo.read("a"))
    repo.rename("a", "d/a")
    move = moved(repo, store, "rename")
    assert split(store, move, draft("d/a", was, was, "a")) == ([b"d/a"], [])
    assert split(store, move, draft("e", was, was, "a")) == ([], [b"e"])


def test_split_compares_modes(repo: Repo, store: Store) -> None:
    data = repo.read("a")
    repo.chmod("a", 0o755)
    move = moved(repo, store, "chmod")
    was, now = state(store, data), state(store, data, 0o100755)
    assert split(store, move, draft("a", was, now)) == ([b"a"], [])
    assert split(store, move, draft("a", was, was)) == ([], [b"a"])


def test_split_allows_for_line_endings(repo: Repo, store: Store) -> None:
    lines = repo.read("a")
    was = state(store, lines.replace(b"\n", b"\r\n"))
    repo.write("a", "one\ntwo\n")
    move = moved(repo, store, "edit")
    now = state(store, b"one\r\ntwo\r\n")
    assert split(store, move, draft("a", was, now)) == ([b"a"], [])
    assert split(store, move, draft("a", was, state(store, b"one\r\n"))) == ([], [b"a"])


def test_split_works_from_an_unborn_head(repo: Repo, store: Store) -> None:
    tip = Oid(repo.git("rev-parse", "HEAD"))
    move = HeadMove("refs/heads/main", None, "refs/heads/main", tip)
    now = state(store, repo.read("a"))
    assert split(store, move, draft("a", None, now)) == ([b"a"], [])
    back = HeadMove("refs/heads/main", tip, "refs/heads/new", None)
    assert split(store, back, draft("a", now, None)) == ([b"a"], [])


def test_split_works_when_the_remote_has_the_committed_blob(
    repo: Repo, store: Store
) -> None:
    """A partial clone may not have what HEAD names: then nothing is Git's by text."""
    ref, oid = store.head()
    was = state(store, repo.read("a"))
    repo.git("update-index", "--cacheinfo", f"100644,{'1' * 40},a")
    tree = repo.git("write-tree", "--missing-ok")
    new = Oid(repo.git("commit-tree", "-m", "x", tree))
    move = HeadMove(ref, oid, ref, new)
    assert split(store, move, draft("a", was, state(store, b"y"))) == ([], [b"a"])
    repo.damaged = True


SIGNED = "x\n\nCo-authored-by: aider (m) <aider@aider.chat>\n"


@pytest.mark.parametrize(
    ("messages", "agent"),
    [(["own"], None), (["own", SIGNED], "aider"), ([SIGNED, "own"], "aider")],
)
def test_move_names_the_agent_that_a_new_commit_names(
    repo: Repo, store: Store, messages: list[str], agent: str | None
) -> None:
    ref, old = store.head()
    for message in messages:
        repo.git("commit", "--quiet", "--allow-empty", "-m", message)
    move = read_move(store, ref, old)
    assert move is not None
    assert move.names == agent
    assert move.describe().endswith(" that names aider") is (agent is not None)


def test_move_names_nobody_when_head_went_back(repo: Repo, store: Store) -> None:
    ref, old = store.head()
    repo.git("commit", "--quiet", "--allow-empty", "-m", SIGNED)
    new = store.head()[1]
    repo.git("reset", "--quiet", "--hard", str(old))
    assert read_move(store, ref, new) == HeadMove(ref, new, ref, old)


def test_split_sees_a_link_that_gives_way_to_a_directory(
    repo: Repo, store: Store
) -> None:
    """CAP-18: and the other way round; a directory is no file of the other HEAD."""
    repo.symlink("d", "a")
    repo.commit("link")
    link, file = state(store, b"a", 0o120000), state(store, b"x\n")

    def change() -> HeadMove:
        repo.delete("d")
        repo.write("d/x", "x\n")
        return moved(repo, store, "directory")

    drafts = [draft("d", link, None), draft("d/x", None, file)]
    move = change()
    assert paths_of(split_switched(store, move, drafts, store.read_blob)) == (
        [b"d", b"d/x"],
        [],
    )
    back = HeadMove(move.new_ref, move.new, move.old_ref, move.old)
    drafts = [draft("d/x", file, None), draft("d", None, link)]
    assert paths_of(split_switched(store, back, drafts, store.read_blob)) == (
        [b"d/x", b"d"],
        [],
    )


def test_split_leaves_what_needs_room_that_somebody_else_makes(
    repo: Repo, store: Store
) -> None:
    """A move is recorded first: it cannot put a file below a link that is still there."""
    repo.symlink("d", "a")
    repo.commit("link")
    mine, file = state(store, b"b", 0o120000), state(store, b"x\n")
    repo.delete("d")
    repo.write("d/x", "x\n")
    repo.write("e", "x\n")
    move = moved(repo, store, "directory")
    drafts = [
        draft("d", mine, None),
        draft("d/x", None, file),
        draft("e", None, file),
    ]
    assert paths_of(split_switched(store, move, drafts, store.read_blob)) == (
        [b"e"],
        [b"d", b"d/x"],
    )
