"""What a hook event is about in one worktree: its paths there, and whether to wait.

Invariant: links are looked at and nothing is changed or opened.
"""

import os
from typing import NamedTuple

from gitshadow.adapters import paths as payload_paths
from gitshadow.adapters.base import END_PHASES, TOOL_PHASES, HookEvent, HookPhase
from gitshadow.errors import ShadowError
from gitshadow.model import PATHLESS_WRITERS, RepoPath, ToolClass
from gitshadow.store import refs
from gitshadow.store.layout import discover


class Reach(NamedTuple):
    """Say what an event is about in one worktree.

    `paths` lie in it, covered or not, links in their parents followed; `other_paths` are the
    absolute ones outside, `nested` those of them that lie below it, in a repository or worktree
    of their own. `needs_barrier` tells that everything written before the event must be
    recorded, because its tool names no path or something ends.
    """

    paths: tuple[RepoPath, ...] = ()
    other_paths: tuple[bytes, ...] = ()
    nested: tuple[RepoPath, ...] = ()
    needs_barrier: bool = False


def reach(event: HookEvent, root: str) -> Reach:
    """Return what an event is about in the worktree at `root`; looks at links, changes nothing."""
    if event.phase not in (*TOOL_PHASES, HookPhase.NOTICE):
        return Reach(needs_barrier=event.phase in END_PHASES)
    if event.tool_class is ToolClass.READ:
        return Reach()
    inside: dict[RepoPath, None] = {}
    outside: dict[bytes, None] = {}
    nested: dict[RepoPath, None] = {}
    top = os.fsencode(root)
    for path in event.paths:
        spellings = _spellings(path, event.cwd, top)
        below = [payload_paths.inside(one, top) for one in spellings]
        ours = [one for one in below if one is not None and not _is_nested(one, top)]
        inside.update(dict.fromkeys(ours))
        if not ours:
            outside[spellings[0]] = None
            nested.update((one, None) for one in below if one is not None)
    pathless = not event.paths and event.tool_class in PATHLESS_WRITERS
    barrier = event.phase is HookPhase.BEFORE and pathless
    return Reach(tuple(inside), tuple(outside), tuple(nested), barrier)


def places_of(event: HookEvent) -> tuple[bytes, ...]:
    """Return the directories that tell which repositories an event concerns, cwd first."""
    cwd = (event.cwd,) if event.cwd and event.cwd.startswith(b"/") else ()
    named = (
        os.path.dirname(payload_paths.absolute(_unquoted(path), event.cwd, b"/"))
        for path in event.paths
    )
    return tuple(dict.fromkeys((*cwd, *named)))


def _is_nested(path: RepoPath, top: bytes) -> bool:
    """Tell whether a path below `top` lies in another worktree: a submodule, a nested one."""
    at = path.find(b"/")
    while at > 0:
        directory = os.path.join(top, path[:at])
        if os.path.lexists(os.path.join(directory, b".git")):
            home = discover(os.fsdecode(directory))
            if home is not None and os.fsencode(home.root) != top:
                return True
        at = path.find(b"/", at + 1)
    return False


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
