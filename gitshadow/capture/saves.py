"""The dances by which editors and tools save a file: temporary names that soon are gone.

Invariant: a name that matches is only ever looked at later, never left out: one that stays is
recorded like any other file.
"""

import re

from gitshadow.model import RepoPath
from gitshadow.store.files import Look

GRACE_S = 0.04
TEMPORARY_GRACE_S = 1.0
WRITING_GRACE_S = 0.01
_AT_WORK_NS = 3_000_000
_JUST_EMPTIED_NS = 150_000_000

_TEMPORARY = re.compile(
    rb"""(?:
      4913                                  # vim probes whether it may create files
    | .*\.tmp | .*\.tmp\.[0-9.]+            # x.tmp, name.tmp.<pid>.<ms>
    | .*\.tmp[-_.]?[0-9A-Za-z]{4,}          # name.tmp.a1b2c3, name.tmpAbC123
    | \.?.*~                                # backups of vim and emacs
    | \.\#.* | \#.*\#                       # emacs locks and auto-saves
    | \..*\.sw[a-p] | \..*\.sw[a-p]x        # vim swap files
    | .*___jb_(?:tmp|old)___                # JetBrains
    | \.goutputstream-[0-9A-Z]+             # GLib
    | sed[0-9A-Za-z]{6}                     # sed -i
    | .*\.crswap | .*\.part | .*\.new | .*\.bak
    )""",
    re.VERBOSE | re.DOTALL,
)
_EDITOR = re.compile(
    rb"4913|\.?.*~|\.#.*|#.*#|\..*\.sw[a-px]+|.*___jb_(?:tmp|old)___", re.DOTALL
)


def is_temporary(path: RepoPath) -> bool:
    """Tell whether a name looks like one end of an atomic save."""
    return _TEMPORARY.fullmatch(path.rpartition(b"/")[2]) is not None


def is_being_written(look: Look, now_ns: int) -> bool:
    """Tell whether a writer seems to be at work: bytes came just now, or none came yet.

    `open(path, "w")` leaves the file empty for a moment; what is read then is no state that
    anybody meant.
    """
    age_ns = now_ns - look.stat.mtime_ns
    limit = _AT_WORK_NS if look.stat.size else _JUST_EMPTIED_NS
    return 0 <= age_ns < limit


def is_editor_trace(path: RepoPath) -> bool:
    """Tell whether a name is left by a person's editor while it saves or edits."""
    return _EDITOR.fullmatch(path.rpartition(b"/")[2]) is not None
