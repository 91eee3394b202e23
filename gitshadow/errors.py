"""Every error that gitshadow raises on purpose, and the exit code of each.

::

    ShadowError (1)
    ├── UsageError (2)          an id that names nothing or several things, a bad argument
    │   └── UnknownIdError      an id that this journal does not know: another one may
    ├── RefusedError (5)        the plan as a whole was refused, nothing was changed
    ├── UnsupportedError (1)    this repository cannot be recorded (bare, home directory)
    ├── NotInitialisedError (1) the repository has no `init` yet
    ├── StoreError (1)          objects or refs could not be read or written
    │   └── StaleTipError       compare-and-swap lost: read the tip again and re-parent
    ├── JournalError (1)        the journal could not be read or written
    │   ├── JournalNewerError   written by a newer version: never write to it
    │   └── JournalBusyError    another process holds it
    ├── TurnError (1)           in `sdk/turns/errors.py`, with a tree of its own
    ├── MovedError (1)          the worktree is no longer where it was opened
    ├── LockedError (1)         another process holds the worktree's writer lock
    └── UnreachableError (1)    no daemon answers

Messages are lower case, without a final period; the hint says what to type next.
"""

import errno
import os
from enum import IntEnum

_SHORTAGES = (errno.EMFILE, errno.ENFILE)


class ExitCode(IntEnum):
    """The exit codes, stable for scripts (tests/contract.md, UX-05)."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    RESIDUE = 3
    PARTIAL = 4
    REFUSED = 5
    INTERRUPTED = 130


class ShadowError(Exception):
    """One plain sentence about a failure, and a hint at what to do about it."""

    exit_code: ExitCode = ExitCode.ERROR

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ShadowError):
    """Report arguments that name nothing, several things or no known thing."""

    exit_code = ExitCode.USAGE


class UnknownIdError(UsageError):
    """Report an id, as it was `typed`, that the journal at hand does not know."""

    def __init__(self, message: str, *, typed: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.typed = typed


class RefusedError(ShadowError):
    """Report a plan that was refused as a whole; nothing was changed."""

    exit_code = ExitCode.REFUSED


class UnsupportedError(ShadowError):
    """Report a place that gitshadow does not record."""


class NotInitialisedError(ShadowError):
    """Report a repository in which `init` has not been run."""


class StoreError(ShadowError):
    """Report objects or refs that could not be read or written."""


class StaleTipError(StoreError):
    """Report a ref that moved between read and publish."""


class JournalError(ShadowError):
    """Report a journal that could not be read or written."""


class JournalNewerError(JournalError):
    """Report a journal whose schema is newer than this program."""


class JournalBusyError(JournalError):
    """Report a journal that another process keeps locked."""


class MovedError(ShadowError):
    """Report a worktree whose path no longer leads to the directory that was opened."""


class LockedError(ShadowError):
    """Report a writer lock that another living process holds."""


class UnreachableError(ShadowError):
    """Report that no daemon answers for this worktree."""


def described(error: BaseException) -> str:
    """Return what failed: in our words, or where in our code, without data that it quotes."""
    kind, at = type(error).__name__, error.__traceback__
    if isinstance(error, ShadowError | OSError) or at is None:
        return f"{kind}: {error}"
    while at.tb_next is not None:
        at = at.tb_next
    name = os.path.basename(at.tb_frame.f_code.co_filename)
    return f"{kind} at {name}:{at.tb_lineno}"


def is_shortage(error: BaseException) -> bool:
    """Return whether the process or the system had no file descriptor left."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _SHORTAGES
    # pygit2 puts the system's message into its errors, but not the number.
    is_possible = isinstance(error, OSError | StoreError)
    return is_possible and any(
        str(error).endswith(os.strerror(one)) for one in _SHORTAGES
    )


def raise_shortage(error: BaseException) -> None:
    """Raise an error again if it is a shortage of file descriptors."""
    # It says nothing of the file that was to be opened: that one is neither gone nor unreadable.
    if is_shortage(error):
        raise error


def shortage_behind(error: BaseException) -> ShadowError | None:
    """Return the error to report for a shortage of file descriptors, None for other errors."""
    if not is_shortage(error):
        return None
    return ShadowError(
        "could not open a file: too many files are open",
        hint="raise the limit with `ulimit -n 1024`, then: git agent-undo daemon stop",
    )
