"""What a hook event is about in one worktree: its paths there, and whether to wait.

Invariant: links are looked at and nothing is changed or opened.
"""

import os
from typing import NamedTuple

from gitshadow.adapters import paths as payload_paths
from gitshadow.adapters.base import HookEvent, Phase
from gitshadow.errors import ShadowError
from gitshadow.model import RepoPath, ToolClass
from gitshadow.store import refs
from gitshadow.store.layout import discover

_TOOL_PHASES = (
    Phase.BEFORE,
    Phase.AFTER,
    Phase.FAILED,
    Phase.DENIED,
    Phase.NOTICE,
)
_BARRIERS = (Phase.TURN_END, Phase.SUBAGENT_END, Phase.SESSION_END)


class Reach(NamedTuple):
    """Say what an event is about in one worktree.

    `paths` lie in it, covered or not, links in their parents followed; `other_paths` are the
    absolute ones outside. `needs_barrier` tells that everything written before the event must be
    recorded, because its tool names no path or something ends.
    """

    paths: tuple[RepoPath, ...] = ()
    other_paths: tuple[bytes, ...] = ()
    needs_barrier: bool = False


def reach(event: HookEvent, root: str) -> Reach:
    """Return what an event is about in the worktree at `root`; looks at links, changes nothing."""
    if event.phase not in _TOOL_PHASES:
        return Reach(needs_barrier=event.phase in _BARRIERS)
    if event.tool_class is ToolClass.READ:
        return Reach()
    inside: dict[RepoPath, None] = {}
    outside: dict[bytes, None] = {}
    top = os.fsencode(root)
    for path in event.paths:
        spellings = _spellings(path, event.cwd, top)
        found = [_inside(one, top) for one in spellings]
        for one in found:
            if one is not None:
                inside[one] = None
        if not any(found):
            outside[spellings[0]] = None
    pathless = not event.paths and event.tool_class in (
        ToolClass.SHELL,
        ToolClass.OTHER,
    )
    barrier = event.phase is Phase.BEFORE and pathless
    return Reach(tuple(inside), tuple(outside), barrier)


def places_of(event: HookEvent) -> tuple[bytes, ...]:
    """Return the directories that tell which repositories an event concerns, cwd first."""
    cwd = (event.cwd,) if event.cwd and event.cwd.startswith(b"/") else ()
    named = (
        os.path.dirname(payload_paths.absolute(_unquoted(path), event.cwd, b"/"))
        for path in event.paths
    )
    return tuple(dict.fromkeys((*cwd, *named)))


def _inside(path: bytes, top: bytes) -> RepoPath | None:
    """Return a path in this worktree; None outside, and in another worktree below it."""
    found = payload_paths.inside(path, top)
    at = -1 if found is None else found.find(b"/")
    while found is not None and at > 0:
        directory = os.path.join(top, found[:at])
        if os.path.lexists(os.path.join(directory, b".git")):
            home = discover(os.fsdecode(directory))
            if home is not None and os.fsencode(home.root) != top:
                return None
        at = found.find(b"/", at + 1)
    return found


def _spellings(path: bytes, cwd: bytes | None, root: bytes) -> tuple[bytes, ...]:
    """Return where a named path leads: links in its parents followed, then in its name too.

    The tool follows the link and writes its target, while another one may replace the link.
    """
    plain = payload_paths.absolute(_unquoted(path), cwd, root)
    head, name = os.path.split(plain)
    behind = os.path.join(os.path.realpath(head), name)
    return tuple(dict.fromkeys((behind, os.path.realpath(behind))))


def _unquoted(path: bytes) -> bytes:
    """Undo Git's quoting, in which our own output gives odd paths."""
    if not path.startswith(b'"'):
        return path
    try:
        return refs.parse_path(path.decode("ascii"))
    except (ShadowError, ValueError):
        return path
