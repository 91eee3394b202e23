"""Chains made by hand, and what Git itself says of the packs that hold them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from gitshadow.maintenance.upkeep import work_of
from gitshadow.model import Oid, RepoPath
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout, discover
from gitshadow.store.objects import NewCommit
from gitshadow.store.packs import Packed, Packer
from gitshadow.store.repo import Repo as Store
from tests.support.repo import Repo

CHAIN = "refs/agent-undo/claude-code-20261122-0a1b2c"
_MESSAGE = b"Edit\n\nAgent-Undo-Format: 1\nAgent-Undo-Kind: write\n"


def layout_of(repo: Repo) -> Layout:
    """Return where the repository keeps what; our directory is there."""
    layout = discover(str(repo.root))
    assert layout is not None
    os.makedirs(layout.state_dir, 0o700, exist_ok=True)
    return layout


@dataclass
class Shelf:
    """Write chains into a repository and pack them."""

    repo: Repo
    layout: Layout = field(init=False)
    store: Store = field(init=False)
    packer: Packer = field(init=False)

    def __post_init__(self) -> None:
        self.layout = layout_of(self.repo)
        self.store = Store.open(self.layout)
        self.packer = Packer(self.layout, Git(self.layout, dict(os.environ)))

    def write(self, count: int, *, ref: str = CHAIN, path: str = "a") -> Oid:
        """Add so many one-file writes to a chain."""
        old = self.store.ref(ref)
        _, head = self.store.head()
        tip = old or head
        tree = self.store.commit(tip).tree if tip else None
        for number in range(count):
            blob = self.store.write_blob(f"{ref} {path} {tip} {number}\n".encode() * 9)
            name = RepoPath(path.encode())
            tree = self.store.trees.splice(tree, {name: (0o100644, blob)})
            tip = self.store.write_commit(
                NewCommit(
                    tree=tree,
                    parents=() if tip is None else (tip,),
                    author_name=b"claude-code",
                    author_email=b"c@agent-undo.invalid",
                    author_time=1_700_000_000 + number,
                    committer_time=1_000_000_000,
                    message=_MESSAGE,
                )
            )
        assert tip is not None
        if old is None:
            self.store.create_ref(ref, tip)
        else:
            self.store.move_ref(ref, old, tip)
        return tip

    def pack(self, *, afresh: bool = False) -> Packed:
        """Pack what is new."""
        return self.packer.pack(work_of(self.store), afresh=afresh)

    def names(self) -> list[str]:
        """Return the names of our packs."""
        return [pack.name for pack in self.packer.packs.ours()]

    def loose(self) -> set[str]:
        """Return the loose objects of the repository; some may be packed meanwhile."""
        found = os.walk(self.layout.objects_dir)
        fans = ((os.path.basename(top), names) for top, _, names in found)
        return {fan + name for fan, names in fans if len(fan) == 2 for name in names}

    def reachable(self, *tips: str) -> set[str]:
        """Return every object that some commits or refs reach."""
        out = self.repo.git("rev-list", "--objects", "--no-object-names", *tips)
        return set(out.split())

    def ours(self) -> set[str]:
        """Return the objects that our refs reach and HEAD does not."""
        return self.reachable("--glob=refs/agent-undo/*", "--not", "HEAD")


def packs_of(repo: Repo, suffix: str = ".pack") -> Sequence[str]:
    """Return the packs that lie in a repository, by name."""
    names = os.listdir(repo.common_dir / "objects" / "pack")
    return sorted(n.removesuffix(suffix) for n in names if n.endswith(suffix))
