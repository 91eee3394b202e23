"""The backend of a repository, opened again when the format of the repository changes.

`git refs migrate` copies the refs to a directory, removes the old ones, moves the new ones into
their place, and then writes the new format into the configuration; it takes no lock (refs.c).
Invariant: no ref is reported as absent between these steps, and what was written while refs were
copied is in the new place, too.
"""

import os
import time
from collections.abc import Callable, Mapping
from operator import not_
from typing import TypeVar

from gitshadow.errors import (
    StaleTipError,
    StoreError,
    UnsupportedError,
    raise_shortage,
)
from gitshadow.model import Oid
from gitshadow.store.backends.port import (
    FILES,
    REFTABLE,
    Backend,
    RefLockedError,
)
from gitshadow.store.backends.probe import (
    Engine,
    UnknownFormatError,
    open_backend,
)
from gitshadow.store.backends.ref_files import has_head
from gitshadow.store.layout import Layout

_WAIT_S = 5.0
_LOOK_S = 0.01
_COPY = "ref_migration."
_HALF = "repo version is 0"
_HALF_S = 1.0
_LEFT_S = 2.0
"""A copy to which nothing was added for so long is not being made any more."""
_T = TypeVar("_T")
_Stamp = tuple[int, int, int, bool]


class FollowedBackend:
    """What reads a repository of the format that it has at the moment."""

    def __init__(
        self, layout: Layout, environ: Mapping[str, str], engine: Engine | None = None
    ) -> None:
        """Open the repository.

        Raises:
            UnsupportedError: as `open_backend`.
        """
        self._environ = environ
        self._engine = engine
        self._layout = layout
        self._config = os.path.join(layout.common_dir, "config")
        self._tables = os.path.join(layout.common_dir, REFTABLE, "tables.list")
        self._head = os.path.join(layout.common_dir, "HEAD")
        self._left: set[str] = set()
        self._stamp = self._look()
        self.opened = self._opened()

    def current(self) -> Backend:
        """Return the backend, opened again if the configuration changed.

        Raises:
            UnsupportedError: the repository cannot be read any more, or has other object ids.
        """
        stamp = self._look()
        if stamp != self._stamp:
            self._open_again()
            self._stamp = stamp
        return self.opened

    def read(
        self, question: Callable[[Backend], _T], is_absent: Callable[[_T], bool] = not_
    ) -> _T:
        """Return what the backend answers about refs, of which some answers say "absent".

        Raises:
            StoreError: as the question; or nothing was found while the refs change their format.
        """
        found = question(self.current())
        if is_absent(found) and not self._is_settled():
            raise self._unsettled("read")
        return found

    def write(self, name: str, act: Callable[[Backend], None], wanted: Oid) -> None:
        """Have the backend set a ref; once more if the refs moved to another format meanwhile.

        Raises:
            StoreError: as the act; or the refs stay between two formats.
        """
        try:
            self._act("write", act)
        except StaleTipError:
            # Git may have removed it where the refs were, after it was copied.
            if not self._has_moved():
                raise
        if self._has_moved():
            self._await("write")
            if self.current().ref(name) != wanted:
                self._act("write", act)

    def delete(self, name: str) -> None:
        """Have the backend delete a ref, in the new format too; errors as `write`."""
        for _ in range(2):
            self._act("delete", lambda one: one.delete_ref(name))
            if not self._has_moved():
                break

    def _act(self, what: str, act: Callable[[Backend], None]) -> None:
        """Change a ref where it is now, again while another process has a lock that it needs.

        `git pack-refs`, which gc runs, locks each loose ref; in reftables all refs have one lock.

        Raises:
            StoreError: as the act; the lock is older than what Git does under one takes.
        """
        deadline = time.monotonic() + _WAIT_S
        while True:
            self._await(what)
            try:
                return act(self.current())
            except RefLockedError as error:
                if time.monotonic() > deadline or _is_old(error.lock):
                    raise
            time.sleep(_LOOK_S)

    def _opened(self) -> Backend:
        """Open the repository; errors as `open_backend`."""
        deadline = time.monotonic() + _HALF_S
        while True:
            try:
                return open_backend(self._layout, self._environ, self._engine)
            except UnknownFormatError as error:
                # Git writes the version and the extension of a format one after the other (setup.c,
                # initialize_repository_version), and opens no repository in between either.
                if _HALF not in error.message or time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_S)

    def _open_again(self) -> None:
        before = self.opened
        try:
            fresh = self._opened()
        except UnknownFormatError:
            raise
        except UnsupportedError:
            # A mistake in the configuration is for its writer to repair; meanwhile the refs are
            # where they were.
            if os.path.exists(self._tables) == (before.ref_format == REFTABLE):
                return
            raise
        if fresh.form != before.form:
            fresh.close()
            raise UnsupportedError(
                f"could not continue in {self._layout.root}: its object format changed from"
                f" {before.form.name} to {fresh.form.name}",
                hint="git agent-undo daemon stop",
            )
        self.opened = fresh
        before.close()

    def _has_moved(self) -> bool:
        """Return whether refs change their format, or have done so since `current`."""
        # The directory is made before the first ref is copied. A write that ended before that is
        # copied; one that ended later finds the directory, or what came after it.
        return (
            bool(self._copies())
            or self._look() != self._stamp
            or not self._is_settled()
        )

    def _await(self, what: str) -> None:
        """Wait until the refs are in one format."""
        deadline = time.monotonic() + _WAIT_S
        while (copies := self._copies()) or not self._is_settled():
            if copies and all(map(self._is_left, copies)):
                self._left |= copies
                continue
            if time.monotonic() > deadline:
                raise self._unsettled(what)
            time.sleep(_LOOK_S)

    def _copies(self) -> set[str]:
        """Return the directories in which refs are copied to another format."""
        place = self._layout.common_dir
        try:
            names = os.listdir(place)
        except OSError as error:
            raise_shortage(error)
            raise StoreError(
                f"could not list {place}: {error.strerror or error}"
            ) from error
        return {name for name in names if name.startswith(_COPY)} - self._left

    def _is_left(self, name: str) -> bool:
        """Return whether a copy is of a dry run, or of a process that died."""
        top = os.path.join(self._layout.common_dir, name)
        places = (top, os.path.join(top, REFTABLE), os.path.join(top, "refs"))
        now = time.time()
        try:
            return all(
                now - os.stat(place).st_mtime > _LEFT_S
                for place in places
                if os.path.exists(place)
            )
        except FileNotFoundError:
            return False

    def _is_settled(self) -> bool:
        """Return whether the file HEAD is one of the format that the configuration names."""
        if self.current().ref_format != FILES:
            return os.path.exists(self._tables)
        return has_head(self._layout.common_dir)

    def _unsettled(self, what: str) -> StoreError:
        return StoreError(
            f"could not {what} refs: they are being moved to another format",
            hint="wait for `git refs migrate` to end; if none runs: git fsck",
        )

    def _look(self) -> _Stamp:
        """Return what differs once the format may have changed; cheap."""
        try:
            found = os.stat(self._config)
        except OSError as error:
            raise_shortage(error)
            return 0, 0, 0, False
        has_tables = os.path.exists(self._tables)
        return found.st_ino, found.st_size, found.st_ctime_ns, has_tables


def _is_old(lock: str) -> bool:
    try:
        return time.time() - os.stat(lock).st_mtime > _WAIT_S
    except OSError:
        return False
