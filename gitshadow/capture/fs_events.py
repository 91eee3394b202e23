"""Recognize the temporary names of editors and tools, and files that are being written.

Editors and tools save a file under a temporary name that soon disappears. A name that matches is
only looked at later and never left out: one that stays is recorded like any other file.
Invariant: a hint may be wrong or missing, and only a barrier is a promise.
"""

import re
import time
from collections.abc import Callable, Iterable

from gitshadow.model import RepoPath
from gitshadow.store.files import Look

GRACE_S = 0.04
TEMPORARY_GRACE_S = 1.0
WRITING_GRACE_S = 0.01
TRACE_S = 2.0
# A file whose mtime is younger is looked at again a moment later.
_AT_WORK_NS = 3_000_000
_JUST_EMPTIED_NS = 150_000_000
_TEMPORARY = re.compile(
    rb"""(?:
      4913                                  # vim probes whether it may create files
    | .*\.tmp(?:\.[0-9A-Za-z]+)*           # x.tmp, name.tmp.<pid>.<ms>, name.tmp.<pid>.<hex>
    | .*\.tmp[-_.]?[0-9A-Za-z]{4,}          # name.tmp.a1b2c3, name.tmpAbC123
    | \.?.*~                                # backups of vim and emacs
    | \.\#.* | \#.*\#                       # emacs locks and auto-saves
    | \..*\.sw[a-p] | \..*\.sw[a-p]x        # vim swap files
    | .*___jb_(?:tmp|old)___                # JetBrains
    | \.goutputstream-[0-9A-Z]+             # GLib
    | sed[0-9A-Za-z]{6}                     # sed -i
    | .*\.vsctmp                            # VS Code, where asked to save by rename
    | .*\.crswap | .*\.part | .*\.new | .*\.bak
    )""",
    re.VERBOSE | re.DOTALL,
)
_SAVED_AS = re.compile(
    rb"""(?P<name>.+?)
    (?:\.[0-9a-f]{12,})?                     # name.<hex>.tmp (Qwen Code)
    \.(?:(?:tmp|temp)(?:[-_.]?[0-9A-Za-z]+)*|part|new|vsctmp)""",
    re.VERBOSE | re.DOTALL,
)
_EDITOR = re.compile(
    rb"4913|\.?.*~|\.#.*|#.*#|\..*\.sw[a-px]+|.*___jb_(?:tmp|old)___", re.DOTALL
)
_BESIDE = re.compile(
    rb"""
      \.(?P<swap>.+)\.sw[a-p]x?               # vim
    | \.\#(?P<lock>.+) | \#(?P<auto>.+)\#     # emacs
    | (?P<safe>.+)___jb_(?:tmp|old)___       # JetBrains
    """,
    re.VERBOSE | re.DOTALL,
)


def is_temporary(path: RepoPath) -> bool:
    """Return whether a name looks like one end of an atomic save."""
    return _TEMPORARY.fullmatch(path.rpartition(b"/")[2]) is not None


def saved_as(path: RepoPath) -> RepoPath | None:
    """Return the file that a temporary of this name is renamed to, if the name shows it."""
    head, slash, name = path.rpartition(b"/")
    found = _SAVED_AS.fullmatch(name)
    return None if found is None else RepoPath(head + slash + found["name"])


def is_being_written(look: Look, now_ns: int) -> bool:
    """Return whether a writer seems to be at work: bytes came just now, or none came yet.

    `open(path, "w")` leaves the file empty for a moment; what is read then is no state that
    anybody meant.
    """
    age_ns = now_ns - look.stat.mtime_ns
    # An empty file is given more time: programs truncate first and compute the content then.
    limit = _AT_WORK_NS if look.stat.size else _JUST_EMPTIED_NS
    # A time in the future is that of another clock, and shows nothing about the writer.
    return 0 <= age_ns < limit


def is_editor_trace(path: RepoPath) -> bool:
    """Return whether a name is left by a person's editor while it saves or edits."""
    return _EDITOR.fullmatch(path.rpartition(b"/")[2]) is not None


def edited(path: RepoPath) -> RepoPath | None:
    """Return the file that an editor is at work on when a path of this name comes or goes.

    Backups (`name~`) show nothing: patch, sed and the like leave them too.
    """
    head, slash, name = path.rpartition(b"/")
    found = _BESIDE.fullmatch(name)
    if found is None:
        return None
    return RepoPath(head + slash + next(part for part in found.groups() if part))


class EditorTraces:
    """Remember for a moment which files an editor was seen to save.

    A temporary file that exists only while a file is saved is gone when the file is read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[RepoPath, float] = {}

    def note(self, paths: Iterable[RepoPath]) -> None:
        """Note the files whose editor traces are among some paths."""
        now = self._clock()
        found = {target for path in paths if (target := edited(path)) is not None}
        if found:
            # Old traces are dropped here, so that the table stays as small as the work of two
            # seconds.
            kept = self._seen.items()
            self._seen = {one: at for one, at in kept if now - at <= TRACE_S}
            self._seen |= dict.fromkeys(found, now)

    def tell_of(self, path: RepoPath) -> bool:
        """Return whether an editor was at work on a path just now."""
        at = self._seen.get(path)
        return at is not None and self._clock() - at <= TRACE_S
