"""What can be said of an agent's hook files: where they lie, whose they are, how entries look.

Invariant: values only; `shapes.py` and `catalog.py` hold the facts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class InstallScope(StrEnum):
    """Say for whom an installation counts."""

    USER = "user"
    PROJECT = "project"


class Root(StrEnum):
    """Name a directory that an agent's files of a scope lie below."""

    HOME = "home"
    CONFIG = "config"
    CLAUDE = "claude"
    CODEX = "codex"
    COPILOT = "copilot"
    WORKTREE = "worktree"


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Name a file by its root directory and its path below that."""

    root: Root
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRegistration:
    """Say how one event is registered.

    `matcher` is the catch-all in that agent's spelling, None where there is none to write;
    `timeout` is in the agent's own unit, None where the unit is not known.
    """

    name: str
    matcher: str | None = None
    timeout: int | None = None
    flat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryShape:
    """Say how our entries stand in a shared file.

    `base` are the names on the way to the map of events; with `keep_base` a file that has its
    events at another level keeps them there. `former` are the ways that earlier versions wrote
    and the agent does not read: entries there are replaced. `extra` goes into each handler,
    `top` into the file. With `join` our handler goes into a catch-all group that exists already.
    """

    events: tuple[EventRegistration, ...]
    base: tuple[str, ...] = ("hooks",)
    former: tuple[tuple[str, ...], ...] = ()
    keep_base: bool = False
    typed: bool = True
    named: bool = False
    join: bool = False
    extra: Mapping[str, object]
    top: Mapping[str, object]
    milliseconds: bool = False


@dataclass(frozen=True, slots=True)
class Shared:
    """Say which file of the user's takes our entries: the first that exists, or the first.

    `fallback` is used instead where only that file exists and has entries of its own; they have
    the form `fallback_shape`.
    """

    files: tuple[FileLocation, ...]
    shape: EntryShape
    fallback: FileLocation | None = None
    fallback_shape: EntryShape | None = None
    toml: FileLocation | None = None


@dataclass(frozen=True, slots=True)
class PackagedPiece:
    """Name one packaged file below `hooks/`, where it goes, and whether it is run."""

    source: str
    target: FileLocation
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Owned:
    """Say which files are wholly ours."""

    pieces: tuple[PackagedPiece, ...]


Placement = Shared | Owned


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Hold what there is to know about one agent's installation.

    `signs` are places that tell that it is installed, `programs` its executables; `notes` are
    said whenever something is written, `project_notes` where that is a project's file.
    """

    name: str
    placements: Mapping[InstallScope, Placement]
    signs: tuple[FileLocation, ...]
    programs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    project_notes: tuple[str, ...] = ()

    @property
    def default_scope(self) -> InstallScope:
        """Return the scope that is meant when none is named."""
        return (
            InstallScope.USER
            if InstallScope.USER in self.placements
            else InstallScope.PROJECT
        )
