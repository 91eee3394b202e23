"""The engine as the daemon uses it: a desk that stays open.

Invariant: every method is called by one thread.
"""

import os
from collections.abc import Mapping

from gitshadow.capture.hints import Hints, WatchPort
from gitshadow.engine import hooks, vigil
from gitshadow.engine.desk import Desk, open_desk
from gitshadow.engine.mending import mend
from gitshadow.engine.verbs import Document
from gitshadow.engine.verbs import run as run_verb
from gitshadow.store.layout import Layout, discover


class Service:
    """Serve one worktree with a watcher."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @classmethod
    def open(
        cls, layout: Layout, environ: Mapping[str, str], *, lock_timeout_s: float
    ) -> "Service":
        """Open a worktree and catch up; errors as `open_workspace`."""
        desk = open_desk(layout, environ, lock_timeout_s=lock_timeout_s)
        try:
            mend(desk)
        except BaseException:
            desk.close()
            raise
        return cls(desk)

    @property
    def enabled(self) -> bool:
        """Tell whether this repository is to be recorded at all."""
        return self._desk.workspace.config.enabled

    def drain(self) -> None:
        """Take the hook payloads that wait."""
        hooks.drain_spool(self._desk)

    def start(self, port: WatchPort) -> None:
        """Begin to watch; what changed while nobody watched is recorded as offline."""
        vigil.begin(self._desk)
        # What the walk finds is judged by the windows; the hooks wait until it was seen.
        taken = list(hooks.take_spool(self._desk))
        self._desk.observer.start(port)
        for path in taken:
            hooks.discard(path)
        hooks.drain_spool(self._desk)

    def hints(self, hints: Hints) -> None:
        """Record what was hinted, with the payloads that came before it."""
        hooks.drain_spool(self._desk)
        self._desk.observer.hints(hints)

    def due(self) -> float | None:
        """Return the monotonic time of the next deferred work, None where there is none."""
        return self._desk.observer.due()

    def tick(self) -> None:
        """Do deferred work that is due."""
        self._desk.observer.tick()

    def run(self, verb: str, params: Mapping[str, object]) -> Document:
        """Run one verb; errors as the verb's."""
        hooks.drain_spool(self._desk)
        return run_verb(self._desk, verb, params)

    def hook(self, body: bytes) -> bytes:
        """Take one hook delivery; return what the agent is to read."""
        hooks.drain_spool(self._desk)
        return hooks.take_body(self._desk, body)

    def alive(self) -> bool:
        """Tell whether the worktree still is there and still is this repository."""
        layout = self._desk.workspace.layout
        if not os.path.isdir(layout.wt_dir):
            return False
        found = discover(layout.root)
        return found is not None and found.git_dir == layout.git_dir

    def close(self) -> None:
        """Give the worktree back."""
        vigil.end(self._desk)
        self._desk.close()
