"""Where something that was purged still is: objects that wait for Git, and copies of the user's.

Invariant: history counts as ours only where a tree of ours holds it; what a commit of the user's
holds is theirs, also where ours stands on that commit.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gitshadow.model import Oid, RepoPath
from gitshadow.recording.workspace import Workspace
from gitshadow.store import refs
from gitshadow.store.git import OF_THE_USER
from gitshadow.store.journal import purge as journal

_MOST_COMMITS = 20


class Copy(NamedTuple):
    """Hold a commit of the user's that brought or took a content, and what reaches it.

    The path is None where the commit's own words hold it; no ref: a reflog alone reaches it.
    """

    commit: Oid
    path: RepoPath | None
    refs: tuple[str, ...]


class Remains(NamedTuple):
    """Say where what was purged still is.

    `waiting` counts objects that nothing of ours reaches: Git's next gc takes them, but for those
    that the user's commits or index hold (`commits`, `staged`). `history` are other names in our
    history that have the same content, `fetched` refs of other machines, `standing` commits that
    the user has left and on which chains of ours stand until the same purge comes again.
    """

    waiting: int = 0
    commits: tuple[Copy, ...] = ()
    staged: tuple[RepoPath, ...] = ()
    history: tuple[RepoPath, ...] = ()
    fetched: tuple[str, ...] = ()
    standing: tuple[Oid, ...] = ()


def remains(ws: Workspace) -> Remains:
    """Search every object for what was purged; what is found nowhere is not asked for again."""
    there = ws.git.sizes(journal.awaited(ws.db))
    with ws.db.write():
        journal.await_gone(ws.db, sorted(there))
    if not there:
        return Remains()
    own = own_refs(ws)
    return Remains(
        len(there),
        tuple(_copies(ws, there)),
        tuple(ws.git.staged_as(there)),
        tuple(sorted({path for _, path in _held(ws, own, there)})),
        tuple(fetched_with(ws, there)),
        tuple(sorted(forsaken(ws, there))),
    )


def own_refs(ws: Workspace, *, apart: bool = True) -> dict[str, Oid]:
    """Return the refs of ours and what is shown of them, without what was fetched.

    Args:
        ws: The worktree.
        apart: Whether review marks and artifacts are among them.
    """
    found = {
        ref: tip
        for ref, tip in ws.repo.refs().items()
        if not refs.is_fetched(ref) and (apart or not refs.is_apart(ref))
    }
    return found | ws.repo.refs(refs.EXPOSED_PREFIX)


def fetched_with(ws: Workspace, there: Collection[Oid]) -> list[str]:
    """Return the refs of other machines whose chains hold anything of it, sorted."""
    found = {ref: tip for ref, tip in ws.repo.refs().items() if refs.is_fetched(ref)}
    if not found or not _held(ws, found, there):
        return []
    return sorted(ref for ref, tip in found.items() if _held(ws, {ref: tip}, there))


def forsaken(ws: Workspace, there: Collection[Oid]) -> frozenset[Oid]:
    """Return the commits that held it, that the user has left, and on which our chains stand."""
    parents = {
        parent
        for tip in own_refs(ws).values()
        for info in ws.repo.chain(tip)[:1]
        for parent in info.parents
    }
    left = ws.git.forsaken(parents)
    return frozenset(
        one for one in left if ws.git.holding(there, one, "--not", *OF_THE_USER)
    )


def _copies(ws: Workspace, there: Collection[Oid]) -> list[Copy]:
    found: set[tuple[Oid, RepoPath | None]] = set()
    for oid, path in ws.git.holding(there, *OF_THE_USER):
        if not path:  # a commit itself: its message has it
            found.add((oid, None))
            continue
        found |= {(one, path) for one in ws.git.commits_with(oid, _MOST_COMMITS)}
    reaching = {commit: _reaching(ws, commit) for commit, _ in found}
    ordered = sorted(found, key=lambda one: (one[0], one[1] or b""))
    return [Copy(commit, path, reaching[commit]) for commit, path in ordered]


def _reaching(ws: Workspace, commit: Oid) -> tuple[str, ...]:
    found = ws.git.refs_with(commit)
    ours = (refs.REF_PREFIX, refs.EXPOSED_PREFIX)
    return tuple(ref for ref in found if not ref.startswith(ours))


def _held(
    ws: Workspace, found: Mapping[str, Oid], there: Collection[Oid]
) -> list[tuple[Oid, RepoPath]]:
    """Return what the chains at some refs hold themselves, whatever they stand on."""
    infos = [info for tip in found.values() for info in ws.repo.chain(tip)]
    said = [(info.oid, RepoPath(b"")) for info in infos if info.oid in there]
    return said + ws.git.holding_below(there, {info.tree for info in infos})
