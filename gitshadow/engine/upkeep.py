"""Upkeep: packing when it is due, by the daemon beside its work or by a command at its end.

Git's own maintenance must never start because of us, so what tells how much lies about is what Git
itself looks at. The work is children of Git, waited for by a thread that touches nothing else of
the engine.
Invariant: whatever fails here, recording goes on; nobody waits for it but who asked for it.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from gitshadow.engine.workspace import Workspace
from gitshadow.errors import JournalError, LockedError, ShadowError, StoreError
from gitshadow.store import autogc
from gitshadow.store.git import Git, StoppedError
from gitshadow.store.journal import meta
from gitshadow.store.layout import Layout
from gitshadow.store.packing import Packed, Packer, Work
from gitshadow.store.packs import Packs
from gitshadow.store.repo import Repo

QUIET_S = 2.0
_LOCKED_S = 5.0
_FAILED_S = 60.0
_AT_END_S = 3.0
_SEQ = "next_seq"
TROUBLE = "packing_trouble"
"""The key of what keeps us from packing, as the journal has it; empty where nothing does."""
_TRUE = frozenset({"true", "yes", "on", "1"})


def work_of(repo: Repo) -> Work:
    """Return what there is to pack.

    Raises:
        StoreError: the refs could not be read.
    """
    precious = repo.config_get("extensions.preciousObjects") or "false"
    return Work(repo.refs(), repo.tips_of_user(), precious.lower() in _TRUE)


class Upkeep:
    """Pack beside the daemon's work; every method is called by its one thread."""

    def __init__(
        self, ws: Workspace, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ws = ws
        self._clock = clock
        self._packs = Packs(ws.layout.objects_dir, ws.layout.packing_dir)
        self._seen: str | None = None
        self._packed: str | None = None
        self._changed_at = clock()
        self._again_at = 0.0
        self._run: _Run | None = None

    def tick(self) -> None:
        """Start packing where it is due; take note of how it ended."""
        now = self._clock()
        if self._run is not None:
            if self._run.is_alive():
                return
            self._finish(self._run, now)
        seq = meta.get(self._ws.db, _SEQ)
        if seq != self._seen:
            self._seen, self._changed_at = seq, now
        if seq != self._packed and now >= self._again_at and self._is_due(now):
            with suppress(StoreError):
                work = work_of(self._ws.repo)
                self._run = _Run(self._ws, work, seq)
                self._run.start()

    def close(self) -> None:
        """Stop what is going on; what it has done stays."""
        if self._run is not None:
            self._run.stop()
            self._run = None

    def _is_due(self, now: float) -> bool:
        lying = self._packs.sampled()
        if not lying:
            return False
        return now - self._changed_at >= QUIET_S or lying >= busy_limit(self._ws)

    def _finish(self, run: "_Run", now: float) -> None:
        self._run = None
        self._again_at = now + QUIET_S
        if run.done is not None:
            self._packed = run.seq
            if run.done.merged:
                self._ws.repo.let_go()
        elif run.trouble is None:
            self._again_at = now + _LOCKED_S
        else:
            self._again_at = now + _FAILED_S
        _tell(self._ws, run.trouble)


class _Run(threading.Thread):
    """Pack once, away from the daemon's own thread."""

    def __init__(self, ws: Workspace, work: Work, seq: str | None) -> None:
        super().__init__(name="packer", daemon=True)
        self._stopping = threading.Event()
        git = Git(ws.layout, dict(ws.environ))
        self._packer = Packer(ws.layout, git, self._stopping.is_set)
        self._work = work
        self.seq = seq
        self.done: Packed | None = None
        self.trouble: str | None = "the packer ended without a word"

    def run(self) -> None:
        """Pack; called by the new thread."""
        try:
            self.done = self._packer.pack(self._work)
            self.trouble = None
        except (LockedError, StoppedError):
            self.trouble = None
        except (ShadowError, OSError) as error:
            self.trouble = str(error)

    def stop(self) -> None:
        """End it and wait for that."""
        self._stopping.set()
        self.join()


def busy_limit(ws: Workspace) -> int:
    """Return how many files in the sampled directory are too many even while others write."""
    try:
        return autogc.pack_at(ws.git.version(), ws.repo.config_get)
    except StoreError:
        return 1


def at_end(ws: Workspace) -> Callable[[], None] | None:
    """Return what a command without a daemon is to do once its worktree is closed.

    Returns:
        None where packing is not due. What fails or takes too long is left to the next command.
    """
    packs = Packs(ws.layout.objects_dir, ws.layout.packing_dir)
    lying = packs.sampled() if ws.config.enabled else 0
    if not lying or lying < busy_limit(ws):
        return None
    work, git = work_of(ws.repo), Git(ws.layout, dict(ws.environ))

    def run() -> None:
        until = time.monotonic() + _AT_END_S
        packer = Packer(ws.layout, git, lambda: time.monotonic() > until)
        with suppress(ShadowError, OSError):
            packer.pack(work)

    return run


def pack_now(
    layout: Layout, environ: Mapping[str, str], *, wait_s: float
) -> dict[str, object]:
    """Pack whatever of the history is loose, and say what there is then.

    Raises:
        LockedError: another process packs, for too long.
        StoreError, UnsupportedError: it could not be done; what was done stays.
    """
    repo = Repo.open(layout)
    try:
        work = work_of(repo)
    finally:
        repo.close()
    packer = Packer(layout, Git(layout, dict(environ)))
    done = packer.pack(work, wait_s=wait_s, afresh=True)
    packs = packer.packs.ours()
    return {
        "packed": done.objects,
        "merged": done.merged,
        "packs": len(packs),
        "bytes": sum(pack.size_bytes for pack in packs),
    }


def _tell(ws: Workspace, trouble: str | None) -> None:
    """Leave in the journal what is in the way, for `doctor`."""
    text = trouble or ""
    with suppress(JournalError):  # a full disk takes no note either
        if (meta.get(ws.db, TROUBLE) or "") != text:
            with ws.db.write():
                meta.put(ws.db, TROUBLE, text)
