"""Where the lines of two contents differ, by libgit2: the same hunks as `git blame` has.

It compares bytes that it is given, so it serves repositories that libgit2 itself cannot open.
"""

import pygit2
from pygit2.enums import DiffOption

from gitshadow.store.line_diff import Hunk, only_hunk

LIBGIT2_VERSION = pygit2.LIBGIT2_VERSION
# `git blame` compares files as text even if they look binary, and its hunks follow the indent
# heuristic. Other hunks would give lines to other commits than blame does.
_AS_BLAME = DiffOption.FORCE_TEXT | DiffOption.INDENT_HEURISTIC


def line_hunks(old: bytes, new: bytes, *, ignore_space: bool = False) -> list[Hunk]:
    r"""Return where the lines of two contents differ, in order, as `git blame` sees it.

    Bytes are compared as they are, also where they look binary; only `\n` ends a line. A last
    line without one is another line than one with it.
    """
    if not ignore_space:
        both_end = old.endswith(b"\n") and new.endswith(b"\n")
        only = only_hunk(old, new) if both_end else None
        if only is not None:
            return only
    flag = _AS_BLAME | (DiffOption.IGNORE_WHITESPACE if ignore_space else 0)
    patch = pygit2.Patch.create_from(
        old, new, flag=flag, context_lines=0, interhunk_lines=0
    )
    return [(h.old_start, h.old_lines, h.new_start, h.new_lines) for h in patch.hunks]


def unified_diff(before: bytes, after: bytes) -> str | None:
    """Return the hunks between two contents; None where either is binary.

    Bytes that are not UTF-8 are shown escaped.
    """
    patch = pygit2.Patch.create_from(before, after)
    if patch.delta.is_binary:
        return None
    data = patch.data
    start = data.find(b"@@")
    return "" if start < 0 else data[start:].decode("utf-8", "backslashreplace")
