"""Mirror the history to a bare repository outside the project, and prune in every mirror.

Each project has its own mirror below the configured directory, named after the worktree and the
machine id, so that the history survives the loss of the Git directory. It can be cloned like any
other repository, and Git does not push objects that are already there. Earlier mirrors, under
another path or machine id, are known too.
Invariant: a ref that vanished here is kept there; only what was dropped on purpose is deleted, and
the daemon overwrites nothing there that is not also here. A mirror of another copy is named, never
changed.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import JournalError, ShadowError, StoreError
from gitshadow.messages.storage import ClearedMirror
from gitshadow.model import Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.store import machine, refs, remotes
from gitshadow.store.digests import digest
from gitshadow.store.git import Git
from gitshadow.store.journal import meta, prune, purge
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.remotes import Bare
from gitshadow.store.repo import Repo
from gitshadow.words import counted

ROOT, MACHINES = "agent-undo.root", "agent-undo.machines"
"""What a mirror says of itself: the worktree, and the ids of the machines it is of."""
_KNOWN = "mirror_places"
TROUBLE = "mirror_trouble"
"""The key of what keeps us from mirroring, as the journal has it; empty where nothing does."""
KEPT = "cannot mirror, to keep what is there: "
"""How trouble begins where the mirror has what we have not, and somebody must say which counts."""
QUIET_S = 5.0
# Under steady writing it is never quiet; the mirror is then about a minute behind.
_LATEST_S = 60.0
# A disk that is not connected will not be there in a few seconds.
_FAILED_S = 300.0
_DONE = "mirrored"
_LEFT = "mirror_left"
# Forced, because branches are amended and chains rewritten; `_refuse_loss` protects what only the
# mirror has. Sessions of other machines have mirrors of their own.
_SPECS = (
    f"+{refs.REF_PREFIX}*:{refs.REF_PREFIX}*",
    f"^{refs.REF_PREFIX}{refs.FETCHED}*",
    "+refs/heads/*:refs/heads/*",
    "+refs/tags/*:refs/tags/*",
)


def place_of(ws: Workspace) -> str | None:
    """Return the repository that is this project's mirror, None where none is wanted."""
    top, name = ws.config.mirror, machine.current(ws.db)
    if top is None or name is None:
        return None
    stem = os.path.basename(ws.layout.root) or "root"
    return os.path.join(top, f"{stem}-{name}.git")


def remember(ws: Workspace, place: str) -> None:
    """Know a mirror from now on, wherever the next one will be; inside `db.write()`."""
    known = _known(ws)
    if place not in known:
        meta.put(ws.db, _KNOWN, json.dumps([*known, place]))


def forget(ws: Workspace, names: Collection[str]) -> list[ClearedMirror]:
    """Delete refs in every mirror of ours; return those that could not be reached."""
    found = _each(ws, (), lambda copy: _drop(copy, names))
    return [one for one in found if one.trouble]


def scrub(ws: Workspace, gone: Collection[Oid]) -> list[ClearedMirror]:
    """Delete purged content in every mirror of ours, objects too; return each result."""
    return _each(ws, gone, lambda copy: clear(ws, copy, gone))


def clear(ws: Workspace, copy: Bare, gone: Collection[Oid]) -> ClearedMirror:
    """Delete purged content in one mirror.

    Refs that are here too become what they are here; one of ours that the mirror alone has is
    dropped where it holds any of it, one of the user's is named.

    Raises:
        StoreError: it could not be done.
    """
    there, here = copy.refs(), {**ws.repo.refs(), **users_refs(ws)}
    specs = [f"+{ref}:{ref}" for ref, tip in there.items() if here.get(ref, tip) != tip]
    # The rewritten refs come first: if we are killed here, the mirror still has every session.
    if specs:
        send(ws.git, copy, specs)
    dropped: list[str] = []
    if copy.having(gone):
        alone = [r for r in there if r.startswith(refs.REF_PREFIX) and r not in here]
        dropped = [ref for ref in alone if copy.keeps(ref, gone)]
        copy.drop(dropped)
        copy.scrub()
    left = copy.having(gone)
    held = [ref for ref in copy.refs() if copy.keeps(ref, left)] if left else []
    return ClearedMirror(copy.path, tuple(dropped), tuple(held), None)


def send(git: Git, copy: Bare, specs: Sequence[str]) -> None:
    """Write refs to a mirror, also where the user rewrote a branch.

    Raises:
        StoreError: it could not be done, or not for all of them.
    """
    # `git init --shared` forbids it (git-init(1)); older mirrors have it still.
    copy.put("receive.denyNonFastForwards", "false")
    answers = remotes.push(git, copy.path, specs)
    refused = [(ref, one.refused) for ref, one in answers.items() if one.refused]
    if refused:
        ref, why = refused[0]
        raise StoreError(f"cannot mirror {ref}: {why}")


def users_refs(ws: Workspace) -> dict[str, Oid]:
    """Return the user's branches and tags."""
    return {**ws.repo.refs("refs/heads/"), **ws.repo.refs("refs/tags/")}


def _drop(copy: Bare, names: Collection[str]) -> ClearedMirror:
    copy.drop(sorted(copy.refs().keys() & set(names)))
    return ClearedMirror(copy.path, (), (), None)


def _each(
    ws: Workspace, gone: Collection[Oid], work: Callable[[Bare], ClearedMirror]
) -> list[ClearedMirror]:
    found: list[ClearedMirror] = []
    for place in _places(ws):
        copy = Bare(ws.git, place)
        try:
            if not os.path.isdir(place):
                found += _away(ws, place)
            elif not os.path.exists(os.path.join(place, "HEAD")):
                found.append(
                    ClearedMirror(place, (), (), "it is no longer a repository")
                )
            elif _is_ours(ws, copy):
                found.append(work(copy))
            elif copy.get(ROOT) == ws.layout.root and gone and copy.having(gone):
                why = "it belongs to another repository that was here, and still contains it"
                found.append(ClearedMirror(place, (), (), why))
        except StoreError as error:
            found.append(ClearedMirror(place, (), (), error.message))
    return found


def _is_ours(ws: Workspace, copy: Bare) -> bool:
    named = (copy.get(MACHINES) or "").split()
    return not machine.ours(ws.layout).isdisjoint(named)


def _away(ws: Workspace, place: str) -> list[ClearedMirror]:
    """Return a mirror that cannot be reached; forget one that somebody deleted."""
    if place not in _known(ws):
        # No mirror was made there yet.
        return []
    if os.path.isdir(os.path.dirname(place)):
        known = [one for one in _known(ws) if one != place]
        with ws.db.write():
            meta.put(ws.db, _KNOWN, json.dumps(known))
        return []
    return [ClearedMirror(place, (), (), "it is not reachable")]


def _places(ws: Workspace) -> list[str]:
    """Return where mirrors of this copy are or were, and what is in the same directory, sorted."""
    current = place_of(ws)
    named = {*_known(ws), *([current] if current else [])}
    words = {*machine.ours(ws.layout), ws.layout.root}
    found: set[str] = set()
    for top in {os.path.dirname(one) for one in named}:
        with suppress(
            OSError
        ):  # gone, or not ours to list: what is known there is named
            names = (name for name in os.listdir(top) if name.endswith(".git"))
            found |= {os.path.join(top, name) for name in names}
    return sorted(named | {place for place in found if _says(place, words)})


def _says(place: str, words: Collection[str]) -> bool:
    """Return whether a repository's settings have one of some words: git need not be asked."""
    try:
        with open(
            os.path.join(place, "config"), encoding="utf-8", errors="replace"
        ) as f:
            text = f.read()
    except OSError:
        return False
    return any(word in text for word in words)


def _known(ws: Workspace) -> list[str]:
    return [str(one) for one in json.loads(meta.get(ws.db, _KNOWN) or "[]")]


def mirror_now(ws: Workspace, git: Git) -> str | None:
    """Bring the mirror up to what is here; return where it is, None where none is wanted.

    Somebody asked for it, so what is here counts, also where the mirror has more. What was purged
    while the mirror could not be reached goes from it now.

    Raises:
        StoreError: it could not be written.
    """
    place = place_of(ws)
    if place is not None:
        _Copy(ws.layout, git, place, ws.repo.format).run()
        gone = purge.awaited(ws.db)
        if gone:
            clear(ws, Bare(git, place), gone)
        left = Bare(git, place).refs().keys() - ws.repo.refs().keys()
        with ws.db.write():
            meta.settle_return(ws.db)
            meta.put(ws.db, _LEFT, " ".join(filter(refs.is_chain, left)))
        _note(ws, _state_of(ws), "", place)
    return place


class Mirroring:
    """Mirror in parallel to the daemon's work; its main thread calls every method."""

    def __init__(
        self, ws: Workspace, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ws = ws
        self._clock = clock
        self._seq: str | None = None
        self._changed_at = self._begun_at = clock()
        self._again_at = 0.0
        self._run: _Run | None = None

    def tick(self) -> None:
        """Start where something is new and it is quiet, or has gone on for long."""
        now = self._clock()
        if self._run is not None:
            if self._run.is_alive():
                return
            self._finish(self._run, now)
        place = place_of(self._ws)
        if place is None or now < self._again_at:
            return
        seq = meta.get(self._ws.db, "next_seq")
        if seq != self._seq:
            self._seq, self._changed_at = seq, now
        late = now - self._begun_at >= _LATEST_S
        if now - self._changed_at < QUIET_S and not late:
            return
        # Digests of our own refs show whether there is news without asking the mirror, which
        # would start git.
        state = _state_of(self._ws)
        if state == meta.get(self._ws.db, _DONE):
            self._again_at = now + QUIET_S
            return
        git = Git(self._ws.layout, dict(self._ws.environ))
        self._begun_at = now
        layout, form = self._ws.layout, self._ws.repo.format
        self._run = _Run(_Copy(layout, git, place, form, self._care()), state)
        self._run.start()

    def _care(self) -> "_Care":
        db = self._ws.db
        left = (meta.get(db, _LEFT) or "").split()
        pending = meta.pending_return(db) is not None
        return _Care(prune.dropped_refs(db).union(left), pending)

    def close(self) -> None:
        """Wait for what is going on."""
        if self._run is not None:
            self._run.join()
            self._finish(self._run, self._clock())

    def _finish(self, run: "_Run", now: float) -> None:
        self._run = None
        self._again_at = now + (_FAILED_S if run.trouble else QUIET_S)
        _note(self._ws, None if run.trouble else run.state, run.trouble, run.place)


class _Care(NamedTuple):
    """What distinguishes a lost history from one that was dropped or rewritten on purpose.

    `dropped` are refs of sessions that were pruned, or that were missing here when somebody said
    that what is here counts; `is_pending` says that a restore from a mirror
    was planned and not applied.
    """

    dropped: frozenset[str]
    is_pending: bool


class _Copy:
    """Copy refs to one mirror; with care nothing there is overwritten that is not here too."""

    def __init__(
        self,
        layout: Layout,
        git: Git,
        place: str,
        form: ObjectFormat,
        care: _Care | None = None,
    ) -> None:
        self._layout = layout
        self._git = git
        self.place = place
        self._form = form
        self._care = care

    def run(self) -> None:
        """Make the mirror where it is new, and push what it lacks.

        Raises:
            StoreError: it could not be written.
        """
        place, copy = self.place, Bare(self._git, self.place)
        try:
            # A mirror has everything that was recorded, so only its owner may read it.
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        except OSError as error:
            raise ShadowError(
                f"could not create the mirror {place}: {error.strerror}",
                hint="git config agent-undo.mirror DIRECTORY",
            ) from error
        copy.make(self._form)
        if self._care is not None:
            self._refuse_loss(copy.refs(), self._care)
        copy.put(ROOT, self._layout.root)
        copy.put(MACHINES, " ".join(sorted(machine.ours(self._layout))))
        send(self._git, copy, _SPECS)

    def _refuse_loss(self, there: Mapping[str, Oid], care: _Care) -> None:
        """Refuse to write over a history that the mirror has and we have not.

        Raises:
            StoreError: it has one, or another process is about to restore it.
        """
        # The planned restore needs the sessions that this copy would overwrite.
        if care.is_pending:
            raise StoreError(
                f"{KEPT}a restore from a mirror was planned and not applied"
            )
        here = {**self._refs(), **dict.fromkeys(care.dropped)}
        lost = [
            ref
            for ref, tip in there.items()
            if refs.is_chain(ref) and not self._goes_on(ref, tip, here)
        ]
        if lost:
            raise StoreError(
                f"{KEPT}{counted(len(lost), 'session')} missing or different here"
                f" ({lost[0]})"
            )

    def _goes_on(self, ref: str, tip: Oid, here: Mapping[str, Oid | None]) -> bool:
        if ref not in here:
            return False
        new = here[ref]
        return new is None or new == tip or self._git.descends(new, tip)

    def _refs(self) -> dict[str, Oid]:
        repo = Repo.open(self._layout)
        try:
            return repo.refs()
        finally:
            repo.close()


class _Run(threading.Thread):
    """Copy once, away from the daemon's own thread."""

    def __init__(self, copy: _Copy, state: str) -> None:
        super().__init__(name="mirror", daemon=True)
        self._copy = copy
        self.place = copy.place
        self.state = state
        self.trouble = "the copy process died"

    def run(self) -> None:
        """Copy; called by the new thread."""
        try:
            self._copy.run()
            self.trouble = ""
        except (ShadowError, OSError) as error:
            self.trouble = str(error)


def _state_of(ws: Workspace) -> str:
    """Return a digest of what there is to mirror."""
    found = {**ws.repo.refs(), **users_refs(ws)}
    return digest("".join(f"{ref} {oid}\n" for ref, oid in sorted(found.items())))


def _note(ws: Workspace, state: str | None, trouble: str, place: str) -> None:
    """Leave in the journal what was mirrored, and what is in the way, for `doctor`."""
    with suppress(JournalError), ws.db.write():
        if state is not None:
            meta.put(ws.db, _DONE, state)
            remember(ws, place)
        meta.put(ws.db, TROUBLE, trouble)
