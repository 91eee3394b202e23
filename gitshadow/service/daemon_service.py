"""The service of the daemon: one opened worktree that stays open.

Invariant: every method is called by one thread.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress

from gitshadow.api import Document
from gitshadow.api import run as run_verb
from gitshadow.capture.fs_events import Hints, WatchPort
from gitshadow.errors import JournalError, StoreError
from gitshadow.maintenance import startup_repair
from gitshadow.maintenance.startup_repair import finish_undo, mend
from gitshadow.maintenance.upkeep import Upkeep
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.reporting.prompt_line import Prompting
from gitshadow.service import hook_intake, settings
from gitshadow.sharing.mirror import Mirroring
from gitshadow.store.layout import Layout, discover

_COMMIT_POLL_S = 0.01


class Service:
    """Serve one worktree with a watcher."""

    def __init__(self, context: RecorderContext) -> None:
        self._context = context
        self._port: WatchPort | None = None
        self._stamps = settings.stamps(context.workspace)
        self._upkeep = Upkeep(context)
        self._mirroring = Mirroring(context.workspace)
        self._prompting = Prompting(context)

    @classmethod
    def open(
        cls, layout: Layout, environ: Mapping[str, str], *, lock_timeout_s: float
    ) -> "Service":
        """Open a worktree and catch up; errors as `open_workspace`."""
        context = open_context(layout, environ, lock_timeout_s=lock_timeout_s)
        hook_intake.listen(context)
        try:
            mend(context)
        except BaseException:
            context.close()
            raise
        return cls(context)

    @property
    def enabled(self) -> bool:
        """Return whether this repository is to be recorded at all."""
        return self._context.workspace.config.enabled

    def drain(self) -> None:
        """Take the hook payloads that wait."""
        hook_intake.drain_spool(self._context)

    def start(self, port: WatchPort) -> None:
        """Begin to watch; what changed while nobody watched is recorded as offline."""
        self._port = port
        startup_repair.mark_running(self._context)
        # What the walk finds is judged by the windows; the hooks wait until it was seen.
        hook_intake.hear(self._context)
        self._context.observer.start(port)
        hook_intake.drain_spool(self._context)

    def hints(self, hints: Hints) -> None:
        """Record what was hinted, with the payloads that came before it."""
        self._follow_settings()
        if not self.enabled:
            return
        hook_intake.drain_spool(self._context)
        self._context.observer.hints(hints)

    def due(self) -> float | None:
        """Return the monotonic time of the next deferred work, None where there is none."""
        due = self._context.observer.due()
        if not self._context.commits.running:
            return due
        look = time.monotonic() + _COMMIT_POLL_S
        return look if due is None else min(due, look)

    def tick(self) -> None:
        """Do deferred work that is due."""
        over = self._context.commits.gone()
        if self.enabled:
            self._context.claimant.tick(time.monotonic())
            self._context.observer.tick()
        if over:  # it failed: only its end tells so
            self._context.observer.settle()
            self._context.commits.end()
        if self.enabled:
            self._upkeep.tick()
            self._mirroring.tick()

    def run(self, verb: str, params: Mapping[str, object]) -> Document:
        """Run one verb; errors as the verb's."""
        self._follow_settings()
        # A full disk keeps an undo from ending either way; nobody else is to suffer from that.
        with suppress(StoreError, JournalError):
            finish_undo(self._context)
        hook_intake.drain_spool(self._context)
        return run_verb(self._context, verb, params)

    def hook(self, body: bytes) -> bytes:
        """Take one hook delivery; return what the agent is to read."""
        self._follow_settings()
        hook_intake.drain_spool(self._context)
        return hook_intake.take_body(self._context, body)

    def told(self, body: bytes) -> bytes:
        """Return what the agent is to read at a delivery that came through the spool."""
        return hook_intake.told(self._context, body)

    def prompt(self) -> bytes:
        """Return what a shell's prompt says; nothing is caught up with first."""
        self._follow_settings()
        return self._prompting.segment()

    def _follow_settings(self) -> None:
        """Read the settings again where a file that may hold them changed.

        What was written while recording was off is found as written while nobody watched.
        """
        found = settings.stamps(self._context.workspace)
        if found == self._stamps:
            return
        self._stamps, before = found, self.enabled
        settings.read_again(self._context)
        if self.enabled and not before and self._port is not None:
            self._context.observer.start(self._port)

    def alive(self) -> bool:
        """Return whether the worktree still is there and still is this repository."""
        layout = self._context.workspace.layout
        if not os.path.isdir(layout.wt_dir):
            return False
        found = discover(layout.root)
        return found is not None and found.git_dir == layout.git_dir

    def in_place(self) -> bool:
        """Return whether the paths of worktree and state lead to what was opened."""
        return self._context.workspace.in_place

    def close(self) -> None:
        """Give the worktree back."""
        self._upkeep.close()
        self._mirroring.close()
        if self.in_place():
            startup_repair.mark_stopped(self._context)
        else:
            startup_repair.note_move(self._context)
        self._context.close()
