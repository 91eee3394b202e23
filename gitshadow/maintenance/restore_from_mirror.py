"""Coming back from a mirror: refs, then the journal, then a moment to restore.

Invariant: nothing of the repository that is there is overwritten: refs that it has stay, and the
working tree is left to an ordinary restore.
"""

import os
import time
from collections.abc import Container, Mapping
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.maintenance.reindex import reindex
from gitshadow.model import EventKind
from gitshadow.recording.workspace import make_state_dirs, read_config
from gitshadow.sharing import mirrors
from gitshadow.store import machine, refs, remotes
from gitshadow.store.bare import Bare
from gitshadow.store.git import Git
from gitshadow.store.journal import events, returned, sessions
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.layout import Layout
from gitshadow.store.repo import Repo

BRANCHES = "refs/remotes/agent-undo/mirror/"
"""Where the user's branches come to: none of their own is made or moved."""


class MirrorRestore(NamedTuple):
    """Say what came back: from where, how many refs, which branches, and the newest moment."""

    mirror: str
    refs: int
    branches: tuple[str, ...]
    newest_ns: int


def bring_back(
    layout: Layout, environ: Mapping[str, str], named: str | None
) -> MirrorRestore:
    """Bring the history back from a mirror.

    Args:
        layout: The worktree; its repository may be a fresh one.
        environ: The environment, for git children and settings.
        named: The mirror, or the directory of all mirrors; None for the configured one.

    Raises:
        UsageError: there is no such mirror, or several fit.
        LockedError: somebody records here.
        StoreError, JournalError: it could not be read, or the journal not be built.
    """
    git = Git(layout, dict(environ))
    repo = Repo.open(layout)
    try:
        top = named or read_config(repo, environ).mirror
        mirror = _found(layout, git, top)
        here = {**repo.refs(), **repo.refs(BRANCHES)}
    finally:
        repo.close()
    copy = Bare(git, mirror)
    there = copy.refs()
    wanted = _wanted(there, here)
    if wanted:
        specs = [f"{name}:{place}" for name, place in wanted.items()]
        remotes.fetch(git, mirror, specs)
    make_state_dirs(layout)
    machine.adopt(layout, (copy.get(mirrors.MACHINES) or "").split())
    reindex(layout)
    branches = [place for name, place in wanted.items() if name.startswith("refs/h")]
    newest_ns = _moment(layout, mirror, there)
    return MirrorRestore(mirror, len(wanted), tuple(sorted(branches)), newest_ns)


def _found(layout: Layout, git: Git, top: str | None) -> str:
    """Return the mirror of this worktree: the one that is named, else the newest that is of it."""
    if top is None:
        raise UsageError(
            "missing argument: PATH of the mirror",
            hint="name it: git agent-undo restore --from-mirror PATH",
        )
    if os.path.isfile(os.path.join(top, "HEAD")):
        return top
    try:
        names = sorted(os.listdir(top))
    except OSError as error:
        raise UsageError(f"could not read {top}: {error.strerror}") from error
    paths = [os.path.join(top, name) for name in names if name.endswith(".git")]
    own = [one for one in paths if Bare(git, one).get(mirrors.ROOT) == layout.root]
    if not own:
        raise UsageError(
            f"cannot find a mirror of {layout.root} in {top}",
            hint="choose one: " + (", ".join(paths) or "there is none"),
        )
    return max(own, key=lambda path: os.stat(os.path.join(path, "refs")).st_mtime_ns)


def _wanted(there: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str]:
    """Return the refs of a mirror that are not here, and where they belong."""
    found = {
        name: name
        for name in there
        if name.startswith(refs.REF_PREFIX) and not refs.is_fetched(name)
    }
    found |= {
        name: BRANCHES + name.removeprefix("refs/heads/")
        for name in there
        if name.startswith("refs/heads/")
    }
    return {name: place for name, place in found.items() if place not in here}


def _moment(layout: Layout, mirror: str, there: Container[str]) -> int:
    """Return the moment to restore: of one mirror the same until a restore has followed.

    A plan that nobody applied recorded the loss itself, and a daemon may have copied that since.
    """
    db = Db.open(layout.journal, create=False)
    try:
        before = returned.pending(db)
        if before is not None and before.mirror == mirror:
            return before.newest_ns
        newest_ns = _newest(db, layout, there)
        came = returned.MirrorReturn(mirror, newest_ns, time.time_ns())
        with db.write():
            returned.note(db, came)
        return newest_ns
    finally:
        db.close()


def _newest(db: Db, layout: Layout, there: Container[str]) -> int:
    """Return the newest moment of this worktree in the sessions that a mirror has."""
    chains = sessions.chains(db, layout.worktree)
    wanted = EventFilter(
        worktree=layout.worktree,
        sessions={chain.session for chain in chains if chain.ref in there},
        limit=1,
        kinds=tuple(kind for kind in EventKind if kind is not EventKind.GAP),
    )
    rows = events.rows(db, wanted)
    if not rows:
        raise UsageError(f"cannot find anything about worktree {layout.worktree} there")
    return rows[0].ts_ns
