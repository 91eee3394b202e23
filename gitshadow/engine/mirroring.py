"""The mirror: a bare repository outside the project; the history survives its Git directory.

Each project has its own below the configured directory, named after the worktree and the machine
id; it can be cloned like any other. Git pushes there, objects that lie there already are not
copied again.
Invariant: a ref that vanished here stays there; only what was dropped on purpose goes.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from hashlib import blake2b

from gitshadow.engine.workspace import Workspace
from gitshadow.errors import JournalError, ShadowError
from gitshadow.store import machine, refs, remotes
from gitshadow.store.bare import Bare
from gitshadow.store.git import Git
from gitshadow.store.journal import meta
from gitshadow.store.layout import Layout

ROOT, MACHINES = "agent-undo.root", "agent-undo.machines"
"""What a mirror says of itself: the worktree, and the ids of the machines it is of."""
TROUBLE = "mirror_trouble"
"""The key of what keeps us from mirroring, as the journal has it; empty where nothing does."""
QUIET_S = 5.0
_LATEST_S = 60.0
_FAILED_S = 300.0
_DONE = "mirrored"
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


def mirror_now(ws: Workspace, git: Git) -> str | None:
    """Bring the mirror up to what is here; return where it is, None where none is wanted.

    Raises:
        StoreError: it could not be written.
    """
    place = place_of(ws)
    if place is not None:
        _Copy(ws.layout, git, place).run()
        _note(ws, _state_of(ws), "")
    return place


def forget(ws: Workspace, names: Collection[str], *, scrub: bool = False) -> None:
    """Take refs out of the mirror that were dropped on purpose; it may not exist yet.

    Args:
        ws: The worktree.
        names: The refs.
        scrub: Whether what nothing there reaches then is removed at once, for a secret.

    Raises:
        StoreError: it could not be done.
    """
    place = place_of(ws)
    if place is None or not os.path.isdir(place):
        return
    copy = Bare(ws.git, place)
    copy.drop(sorted(copy.refs().keys() & set(names)))
    if scrub:
        _Copy(ws.layout, ws.git, place).run()
        copy.scrub()


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
        self._run = _Run(_Copy(self._ws.layout, git, place), state)
        self._run.start()

    def close(self) -> None:
        """Wait for what is going on."""
        if self._run is not None:
            self._run.join()
            self._finish(self._run, self._clock())

    def _finish(self, run: "_Run", now: float) -> None:
        self._run = None
        self._again_at = now + (_FAILED_S if run.trouble else QUIET_S)
        _note(self._ws, None if run.trouble else run.state, run.trouble)


class _Copy:
    """Copy refs to one mirror."""

    def __init__(self, layout: Layout, git: Git, place: str) -> None:
        self._layout = layout
        self._git = git
        self._place = place

    def run(self) -> None:
        """Make the mirror where it is new, and push what it lacks.

        Raises:
            StoreError: it could not be written.
        """
        place, copy = self._place, Bare(self._git, self._place)
        try:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        except OSError as error:
            raise ShadowError(
                f"could not make the mirror {place}: {error.strerror}",
                hint="git config agent-undo.mirror DIRECTORY",
            ) from error
        copy.make()
        copy.put(ROOT, self._layout.root)
        copy.put(MACHINES, " ".join(sorted(machine.ours(self._layout))))
        remotes.push(self._git, place, _SPECS)


class _Run(threading.Thread):
    """Copy once, away from the daemon's own thread."""

    def __init__(self, copy: _Copy, state: str) -> None:
        super().__init__(name="mirror", daemon=True)
        self._copy = copy
        self.state = state
        self.trouble = "the copy ended without a word"

    def run(self) -> None:
        """Copy; called by the new thread."""
        try:
            self._copy.run()
            self.trouble = ""
        except (ShadowError, OSError) as error:
            self.trouble = str(error)


def _state_of(ws: Workspace) -> str:
    """Return a digest of what there is to mirror."""
    found = {**ws.repo.refs(), **_user_refs(ws)}
    text = "".join(f"{ref} {oid}\n" for ref, oid in sorted(found.items()))
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _user_refs(ws: Workspace) -> Mapping[str, str]:
    return {**ws.repo.refs("refs/heads/"), **ws.repo.refs("refs/tags/")}


def _note(ws: Workspace, state: str | None, trouble: str) -> None:
    """Leave in the journal what was mirrored, and what is in the way, for `doctor`."""
    with suppress(JournalError), ws.db.write():
        if state is not None:
            meta.put(ws.db, _DONE, state)
        meta.put(ws.db, TROUBLE, trouble)
