"""Rebuild the journal from the refs alone: of this repository, of a mirror, or for one command.

`restore --from-mirror` gets the refs, rebuilds the journal, and names the moment to restore. In a
clone into which shadow refs were fetched, above all on a build server, the journal is temporary;
prompts, gaps and open calls are in no ref, so they are unknown there.
Invariant: the new journal is built whole and then replaces the old one in one rename; the old one
is never changed. Nothing in the repository is overwritten: existing refs stay, and the working tree
is left to an ordinary restore. Below the Git directory, a temporary journal writes nothing.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TypeAlias

from gitshadow.errors import NotInitialisedError, StoreError, UsageError
from gitshadow.messages.sharing import BringBackAnswer
from gitshadow.messages.storage import ReindexAnswer
from gitshadow.model import (
    GITLINK_MODE,
    EventKind,
    FileState,
    FileVersion,
    Oid,
    RepoPath,
    StatKey,
)
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.recording.workspace import make_state_dirs, read_config, save_modes
from gitshadow.sharing.mirror import MACHINES, ROOT
from gitshadow.store import machine, refs, remotes
from gitshadow.store.commit_rows import KnownModes
from gitshadow.store.git import Git
from gitshadow.store.journal import events, meta, sessions, state
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.db_file import is_damaged
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.salvage import Salvaged, salvage
from gitshadow.store.journal.state import WorktreeRow
from gitshadow.store.layout import BorrowedLayout, Layout, recorded
from gitshadow.store.lock import acquire_all
from gitshadow.store.remotes import Bare
from gitshadow.store.replay import Tail, is_foreign, read_tail, rebuild
from gitshadow.store.repo import Repo

LOCK_S = 20.0
_SIDE_FILES = ("", "-wal", "-shm")
MIRROR_BRANCHES = "refs/remotes/agent-undo/mirror/"
"""Where the user's branches come to: none of their own is made or moved."""
REFSPEC = "refs/agent-undo/*:refs/agent-undo/*"
_EPHEMERAL_LOCK_S = 5.0


Reindexed: TypeAlias = tuple[ReindexAnswer, tuple[tuple[str, str], ...]]


def reindex(layout: Layout) -> Reindexed:
    """Build the journal of a repository from its refs.

    Returns:
        What was rebuilt, and each ref that could not be read, with the reason.

    Raises:
        LockedError: another process is recording, in this worktree or in a linked one, or an
            agent program has a turn at work.
        StoreError, JournalError: it could not be built; the old journal remains.
    """
    make_state_dirs(layout)
    with ExitStack() as held:
        # Linked worktrees write to the same journal, which is about to be replaced.
        acquire_all(held, (one.lock for one in recorded(layout)), LOCK_S)
        # So do agent programs; none of them may begin or be at work.
        acquire_all(held, layout.saga_locks(), LOCK_S)
        return _reindex(layout, held.enter_context(closing(Repo.open(layout))))


def refuse_unrecorded(layout: Layout) -> None:
    """Refuse a repository in which nothing was recorded and that has no refs of ours.

    A state directory that was lost is rebuilt, but a repository without `init` is not recorded.

    Raises:
        NotInitialisedError: it is such a one.
    """
    if layout.initialised or os.path.isdir(os.path.dirname(layout.wt_dir)):
        return
    with closing(Repo.open(layout)) as repo:
        if any(_own_chains(repo, machine.ours(layout))):
            return
    raise NotInitialisedError(
        f"cannot rebuild a journal: nothing has ever been recorded in {layout.root}",
        hint="git agent-undo init",
    )


def _own_chains(repo: Repo, ours: Collection[str]) -> Iterator[Tail]:
    for ref, tip in repo.refs().items():
        if refs.is_apart(ref) or not refs.is_chain(ref):
            continue
        with suppress(StoreError):
            tail = read_tail(repo, ref, tip)
            if tail is not None and not is_foreign(tail, ours):
                yield tail


def _reindex(layout: Layout, repo: Repo) -> Reindexed:
    fresh = layout.journal + ".new"
    _remove(fresh)
    with closing(Db.open(fresh, create=True)) as db:
        with db.write():
            rebuilt = rebuild(db, repo, machine.ours(layout))
            for worktree, (tree, modes) in rebuilt.worktrees.items():
                save_modes(db, worktree, modes.plain)
                if worktree == layout.worktree:
                    _take_over(layout, repo, db, tree, modes)
            saved = Salvaged()
            if os.path.exists(layout.journal) and not os.path.islink(layout.journal):
                saved = salvage(db, layout.journal)
            events.raise_next(db, saved.next_seq)
        count, known = events.count(db), len(sessions.all_sessions(db))
        # Only the file itself is renamed, so it must not need its write-ahead log.
        db.fold()
    aside = _set_aside(layout)
    os.replace(fresh, layout.journal)
    ingest.move(layout, repo, rebuilt.foreign)
    unreadable = tuple(ref for ref, _ in rebuilt.broken)
    damaged = tuple(saved.damaged)
    answer = ReindexAnswer(count, known, saved.rows, damaged, unreadable, aside)
    return answer, rebuilt.broken


def _take_over(
    layout: Layout, repo: Repo, db: Db, tree: Oid, known: KnownModes
) -> None:
    """Store the newest tree and its states; the next walk reads every file."""
    head_ref, head = repo.head()
    row = WorktreeRow(
        id=layout.worktree,
        path=os.fsencode(layout.root),
        tree=tree,
        head=head,
        head_ref=head_ref,
    )
    state.put_worktree(db, row)
    state.put_many(db, layout.worktree, _states(repo, tree, known))


def _states(repo: Repo, tree: Oid, known: KnownModes) -> Mapping[RepoPath, FileState]:
    found: dict[RepoPath, FileState] = {}
    for path, entry in repo.trees.flat(tree).items():
        # Of content that was lost nothing is known: the next walk stores what is on the disk.
        if entry[0] == GITLINK_MODE or not repo.has(entry[1]):
            continue
        version = FileVersion(entry[1], known.of(path, entry))
        # No file has this stat, so the next walk reads every file.
        found[path] = FileState(version, StatKey(0, 0, 0, 0), 0, True)
    return found


def _set_aside(layout: Layout) -> str | None:
    """Keep the old journal under a name that says why; its own name stays taken all the time."""
    if not os.path.lexists(layout.journal):
        return None
    why = "damaged" if is_damaged(layout.journal) else "before-reindex"
    number = 1
    while os.path.lexists(f"{layout.journal}.{why}-{number}"):
        number += 1
    aside = f"{layout.journal}.{why}-{number}"
    try:
        if os.path.islink(layout.journal):
            os.rename(layout.journal, aside)
        else:
            # A link and not a rename: while the name is taken, no other process creates an empty
            # journal.
            os.link(layout.journal, aside)
    except OSError:
        # Some file systems have no hard links.
        shutil.copyfile(layout.journal, aside)
        os.chmod(aside, 0o600)
    for suffix in ("-wal", "-shm"):
        if os.path.exists(layout.journal + suffix):
            os.rename(layout.journal + suffix, aside + suffix)
    return aside


def _remove(path: str) -> None:
    for suffix in _SIDE_FILES:
        if os.path.lexists(path + suffix):
            os.unlink(path + suffix)


def bring_back(
    layout: Layout, environ: Mapping[str, str], named: str | None
) -> BringBackAnswer:
    """Restore the history from a mirror.

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
    with closing(Repo.open(layout)) as repo:
        top = named or read_config(repo, environ).mirror
        mirror = _found(layout, git, top)
        here = {**repo.refs(), **repo.refs(MIRROR_BRANCHES)}
    copy = Bare(git, mirror)
    there = copy.refs()
    wanted = _wanted(there, here)
    if wanted:
        specs = [f"{name}:{place}" for name, place in wanted.items()]
        remotes.fetch(git, mirror, specs)
    make_state_dirs(layout)
    machine.adopt(layout, (copy.get(MACHINES) or "").split())
    reindex(layout)
    branches = [place for name, place in wanted.items() if name.startswith("refs/h")]
    newest_ns = _moment(layout, mirror, there)
    return BringBackAnswer(mirror, len(wanted), tuple(sorted(branches)), newest_ns)


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
    own = [one for one in paths if Bare(git, one).get(ROOT) == layout.root]
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
        name: MIRROR_BRANCHES + name.removeprefix("refs/heads/")
        for name in there
        if name.startswith("refs/heads/")
    }
    return {name: place for name, place in found.items() if place not in here}


def _moment(layout: Layout, mirror: str, there: Container[str]) -> int:
    """Return the moment to restore: of one mirror the same until a restore has followed.

    A plan that nobody applied recorded the loss itself, and a daemon may have copied that since.
    """
    with closing(Db.open(layout.journal, create=False)) as db:
        before = meta.pending_return(db)
        if before is not None and before.mirror == mirror:
            return before.newest_ns
        newest_ns = _newest(db, layout, there)
        came = meta.MirrorReturn(mirror, newest_ns, time.time_ns())
        with db.write():
            meta.note_return(db, came)
        return newest_ns


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


@contextmanager
def context_from_refs(
    layout: Layout, environ: Mapping[str, str]
) -> Iterator[RecorderContext]:
    """Open a context on the history in the refs of a repository.

    Raises:
        NotInitialisedError: there is no recorded history in its refs either.
        UnsupportedError: the repository cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="gitshadow-") as directory:
        borrowed = BorrowedLayout(layout, directory)
        make_state_dirs(borrowed)
        _fill(borrowed)
        opened = open_context(borrowed, environ, lock_timeout_s=_EPHEMERAL_LOCK_S)
        with closing(opened) as context:
            yield context


def _fill(layout: BorrowedLayout) -> None:
    with closing(Repo.open(layout)) as repo:
        if not any(refs.is_chain(ref) for ref in repo.refs()):
            raise NotInitialisedError(
                f"nothing is recorded or fetched in {layout.root}",
                hint=f"git agent-undo init; on a build server: git fetch origin '{REFSPEC}'",
            )
        with closing(Db.open(layout.journal, create=True)) as db, db.write():
            foreign = rebuild(db, repo, machine.ours(layout)).foreign
        ingest.fold(layout, repo, {ref: repo.refs()[ref] for ref in foreign})
