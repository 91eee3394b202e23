"""Trees as raw bytes, held against a dictionary and against git itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import StoreError
from gitshadow.model import TREE_MODE, Oid, RepoPath
from gitshadow.store import layout
from gitshadow.store.object_format import SHA1
from gitshadow.store.repo import Repo as Store
from gitshadow.store.trees import Entry, TreeChange, Trees
from tests.support.examples import shares_fixture
from tests.support.repo import Repo

Tree = dict[RepoPath, Entry]

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
BLOBS = tuple(Oid(f"{number:040x}") for number in (1, 2, 3))
FILE, PROGRAM, LINK = 0o100644, 0o100755, 0o120000

# Names whose order differs when they are directories, and names that are no text.
NAMES = (b"a", b"a.b", b"a-", b"a0", b"A", b"\xff", b"e\xcc\x81", b" x", b"0" * 250)


def _is_possible(paths: list[bytes]) -> bool:
    """Tell whether no path is a directory of another one."""
    return not any(other.startswith(path + b"/") for path in paths for other in paths)


paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(
    lambda parts: RepoPath(b"/".join(parts))
)
entries = st.tuples(st.sampled_from((FILE, PROGRAM, LINK)), st.sampled_from(BLOBS))
trees = st.dictionaries(paths, entries, max_size=8).filter(
    lambda tree: _is_possible(list(tree))
)


def difference(old: Tree, new: Tree) -> dict[RepoPath, Entry | None]:
    return {
        path: new.get(path)
        for path in old.keys() | new.keys()
        if old.get(path) != new.get(path)
    }


def open_store(repo: Repo) -> Store:
    found = layout.discover(str(repo.root))
    assert found is not None
    return Store.open(found)


def git_tree(repo: Repo, tree: Tree) -> str:
    """Return what `git write-tree` makes of an index with these entries."""
    repo.git("read-tree", "--empty")
    rows = [
        b"%o %s\t%s\0" % (mode, oid.encode(), path)
        for path, (mode, oid) in tree.items()
    ]
    repo.git("update-index", "-z", "--index-info", stdin=b"".join(rows))
    return repo.git("write-tree", "--missing-ok")


@shares_fixture
@given(old=trees, new=trees)
def test_splice_gives_the_tree_that_git_writes(
    repo: Repo, old: Tree, new: Tree
) -> None:
    store = open_store(repo)
    root = store.trees.splice(None, old)
    spliced = store.trees.splice(root, difference(old, new))
    assert (root, spliced) == (git_tree(repo, old), git_tree(repo, new))
    assert store.trees.flat(spliced) == new
    assert list(store.trees.flat(spliced)) == [
        path
        for path in map(
            RepoPath,
            repo.git("ls-tree", "-rz", "--name-only", spliced)
            .encode("utf-8", "surrogateescape")
            .split(b"\0"),
        )
        if path
    ]
    store.close()


@shares_fixture
@given(steps=st.lists(trees, min_size=2, max_size=6))
def test_splice_one_after_the_other_equals_a_dictionary(
    repo: Repo, steps: list[Tree]
) -> None:
    store = open_store(repo)
    root: Oid | None = None
    known: Tree = {}
    for wanted in steps:
        root = store.trees.splice(root, difference(known, wanted))
        known = wanted
        assert store.trees.flat(root) == known
        assert root == Trees(store, SHA1).splice(None, known)
    store.close()


@shares_fixture
@given(old=trees, new=trees)
def test_diff_lists_exactly_what_differs(repo: Repo, old: Tree, new: Tree) -> None:
    store = open_store(repo)
    was, now = store.trees.splice(None, old), store.trees.splice(None, new)
    expected = [
        TreeChange(path, old.get(path), new.get(path))
        for path in sorted(difference(old, new))
    ]
    assert store.trees.diff(was, now) == expected
    assert store.trees.diff(None, now) == store.trees.diff(Oid(EMPTY_TREE), now)
    assert [one.old for one in store.trees.diff(now, None)] == [
        new[path] for path in sorted(new)
    ]
    store.close()


@shares_fixture
@given(old=trees, new=trees, more=trees, other=st.none() | entries)
def test_carried_tree_is_the_spliced_one_or_none(
    repo: Repo, old: Tree, new: Tree, more: Tree, other: Entry | None
) -> None:
    """`more` is what nobody committed; `other` is at a path that differs, if there is one."""
    store = open_store(repo)
    mine = {**more, **old}
    differing = [path for path in difference(old, new) if path in old]
    if other is not None and differing:
        mine[differing[0]] = other
    changed = {p: e for p, e in (mine | new).items() if p in new or p not in old}
    if not (_is_possible(list(mine)) and _is_possible(list(changed))):
        return
    tree, *ends = (store.trees.splice(None, one) for one in (mine, old, new))
    carried = store.trees.carried(tree, *ends)
    spliced = store.trees.splice(tree, difference(old, new))
    clean = all(mine.get(path) == old.get(path) for path in difference(old, new))
    if tree == ends[0]:
        assert carried == spliced == ends[1]
    if clean:
        assert carried in (None, spliced)
    elif any(mine.get(p) not in (old.get(p), new.get(p)) for p in differing):
        assert carried is None


@shares_fixture
@given(old=trees, new=trees)
def test_ends_are_the_entries_of_both_trees(repo: Repo, old: Tree, new: Tree) -> None:
    store = open_store(repo)
    roots = [store.trees.splice(None, one) for one in (old, new)]
    for path in old.keys() | new.keys():
        entries = tuple(store.trees.entry(root, path) for root in roots)
        ends = store.trees.ends(roots[0], roots[1], path)
        assert ends == entries or (ends, entries[0]) == ((None, None), entries[1])
    assert store.trees.ends(None, roots[1], RepoPath(b"")) == (
        None,
        (TREE_MODE, roots[1]),
    )


@shares_fixture
@given(tree=trees)
def test_entry_finds_files_and_directories_alone(repo: Repo, tree: Tree) -> None:
    store = open_store(repo)
    root = store.trees.splice(None, tree)
    for path, entry in tree.items():
        assert store.trees.entry(root, path) == entry
        assert store.trees.entry(root, RepoPath(path + b"/x")) is None
        parent = path.rpartition(b"/")[0]
        found = store.trees.entry(root, RepoPath(parent))
        assert found is not None
        assert found[0] == TREE_MODE
    assert store.trees.entry(root, RepoPath(b"nothing/here")) is None
    store.close()


def test_splice_equals_mktree_when_a_file_sorts_after_a_directory(repo: Repo) -> None:
    store = open_store(repo)
    below = store.trees.splice(None, {RepoPath(b"x"): (FILE, BLOBS[0])})
    names = {
        b"a": (TREE_MODE, below),
        b"a.c": (FILE, BLOBS[0]),
        b"a0": (LINK, BLOBS[1]),
    }
    rows = [
        b"%06o %s %s\t%s\0" % (mode, kind, oid.encode(), name)
        for name, (mode, oid) in names.items()
        for kind in (b"tree" if mode == TREE_MODE else b"blob",)
    ]
    made = repo.git("mktree", "-z", "--missing", stdin=b"".join(rows))
    spliced = store.trees.splice(
        None,
        {
            RepoPath(b"a0"): (LINK, BLOBS[1]),
            RepoPath(b"a/x"): (FILE, BLOBS[0]),
            RepoPath(b"a.c"): (FILE, BLOBS[0]),
        },
    )
    assert spliced == made
    store.close()


def test_splice_moves_an_entry_when_its_type_changes(repo: Repo) -> None:
    store = open_store(repo)
    blob = store.write_blob(b"x")
    other: Tree = {RepoPath(b"a.c"): (FILE, blob), RepoPath(b"a"): (FILE, blob)}
    root = store.trees.splice(None, other)
    inner, outer = RepoPath(b"a/x"), RepoPath(b"a")
    nested = store.trees.splice(root, {outer: None, inner: (FILE, blob)})
    assert list(store.trees.flat(nested)) == [b"a.c", b"a/x"]
    back = store.trees.splice(nested, {inner: None, outer: (FILE, blob)})
    assert back == root
    repo.git("update-ref", "refs/agent-undo/t", repo.git("commit-tree", "-mx", nested))
    repo.fsck()
    store.close()


def test_splice_leaves_no_empty_directory(repo: Repo) -> None:
    store = open_store(repo)
    deep = RepoPath(b"a/b/c/d")
    root = store.trees.splice(None, {deep: (FILE, BLOBS[0])})
    assert store.trees.splice(root, {deep: None}) == EMPTY_TREE
    assert store.trees.splice(None, {}) == EMPTY_TREE
    keep = RepoPath(b"a/k")
    both = store.trees.splice(root, {keep: (FILE, BLOBS[1])})
    assert store.trees.flat(store.trees.splice(both, {deep: None})) == {
        keep: (FILE, BLOBS[1])
    }
    store.close()


def test_splice_changes_nothing_when_what_is_removed_is_absent(repo: Repo) -> None:
    store = open_store(repo)
    root = store.trees.splice(None, {RepoPath(b"a"): (FILE, BLOBS[0])})
    for absent in (b"b", b"a/x", b"n/m/o"):
        assert store.trees.splice(root, {RepoPath(absent): None}) == root
    store.close()


def test_splice_writes_only_the_directories_on_the_way(repo: Repo) -> None:
    store = open_store(repo)
    wide: Tree = {RepoPath(b"d%d/x" % n): (FILE, BLOBS[0]) for n in range(50)}
    root = store.trees.splice(None, wide)
    before = int(repo.git("count-objects").split()[0])
    store.trees.splice(root, {RepoPath(b"d7/x"): (FILE, BLOBS[1])})
    assert int(repo.git("count-objects").split()[0]) - before == 2
    store.close()


def test_splice_answers_alike_when_its_memory_is_tiny(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(repo)
    wide: Tree = {RepoPath(b"d%d/x" % n): (FILE, BLOBS[n % 3]) for n in range(20)}
    expected = store.trees.splice(None, wide)
    monkeypatch.setattr("gitshadow.store.trees._CACHED_ENTRIES", 2)
    small = Trees(store, SHA1)
    assert small.splice(None, wide) == expected
    assert small.diff(None, expected) == store.trees.diff(None, expected)
    store.close()


def test_missing_tree_is_an_error_when_it_is_on_the_way(repo: Repo) -> None:
    store = open_store(repo)
    gone = Oid("1" * 40)
    with pytest.raises(StoreError, match=f"could not read object {gone}"):
        store.trees.splice(gone, {RepoPath(b"a"): (FILE, BLOBS[0])})
    with pytest.raises(StoreError):
        store.trees.diff(gone, None)
    store.close()


def test_forget_reads_trees_again(repo: Repo) -> None:
    store = open_store(repo)
    root = store.trees.splice(None, {RepoPath(b"a"): (FILE, BLOBS[0])})
    assert store.trees.entry(root, RepoPath(b"a")) == (FILE, BLOBS[0])
    repo.delete(f".git/objects/{root[:2]}/{root[2:]}")
    store.trees.forget()
    with pytest.raises(StoreError):
        store.trees.entry(root, RepoPath(b"a"))
    store.close()
