"""One shared file of one agent: its text and the editor of its format, JSON or TOML.

Invariant: an existing file that cannot be read is an error, never "not installed".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import files, merge, toml
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.entries import HookEntry, Want
from gitshadow.hookfiles.files import Content
from gitshadow.hookfiles.placement import EntryShape, FileLocation, Shared


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
