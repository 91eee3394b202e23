"""Which hooks are installed, found in a few milliseconds: files that do not name us are not parsed.

Invariant: a file that cannot be read counts as possibly ours, and `health` checks it.
"""

from collections.abc import Iterator

from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.placement import (
    Agent,
    FileLocation,
    InstallScope,
    Placement,
    Shared,
)

_NAMES = (b"git-agent-undo", b"gitshadow")
_MOST_BYTES = 4 * 1024 * 1024


def present(around: InstallEnvironment) -> Iterator[tuple[Agent, InstallScope]]:
    """Yield each agent and scope whose files name us, in the catalogue's order.

    Whether the hooks work is not checked: see `health.look`.
    """
    for agent in AGENTS.values():
        for scope in InstallScope:
            placement = agent.placements.get(scope)
            if placement is not None and _names_us(placement, around):
                yield agent, scope


def _names_us(placement: Placement, around: InstallEnvironment) -> bool:
    paths = (around.path(place) for place in _places(placement))
    return any(path is not None and _file_names_us(path) for path in paths)


def _places(placement: Placement) -> Iterator[FileLocation]:
    if isinstance(placement, Shared):
        yield from placement.files
        yield from (
            place for place in (placement.fallback, placement.toml) if place is not None
        )
    else:
        yield from (piece.target for piece in placement.pieces)


def _file_names_us(path: str) -> bool:
    try:
        with open(path, "rb", buffering=0) as stream:
            text = stream.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return any(name in text for name in _NAMES)
