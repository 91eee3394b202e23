"""Objects, refs by compare-and-swap, and nothing else, whatever reads the repository."""

import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gitshadow.errors import ShadowError, StaleTipError, StoreError, UnsupportedError
from gitshadow.model import Oid, RepoPath
from gitshadow.store.content_diff import unified_diff
from gitshadow.store.objects import NewCommit
from gitshadow.store.repo import RefLockedError
from gitshadow.store.repo import Repo as Store
from tests.support import kinds
from tests.support.engines import BY_GIT, PLAIN, SHA256, SOME, TABLES, Case, on_cases
from tests.support.kinds import Kind
from tests.support.repo import Repo
from tests.support.studio import layout_of

REF = "refs/agent-undo/s-1"


@pytest.fixture(params=SOME, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    made: Case = request.param
    return made


@pytest.fixture
def repo_kind(case: Case) -> Kind:
    return kinds.needed(case.kind)


@contextmanager
def opened(repo: Repo, case: Case = PLAIN) -> Iterator[Store]:
    store = Store.open(layout_of(repo), case.engine)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(repo: Repo, case: Case) -> Iterator[Store]:
    with opened(repo, case) as made:
        yield made


def gone(store: Store) -> Oid:
    """Return the id of an object that there is not."""
    return Oid("1" * store.format.digits)


def commit_of(store: Store, message: bytes, *parents: Oid, **fields: object) -> Oid:
    """Store a commit of the empty tree whose author and times are plain."""
    plain: dict[str, object] = {
        "author_name": b"claude-code",
        "author_email": b"claude-code@agent-undo.invalid",
        "author_time": 2_000_000_000,
        "committer_time": 1_000_000_000,
        "tree": store.write_tree(b""),
        **fields,
    }
    return store.write_commit(
        NewCommit(parents=parents, message=message, **plain)  # type: ignore[arg-type]
    )


def ours(text: str) -> bytes:
    return f"{text}\n\nAgent-Undo-Format: 1\n".encode()


@on_cases(PLAIN, BY_GIT)
def test_open_refuses_an_unknown_extension(repo: Repo, case: Case) -> None:
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.unheardOf", "true")
    with pytest.raises(UnsupportedError) as caught:
        Store.open(layout_of(repo), case.engine)
    assert caught.value.hint == "this repository needs a newer git: update git"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_open_refuses_another_owners_repository(repo: Repo, case: Case) -> None:
    os.chown(repo.root, 65534, 65534)
    os.chown(repo.root / ".git", 65534, 65534)
    with pytest.raises(UnsupportedError) as caught:
        Store.open(layout_of(repo), case.engine)
    os.chown(repo.root / ".git", 0, 0)
    os.chown(repo.root, 0, 0)
    assert "safe.directory" in str(caught.value.hint)
    assert str(repo.root) in str(caught.value.hint)


def test_open_refuses_a_bare_repository(repo: Repo, case: Case) -> None:
    repo.git("config", "core.bare", "true")
    with pytest.raises(UnsupportedError, match="is bare"):
        Store.open(layout_of(repo), case.engine)


def test_open_reads_a_partial_clone(repo: Repo, case: Case) -> None:
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.partialClone", "origin")
    with opened(repo, case) as store:
        assert store.head() == ("refs/heads/main", repo.git("rev-parse", "HEAD"))


def test_open_ignores_what_the_environment_says(
    repo: Repo, case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Repo.create(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.root / ".git/objects"))
    with opened(repo, case) as store:
        oid = store.write_blob(b"mine")
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_OBJECT_DIRECTORY")
    assert repo.git("cat-file", "-p", oid) == "mine"
    assert other.git("cat-file", "-t", oid, check=False) == ""


def test_blob_is_the_raw_bytes(repo: Repo, store: Store) -> None:
    repo.git("config", "core.autocrlf", "true")
    data = bytes(range(256)) + b"\r\n"
    oid = store.write_blob(data)
    assert oid == repo.git("hash-object", "--no-filters", "--stdin", stdin=data)
    assert store.read_blob(oid) == data
    assert store.has(oid)


def test_read_says_what_is_wrong(repo: Repo, store: Store) -> None:
    head = Oid(repo.git("rev-parse", "HEAD"))
    absent = gone(store)
    assert not store.has(absent)
    with pytest.raises(StoreError, match=f"could not read object {absent}"):
        store.read_blob(absent)
    with pytest.raises(StoreError, match="not a blob"):
        store.read_blob(head)
    with pytest.raises(StoreError, match="not a tree"):
        store.read_tree(head)
    with pytest.raises(StoreError):
        store.commit(absent)


def test_reader_of_a_history_finds_what_is_packed_and_what_is_not(
    repo: Repo, store: Store
) -> None:
    repo.write("a", "packed\n")
    repo.commit("packed")
    repo.git("gc", "-q")
    packed = Oid(repo.git("rev-parse", "HEAD:a"))
    loose, read = store.write_blob(b"loose"), store.packed_first()
    assert (read(packed), read(loose)) == (b"packed\n", b"loose")
    for wrong in (gone(store), Oid(repo.git("rev-parse", "HEAD")), Oid("no id")):
        with pytest.raises(StoreError):
            read(wrong)


def test_read_raises_when_an_object_was_truncated(repo: Repo, store: Store) -> None:
    oid = store.write_blob(b"will be lost")
    path = f".git/objects/{oid[:2]}/{oid[2:]}"
    repo.chmod(path, 0o644)
    repo.write(path, b"")
    with pytest.raises(StoreError):
        store.read_blob(oid)


def test_objects_are_found_when_git_packed_them_meanwhile(
    repo: Repo, store: Store
) -> None:
    tip = commit_of(store, ours("Baseline"))
    store.create_ref(REF, tip)
    repo.git("gc", "-q", "--prune=now")
    assert store.commit(tip).message == ours("Baseline")
    repo.git("repack", "-adq")
    assert store.has(tip)
    assert store.ref(REF) == tip


def test_write_fails_in_words_when_the_store_is_gone(repo: Repo, store: Store) -> None:
    shutil.rmtree(repo.root / ".git" / "objects")
    repo.write(".git/objects", "a file")
    repo.damaged = True
    with pytest.raises(
        StoreError, match="could not write to the object store"
    ) as caught:
        store.write_blob(b"x")
    assert "free space" in str(caught.value.hint)


def blobs(store: Store, count: int) -> list[Oid]:
    return [store.write_blob(b"gathered %d\n" % number) for number in range(count)]


def packs_of(repo: Repo, suffix: str) -> list[Path]:
    return sorted((repo.common_dir / "objects" / "pack").glob(f"*{suffix}"))


def test_many_objects_of_a_block_are_one_kept_pack(repo: Repo, store: Store) -> None:
    with store.gathering():
        made = blobs(store, 200)
        assert not any(store.loose.has(oid) for oid in made)
        assert store.read_blob(made[7]) == b"gathered 7\n"
        assert store.has(made[7])
        tree = store.trees.splice(None, {RepoPath(b"d/f"): (0o100644, made[7])})
        store.trees.forget()
        assert store.trees.entry(tree, RepoPath(b"d/f")) == (0o100644, made[7])
        tip = commit_of(store, ours("Baseline"), tree=tree)
        store.create_ref(REF, tip)
    (pack,) = packs_of(repo, ".pack")
    assert pack.with_suffix(".keep").read_bytes() == b"agent-undo\n"
    assert store.loose.has(tip)
    assert not any(store.loose.has(oid) for oid in (*made, tree))
    assert all(store.has(oid) for oid in (*made, tree))
    repo.git("fsck", "--strict")


def test_few_objects_of_a_block_are_loose(repo: Repo, store: Store) -> None:
    with store.gathering():
        made = blobs(store, 3)
        assert not store.loose.has(made[0])
    assert all(store.loose.has(oid) for oid in made)
    assert packs_of(repo, ".pack") == []


def test_large_objects_of_a_block_do_not_wait_in_memory(
    repo: Repo, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitshadow.store.repo._MOST_GATHERED_BYTES", 1_000)
    with store.gathering():
        first = store.write_blob(b"x" * 600)
        store.write_blob(b"y" * 600)
        assert store.loose.has(first)


@pytest.mark.parametrize("count", [3, 200])
def test_no_ref_moves_before_what_was_gathered_is_stored(
    repo: Repo, store: Store, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAW-09: after a failure the next ref waits for the same objects again."""
    tip = commit_of(store, ours("Baseline"))
    with store.gathering():
        made = blobs(store, count)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", refused)
            with pytest.raises(StoreError, match="could not write to the object store"):
                store.create_ref(REF, tip)
            assert store.ref(REF) is None
            names = os.listdir(repo.common_dir / "objects" / "pack")
            assert not [name for name in names if name.startswith("tmp_")]
        store.create_ref(REF, tip)
    assert all(repo.git("cat-file", "-t", oid) == "blob" for oid in made[:3])
    repo.git("fsck", "--strict")


def test_same_objects_are_packed_again_without_an_error(
    repo: Repo, store: Store
) -> None:
    for _ in range(2):
        with store.gathering():
            blobs(store, 200)
    assert len(packs_of(repo, ".pack")) == 1


def test_left_keep_file_of_a_crash_is_no_obstacle(
    repo: Repo, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refused)
        with store.gathering():
            blobs(store, 200)
    (left,) = packs_of(repo, ".keep")
    assert left.stat().st_mode & 0o222 == 0
    with store.gathering():
        made = blobs(store, 200)
    assert store.has(made[0])
    assert packs_of(repo, ".pack") == [left.with_suffix(".pack")]


def refused(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_block_that_fails_stores_nothing(repo: Repo, store: Store) -> None:
    made: list[Oid] = []
    with suppress(ZeroDivisionError), store.gathering():
        made = blobs(store, 200)
        raise ZeroDivisionError
    assert not any(store.has(oid) for oid in made)
    assert store.write_blob(b"gathered 0\n") == made[0]
    assert store.loose.has(made[0])


def test_commit_has_our_committer_and_no_signature(repo: Repo, store: Store) -> None:
    repo.git("config", "user.name", "")
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", "false")
    oid = commit_of(store, b"Edit a\n")
    shown = repo.git("log", "-1", "--format=%an|%ae|%at|%cn|%ce|%ct|%G?|%s", oid)
    assert shown == (
        "claude-code|claude-code@agent-undo.invalid|2000000000"
        "|gitshadow|gitshadow@agent-undo.invalid|1000000000|N|Edit a"
    )
    info = store.commit(oid)
    assert (info.author_time, info.committer_time) == (2_000_000_000, 1_000_000_000)
    assert info.author == b"claude-code <claude-code@agent-undo.invalid>"
    assert info.parents == ()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a\nparent 1111", "aparent 1111"),
        (b"<x> y", "x y"),
        (b"", "unknown"),
        (b"\0<>", "unknown"),
        ("Zoë".encode(), "Zoë"),
    ],
)
def test_commit_is_whole_when_its_author_is_hostile(
    repo: Repo, store: Store, name: bytes, shown: str
) -> None:
    oid = commit_of(store, b"x\n", author_name=name, author_email=name, author_time=-5)
    store.create_ref(REF, oid)
    assert repo.git("log", "-1", "--format=%an %at", oid) == f"{shown} 1"
    repo.fsck()


def test_chain_is_ours_alone_oldest_first(repo: Repo, store: Store) -> None:
    head = Oid(repo.git("rev-parse", "HEAD"))
    first = commit_of(store, ours("Baseline"), head)
    second = commit_of(store, ours("Edit a"), first)
    third = commit_of(store, ours("Edit b"), second)
    assert [info.oid for info in store.chain(third)] == [first, second, third]
    assert [info.oid for info in store.chain(third, first)] == [second, third]
    assert store.chain(third, third) == []
    assert store.chain(head) == []


def test_create_ref_is_refused_when_it_exists(store: Store) -> None:
    first, second = commit_of(store, ours("1")), commit_of(store, ours("2"))
    store.create_ref(REF, first)
    with pytest.raises(StaleTipError, match=REF):
        store.create_ref(REF, second)
    assert store.ref(REF) == first
    assert store.refs() == {REF: first}


def test_move_ref_is_refused_when_it_moved_meanwhile(repo: Repo, store: Store) -> None:
    first, second, third = (commit_of(store, ours(text)) for text in "123")
    store.create_ref(REF, first)
    repo.git("update-ref", REF, second)
    with pytest.raises(StaleTipError):
        store.move_ref(REF, first, third)
    assert store.ref(REF) == second
    store.move_ref(REF, second, third)
    assert repo.git("rev-parse", REF) == third
    with pytest.raises(StaleTipError):
        store.move_ref("refs/agent-undo/none", first, second)


def test_one_of_several_movers_wins(repo: Repo, case: Case, store: Store) -> None:
    first = commit_of(store, ours("1"))
    store.create_ref(REF, first)
    for number in range(20):
        base, wanted = (
            store.ref(REF),
            [commit_of(store, ours(f"{number}{who}")) for who in "abc"],
        )
        assert base is not None
        done: list[Oid] = []

        def move(new: Oid, old: Oid = base, done: list[Oid] = done) -> None:
            with opened(repo, case) as own, suppress(StaleTipError, RefLockedError):
                own.move_ref(REF, old, new)
                done.append(new)

        movers = [threading.Thread(target=move, args=(one,)) for one in wanted]
        for mover in movers:
            mover.start()
        for mover in movers:
            mover.join()
        assert [store.ref(REF)] == done


@pytest.mark.parametrize("packed", [False, True])
def test_refs_work_the_same_when_packed(repo: Repo, store: Store, packed: bool) -> None:
    first, second = commit_of(store, ours("1")), commit_of(store, ours("2"))
    store.create_ref(REF, first)
    if packed:
        repo.git("pack-refs", "--all", "--prune")
    with pytest.raises(StaleTipError):
        store.create_ref(REF, second)
    store.move_ref(REF, first, second)
    assert (store.ref(REF), store.refs()) == (second, {REF: second})
    if packed:
        repo.git("pack-refs", "--all", "--prune")
    store.delete_ref(REF)
    assert store.ref(REF) is None
    assert repo.shadow_refs() == {}
    store.delete_ref(REF)


def test_refs_are_those_below_the_prefix_alone(repo: Repo, store: Store) -> None:
    tip = commit_of(store, ours("1"))
    store.create_ref(REF, tip)
    repo.git("update-ref", "refs/agent-undone/x", tip)
    repo.git("update-ref", "refs/heads/agent-undo/x", tip)
    assert store.refs() == {REF: tip}
    assert set(store.refs("refs/")) == {
        REF,
        "refs/agent-undone/x",
        "refs/heads/agent-undo/x",
        "refs/heads/main",
    }


@on_cases(PLAIN, SHA256, BY_GIT)
def test_packed_refs_of_others_cost_nothing_when_ours_are_listed(
    repo: Repo, store: Store
) -> None:
    """LAW-08: a clone of a large project has 50,000, and each command lists ours."""
    tip = repo.git("rev-parse", "HEAD")
    names = [REF, *(f"refs/remotes/origin/{number:05}" for number in range(2000))]
    lines = "".join(f"create {name} {tip}\n" for name in names)
    repo.git("update-ref", "--stdin", stdin=lines.encode())
    repo.git("pack-refs", "--all", "--prune")
    calls: list[str] = []
    sys.setprofile(lambda _frame, event, _what: calls.append(event))
    found = store.refs("refs/agent-undo/")
    sys.setprofile(None)
    assert found == {REF: tip}
    assert len(calls) < 1000


@on_cases(PLAIN, SHA256, BY_GIT)
def test_locked_ref_is_an_error_of_its_own_and_the_lock_stays(
    repo: Repo, store: Store
) -> None:
    first, second = commit_of(store, ours("1")), commit_of(store, ours("2"))
    store.create_ref(REF, first)
    # With this setting Git itself waits without an end.
    repo.git("config", "core.filesRefLockTimeout", "-1")
    left_behind(repo, f"{REF}.lock")
    with pytest.raises(RefLockedError, match=REF) as caught:
        store.move_ref(REF, first, second)
    assert f"{REF}.lock" in str(caught.value.hint)
    with pytest.raises(RefLockedError):
        store.delete_ref(REF)
    assert repo.exists(f".git/{REF}.lock")
    assert store.ref(REF) == first
    repo.delete(f".git/{REF}.lock")
    store.move_ref(REF, first, second)


@on_cases(PLAIN, SHA256, BY_GIT)
def test_locked_ref_is_no_stale_tip_when_it_is_new(repo: Repo, store: Store) -> None:
    tip = commit_of(store, ours("1"))
    left_behind(repo, f"{REF}.lock")
    with pytest.raises(RefLockedError):
        store.create_ref(REF, tip)
    repo.delete(f".git/{REF}.lock")


def left_behind(repo: Repo, lock: str) -> None:
    """Make a lock file as a git leaves it that was killed some time ago."""
    repo.write(f".git/{lock}", "")
    os.utime(repo.git_dir / lock, (1, 1))


@on_cases(PLAIN, SHA256, TABLES)
def test_lock_that_git_has_for_a_moment_is_waited_for(
    repo: Repo, case: Case, store: Store
) -> None:
    """`git pack-refs` locks each loose ref, and a reftable has one lock for all refs."""
    first, second = commit_of(store, ours("1")), commit_of(store, ours("2"))
    store.create_ref(REF, first)
    name = "reftable/tables.list.lock" if case == TABLES else f"{REF}.lock"
    acts: list[Callable[[], None]] = [
        lambda: store.move_ref(REF, first, second),
        lambda: store.force_ref(REF, first),
        lambda: store.delete_ref(REF),
        lambda: store.create_ref(REF, second),
    ]
    for act in acts:
        (repo.git_dir / name).parent.mkdir(exist_ok=True)
        repo.write(f".git/{name}", "")
        release = threading.Timer(0.3, repo.delete, [f".git/{name}"])
        release.start()
        act()
        release.join()
    assert repo.git("rev-parse", REF) == second


@on_cases(PLAIN, SHA256, BY_GIT)
def test_deleted_ref_is_not_brought_back_by_a_pack_refs_at_work(
    repo: Repo, store: Store
) -> None:
    """It has read the loose ref, and gives packed-refs its name at the end."""
    tip = commit_of(store, ours("1"))
    store.create_ref(REF, tip)
    lock = repo.git_dir / "packed-refs.lock"
    lock.write_text(f"# pack-refs with: peeled fully-peeled sorted \n{tip} {REF}\n")
    ended = threading.Timer(0.3, lock.rename, [repo.git_dir / "packed-refs"])
    ended.start()
    store.delete_ref(REF)
    ended.join()
    assert store.ref(REF) is None
    assert repo.shadow_refs() == {}


@on_cases(PLAIN, SHA256, BY_GIT)
def test_packed_ref_stays_while_packed_refs_is_locked(repo: Repo, store: Store) -> None:
    """libgit2 takes it for deleted once it has failed to delete it."""
    tip = commit_of(store, ours("1"))
    store.create_ref(REF, tip)
    repo.git("pack-refs", "--all")
    left_behind(repo, "packed-refs.lock")
    for _ in range(2):
        with pytest.raises(RefLockedError) as caught:
            store.delete_ref(REF)
        assert "the file packed-refs.lock" in str(caught.value.hint)
        assert store.refs() == {REF: tip}
    repo.delete(".git/packed-refs.lock")
    store.delete_ref(REF)
    assert repo.shadow_refs() == {}


@on_cases(PLAIN, SHA256, BY_GIT)
@pytest.mark.parametrize("content", [b"", b"\0garbage\n"], ids=["empty", "garbage"])
def test_unreadable_ref_is_an_error_and_never_absent(
    repo: Repo, store: Store, content: bytes
) -> None:
    tip = commit_of(store, ours("1"))
    store.create_ref("refs/agent-undo/s-2", tip)
    repo.write(f".git/{REF}", content)
    assert store.broken_refs() == [REF]
    with pytest.raises(StoreError, match=f"could not read ref {REF}"):
        store.ref(REF)
    with pytest.raises(StoreError):
        store.move_ref(REF, tip, tip)
    store.force_ref(REF, tip)
    assert store.ref(REF) == tip
    assert store.broken_refs() == []
    repo.write(f".git/{REF}", content)
    store.delete_ref(REF)
    assert not repo.exists(f".git/{REF}")
    assert store.refs() == {"refs/agent-undo/s-2": tip}


@pytest.mark.parametrize(
    "name", ["refs/agent-undo/../../config", "config", "refs/heads/x y"]
)
def test_nothing_but_a_ref_of_ours_is_ever_discarded(
    repo: Repo, store: Store, name: str
) -> None:
    tip = Oid(repo.git("rev-parse", "HEAD"))
    before = repo.snapshot()
    with pytest.raises(StoreError):
        store.force_ref(name, tip)
    assert repo.snapshot() == before


def test_refs_have_no_reflog_whatever_the_user_set(
    repo: Repo, case: Case, store: Store
) -> None:
    repo.git("config", "core.logAllRefUpdates", "always")
    first, second = commit_of(store, ours("1")), commit_of(store, ours("2"))
    with opened(repo, case) as fresh:
        before = repo.snapshot()
        fresh.create_ref(REF, first)
        fresh.move_ref(REF, first, second)
        fresh.force_ref(REF, first)
        assert repo.snapshot() == before
        fresh.delete_ref(REF)
        assert repo.snapshot() == before
    assert not repo.exists(".git/logs/refs/agent-undo")


def test_ref_beside_a_directory_of_its_name_is_an_error(store: Store) -> None:
    tip = commit_of(store, ours("1"))
    store.create_ref(REF, tip)
    with pytest.raises(StoreError):
        store.create_ref(f"{REF}/below", tip)
    assert store.refs() == {REF: tip}


def test_head_is_named_on_a_branch_detached_and_unborn(
    repo: Repo, store: Store
) -> None:
    tip = repo.git("rev-parse", "HEAD")
    assert store.head() == ("refs/heads/main", tip)
    repo.git("checkout", "-q", "--detach")
    assert store.head() == (None, tip)
    repo.git("checkout", "-q", "--orphan", "new")
    assert store.head() == ("refs/heads/new", None)


@on_cases(PLAIN, SHA256, BY_GIT)
def test_head_is_an_error_and_never_unborn_when_its_branch_is_broken(
    repo: Repo, store: Store
) -> None:
    repo.write(".git/refs/heads/main", "")
    with pytest.raises(StoreError, match="could not read HEAD"):
        store.head()


def test_head_of_a_linked_worktree_is_its_own(
    repo: Repo, case: Case, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    linked = Repo(tmp_path / "w")
    linked.git("commit", "-q", "--allow-empty", "-m", "x")
    with opened(linked, case) as store:
        assert store.head() == ("refs/heads/side", linked.git("rev-parse", "HEAD"))


def test_config_values_are_all_of_a_section(repo: Repo, store: Store) -> None:
    repo.git("config", "agent-undo.maxFileSize", "1k")
    repo.git("config", "--add", "agent-undo.include", ".env")
    repo.git("config", "--add", "agent-undo.include", "*.key")
    repo.append(".git/config", "[agent-undo]\n\tenabled\n")
    assert store.config_values("agent-undo") == {
        "maxfilesize": ["1k"],
        "include": [".env", "*.key"],
        "enabled": ["true"],
    }
    assert store.config_values("other") == {}
    assert store.config_get("core.bare") == "false"
    assert store.config_get("no.such") is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "= true",
        "= On",
        "= YES",
        "= 1",
        "= -2",
        "= 10k",
        "= false",
        "= off",
        "= no",
        "= 0",
        "= 00",
        "= +0",
        "=",
    ],
)
def test_key_is_true_where_git_says_so(repo: Repo, store: Store, line: str) -> None:
    repo.append(".git/config", f"[some]\n\tthing {line}\n")
    said = repo.git("config", "--type=bool", "some.thing").strip()
    assert store.config_is("some.thing", unset=said != "true") is (said == "true")
    assert store.config_is("no.such", unset=True)
    assert not store.config_is("no.such", unset=False)


def test_heads_of_a_new_worktree_have_words_or_none(
    repo: Repo, case: Case, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    tip = repo.git("rev-parse", "HEAD")
    with opened(Repo(tmp_path / "linked"), case) as store:
        heads = store.heads(9)
    assert {oid for oid, _ in heads} == {tip}
    assert {words for _, words in heads} == {"", "reset: moving to HEAD"}


def test_git_directory_that_is_gone_is_an_error_of_ours(
    repo: Repo, store: Store
) -> None:
    commit = commit_of(store, b"x")
    store.create_ref(REF, commit)
    place = repo.git_dir
    away = place.rename(repo.root / "away")
    try:
        for act in (store.create_ref, store.force_ref):
            with pytest.raises(ShadowError):
                act(REF, commit)
        with pytest.raises(ShadowError):
            store.delete_ref(REF)
    finally:
        away.rename(place)
    assert store.ref(REF) == commit


def test_identity_is_the_users_or_human(repo: Repo, case: Case, sealed: Path) -> None:
    with opened(repo, case) as store:
        assert store.identity() == (b"Test User", b"test@example.com")
    (sealed / ".gitconfig").write_text("")
    with opened(repo, case) as store:
        assert store.identity() == (b"human", b"human@agent-undo.invalid")


def test_push_settings_keep_the_case_of_a_remotes_name(
    repo: Repo, store: Store
) -> None:
    repo.git("config", "remote.Back.Up.mirror", "yes")
    repo.git("config", "--add", "remote.o.push", "+refs/*:refs/*")
    repo.git("config", "--add", "remote.o.push", "^refs/x/*")
    repo.git("config", "remote.o.fetch", "refs/y")
    assert store.push_settings() == {
        "Back.Up": (True, []),
        "o": (False, ["+refs/*:refs/*", "^refs/x/*"]),
    }


def test_unified_diff_has_hunks_alone() -> None:
    shown = unified_diff(b"a\nb\n", b"a\nc")
    assert shown == "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    assert unified_diff(b"a\n", b"a\n") == ""
    assert unified_diff(b"a\0b", b"a\0c") is None
    assert "\\xff" in str(unified_diff(b"\xff\n", b""))


def test_symbolic_refs_that_lead_nowhere_hide_no_other_ref(
    repo: Repo, store: Store
) -> None:
    tip = Oid(repo.git("rev-parse", "HEAD"))
    repo.git("update-ref", "refs/remotes/o/main", tip)
    for name, target in (
        ("HEAD", "refs/remotes/o/main"),
        ("circle", "refs/remotes/o/circle"),
        ("dangling", "refs/remotes/o/none"),
    ):
        repo.git("symbolic-ref", f"refs/remotes/o/{name}", f"{target}")
    expected = dict.fromkeys(("refs/remotes/o/HEAD", "refs/remotes/o/main"), tip)
    assert store.refs("refs/remotes/") == expected
    assert store.tips_of_user() == {tip}
    with pytest.raises(StoreError):
        store.ref("refs/remotes/o/circle")


@on_cases(PLAIN, SHA256, BY_GIT)
@pytest.mark.parametrize("content", ["0" * 64, "ref: ../x", "ref: ", f"ref: {REF}"])
def test_ref_that_leads_nowhere_is_replaced_and_deleted(
    repo: Repo, store: Store, content: str
) -> None:
    tip = commit_of(store, ours("1"))
    for _ in range(2):
        repo.write(f".git/{REF}", f"{content[: store.format.digits]}\n")
        store.force_ref(REF, tip)
        assert repo.git("rev-parse", REF) == tip
        repo.write(f".git/{REF}", f"{content[: store.format.digits]}\n")
        store.delete_ref(REF)
        assert not repo.exists(f".git/{REF}")


@on_cases(PLAIN, SHA256, BY_GIT)
def test_empty_directory_in_the_place_of_a_ref_is_no_ref(
    repo: Repo, store: Store
) -> None:
    tip = commit_of(store, ours("1"))
    for write in (store.force_ref, store.create_ref):
        repo.mkdir(f".git/{REF}")
        assert store.ref(REF) is None
        store.delete_ref(REF)
        repo.mkdir(f".git/{REF}")
        write(REF, tip)
        assert repo.git("rev-parse", REF) == tip
        store.delete_ref(REF)


def test_revision_with_a_nul_byte_names_nothing(store: Store) -> None:
    assert store.resolve("HEAD\0") is None
