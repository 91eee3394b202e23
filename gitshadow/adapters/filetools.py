"""What the file tools of several agents share beyond their shape.

Invariant: pure; a call that only looks claims nothing, a file that was just written is named.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote_to_bytes, urlsplit

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookEvent, Parsed
from gitshadow.adapters.paths import absolute
from gitshadow.model import ToolClass

SAVED_WITHIN_NS = 2_000_000_000
"""How long before "this file was just written" its write may lie.

A hook program starts within some tens of milliseconds and may have to wait for its turn.
"""

_LOOKING = frozenset({"view", "read"})


def unless_viewing(found: Parsed, tool_input: Mapping[str, object]) -> Parsed:
    """Make an editor tool's call a reading one where its `command` only looks at a file."""
    if not isinstance(found, HookEvent) or found.tool is None:
        return found
    if fields.text(tool_input, "command") not in _LOOKING:
        return found
    return replace(found, tool_class=ToolClass.READ, paths=())


def by_file(found: Parsed) -> Parsed:
    """Name a call without an id after the one file that it writes.

    So the report that a file was saved ends the call that announced the same file, whatever
    else the two payloads hold.
    """
    if not isinstance(found, HookEvent) or not found.call_derived:
        return found
    if found.tool_class is not ToolClass.WRITE or len(found.paths) != 1:
        return found
    where = posixpath.normpath(absolute(found.paths[0], found.cwd, b"/"))
    call_id = fields.derived_call_id(found.native_session, "file", where.hex())
    return replace(found, call_id=call_id)


def path_of_uri(value: object) -> bytes | None:
    """Return the path of a `file:` URI, or of a plain path; None for anything else."""
    if not isinstance(value, str) or "://" not in value:
        return fields.raw_path(value)
    try:
        parts = urlsplit(value)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote_to_bytes(parts.path.encode("utf-8", "surrogateescape"))
    return path if path and b"\0" not in path else None
