"""The mirror: a bare repository outside the project; the history survives its Git directory.

Each project has its own below the configured directory, named after the worktree and the machine
id; it can be cloned like any other. Git pushes there, objects that lie there already are not
copied again.
Invariant: a ref that vanished here stays there; only what was dropped on purpose goes, and the
daemon writes over nothing there that is not here too.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

from gitshadow.errors import JournalError, ShadowError, StoreError
from gitshadow.model import Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.sharing import mirrors
from gitshadow.sharing.mirrors import MACHINES, ROOT, place_of
from gitshadow.store import machine, refs
from gitshadow.store.bare import Bare
from gitshadow.store.git import Git
from gitshadow.store.journal import meta, prune, purge, returned
from gitshadow.store.layout import Layout
from gitshadow.store.repo import Repo
from gitshadow.words import counted

TROUBLE = "mirror_trouble"
"""The key of what keeps us from mirroring, as the journal has it; empty where nothing does."""
KEPT = "cannot mirror, to keep what is there: "
"""How trouble begins where the mirror has what we have not, and somebody must say which counts."""
QUIET_S = 5.0
_LATEST_S = 60.0
_FAILED_S = 300.0
_DONE = "mirrored"
_LEFT = "mirror_left"
_SPECS = (
    f"+{refs.REF_PREFIX}*:{refs.REF_PREFIX}*",
    f"^{refs.REF_PREFIX}{refs.FETCHED}*",
    "+refs/heads/*:refs/heads/*",
    "+refs/tags/*:refs/tags/*",
)


def mirror_now(ws: Workspace, git: Git) -> str | None:
    """Bring the mirror up to what is here; return where it is, None where none is wanted.

    Somebody asked for it, so what is here counts, also where the mirror has more. What was purged
    while the mirror could not be reached goes from it now.

    Raises:
        StoreError: it could not be written.
    """
    place = place_of(ws)
    if place is not None:
        _Copy(ws.layout, git, place).run()
        gone = purge.awaited(ws.db)
        if gone:
            mirrors.clear(ws, Bare(git, place), gone)
        left = Bare(git, place).refs().keys() - ws.repo.refs().keys()
        with ws.db.write():
            returned.settle(ws.db)
            meta.put(ws.db, _LEFT, " ".join(filter(refs.is_chain, left)))
        _note(ws, _state_of(ws), "", place)
    return place


class Mirroring:
    """Mirror beside the daemon's work; every method is called by its one thread."""

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
        state = _state_of(self._ws)
        if state == meta.get(self._ws.db, _DONE):
            self._again_at = now + QUIET_S
            return
        git = Git(self._ws.layout, dict(self._ws.environ))
        self._begun_at = now
        self._run = _Run(_Copy(self._ws.layout, git, place, self._care()), state)
        self._run.start()

    def _care(self) -> "_Care":
        db = self._ws.db
        left = (meta.get(db, _LEFT) or "").split()
        return _Care(prune.dropped_refs(db).union(left), returned.is_pending(db))

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
    """Hold what tells a history that was lost from one that was dropped or rewritten on purpose.

    `dropped` are refs of sessions that were pruned, or that were missing here when somebody said
    that what is here counts; `is_pending` says that a restore from a mirror
    was planned and not applied.
    """

    dropped: frozenset[str]
    is_pending: bool


class _Copy:
    """Copy refs to one mirror; with care nothing there is overwritten that is not here too."""

    def __init__(
        self, layout: Layout, git: Git, place: str, care: _Care | None = None
    ) -> None:
        self._layout = layout
        self._git = git
        self.place = place
        self._care = care

    def run(self) -> None:
        """Make the mirror where it is new, and push what it lacks.

        Raises:
            StoreError: it could not be written.
        """
        place, copy = self.place, Bare(self._git, self.place)
        try:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        except OSError as error:
            raise ShadowError(
                f"could not create the mirror {place}: {error.strerror}",
                hint="git config agent-undo.mirror DIRECTORY",
            ) from error
        copy.make()
        if self._care is not None:
            self._refuse_loss(copy.refs(), self._care)
        copy.put(ROOT, self._layout.root)
        copy.put(MACHINES, " ".join(sorted(machine.ours(self._layout))))
        mirrors.send(self._git, copy, _SPECS)

    def _refuse_loss(self, there: Mapping[str, Oid], care: _Care) -> None:
        """Refuse to write over a history that the mirror has and we have not.

        Raises:
            StoreError: it has one, or somebody is about to bring it back.
        """
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
    found = {**ws.repo.refs(), **mirrors.users_refs(ws)}
    text = "".join(f"{ref} {oid}\n" for ref, oid in sorted(found.items()))
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _note(ws: Workspace, state: str | None, trouble: str, place: str) -> None:
    """Leave in the journal what was mirrored, and what is in the way, for `doctor`."""
    with suppress(JournalError), ws.db.write():
        if state is not None:
            meta.put(ws.db, _DONE, state)
            mirrors.remember(ws, place)
        meta.put(ws.db, TROUBLE, trouble)
