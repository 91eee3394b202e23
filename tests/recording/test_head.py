"""Moves of HEAD: what Git switched, and what somebody else wrote meanwhile."""

from collections.abc import Iterator, Sequence

import pytest

from gitshadow.capture.drafts import BatchTime, Seen
from gitshadow.model import FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.recording.head import (
    HeadMove,
    HeadMoveKind,
    HeadPosition,
    read_moves,
    reflog_mark,
    steps_of,
)
from gitshadow.recording.switches import SwitchStage, Witness, split_switched
from gitshadow.store.backends.ref_files import FileHeadLog
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
    return FileState(FileVersion(oid, mode), STAT, 0)


def tip(store: Store) -> Oid:
    oid = store.head()[1]
    assert oid is not None
    return oid


def seen(path: str, before: FileState | None, after: FileState | None) -> Seen:
    return Seen(RepoPath(path.encode()), before, after)


def moves_of(
    repo: Repo, store: Store, ref: str | None, oid: Oid | None, mark: str = ""
) -> tuple[HeadMove, ...]:
    return read_moves(store, HeadPosition(ref, oid, mark))


def moved(repo: Repo, store: Store, *changes: str) -> tuple[HeadMove, ...]:
    """Commit what the test did to the tree, or run git commands; return the moves of HEAD."""
    ref, oid = store.head()
    mark = reflog_mark(FileHeadLog(str(repo.git_dir)), oid)
    for change in changes:
        words = change.split()
        if len(words) == 1:
            repo.commit(change)
        else:
            repo.git(*words)
    return moves_of(repo, store, ref, oid, mark)


def plain_witness(store: Store) -> Witness:
    return Witness(
        data_of=store.read_blob,
        staged=lambda _: {},
        converted=lambda _: (),
        quiet=lambda _: False,
    )


def stages_of(
    store: Store, moves: Sequence[HeadMove], *changes: Seen
) -> tuple[list[SwitchStage], list[Seen]]:
    moment = BatchTime(0, 1, lambda _: None)
    return split_switched(changes, steps_of(store, moves), moment, plain_witness(store))


def split(
    store: Store, moves: Sequence[HeadMove], *changes: Seen
) -> tuple[list[bytes], list[bytes]]:
    """Return the paths that Git switched and the others."""
    stages, rest = stages_of(store, moves, *changes)
    assert not any(stage.written for stage in stages)
    gits = [bytes(one.path) for stage in stages for one in stage.switched]
    return gits, [bytes(one.path) for one in rest]


def test_head_that_stayed_has_not_moved(repo: Repo, store: Store) -> None:
    assert moves_of(repo, store, *store.head()) == ()


def test_head_that_cannot_be_read_has_not_moved(repo: Repo, store: Store) -> None:
    ref, oid = store.head()
    repo.write(".git/refs/heads/main", "")
    assert moves_of(repo, store, ref, oid) == ()


def test_commit_is_described_by_its_subject(repo: Repo, store: Store) -> None:
    (move,) = moved(repo, store, "second")
    assert move.describe() == f'commit {tip(store)[:8]} "second"'
    assert (move.is_checkout, move.kind) == (False, HeadMoveKind.COMMIT)


def test_checkout_is_described_by_its_ends(repo: Repo, store: Store) -> None:
    was = tip(store)
    (move,) = moved(repo, store, "checkout -q -b side")
    assert move.is_checkout
    assert move.describe() == f"HEAD moved from main ({was[:10]}) to side ({was[:10]})"


def test_describe_names_detached(repo: Repo, store: Store) -> None:
    was = tip(store)
    (move,) = moved(repo, store, "checkout -q --detach")
    assert move.describe() == (
        f"HEAD moved from main ({was[:10]}) to detached ({was[:10]})"
    )


def kinds(moves: Sequence[HeadMove]) -> list[tuple[str, str | None]]:
    return [(move.kind.value, move.new_ref) for move in moves]


MAIN, SIDE = "refs/heads/main", "refs/heads/side"


@pytest.fixture
def forked(repo: Repo) -> Repo:
    """Return R with a branch `side` that changed `a`, and a change of `b` on main."""
    repo.git("branch", "side")
    repo.write("b", "main\n")
    repo.commit("on-main")
    repo.git("checkout", "-q", "side")
    repo.write("a", "side\n")
    repo.commit("on-side")
    repo.git("checkout", "-q", "main")
    return repo


def test_every_step_is_seen_when_nobody_looked_in_between(
    forked: Repo, store: Store
) -> None:
    forked.write("b", "more\n")
    moves = moved(forked, store, "more", "checkout -q side", "checkout -q main")
    assert kinds(moves) == [("commit", MAIN), ("switch", SIDE), ("switch", MAIN)]
    assert moves[0].new == store.head()[1]


def test_head_that_is_back_has_moved(forked: Repo, store: Store) -> None:
    moves = moved(forked, store, "checkout -q side", "checkout -q main")
    assert kinds(moves) == [("switch", SIDE), ("switch", MAIN)]


def test_commit_and_reset_are_seen_when_head_is_back(repo: Repo, store: Store) -> None:
    moves = moved(repo, store, "second", "reset -q --hard HEAD~1")
    assert kinds(moves) == [("commit", MAIN), ("either", MAIN)]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("merge -q --no-edit side", "switch"),
        ("cherry-pick side", "switch"),
        ("rebase -q side", "switch"),
        ("commit -q --amend -m other", "commit"),
        ("reset -q --hard side", "either"),
        ("pull -q --rebase . side", "switch"),
    ],
)
def test_each_command_is_one_move(
    forked: Repo, store: Store, command: str, kind: str
) -> None:
    """A rebase has several entries in the log and is one move."""
    assert kinds(moved(forked, store, command)) == [(kind, MAIN)]


def test_revert_is_a_move_that_writes(forked: Repo, store: Store) -> None:
    assert kinds(moved(forked, store, "revert --no-edit HEAD")) == [("switch", MAIN)]


def test_two_rebases_are_two_moves(forked: Repo, store: Store) -> None:
    moves = moved(forked, store, "rebase -q side", "rebase -q --onto HEAD~2 HEAD~1")
    assert kinds(moves) == [("switch", MAIN), ("switch", MAIN)]


def test_stash_moves_nothing(forked: Repo, store: Store) -> None:
    forked.write("b", "more\n")
    assert moved(forked, store, "stash push -q", "stash pop -q") == ()


def test_renamed_branch_is_a_move_without_steps_left_out(
    repo: Repo, store: Store
) -> None:
    (move,) = moved(repo, store, "branch -m trunk")
    assert (move.old_ref, move.new_ref) == (MAIN, "refs/heads/trunk")
    assert "reflog" not in move.describe()


@pytest.mark.parametrize("lost", ["off", "expired", "cut"])
def test_move_says_so_when_the_reflog_does_not_show_it(
    forked: Repo, store: Store, lost: str
) -> None:
    ref, oid = store.head()
    mark = reflog_mark(FileHeadLog(str(forked.git_dir)), oid)
    if lost == "off":
        forked.git("config", "core.logAllRefUpdates", "false")
        (forked.git_dir / "logs" / "HEAD").unlink()
    forked.git("checkout", "-q", "side")
    if lost == "expired":
        forked.git("reflog", "expire", "--expire=now", "--all")
    elif lost == "cut":
        log = forked.git_dir / "logs" / "HEAD"
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:1]))
    (move,) = moves_of(forked, store, ref, oid, mark)
    assert move.kind is HeadMoveKind.EITHER
    assert move.describe().endswith(", in steps that its reflog does not show")
    assert (move.old_ref, move.new_ref) == (MAIN, SIDE)


def test_steps_are_found_again_when_the_reflog_was_rewritten(
    forked: Repo, store: Store
) -> None:
    """What is left of it may still lead from where HEAD was."""
    ref, oid = store.head()
    mark = reflog_mark(FileHeadLog(str(forked.git_dir)), oid)
    forked.git("checkout", "-q", "side")
    log = forked.git_dir / "logs" / "HEAD"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[2:]))
    assert kinds(moves_of(forked, store, ref, oid, mark)) == [("switch", SIDE)]


def test_many_moves_are_folded_but_for_the_newest(repo: Repo, store: Store) -> None:
    ref, oid = store.head()
    log = repo.git_dir / "logs" / "HEAD"
    mark = reflog_mark(FileHeadLog(str(repo.git_dir)), oid)
    line = f"{oid} {oid} u <u@x> 1700000000 +0000\tcheckout: moving from main to "
    with log.open("a") as out:
        out.write(f"{line}x\n{line}main\n" * 125)
    moves = moves_of(repo, store, ref, oid, mark)
    assert len(moves) == 101
    assert moves[0].steps == 150
    assert "in 150 steps" in moves[0].describe()
    assert moves[-1].new_ref == ref


def went(repo: Repo, store: Store, change: str) -> HeadMove:
    """Commit what the test did to the tree; return that as a move of which no step is known."""
    (move,) = moved(repo, store, change)
    return move._replace(words=None)


def test_split_gives_git_what_equals_both_heads(repo: Repo, store: Store) -> None:
    was = state(store, repo.read("a"))
    repo.write("a", "new\n")
    move = went(repo, store, "edit")
    now = state(store, b"new\n")
    assert split(store, [move], seen("a", was, now)) == ([b"a"], [])


def test_split_leaves_what_was_edited_before_or_after(repo: Repo, store: Store) -> None:
    was, mine = state(store, repo.read("a")), state(store, b"mine\n")
    repo.write("a", "new\n")
    move = went(repo, store, "edit")
    now = state(store, b"new\n")
    assert split(store, [move], seen("a", mine, now)) == ([], [b"a"])
    assert split(store, [move], seen("a", was, mine)) == ([], [b"a"])


def test_split_leaves_paths_that_are_the_same_in_both_heads(
    repo: Repo, store: Store
) -> None:
    was = state(store, repo.read("b"))
    repo.write("a", "new\n")
    move = went(repo, store, "edit")
    assert split(store, [move], seen("b", was, state(store, b"x"))) == ([], [b"b"])
    assert split(store, [move], seen("n", None, state(store, b"x"))) == ([], [b"n"])


def test_split_sees_created_and_deleted_paths(repo: Repo, store: Store) -> None:
    was = state(store, repo.read("a"))
    repo.delete("a")
    repo.write("n", "n\n")
    move = went(repo, store, "swap")
    changes = seen("a", was, None), seen("n", None, state(store, b"n\n"))
    assert split(store, [move], *changes) == ([b"a", b"n"], [])


def test_split_takes_a_rename_when_both_ends_are_gits(repo: Repo, store: Store) -> None:
    was = state(store, repo.read("a"))
    repo.rename("a", "d/a")
    move = went(repo, store, "rename")
    assert split(store, [move], seen("a", was, None), seen("d/a", None, was)) == (
        [b"a", b"d/a"],
        [],
    )
    assert split(store, [move], seen("a", was, None), seen("e", None, was)) == (
        [b"a"],
        [b"e"],
    )


def test_split_compares_modes(repo: Repo, store: Store) -> None:
    data = repo.read("a")
    repo.chmod("a", 0o755)
    move = went(repo, store, "chmod")
    was, now = state(store, data), state(store, data, 0o100755)
    assert split(store, [move], seen("a", was, now)) == ([b"a"], [])
    assert split(store, [move], seen("a", was, was)) == ([], [b"a"])


def test_split_allows_for_line_endings(repo: Repo, store: Store) -> None:
    lines = repo.read("a")
    was = state(store, lines.replace(b"\n", b"\r\n"))
    repo.write("a", "one\ntwo\n")
    move = went(repo, store, "edit")
    now = state(store, b"one\r\ntwo\r\n")
    assert split(store, [move], seen("a", was, now)) == ([b"a"], [])
    assert split(store, [move], seen("a", was, state(store, b"one\r\n"))) == (
        [],
        [b"a"],
    )


def test_split_works_from_an_unborn_head(repo: Repo, store: Store) -> None:
    tip = Oid(repo.git("rev-parse", "HEAD"))
    move = HeadMove("refs/heads/main", None, "refs/heads/main", tip)
    now = state(store, repo.read("a"))
    assert split(store, [move], seen("a", None, now)) == ([b"a"], [])
    back = HeadMove("refs/heads/main", tip, "refs/heads/new", None)
    assert split(store, [back], seen("a", now, None)) == ([b"a"], [])


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
    assert split(store, [move], seen("a", was, state(store, b"y"))) == ([], [b"a"])
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
    moves = moves_of(repo, store, ref, old)
    named = [move for move in moves if move.names is not None]
    assert [move.names for move in named] == ([agent] if agent else [])
    assert all(move.describe().endswith(" that names aider") for move in named)


def test_move_names_nobody_when_head_went_back(repo: Repo, store: Store) -> None:
    ref, old = store.head()
    repo.git("commit", "--quiet", "--allow-empty", "-m", SIGNED)
    new = store.head()[1]
    repo.git("reset", "--quiet", "--hard", str(old))
    (move,) = moves_of(repo, store, ref, new)
    assert (move.names, move.old, move.new) == (None, new, old)


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
        return went(repo, store, "directory")

    changes = [seen("d", link, None), seen("d/x", None, file)]
    move = change()
    assert split(store, [move], *changes) == (
        [b"d", b"d/x"],
        [],
    )
    back = HeadMove(move.new_ref, move.new, move.old_ref, move.old)
    changes = [seen("d/x", file, None), seen("d", None, link)]
    assert split(store, [back], *changes) == (
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
    move = went(repo, store, "directory")
    changes = [
        seen("d", mine, None),
        seen("d/x", None, file),
        seen("e", None, file),
    ]
    assert split(store, [move], *changes) == (
        [b"e"],
        [b"d", b"d/x"],
    )


def trail_of(
    store: Store, moves: Sequence[HeadMove], change: Seen
) -> list[tuple[str, bytes | None]]:
    """Return what a path came to hold: by whom, and the bytes."""
    stages, rest = stages_of(store, moves, change)
    found: list[tuple[str, Seen]] = []
    for stage in stages:
        for who, drafts in (("somebody", stage.written), ("git", stage.switched)):
            found += [(who, Seen(one.path, one.before, one.after)) for one in drafts]
    found += [("somebody", one) for one in rest]
    chain = [change.before, *(one.after for _, one in found)]
    assert [one.before for _, one in found] == chain[:-1]
    assert chain[-1] == change.after
    return [
        (who, store.read_blob(one.after.version.oid) if one.after else None)
        for who, one in found
    ]


@pytest.mark.parametrize(
    ("steps", "trail"),
    [
        (
            ["mine", "checkout -q side"],
            [("somebody", b"mine\n"), ("git", b"side\n")],
        ),
        (
            ["mine", "checkout -q side", "checkout -q main"],
            [("somebody", b"mine\n")],
        ),
        (["mine", "reset -q --soft HEAD~1"], [("somebody", b"mine\n")]),
    ],
    ids=["there", "there and back", "soft reset"],
)
def test_what_was_committed_unseen_is_somebodys_and_what_came_after_is_gits(
    forked: Repo, store: Store, steps: list[str], trail: list[tuple[str, bytes]]
) -> None:
    was = state(store, forked.read("a"))
    forked.write("a", "mine\n")
    moves = moved(forked, store, *steps)
    change = seen("a", was, state(store, trail[-1][1]))
    assert trail_of(store, moves, change) == trail


def test_switch_is_gits_when_the_other_branch_is_where_head_was(
    repo: Repo, store: Store
) -> None:
    """The two ends are the same commit, and what was committed in between is gone again."""
    repo.git("branch", "old")
    was = repo.read("a")
    repo.write("a", "mine\n")
    moves = moved(repo, store, "mine", "checkout -q old")
    change = seen("a", state(store, b"mine\n"), state(store, was))
    assert trail_of(store, moves, change) == [("git", was)]


def test_what_is_written_after_a_switch_is_somebodys(
    forked: Repo, store: Store
) -> None:
    was = state(store, forked.read("a"))
    moves = moved(forked, store, "checkout -q side")
    change = seen("a", was, state(store, b"mine\n"))
    assert trail_of(store, moves, change) == [
        ("git", b"side\n"),
        ("somebody", b"mine\n"),
    ]


def test_what_a_reset_discards_is_somebodys_loss(repo: Repo, store: Store) -> None:
    """Uncommitted bytes that are written over are an ordinary write, which undo returns."""
    was = repo.read("a")
    repo.write("a", "second\n")
    repo.commit("second")
    moves = moved(repo, store, "reset -q --hard HEAD~1")
    dirty = seen("a", state(store, b"dirty\n"), state(store, was))
    assert trail_of(store, moves, dirty) == [("somebody", was)]
    clean = seen("a", state(store, b"second\n"), state(store, was))
    assert trail_of(store, moves, clean) == [("git", was)]


def test_several_switches_in_a_row_are_one(forked: Repo, store: Store) -> None:
    forked.git("checkout", "-q", "-b", "third", "side")
    forked.write("a", "third\n")
    forked.commit("third")
    forked.git("checkout", "-q", "main")
    was = state(store, forked.read("a"))
    moves = moved(forked, store, "checkout -q side", "checkout -q third")
    change = seen("a", was, state(store, b"third\n"))
    assert trail_of(store, moves, change) == [("git", b"third\n")]
