"""What the history costs on disk: objects that our refs reach and the user's do not.

Counted by Git, so it is what Git says: an object that two sessions reach counts for both, and once
in the total.
Invariant: reads only, and holds nothing that anybody waits for.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.maintenance.retention import RetentionUnit
from gitshadow.model import Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.store import refs
from gitshadow.store.artifacts import artifact_ref
from gitshadow.store.disk import disk
from gitshadow.store.git import Git
from gitshadow.store.journal import sessions
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout
from gitshadow.store.packs import Packs
from gitshadow.store.repo import Repo
from gitshadow.store.weighing import Weights

_KINDS = (
    ("pins", refs.is_pin),
    ("reviews", refs.is_mark),
    ("artifacts", lambda ref: ref.startswith(refs.REF_PREFIX + refs.ARTIFACT_PREFIX)),
)


class Cost(NamedTuple):
    """Hold what some refs keep: how many objects, and the bytes they take on disk."""

    objects: int
    size_bytes: int


class DiskUsage:
    """Count for one repository; all objects are found and weighed in one walk."""

    def __init__(
        self, git: Git, names: Mapping[str, Oid], users: Collection[Oid]
    ) -> None:
        self._refs = names
        self._weights = Weights(git, names, users)

    @property
    def refs(self) -> Mapping[str, Oid]:
        """Return all refs of ours."""
        return self._refs

    def total(self) -> Cost:
        """Return what all of them keep."""
        sizes = self._weights.sizes
        return Cost(len(sizes), sum(sizes))

    def of(self, names: Sequence[str]) -> Cost:
        """Return what some refs keep."""
        kept, sizes = self._weights.kept_by(names), self._weights.sizes
        return Cost(len(kept), sum(sizes[one] for one in kept))

    def freed(self, going: Iterable[Sequence[str]]) -> Iterator[int]:
        """Yield the bytes that nothing keeps when some refs go after those before them."""
        left = set(self._refs)
        holders = Counter(one for ref in left for one in self._weights.kept_by([ref]))
        for names in going:
            gone = left.intersection(names)
            left -= gone
            lost = Counter(one for ref in gone for one in self._weights.kept_by([ref]))
            holders.subtract(lost)
            yield sum(self._weights.sizes[one] for one in lost if not holders[one])


class Scales:
    """Weigh what is to be forgotten; made where the repository is open, used by any thread."""

    def __init__(self, ws: Workspace) -> None:
        """Take note of what there is."""
        self._git = Git(ws.layout, dict(ws.environ))
        self._refs = ws.repo.refs()
        self._users = ws.repo.tips_of_user()
        self._ledger: DiskUsage | None = None
        self._chains: dict[str, list[str]] = {}
        for chain in sessions.chains(ws.db):
            self._chains.setdefault(chain.session, []).append(chain.ref)

    def total(self) -> int:
        """Return the bytes that all of the history takes; StoreError where it cannot be read."""
        return self._counted().total().size_bytes

    def frees(self, going: Sequence[RetentionUnit]) -> Iterator[int]:
        """Yield the bytes that each unit frees when it goes after those before it.

        Raises:
            StoreError: the objects could not be read.
        """
        yield from self._counted().freed(map(self._refs_of, going))

    def _refs_of(self, unit: RetentionUnit) -> list[str]:
        own = [ref for one in unit.ids for ref in self._chains.get(one, ())]
        return own + [artifact_ref(name) for name in unit.programs]

    def _counted(self) -> DiskUsage:
        if self._ledger is None:
            self._ledger = DiskUsage(self._git, self._refs, self._users)
        return self._ledger


def usage(layout: Layout, git: Git, repo: Repo, db: Db) -> dict[str, object]:
    """Return what the history takes, session by session, dearest first, and in total.

    Raises:
        StoreError: the refs or objects could not be read.
    """
    ledger = DiskUsage(git, repo.refs(), repo.tips_of_user())
    chains: dict[str, list[str]] = {}
    for chain in sessions.chains(db):
        chains.setdefault(chain.session, []).append(chain.ref)
    costs = {name: ledger.of(found) for name, found in chains.items()}
    dearest = sorted(chains, key=lambda name: (-costs[name].size_bytes, name))
    known = {ref for found in chains.values() for ref in found}
    other = []
    left = [ref for ref in ledger.refs if ref not in known]
    for kind, is_one in _KINDS:
        found = [ref for ref in left if is_one(ref)]
        left = [ref for ref in left if ref not in found]
        other.append(_row({"kind": kind}, ledger.of(found), found))
    other.append(_row({"kind": "other"}, ledger.of(left), left))
    total = ledger.total()
    packs = Packs(layout.objects_dir, layout.packing_dir).ours()
    return {
        **disk(layout.state_dir, layout.common_dir),
        "total": {"objects": total.objects, "bytes": total.size_bytes},
        "packs": {"count": len(packs), "bytes": sum(one.size_bytes for one in packs)},
        "sessions": [_row({"id": name}, costs[name], chains[name]) for name in dearest],
        "other": [row for row in other if row["refs"]],
    }


def _row(
    named: Mapping[str, object], cost: Cost, names: Sequence[str]
) -> dict[str, object]:
    return {
        **named,
        "refs": sorted(names),
        "objects": cost.objects,
        "bytes": cost.size_bytes,
    }
