"""The paths of this machine, and which agents and which of our hooks are installed on it.

Invariant: the environment is passed in as values; nothing here reads it.
"""

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.placement import (
    Agent,
    FileLocation,
    InstallScope,
    Placement,
    Root,
    Shared,
)

_NAMES = (b"git-agent-undo", b"gitshadow")
_MOST_BYTES = 4 * 1024 * 1024


class InstallEnvironment(NamedTuple):
    """The paths of an installation.

    Attributes:
        roots: Has no worktree outside of one.
        search: The directories of `PATH`.
        executable: Our own program, absolute.
        states: The directories of the ledgers.
    """

    roots: Mapping[Root, str]
    search: tuple[str, ...]
    executable: str
    states: Mapping[InstallScope, str]

    @property
    def worktree(self) -> str | None:
        """Return the top of the worktree, None outside of one."""
        return self.roots.get(Root.WORKTREE)

    def path(self, place: FileLocation) -> str | None:
        """Return the absolute path of a file; None if its root does not exist here."""
        root = self.roots.get(place.root)
        if root is None:
            return None
        return os.path.join(root, place.path) if place.path else root

    def finds(self, program: str) -> bool:
        """Return whether a program exists: by its path, or on `PATH` by its name."""
        if os.path.isabs(program):
            return os.access(program, os.X_OK)
        return self.first_of(program) is not None

    def first_of(self, *programs: str) -> str | None:
        """Return the path of the first of some programs on `PATH`, None if it has none."""
        for directory in self.search:
            for name in programs:
                path = os.path.join(directory, name)
                if os.path.isfile(path) and os.access(path, os.X_OK):
                    return path
        return None


def surroundings(
    env: Mapping[str, str],
    home: str,
    *,
    executable: str,
    worktree: str | None = None,
    common_state: str | None = None,
) -> InstallEnvironment:
    """Return the paths that an environment describes.

    Args:
        env: The variables that move configuration: `CLAUDE_CONFIG_DIR`, `CODEX_HOME`,
            `COPILOT_HOME`, `KIMI_CODE_HOME`, `VIBE_HOME`, `XDG_CONFIG_HOME`, `XDG_STATE_HOME`; and
            `PATH`.
        home: The home directory.
        executable: Our own program.
        worktree: The top of the worktree, None outside of one.
        common_state: Our directory in the repository's Git directory, None outside of one.
    """

    def directory(name: str, otherwise: str) -> str:
        value = env.get(name, "")
        return value if os.path.isabs(value) else os.path.join(home, otherwise)

    roots = {
        Root.HOME: home,
        Root.CONFIG: directory("XDG_CONFIG_HOME", ".config"),
        Root.CLAUDE: directory("CLAUDE_CONFIG_DIR", ".claude"),
        Root.CODEX: directory("CODEX_HOME", ".codex"),
        Root.COPILOT: directory("COPILOT_HOME", ".copilot"),
        Root.KIMI: directory("KIMI_CODE_HOME", ".kimi-code"),
        Root.VIBE: directory("VIBE_HOME", ".vibe"),
    }
    own = directory("XDG_STATE_HOME", ".local/state")
    states = {InstallScope.USER: os.path.join(own, "gitshadow", "hooks")}
    if worktree is not None and common_state is not None:
        roots[Root.WORKTREE] = worktree
        states[InstallScope.PROJECT] = os.path.join(common_state, "hooks")
    search = tuple(part for part in env.get("PATH", "").split(os.pathsep) if part)
    return InstallEnvironment(
        roots=roots, search=search, executable=executable, states=states
    )


def is_detected(agent: Agent, around: InstallEnvironment) -> bool:
    """Return whether an agent is installed: its program or its directory exists."""
    paths = (around.path(sign) for sign in agent.signs)
    return any(path is not None and os.path.exists(path) for path in paths) or any(
        around.finds(program) for program in agent.programs
    )


def detected(around: InstallEnvironment) -> list[str]:
    """Return the names of the installed agents, in the catalogue's order."""
    return [name for name, agent in AGENTS.items() if is_detected(agent, around)]


def present(around: InstallEnvironment) -> Iterator[tuple[Agent, InstallScope]]:
    """Yield each agent and scope whose files name us, in the catalogue's order.

    Whether the hooks work is not checked: see `health.look`. A file that cannot be read counts as
    possibly ours, and `health` checks it.
    """
    # `status` asks this each time and has a few milliseconds for it, so files are searched for our
    # names and not parsed.
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
