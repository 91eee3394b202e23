"""Purge: rewrite history and journal without the content of some paths, or without some texts.

Files of ours first, then objects, then rows, then refs; a note stands from before the first change
of the history until after the last, and whoever opens the repository next goes on from it.
Invariant: nothing of the user's is touched: where their commits or index hold the content, that is
said and left.
"""

import secrets
import shutil
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from gitshadow.errors import JournalError, LockedError, StoreError
from gitshadow.maintenance import purge_files
from gitshadow.maintenance.purge_files import Scrubbing
from gitshadow.maintenance.purge_residue import fetched_with, forsaken, own_refs
from gitshadow.model import Oid, RepoPath
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store.git import Git
from gitshadow.store.journal import purge as journal
from gitshadow.store.journal import scrub
from gitshadow.store.journal.purge import PendingPurge
from gitshadow.store.layout import recorded
from gitshadow.store.lock import WriterLock
from gitshadow.store.packing import Packer
from gitshadow.store.purged import forms_of, ordered, without
from gitshadow.store.repo import Repo
from gitshadow.store.rewriting import Gone, Rewriter
from gitshadow.store.searching import Holding, search

_LOCK_S = 20.0
_SALT_BYTES = 16
_LEAST_TEXT, _MOST_TEXT = 16, 64 * 1024
_MOST_TEXTS = 100


class Survey(NamedTuple):
    """Say what a purge takes, before it takes it.

    `names` are paths with every name that they had, `contents` the blobs and commits of ours that
    go, `refs` the chains to be rewritten, `forms` how the texts are spelled, `holding` every object
    with a text in it, whoever's; `elsewhere` what of journal and files holds one, `on_disk` the
    recorded files that do.
    """

    gone: Gone
    contents: frozenset[Oid] = frozenset()
    refs: tuple[str, ...] = ()
    forms: tuple[bytes, ...] = ()
    holding: Holding = Holding()
    elsewhere: Scrubbing = Scrubbing()
    on_disk: tuple[RepoPath, ...] = ()

    @property
    def names(self) -> tuple[RepoPath, ...]:
        """Return the paths, with every name that the files there ever had."""
        return self.gone.paths


NOTHING = Survey(Gone((), frozenset(), {}, frozenset()))


def survey(ws: Workspace, paths: Sequence[RepoPath], texts: Sequence[bytes]) -> Survey:
    """Find all that a purge of paths, or of texts wherever they stand, takes; nothing changes.

    Raises:
        UsageError: a text is too short.
        StoreError: an object could not be read.
    """
    names = tuple(journal.names_of(ws.db, paths)) if paths else ()
    forms = forms_of(texts)
    holding = search(ws.git, ws.repo, forms) if forms else Holding()
    own = own_refs(ws, apart=bool(forms))
    messages = _messages(ws.repo, own.values(), holding.commits, forms)
    gone = Gone(names, holding.blobs, messages, frozenset())
    rewriter = Rewriter(ws.repo, gone, b"")
    found = {ref: rewriter.touches(tip) for ref, tip in own.items()}
    contents = frozenset[Oid]().union(*found.values())
    forms = ordered((*forms, *(_whole_texts(ws.repo, contents) if paths else ())))
    states = ws.states.all()
    return Survey(
        gone,
        contents,
        tuple(sorted(ref for ref, held in found.items() if held)),
        forms,
        holding,
        purge_files.look(ws.layout, ws.db, forms),
        tuple(
            sorted(
                path
                for path, state in states.items()
                if state.version.oid in holding.blobs or path in names
            )
        ),
    )


def purge(context: RecorderContext, found: Survey) -> None:
    """Take what was found out of history, journal and files.

    Raises:
        LockedError: another worktree is being recorded, an agent program is at work, or somebody
            packs.
        RefusedError: a call that waits to be sent holds a text.
        StoreError, JournalError: it stopped there; `finish` goes on.
    """
    ws = context.workspace
    with ExitStack() as held:
        for one in recorded(ws.layout):
            if one.worktree != ws.layout.worktree:
                held.enter_context(WriterLock(one.lock)).acquire(_LOCK_S)
        if found.elsewhere.found.rows:
            for path in (ws.layout.sagas_lock, *ws.layout.saga_locks()):
                held.enter_context(WriterLock(path)).acquire(_LOCK_S)
        packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
        held.enter_context(packer.alone(_LOCK_S))
        purge_files.refuse_unsent(ws.db, found.forms)
        purge_files.clear_files(ws.layout, found.forms if found.elsewhere.files else ())
        salt = secrets.token_bytes(_SALT_BYTES)
        noted = PendingPurge(found.names, found.gone.blobs, found.gone.messages, salt)
        with ws.db.write():
            journal.begin(ws.db, noted)
            scrub.clear(ws.db, found.forms, found.elsewhere.found)
            known = {*journal.awaited(ws.db), *_all_of(found)}
            journal.await_gone(ws.db, sorted(known))
        _purge(context, packer, noted)


def finish(context: RecorderContext) -> None:
    """Do again what a crash interrupted."""
    ws = context.workspace
    noted = journal.under_way(ws.db)
    if noted is None:
        return
    packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
    with suppress(LockedError), packer.alone(_LOCK_S):
        _purge(context, packer, noted)


def fetched_holding(ws: Workspace, found: Survey) -> list[str]:
    """Return the refs of other machines that `drop_fetched` would drop after this purge."""
    return fetched_with(ws, {*journal.awaited(ws.db), *_all_of(found)})


def drop_fetched(context: RecorderContext) -> list[str]:
    """Drop the refs of other machines that hold what was purged; their journals follow.

    What the other machine has is its own, and comes back with the next fetch.

    Raises:
        StoreError, JournalError: it could not be done.
    """
    ws = context.workspace
    found = fetched_with(ws, journal.awaited(ws.db))
    for ref in found:
        ws.repo.delete_ref(ref)
    if found:
        context.others.close()
        ingest.follow(ws.layout, ws.repo)
    return found


def proof(ws: Workspace, found: Survey) -> list[str]:
    """Search every object and the journal's bytes again; return the journal's files that hold it.

    Objects that hold a text and were not known are awaited from now on.

    Raises:
        StoreError: an object could not be read.
    """
    if not found.forms:
        return []
    again = search(ws.git, ws.repo, found.forms) if found.holding != Holding() else None
    if again is not None:
        with ws.db.write():
            known = {*journal.awaited(ws.db), *again.blobs, *again.commits}
            journal.await_gone(ws.db, sorted(known))
    return purge_files.still_there(ws.layout, found.forms)


def _messages(
    repo: Repo, tips: Collection[Oid], held: Collection[Oid], forms: Sequence[bytes]
) -> dict[Oid, bytes]:
    """Return what those commits of ours are to say whose message holds a text."""
    if not held:
        return {}
    infos = (info for tip in tips for info in repo.chain(tip) if info.oid in held)
    return {info.oid: without(info.message, forms) for info in infos}


def _whole_texts(repo: Repo, contents: Collection[Oid]) -> tuple[bytes, ...]:
    """Return contents as they may stand in an argument: whole, of a length that is no chance.

    Of many versions the shortest ones: each is looked for in all that the journal has.
    """
    found = {repo.raw(oid).strip() for oid in contents}
    texts = [one for one in found if _LEAST_TEXT <= len(one) <= _MOST_TEXT]
    chosen = sorted((one for one in texts if b"\0" not in one), key=len)
    return forms_of(chosen[:_MOST_TEXTS])


def _all_of(found: Survey) -> set[Oid]:
    return {*found.contents, *found.holding.blobs, *found.holding.commits}


def _purge(context: RecorderContext, packer: Packer, noted: PendingPurge) -> None:
    ws = context.workspace
    gone = Gone(noted.paths, noted.blobs, noted.messages, frozenset())
    rewriter, moved = _rewritten(ws, gone, noted.salt)
    known = {*journal.awaited(ws.db), *rewriter.blobs}
    if left := forsaken(ws, known):
        rewriter, moved = _rewritten(ws, gone._replace(parents=left), noted.salt)
    tree = ws.recorder.row.tree
    new_tree = rewriter.tree(tree) if tree is not None and ws.repo.has(tree) else tree
    _rename(ws, rewriter)
    for ref, (old, new) in moved.items():
        ws.repo.move_ref(ref, old, new)
    _release(ws, packer, rewriter)
    shutil.rmtree(ws.layout.pages_dir, ignore_errors=True)
    ws.states.forget()
    ws.repo.refresh()
    if new_tree is not None:
        ws.recorder.set_tree(new_tree, ws.recorder.row.head, ws.recorder.row.head_ref)
    with suppress(JournalError):  # a reader, or no room: the proof says what is left
        scrub.squeeze(ws.db)
    with ws.db.write():
        journal.end(ws.db)


def _rewritten(
    ws: Workspace, gone: Gone, salt: bytes
) -> tuple[Rewriter, dict[str, tuple[Oid, Oid]]]:
    """Write what stands for each ref of ours, and for what is shown of it; nothing moves yet."""
    rewriter = Rewriter(ws.repo, gone, salt)
    own = own_refs(ws, apart=bool(gone.blobs or gone.messages))
    found = {ref: (tip, rewriter.tip(tip)) for ref, tip in own.items()}
    return rewriter, {ref: pair for ref, pair in found.items() if pair[0] != pair[1]}


def _rename(ws: Workspace, rewriter: Rewriter) -> None:
    def tree_of(tree: Oid) -> Oid:
        try:
            return rewriter.tree(tree)
        except StoreError:  # a worktree that is gone, with its objects
            return tree

    with ws.db.write():
        journal.rename(ws.db, rewriter.stands_for)
        journal.rename_commits(ws.db, rewriter.commits)
        journal.rename_trees(ws.db, tree_of)
        known = {*journal.awaited(ws.db), *rewriter.blobs}
        journal.await_gone(ws.db, sorted(known))


def _release(ws: Workspace, packer: Packer, rewriter: Rewriter) -> None:
    """Let Git have every pack in which anything old lies, and look at all refs anew."""
    gone = {*journal.awaited(ws.db), *rewriter.commits}
    for pack in packer.packs.ours():
        if packer.packs.holds_any(pack, gone):
            packer.packs.release(pack)
    packer.forget()
