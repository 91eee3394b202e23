"""What git prints is read in repositories of both object formats, and its packs are ours."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.model import Oid, RepoPath
from gitshadow.store import git_index
from gitshadow.store.disk import Weights
from gitshadow.store.git import Git, TreeDelta
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import SHA1, SHA256, ObjectFormat
from gitshadow.store.packs import Packer, PackingWork
from gitshadow.store.remotes import Bare, fetch, push, remote_refs
from tests.support.repo import Repo
from tests.support.studio import layout_of

REF = "refs/agent-undo/one"
FILE = 0o100644
A, B = RepoPath(b"a"), RepoPath(b"d/b")


class Place:
    """A repository of one format with two commits, `first` and `second`, and git for it."""

    def __init__(self, root: Path, form: ObjectFormat) -> None:
        root.mkdir()
        self.format = form
        self.repo = Repo(root)
        self.repo.git("init", "-q", "-b", "main", f"--object-format={form.name}")
        self.repo.write("a", "1\n2\n3\n")
        self.first = Oid(self.repo.commit("first"))
        self.repo.write("a", "1\ntwo\n3\n")
        self.repo.write("d/b", "b\n")
        self.second = Oid(self.repo.commit("second"))
        self.git = Git(self.layout, dict(os.environ))

    @property
    def layout(self) -> Layout:
        """Return where the repository keeps what."""
        return layout_of(self.repo)

    def oid(self, rev: str) -> Oid:
        """Return what git resolves."""
        return Oid(self.repo.git("rev-parse", rev))

    def write_chain(self, count: int) -> Oid:
        """Move our ref so many commits on, each with a file of its own."""
        known = self.repo.git("for-each-ref", "--format=%(objectname)", REF)
        tip = Oid(known) if known else self.second
        for number in range(count):
            blob = self.repo.git("hash-object", "-w", "--stdin", stdin=tip.encode())
            row = f"100644 blob {blob}\tn{number}\n".encode()
            tree = self.repo.git("mktree", stdin=row)
            tip = Oid(self.repo.git("commit-tree", "-p", tip, "-m", "w", tree))
        self.repo.git("update-ref", REF, tip)
        return tip


@pytest.fixture(params=[SHA1, SHA256], ids=lambda form: form.name)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    made = Place(tmp_path / "place", request.param)
    yield made
    if not made.repo.damaged:
        made.repo.git("fsck", "--strict")


def test_changes_between_commits_and_from_nothing(place: Place) -> None:
    old, new = place.oid("main~:a"), place.oid("main:a")
    assert place.git.changes(None, place.first) == [TreeDelta(A, A, None, (FILE, old))]
    assert place.git.changes(place.first, place.second) == [
        TreeDelta(A, A, (FILE, old), (FILE, new)),
        TreeDelta(B, B, None, (FILE, place.oid("main:d/b"))),
    ]


def test_staged_changes_of_a_commit_and_of_the_empty_tree(place: Place) -> None:
    place.repo.write("a", "staged\n")
    place.repo.git("add", "a")
    (found,) = place.git.staged_changes(place.second, None)
    assert (found.old, found.new) == (
        (FILE, place.oid("main:a")),
        (FILE, place.oid(":a")),
    )
    everything = place.git.staged_changes(place.format.empty_tree, None)
    assert [(one.path, one.old) for one in everything] == [(A, None), (B, None)]


def test_ref_of_the_user_is_created_only_where_it_is_absent(place: Place) -> None:
    place.git.put_ref("refs/notes/x", place.first, None)
    with pytest.raises(StoreError):
        place.git.put_ref("refs/notes/x", place.second, None)
    place.git.put_ref("refs/notes/x", place.second, place.first)
    assert place.oid("refs/notes/x") == place.second


@pytest.mark.parametrize("broken", [False, True])
def test_missing_or_broken_object_stops_the_search(place: Place, broken: bool) -> None:
    place.repo.damaged = True
    tree = place.oid("main:d")
    path = place.repo.root / ".git" / "objects" / tree[:2] / tree[2:]
    path.chmod(0o644)
    if broken:
        path.write_bytes(b"")
    else:
        path.unlink()
    reached, stops = place.git.reached_by_user()
    assert tree in stops
    assert place.second in reached or broken


def test_entries_of_the_index_have_the_ids_that_git_lists(place: Place) -> None:
    for asked in (None, {A, B}):
        rows = [row for part in git_index.entries(place.git, asked) for row in part]
        assert [(Oid(row[1].decode()), row[2]) for row in rows] == [
            (place.oid(":a"), A),
            (place.oid(":d/b"), B),
        ]
    assert git_index.staged_as(place.git, [place.oid(":a")]) == [A]
    staged = git_index.staged_stats(place.git, [A], 0)
    assert (staged[A].mode, staged[A].oid) == (FILE, place.oid(":a"))


def test_weight_of_a_ref_is_all_that_only_it_keeps(place: Place) -> None:
    tip = place.write_chain(3)
    weights = Weights(place.git, {REF: tip}, [place.second])
    assert len(weights.kept_by([REF])) == 9
    alone = Weights(place.git, {"refs/heads/main": place.second}, [])
    listed = place.repo.git("rev-list", "--objects", "--no-object-names", "main")
    assert len(alone.kept_by(["refs/heads/main"])) == len(listed.split())
    assert all(weights.sizes)


def test_packer_packs_and_merges(place: Place) -> None:
    os.makedirs(place.layout.state_dir)
    packer = Packer(place.layout, place.git)
    users = frozenset({place.second})
    tip, merged = place.second, 0
    for _ in range(3):
        tip = place.write_chain(2)
        done = packer.pack(PackingWork({REF: tip}, users, False))
        assert (done.objects, packer.known()) == (6, {REF: tip})
        merged += done.merged
    assert merged == 2
    packs = packer.packs.ours()
    held = [oid for pack in packs for oid in packer.packs.objects(pack)]
    how = ("rev-list", "--objects", "--no-object-names")
    assert sorted(held) == sorted(place.repo.git(*how, REF, "^main").split())
    loose = place.repo.git("count-objects").split()[0]
    assert int(loose) == len(place.repo.git(*how, "main").split())
    for pack in packs:
        index = os.path.join(place.layout.objects_dir, "pack", f"{pack.name}.idx")
        place.repo.git("verify-pack", index)


def test_bare_repository_of_the_same_format_takes_refs_and_gives_them_back(
    place: Place, tmp_path: Path
) -> None:
    tip = place.write_chain(1)
    there = Bare(place.git, str(tmp_path / "there"))
    there.make(place.format)
    push(place.git, there.path, [f"{REF}:{REF}"])
    assert there.refs() == {REF: tip} == remote_refs(place.git, there.path, [REF])
    blob = place.oid(f"{REF}:n0")
    assert there.having([tip, blob, place.format.null]) == {tip, blob}
    assert there.keeps(REF, [blob])
    assert not there.keeps(REF, [place.format.null])
    fetch(place.git, there.path, [f"{REF}:refs/agent-undo/fetched/one"])
    assert place.oid("refs/agent-undo/fetched/one") == tip
