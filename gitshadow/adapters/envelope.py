"""The patch envelope in which several agents name the files they change (spec/agents.md 3.4).

Codex, Droid, Cursor, opencode and Amp send it as one text: `*** Begin Patch`, one header line
per file, hunks, `*** End Patch`.
Invariant: pure; only header lines count, and hunk lines never look like one.
"""

import re

from gitshadow.adapters.fields import MAX_PATHS, raw_path

_HEADER = re.compile(
    r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (?P<path>[^\r\n]+)",
    re.MULTILINE,
)
_BEGIN = "*** Begin Patch"


def is_patch(text: object) -> bool:
    """Tell whether a value is a patch itself, not a command or a file that holds one."""
    return isinstance(text, str) and text.lstrip().startswith(_BEGIN)


def patched_paths(text: object) -> tuple[bytes, ...]:
    """Return the paths that a patch names, in order, each once, both names of a move.

    They are absolute or relative to the payload's cwd. A value that is no text names none, and
    a truncated patch what is there of it.
    """
    if not isinstance(text, str):
        return ()
    named = (raw_path(match["path"].strip()) for match in _HEADER.finditer(text))
    found = dict.fromkeys(path for path in named if path is not None)
    return tuple(found)[:MAX_PATHS]
