"""Where every error of a command ends: plain words on standard error and an exit code.

An unexpected error is one line for the person, and a report file for the bug report.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from gitshadow.errors import ShadowError, shortage_behind
from gitshadow.messages.codec import JsonObject
from gitshadow.render.style import printable

if TYPE_CHECKING:
    from gitshadow.store.layout import Layout

_T = TypeVar("_T")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def contain(action: Callable[[], _T]) -> _T:
    """Run something; make an unexpected exception a ShadowError with a report file.

    A broken pipe passes, as do the exceptions that end the program.

    Raises:
        ShadowError: the action's own, or `internal: …` for anything unexpected.
    """
    try:
        return action()
    except (ShadowError, BrokenPipeError):
        raise
    # The only `except Exception` of the command line: a traceback on a terminal helps nobody, and
    # would print names from the repository raw.
    except Exception as error:  # noqa: BLE001
        known = shortage_behind(error) or _full_behind(error) or _damage_behind(error)
        if known is not None:
            raise known from None
        where = _write_report(error)
        hint = f"please report this, with {where}" if where else None
        name = type(error).__name__
        raise ShadowError(f"internal: {name}: {error}", hint=hint) from None


def _full_behind(error: Exception) -> ShadowError | None:
    """Return what to say where a disk is full: mostly that of standard output."""
    if not isinstance(error, OSError) or error.errno not in _FULL:
        return None
    return ShadowError(
        f"could not write: {os.strerror(error.errno)}", hint="free some space"
    )


def _damage_behind(error: Exception) -> ShadowError | None:
    """Return what to say where the journal is damaged: that explains any error."""
    from gitshadow.store.journal.db_file import damage_behind

    layout = _here()
    return None if layout is None else damage_behind(error, layout.journal)


def complain(error: ShadowError) -> None:
    """Print an error, what caused it and its hint to standard error, a line each."""
    print(f"error: {printable(error.message)}", file=sys.stderr)
    for cause in _causes(error):
        print(f"caused by: {printable(cause)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {printable(error.hint)}", file=sys.stderr)


def error_document(error: ShadowError) -> JsonObject:
    """Return the document that goes to standard output with `--json`."""
    return {
        "error": error.message,
        "hint": error.hint,
        "exit": int(error.exit_code),
    }


def _causes(error: BaseException) -> Iterator[str]:
    """Yield the causes of an error, without what was printed already."""
    shown, cause = str(error), error.__cause__
    while cause is not None:
        said = _said(cause)
        if said not in shown:
            yield said
        shown, cause = shown + said, cause.__cause__


def _said(error: BaseException) -> str:
    """Return an error in words: of the system's alone those that people read."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error) or type(error).__name__


def _write_report(error: Exception) -> str | None:
    """Write the traceback where it can be found; return its path, None if nowhere."""
    import time
    import traceback

    name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}.txt"
    text = "".join(traceback.format_exception(error))
    for directory in _report_directories():
        path = os.path.join(directory, name)
        try:
            if os.path.islink(directory):
                continue
            os.makedirs(directory, mode=0o700, exist_ok=True)
            # O_EXCL follows no link that somebody has put there.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as out:
                out.write(text)
        except (OSError, ValueError):
            continue
        return path
    return None


def _report_directories() -> Iterator[str]:
    """Yield the repository's report directory, if it has one, then the user's."""
    layout = _here()
    if layout is not None:
        yield layout.reports_dir
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.expanduser("~/.local/state")
    yield os.path.join(state, "gitshadow", "reports")


def _here() -> "Layout | None":
    """Return the recorded worktree that holds the current directory, None for none."""
    from gitshadow.store.layout import discover

    try:
        layout = discover(os.getcwd())
    except OSError:
        return None
    return layout if layout is not None and layout.initialised else None
