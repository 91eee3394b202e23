"""Objects of both hash algorithms, held against what git makes in repositories of each."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import StoreError, UnsupportedError
from gitshadow.model import TREE_MODE, Oid, RepoPath
from gitshadow.store.object_format import (
    ABBREVIATED_OID_PATTERN,
    OID_PATTERN,
    SHA1,
    SHA256,
    ObjectFormat,
    format_named,
    format_of,
    is_empty_blob,
    is_null,
    is_oid,
)
from gitshadow.store.objects import (
    BrokenObjectError,
    LooseObjects,
    NewCommit,
    format_commit,
    pack_of,
    parse_commit,
)
from gitshadow.store.packs import KEEP_MARK, Packs
from gitshadow.store.trees import Entry, TreeChange, Trees
from tests.support.examples import shares_fixture
from tests.support.repo import Repo

FILE, PROGRAM, LINK = 0o100644, 0o100755, 0o120000
NAMES = (b"a", b"a.b", b"a-", b"a0", b"A", b"\xff", b" x", b"1" * 64, b"0" * 250)


class Shelf:
    """An empty repository of one format, and its loose objects as gitshadow reads them."""

    def __init__(self, root: Path, form: ObjectFormat) -> None:
        root.mkdir()
        self.format = form
        self.repo = Repo(root)
        self.repo.git("init", "-q", f"--object-format={form.name}")
        self.objects = root / ".git" / "objects"
        self.loose = LooseObjects(str(self.objects), form)
        self.trees = Trees(self, form)

    def read_tree(self, oid: Oid) -> bytes:
        """Return a loose tree, and that of no entries, which need not be stored."""
        found = self.loose.read(oid)
        if found is None and oid == self.format.empty_tree:
            return b""
        if found is None or found[0] != "tree":
            raise StoreError(f"could not read object {oid}")
        return found[1]

    def write_tree(self, data: bytes) -> Oid:
        """Store a loose tree."""
        return self.write("tree", data)

    def write(self, kind: str, data: bytes) -> Oid:
        """Store a loose object, as `store.repo` does."""
        oid = self.format.oid(kind, data)
        if not self.loose.has(oid):
            self.loose.write(kind, data, oid)
        return oid

    def hashed(self, kind: str, data: bytes) -> str:
        """Return the id that git gives an object."""
        return self.repo.git("hash-object", "--stdin", "-t", kind, stdin=data)


@pytest.fixture(params=[SHA1, SHA256], ids=lambda form: form.name)
def shelf(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "shelf", request.param)
    yield made
    made.repo.git("fsck", "--strict", "--no-dangling")


@shares_fixture
@given(data=st.binary(max_size=300))
def test_id_of_a_blob_is_gits(shelf: Shelf, data: bytes) -> None:
    oid = shelf.format.blob(data)
    assert oid == shelf.hashed("blob", data) == shelf.format.oid("blob", data)
    assert format_of(oid) is shelf.format
    assert is_empty_blob(oid) is (data == b"")


def test_empty_objects_and_the_null_id_are_gits(shelf: Shelf) -> None:
    form = shelf.format
    assert form.empty_blob == shelf.hashed("blob", b"")
    assert form.empty_tree == shelf.repo.git("write-tree") == shelf.hashed("tree", b"")
    # Git takes it for the value of a ref that does not exist.
    verify = f"verify refs/x {form.null}\n".encode()
    shelf.repo.git("update-ref", "--stdin", stdin=verify)
    assert is_null(form.null)
    assert not is_null(form.empty_blob)
    assert len(form.null) == form.digits == 2 * form.size


@shares_fixture
@given(data=st.binary(max_size=300) | st.just(b"\0" * 70_000))
def test_loose_object_is_what_git_reads_and_writes(shelf: Shelf, data: bytes) -> None:
    ours = shelf.write("blob", data)
    shown = shelf.repo.git("cat-file", "--batch", stdin=f"{ours}\n".encode())
    assert shown.startswith(f"{ours} blob {len(data)}\n")
    theirs = Oid(shelf.repo.git("hash-object", "-w", "--stdin", stdin=data + b"."))
    assert shelf.loose.read(theirs) == ("blob", data + b".")
    assert shelf.loose.all_broken() == []
    assert {ours, theirs} <= {*shelf.loose.with_prefix(ours[:2])} | {
        *shelf.loose.with_prefix(theirs[:2])
    }


def test_object_whose_content_is_another_one_is_broken(shelf: Shelf) -> None:
    oid, other = shelf.write("blob", b"one\n"), shelf.write("blob", b"two\n")
    path = Path(shelf.loose.path(oid))
    path.chmod(0o644)
    whole = path.read_bytes()
    path.write_bytes(Path(shelf.loose.path(other)).read_bytes())
    with pytest.raises(BrokenObjectError, match="does not match its name"):
        shelf.loose.read(oid)
    path.write_bytes(whole)


def test_id_of_the_other_format_is_no_loose_object(shelf: Shelf) -> None:
    other = SHA256 if shelf.format is SHA1 else SHA1
    with pytest.raises(StoreError, match="not an object id"):
        shelf.loose.read(other.empty_blob)


_SOME = tuple(b"%d\n" % number for number in range(3))
_PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(
    lambda parts: RepoPath(b"/".join(parts))
)
_CELLS = st.tuples(st.sampled_from((FILE, PROGRAM, LINK)), st.sampled_from(_SOME))
_Tree = dict[RepoPath, tuple[int, bytes]]
_TREES = st.dictionaries(_PATHS, _CELLS, max_size=8).filter(
    lambda tree: not any(o.startswith(path + b"/") for path in tree for o in tree)
)


def _stored(shelf: Shelf, tree: _Tree) -> dict[RepoPath, Entry]:
    return {
        path: (mode, shelf.write("blob", data)) for path, (mode, data) in tree.items()
    }


def _of_git(shelf: Shelf, tree: Mapping[RepoPath, Entry]) -> str:
    """Return what `git mktree` makes of one directory, its subdirectories first."""
    below: dict[bytes, dict[RepoPath, Entry]] = {}
    rows: list[bytes] = []
    for path, (mode, oid) in tree.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            below.setdefault(name, {})[RepoPath(rest)] = mode, oid
        else:
            rows.append(b"%06o blob %b\t%b\0" % (mode, oid.encode(), name))
    for name, inner in below.items():
        oid_of_inner = _of_git(shelf, inner).encode()
        rows.append(b"%06o tree %b\t%b\0" % (TREE_MODE, oid_of_inner, name))
    return shelf.repo.git("mktree", "-z", stdin=b"".join(rows))


def _listed(shelf: Shelf, tree: Oid) -> dict[RepoPath, Entry]:
    """Return what `git ls-tree` finds in a tree."""
    out = shelf.repo.git("ls-tree", "-rz", tree).encode("utf-8", "surrogateescape")
    found: dict[RepoPath, Entry] = {}
    for row in filter(None, out.split(b"\0")):
        head, _, path = row.partition(b"\t")
        mode, _, oid = head.decode().split(" ")
        found[RepoPath(path)] = int(mode, 8), Oid(oid)
    return found


@shares_fixture
@given(old=_TREES, new=_TREES)
def test_trees_are_gits(shelf: Shelf, old: _Tree, new: _Tree) -> None:
    was, now = _stored(shelf, old), _stored(shelf, new)
    first = shelf.trees.splice(None, was)
    changes = {
        path: now.get(path)
        for path in was.keys() | now.keys()
        if was.get(path) != now.get(path)
    }
    second = shelf.trees.splice(first, changes)
    assert (first, second) == (_of_git(shelf, was), _of_git(shelf, now))
    fresh = Trees(shelf, shelf.format)
    assert fresh.flat(second) == now == _listed(shelf, second)
    assert fresh.diff(first, second) == [
        TreeChange(path, was.get(path), now.get(path)) for path in sorted(changes)
    ]
    assert [fresh.entry(second, path) for path in now] == list(now.values())


def test_commit_is_read_back_and_is_valid_for_git(shelf: Shelf) -> None:
    tree = shelf.trees.splice(None, {RepoPath(b"a"): (FILE, shelf.write("blob", b"1"))})
    parents: tuple[Oid, ...] = ()
    for number in range(3):
        new = NewCommit(tree, parents, b"n", b"e@x", 7, 8, b"message %d\n" % number)
        oid = shelf.write("commit", format_commit(new))
        found = shelf.loose.read(oid)
        assert found is not None
        info = parse_commit(oid, found[1])
        assert (info.tree, info.parents) == (tree, parents)
        parents = (oid, *parents)
    shelf.repo.git("update-ref", "refs/heads/main", parents[0])
    assert shelf.repo.git("rev-parse", "main^{tree}") == tree


def test_pack_and_its_index_are_what_git_makes(shelf: Shelf, tmp_path: Path) -> None:
    sizes = (0, 1, 15, 16, 2_047, 2_048, 2_049, 300_000)
    contents = [("blob", os.urandom(size)) for size in sizes]
    contents += [("blob", b"the same line\n" * 9_000), ("tree", b"")]
    new = NewCommit(shelf.format.empty_tree, (), b"n", b"e@x", 7, 8, b"message\n")
    contents.append(("commit", format_commit(new)))
    named = {shelf.format.oid(kind, data): (kind, data) for kind, data in contents}
    made = pack_of(named, shelf.format)
    (tmp_path / "p.pack").write_bytes(made.pack_data)
    said = shelf.repo.git("index-pack", "--strict", "-v", str(tmp_path / "p.pack"))
    assert said.split()[-1] == made.digits
    assert (tmp_path / "p.idx").read_bytes() == made.index_data


@shares_fixture
@given(contents=st.sets(st.binary(max_size=60), min_size=1, max_size=300))
def test_added_pack_is_verified_by_git_and_read_back(
    shelf: Shelf, contents: set[bytes]
) -> None:
    packs = Packs(str(shelf.objects), str(shelf.repo.root / ".git" / "packing"))
    named = {shelf.format.blob(data): ("blob", data) for data in contents}
    made = pack_of(named, shelf.format)
    packs.add(made)
    index = shelf.objects / "pack" / f"pack-{made.digits}.idx"
    shelf.repo.git("verify-pack", str(index))
    (pack,) = (one for one in packs.ours() if one.name == index.stem)
    assert packs.objects(pack) == sorted(named)
    assert packs.holds_any(pack, [min(named)])
    assert not packs.holds_any(pack, [shelf.format.null])
    packs.remove_loose(pack)
    for oid, (_, data) in named.items():
        assert shelf.repo.git("cat-file", "-s", oid) == str(len(data))


def test_pack_that_git_made_and_merged_is_adopted_and_replaces_ours(
    shelf: Shelf,
) -> None:
    packs = Packs(str(shelf.objects), str(shelf.repo.root / ".git" / "packing"))
    blobs = [b"%d\n" % number for number in range(9)]
    for part in (blobs[:4], blobs[4:]):
        named = {shelf.format.blob(data): ("blob", data) for data in part}
        packs.add(pack_of(named, shelf.format))
    old = packs.ours()
    target = Path(packs.quarantine) / "pack"
    target.mkdir(parents=True)
    listed = "".join(f"{shelf.format.blob(data)}\n" for data in blobs)
    digits = shelf.repo.git(
        "pack-objects", "-q", str(target / "pack"), stdin=listed.encode()
    )
    new = packs.adopt(digits)
    assert new.objects == len(blobs)
    assert packs.replace(old, new) == len(old)
    assert packs.ours() == [new]
    keep = shelf.objects / "pack" / f"{new.name}.keep"
    assert keep.read_bytes() == KEEP_MARK


@given(text=st.text("0123456789abcdefg", min_size=38, max_size=66))
def test_only_texts_of_a_whole_id_are_ids(text: str) -> None:
    known = [form for form in (SHA1, SHA256) if form.is_oid(text)]
    assert is_oid(text) is bool(known)
    assert is_oid(text) is (len(text) in (40, 64) and "g" not in text)


@pytest.mark.parametrize("wrong", ["", "0" * 39, "0" * 41, "0" * 63, "0" * 65])
def test_unknown_length_is_refused(wrong: str) -> None:
    with pytest.raises(UnsupportedError, match="unknown length"):
        format_of(Oid(wrong))


def test_format_is_found_by_the_name_that_git_has_for_it(shelf: Shelf) -> None:
    name = shelf.repo.git("rev-parse", "--show-object-format")
    assert format_named(name) is shelf.format
    with pytest.raises(UnsupportedError, match="'md5'"):
        format_named("md5")


def test_patterns_take_the_longest_id_and_no_part_of_one() -> None:
    whole = re.compile(OID_PATTERN)
    for form in (SHA1, SHA256):
        found = whole.match(form.empty_tree + " ")
        assert found is not None
        assert found[0] == form.empty_tree
    short = re.compile(ABBREVIATED_OID_PATTERN)
    assert short.fullmatch(SHA256.empty_tree)
    assert not short.fullmatch("abcdef")
