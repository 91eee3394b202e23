"""The files of one agent in one scope: what they hold, and the editor of those that are shared.

Invariant: an existing file that cannot be read is an error, never "not installed".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import files, invocation, merge, packaged, toml
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.entries import HookEntry, Want
from gitshadow.hookfiles.files import Content
from gitshadow.hookfiles.ledger import Ledger
from gitshadow.hookfiles.placement import (
    Agent,
    EntryShape,
    Extra,
    FileLocation,
    InstallScope,
    Owned,
    PackagedPiece,
    Shared,
)


class HookSite(NamedTuple):
    """Where the hooks of an agent are installed: for the user or a project, on this machine."""

    agent: Agent
    scope: InstallScope
    around: InstallEnvironment

    @property
    def ledger(self) -> Ledger:
        """Return the records of what we wrote in this scope."""
        return Ledger(self.around.states[self.scope])

    @property
    def _executable(self) -> str | None:
        # What a project shares runs the program by its name.
        return self.around.executable if self.scope is InstallScope.USER else None

    def path(self, place: FileLocation) -> str:
        """Return the absolute path of a file, `""` if its root does not exist here."""
        return self.around.path(place) or ""

    def want(self, shape: EntryShape, *, adds_line: bool = False) -> Want:
        """Return the entries that an installation adds to a file of that form."""
        name, program = self.agent.name, self._executable
        text = (
            invocation.for_project(name)
            if program is None
            else invocation.for_user(name, program)
        )
        line = invocation.for_status_line(program)
        return Want(name, shape, text, line, adds_line)

    def packaged(self, piece: PackagedPiece) -> bytes:
        """Return the content that a file of ours is to have.

        Raises:
            ShadowError: as `packaged.content`.
        """
        return packaged.content(piece, self.agent.name, self._executable)

    def read(self, piece: PackagedPiece) -> tuple[str, Content | None]:
        """Return the real path of a file that we install, and its content.

        Raises:
            ShadowError: it cannot be read.
        """
        where = worktree_of(piece.target, self.around)
        real = files.locate(self.path(piece.target), where)
        return real, files.read(real)

    def extras(self) -> Iterator[tuple[Extra, PackagedPiece]]:
        """Yield the files of the agent's commands and skills in this scope."""
        for extra, placements in self.agent.extras.items():
            found = placements.get(self.scope)
            for piece in found.pieces if isinstance(found, Owned) else ():
                yield extra, piece


class Editor(Protocol):
    """The editor of one format; `merge` and `toml` are the two."""

    def entries(self, text: str, want: Want) -> list[HookEntry]:
        """Return our entries in a text."""

    def changed(self, text: str, want: Want) -> list[HookEntry]:
        """Return the entries in a text that a person changed."""

    def put_in(self, text: str, want: Want) -> str:
        """Return a text with our entries."""

    def take_out(self, text: str, want: Want, before: str | None = None) -> str | None:
        """Return a text without our entries, None if nothing is left."""


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file as it was read, with its real path and its name (`path`)."""

    path: str
    real: str
    editor: Editor
    shape: EntryShape
    content: Content | None

    @property
    def text(self) -> str:
        """Return its text, `""` if there is no file.

        Raises:
            ShadowError: it is not UTF-8.
        """
        if self.content is None:
            return ""
        try:
            return self.content.data.decode()
        except UnicodeDecodeError:
            raise ShadowError("it is not UTF-8") from None


def open_shared(
    place: FileLocation, around: InstallEnvironment, editor: Editor, shape: EntryShape
) -> SharedFile | None:
    """Read the file at a place; None if the place does not exist here.

    Raises:
        ShadowError: it cannot be read.
        RefusedError: a project's file is outside of the worktree.
    """
    path = around.path(place)
    if path is None:
        return None
    real = files.locate(path, worktree_of(place, around))
    return SharedFile(path, real, editor, shape, files.read(real))


def worktree_of(place: FileLocation, around: InstallEnvironment) -> str | None:
    """Return the worktree that a place must not leave; None for a user's place."""
    return around.worktree if place.root == "worktree" else None


def candidates(shared: Shared, around: InstallEnvironment) -> Iterator[SharedFile]:
    """Yield every file that may have our entries, also files that do not exist.

    Raises:
        ShadowError: one cannot be read.
    """
    yield from _usual(shared, around)
    for other in (_fallback(shared, around), _toml(shared, around)):
        if other is not None:
            yield other


def choose(shared: Shared, around: InstallEnvironment) -> SharedFile:
    """Return the file that takes our entries: the one that the agent reads.

    Raises:
        ShadowError: a file that decides it cannot be read.
    """
    there = _usual(shared, around)
    for file in there:
        if file.content is not None:
            return file
    other = _instead(shared, around)
    return other if other is not None else there[0]


def _usual(shared: Shared, around: InstallEnvironment) -> list[SharedFile]:
    editor = merge if shared.shape.event_key is None else toml
    found = (open_shared(one, around, editor, shared.shape) for one in shared.files)
    return [file for file in found if file is not None]


def _fallback(shared: Shared, around: InstallEnvironment) -> SharedFile | None:
    if shared.fallback is None:
        return None
    shape = shared.fallback_shape or shared.shape
    return open_shared(shared.fallback, around, merge, shape)


def _toml(shared: Shared, around: InstallEnvironment) -> SharedFile | None:
    if shared.toml is None:
        return None
    return open_shared(shared.toml, around, toml, shared.shape)


def _instead(shared: Shared, around: InstallEnvironment) -> SharedFile | None:
    """Return the file that the usual one would hide, or about which the agent would warn."""
    file = _fallback(shared, around)
    if file is not None and _has_hooks(file):
        return file
    file = _toml(shared, around)
    if file is not None and file.content is not None and toml.has_hooks(file.text):
        return file
    return None


def _has_hooks(file: SharedFile) -> bool:
    try:
        root = merge.parse(file.text).root
    except ShadowError as error:
        raise named(file.path, error) from error
    return root is not None and root.index("hooks") is not None


def named(path: str, error: ShadowError) -> ShadowError:
    """Return an error about a file's text that names the file."""
    if path in error.message:
        return error
    return type(error)(f"cannot use {path}: {error.message}", hint=error.hint)
