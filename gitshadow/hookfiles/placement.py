"""The description of an agent's hook files: paths, owner, and the form of entries.

Invariant: values only; `catalog.py` has the facts. NamedTuples, because `status` imports them.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gitshadow.model import JsonObject, JsonValue

_NOTHING: Mapping[str, "JsonValue"] = MappingProxyType({})


class InstallScope(StrEnum):
    """For whom hooks are installed."""

    USER = "user"
    PROJECT = "project"


class Extra(StrEnum):
    """What an agent can have besides hooks, if a person asks for it."""

    COMMANDS = "commands"
    SKILL = "skill"
    STATUSLINE = "statusline"


class Root(StrEnum):
    """A directory above an agent's files of a scope."""

    HOME = "home"
    CONFIG = "config"
    CLAUDE = "claude"
    CODEX = "codex"
    COPILOT = "copilot"
    KIMI = "kimi"
    VIBE = "vibe"
    WORKTREE = "worktree"


class FileLocation(NamedTuple):
    """A file: its root directory and its path below that."""

    root: Root
    path: str


class EventRegistration(NamedTuple):
    """How one event is registered.

    Attributes:
        matcher: The catch-all in that agent's spelling, None if it needs none.
        timeout: In the agent's own unit, None if the unit is not known.
        flat: The event's list has handlers, not groups of handlers.
    """

    name: str
    matcher: str | None = None
    timeout: int | None = None
    flat: bool = False


class EntryShape(NamedTuple):
    """The form of gitshadow's entries in a shared file.

    Attributes:
        event_key: The file is TOML and has one list of all handlers, `hooks`; the event is the
            value of this key of each. None for a map from events to handlers.
        base: The names on the way to the map of events.
        keep_base: A file that has its events at another level keeps them there.
        typed: A handler has a type.
        named: A handler has a name.
        join: The handler goes into a catch-all group that exists already.
        extra: Added to each handler.
        top: Added to the file.
        milliseconds: The unit of timeouts, else seconds.
        line: The member of the file's top level that describes a status line.
    """

    events: tuple[EventRegistration, ...]
    event_key: str | None = None
    base: tuple[str, ...] = ("hooks",)
    keep_base: bool = False
    typed: bool = True
    named: bool = False
    join: bool = False
    extra: "JsonObject" = _NOTHING
    top: "JsonObject" = _NOTHING
    milliseconds: bool = False
    line: str | None = None


class Shared(NamedTuple):
    """The user's file that takes gitshadow's entries: the first that exists, else the first one.

    Attributes:
        fallback: Used instead if only that file exists and has entries of its own.
        fallback_shape: The form of the entries there.
        toml: Used instead if it has hooks.
    """

    files: tuple[FileLocation, ...]
    shape: EntryShape
    fallback: FileLocation | None = None
    fallback_shape: EntryShape | None = None
    toml: FileLocation | None = None


class PackagedPiece(NamedTuple):
    """One packaged file below `hooks/`, where it goes, and whether it is run."""

    source: str
    target: FileLocation
    executable: bool = False


class Owned(NamedTuple):
    """The files that are wholly gitshadow's."""

    pieces: tuple[PackagedPiece, ...]


Placement = Shared | Owned


class Agent(NamedTuple):
    """What is known about one agent's installation.

    Attributes:
        signs: Places that exist if the agent is installed.
        programs: Its executables.
        oldest: The first version that runs the hooks which turns and calls need, if it is known.
        notes: Printed whenever something is written.
        project_notes: Printed when a project's file is written.
        extras: The files of commands and skills; a status line is part of the shape of a file.
    """

    name: str
    placements: Mapping[InstallScope, Placement]
    signs: tuple[FileLocation, ...]
    programs: tuple[str, ...] = ()
    oldest: str | None = None
    notes: tuple[str, ...] = ()
    project_notes: tuple[str, ...] = ()
    extras: Mapping[Extra, Mapping[InstallScope, Owned]] = MappingProxyType({})

    def offers(self, scope: InstallScope) -> list[Extra]:
        """Return what the agent can have besides hooks in a scope."""
        found = [extra for extra, places in self.extras.items() if scope in places]
        placement = self.placements.get(scope)
        if isinstance(placement, Shared) and placement.shape.line is not None:
            found.append(Extra.STATUSLINE)
        return found

    @property
    def default_scope(self) -> InstallScope:
        """Return the scope that is used if none is named."""
        return (
            InstallScope.USER
            if InstallScope.USER in self.placements
            else InstallScope.PROJECT
        )
