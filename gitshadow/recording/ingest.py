"""Ingest of fetched chains: what each other machine recorded goes into a journal of its own.

Invariant: nothing of it enters our own journal. A machine's journal follows from the refs alone, so
it is deleted and rebuilt if they were rewritten.
"""

import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import NamedTuple

from gitshadow.errors import JournalError, StoreError
from gitshadow.model import Chain, Oid
from gitshadow.recording.workspace import make_state_dirs
from gitshadow.store import refs
from gitshadow.store.digests import digest
from gitshadow.store.journal import sessions
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.db_file import REINDEX
from gitshadow.store.layout import Layout, machine_layout, machines
from gitshadow.store.lock import WriterLock
from gitshadow.store.machine import name
from gitshadow.store.replay import Tail, fold_in, read_tail
from gitshadow.store.repo import Repo
from gitshadow.store.safe_files import make_dir

_LOCK_S = 60.0
_NAME_BYTES = 6


class IngestResult(NamedTuple):
    """The sessions that are new or longer, and the refs that could not be read, with the reason."""

    sessions: tuple[str, ...]
    broken: tuple[tuple[str, str], ...]


def move(layout: Layout, repo: Repo, found: Collection[str]) -> None:
    """Move chains of other machines that are among ours to the fetched ones, and ingest them.

    Raises:
        StoreError, JournalError: it could not be done.
    """
    for ref in found:
        tip = repo.ref(ref)
        if tip is not None:
            repo.force_ref(refs.fetched_ref(ref), tip)
            repo.delete_ref(ref)
    follow(layout, repo)


def follow(layout: Layout, repo: Repo) -> IngestResult:
    """Bring the journals of other machines to what their fetched refs contain.

    Raises:
        LockedError: another process is at it.
        StoreError, JournalError: it could not be done.
    """
    here = repo.refs()
    found = {
        refs.original_ref(ref): tip for ref, tip in here.items() if refs.is_fetched(ref)
    }
    return fold(layout, repo, found)


def fold(layout: Layout, repo: Repo, found: Mapping[str, Oid]) -> IngestResult:
    """Bring the journals of other machines to these chains, by the refs that they have there."""
    if not found and not os.path.isdir(layout.fetched_dir):
        return IngestResult((), ())
    make_dir(layout, "fetched")
    with WriterLock(os.path.join(layout.fetched_dir, "lock")) as lock:
        lock.acquire(_LOCK_S)
        standing = _standing(layout, repo, found)
        known = {ref for chains in standing.values() for ref in chains}
        tails, broken = _read(repo, found, known)
        done: list[str] = []
        for machine in sorted(tails.keys() | standing.keys()):
            new = tails.get(machine, [])
            broken += _fold_machine(layout, repo, machine, new)
            done += [tail.session for tail in new]
    return IngestResult(tuple(sorted(set(done))), tuple(broken))


def make_journal(layout: Layout, machine: str) -> None:
    """Create the journal of a machine if there is none."""
    make_dir(layout, "fetched")
    place = machine_layout(layout, machine)
    make_state_dirs(place)
    with closing(Db.open(place.journal, create=True)) as db, db.write():
        name(db, machine)


def _standing(
    layout: Layout, repo: Repo, found: Mapping[str, Oid]
) -> dict[str, dict[str, Chain]]:
    """Return the chains that are as their refs are, by machine."""
    # A journal with a chain that is gone or was rewritten has rows of commits that no ref has any
    # more. It is deleted, because the refs rebuild all of it.
    standing: dict[str, dict[str, Chain]] = {}
    for machine in machines(layout):
        chains = _chains(machine_layout(layout, machine))
        if chains is not None and all(
            _goes_on(repo, chain, found) for chain in chains.values()
        ):
            standing[machine] = chains
        else:
            shutil.rmtree(os.path.join(layout.fetched_dir, machine))
    return {
        machine: {
            ref: chain for ref, chain in chains.items() if chain.tip == found[ref]
        }
        for machine, chains in standing.items()
    }


def _goes_on(repo: Repo, chain: Chain, found: Mapping[str, Oid]) -> bool:
    """Return whether a chain is at its ref, or below it."""
    tip = found.get(chain.ref)
    if tip is None or tip == chain.tip:
        return tip is not None
    try:
        return read_tail(repo, chain.ref, tip, chain) is not None
    except StoreError:
        return False


def _chains(layout: Layout) -> dict[str, Chain] | None:
    """Return the chains in a journal, None if it is damaged or of an older version."""
    try:
        with closing(Db.open(layout.journal, create=False)) as db:
            return {chain.ref: chain for chain in sessions.chains(db)}
    except JournalError as error:
        if error.hint != REINDEX:
            raise
        return None


def _read(
    repo: Repo, found: Mapping[str, Oid], known: Collection[str]
) -> tuple[dict[str, list[Tail]], list[tuple[str, str]]]:
    """Return the chains that no journal has yet, by machine, and what cannot be read."""
    tails: dict[str, list[Tail]] = {}
    broken: list[tuple[str, str]] = []
    for ref, tip in sorted(found.items()):
        if ref in known:
            continue
        try:
            tail = read_tail(repo, ref, tip)
        except StoreError as error:
            broken.append((ref, error.message))
            continue
        if tail is not None:
            # Sequence numbers of two machines would collide in one journal, so a chain that names
            # none has its own.
            machine = tail.machine or digest(tail.session, _NAME_BYTES)
            tails.setdefault(machine, []).append(tail)
    return tails, broken


def _fold_machine(
    layout: Layout, repo: Repo, machine: str, tails: list[Tail]
) -> list[tuple[str, str]]:
    if not tails:
        return []
    make_journal(layout, machine)
    journal = machine_layout(layout, machine).journal
    with closing(Db.open(journal, create=False)) as db, db.write():
        return fold_in(db, repo, tails)
