"""Choose what reads a repository, and open it again when the format of the repository changes.

libgit2 is taken where it opens a repository of a format that it is known to read. A newer one is
believed about a newer format only where its answers are those of Git.
`git refs migrate` copies the refs to a directory, removes the old ones, moves the new ones into
their place, and then writes the new format into the configuration; it takes no lock (refs.c).
Invariant: no ref is reported as absent between these steps, and what was written while refs were
copied is in the new place, too.
"""

import os
import time
from collections.abc import Callable, Mapping
from enum import Enum
from operator import not_
from typing import TypeVar

from gitshadow.errors import StaleTipError, StoreError, UnsupportedError, raise_shortage
from gitshadow.model import Oid
from gitshadow.store.backends import libgit2
from gitshadow.store.backends.libgit2 import Libgit2Backend
from gitshadow.store.backends.plumbing import EXTENSION, PlumbingBackend
from gitshadow.store.backends.port import FILES, REFTABLE, Backend, RefLockedError
from gitshadow.store.backends.ref_files import has_head
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import SHA1, format_named

# The first that may read SHA-256 and reftables in its usual build.
_NEW_FORMATS_SINCE = (1, 10)
_REFTABLE_SINCE = "2.45"
_NEEDS_RUST = "a repository with two object formats needs a newer git, built with Rust"
_WAIT_S = 5.0
_LOOK_S = 0.01
_COPY = "ref_migration."
_HALF = "repo version is 0"
_HALF_S = 1.0
_LEFT_S = 2.0
"""A copy to which nothing was added for so long is not being made any more."""
_T = TypeVar("_T")
_Stamp = tuple[int, int, int, bool]


class UnknownFormatError(UnsupportedError):
    """The repository is of a format that nothing here can read."""


class Engine(Enum):
    """What reads a repository."""

    LIBGIT2 = "libgit2"
    PLUMBING = "git"


def open_backend(
    layout: Layout, environ: Mapping[str, str], engine: Engine | None = None
) -> Backend:
    """Open the repository of a worktree.

    Args:
        layout: The worktree.
        environ: The environment of git children.
        engine: What reads it; None: what is fit for it.

    Raises:
        UnsupportedError: nothing here can read it (an unknown extension, another owner), or it is
            bare.
        StoreError: no file descriptor is left.
    """
    if engine is not Engine.PLUMBING:
        found = _through_libgit2(layout, environ, engine)
        if found is not None:
            return found
    return _through_git(layout, environ)


def _through_libgit2(
    layout: Layout, environ: Mapping[str, str], engine: Engine | None
) -> Backend | None:
    try:
        found = Libgit2Backend(layout, environ)
    except UnsupportedError as error:
        if engine is None and not _is_owners(error.message):
            return None
        raise _refused(layout, error.message) from error
    if found.is_bare:
        found.close()
        raise _bare(layout)
    if engine is None and not _is_true(found, layout, environ):
        found.close()
        return None
    return found


def _is_true(
    found: Libgit2Backend,
    layout: Layout,
    environ: Mapping[str, str],
    version: tuple[int, ...] = libgit2.VERSION,
) -> bool:
    """Return whether what libgit2 says of a repository that it opened can be true."""
    if found.setting(EXTENSION) is not None:
        return False
    if (found.form, found.ref_format) == (SHA1, FILES):
        return has_head(layout.git_dir)
    return version >= _NEW_FORMATS_SINCE and _agrees(found, Git(layout, dict(environ)))


def _agrees(found: Backend, git: Git) -> bool:
    """Return whether a backend and Git say the same of HEAD and its commit."""
    try:
        branch, head = found.head()
        named = git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).strip()
        at = git.run("rev-parse", "--verify", "--quiet", "HEAD", ok=(0, 1)).strip()
        same = (branch or "", head or "") == (named.decode(), at.decode())
        if not same or head is None:
            return same
        content = git.run("cat-file", "commit", head)
        return found.read(Oid(head)) == ("commit", content)
    except (StoreError, ValueError):
        return False


def _through_git(layout: Layout, environ: Mapping[str, str]) -> Backend:
    git = Git(layout, dict(environ))
    asked = ("--is-bare-repository", "--show-object-format=storage")
    try:
        is_bare, named = git.discovered("rev-parse", *asked).decode("ascii").split()
        if is_bare == "true":
            raise _bare(layout)
        return PlumbingBackend(layout, environ, format_named(named))
    except (StoreError, ValueError) as error:
        raise_shortage(error)
        detail = str(error).removeprefix("cannot run git rev-parse: ")
        # It lists extensions on lines of their own.
        words = detail.removeprefix("fatal: ").replace(":;", ":").split()
        raise _refused(layout, " ".join(words)) from error.__cause__


def _bare(layout: Layout) -> UnsupportedError:
    return UnsupportedError(
        f"could not record {layout.root}: the repository is bare",
        hint="run this in a worktree",
    )


def _refused(layout: Layout, detail: str) -> UnsupportedError:
    lower, message = (
        detail.lower(),
        f"could not open repository {layout.root}: {detail}",
    )
    if _is_owners(lower):
        trust = f"git config --global --add safe.directory {layout.root}"
        return UnsupportedError(message, hint=f"if you trust it: {trust}")
    if "extension" in lower and "refstorage" in lower:
        newer = f"{REFTABLE} needs git {_REFTABLE_SINCE} or later: update git"
        return UnknownFormatError(message, hint=newer)
    if "requires rust" in lower or "compatobjectformat" in lower:
        return UnknownFormatError(message, hint=_NEEDS_RUST)
    if any(words in lower for words in ("extension", "repo version", "of the format")):
        newer = "this repository needs a newer git: update git"
        return UnknownFormatError(message, hint=newer)
    hint = "check that git itself can read it: git status"
    return UnsupportedError(message, hint=hint)


def _is_owners(detail: str) -> bool:
    return "owned" in detail or "owner" in detail or "safe.directory" in detail


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
