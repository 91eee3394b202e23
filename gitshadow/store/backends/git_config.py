"""The configuration of a repository by `git config`, read again once one of its files changed."""

import os
import re
from collections.abc import Mapping, Sequence

from gitshadow.errors import StoreError
from gitshadow.store.backends.port import FILES, REFTABLE, ConfigEntry
from gitshadow.store.git import Git
from gitshadow.store.git_settings import (
    FileStamp,
    config_files,
    stamp_of,
)
from gitshadow.store.layout import Layout

_FILE = "file:"
# What we pass with `-c` ourselves.
_OURS = "command line:"
_INCLUDE = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)


class Configuration:
    """The configuration that one worktree sees."""

    def __init__(self, layout: Layout, environ: Mapping[str, str], git: Git) -> None:
        self._usual = config_files(layout, environ)
        self._root = layout.root
        self._home = environ.get("HOME", "")
        self._git = git
        self._entries: list[ConfigEntry] | None = None
        self._stamps: dict[str, FileStamp] = {}

    def entries(self) -> Sequence[ConfigEntry]:
        """Return all entries, in the order in which later ones count.

        Raises:
            StoreError: git cannot read them.
        """
        stamps = self._stamps
        if self._entries is None or any(stamp_of(p) != s for p, s in stamps.items()):
            self._entries, self._stamps = self._read_all()
        return self._entries

    def known(self) -> Sequence[ConfigEntry]:
        """Return the same; while a file has a mistake, as when somebody edits it, those before.

        Raises:
            StoreError: git cannot read them, and never could.
        """
        try:
            return self.entries()
        except StoreError:
            if self._entries is None:
                raise
            return self._entries

    def get(self, name: str) -> str | None:
        """Return the last value of a key, None if there is none."""
        found = [entry.value for entry in self.known() if entry.name == name]
        return ("true" if found[-1] is None else found[-1]) if found else None

    def _read_all(self) -> tuple[list[ConfigEntry], dict[str, FileStamp]]:
        """Return all entries, and how the files looked before they were read."""
        # Which files are included is known only afterwards, so then it is read once more.
        names = set(self._usual)
        while True:
            stamps = {name: stamp_of(name) for name in names}
            found = self._read()
            more = {origin for origin, _ in found}
            # One that is empty, or that there is not, is the origin of nothing.
            more.update(
                self._path(entry.value, os.path.dirname(origin))
                for origin, entry in found
                if _INCLUDE.fullmatch(entry.name) and entry.value
            )
            if more <= names:
                return [entry for _, entry in found], stamps
            names |= more

    def _path(self, named: str, place: str) -> str:
        """Return the file that a value names in a file in a directory."""
        if named.startswith("~/"):
            named = self._home + named[1:]
        return os.path.join(place, named)

    def _read(self) -> list[tuple[str, ConfigEntry]]:
        out = self._git.run("config", "--list", "-z", "--show-origin")
        cells = out.split(b"\0")
        found: list[tuple[str, ConfigEntry]] = []
        for origin, row in zip(cells[::2], cells[1::2], strict=False):
            place = os.fsdecode(origin)
            if place.startswith(_OURS):
                continue
            name, marked, value = os.fsdecode(row).partition("\n")
            entry = ConfigEntry(name, value if marked else None)
            found.append((os.path.join(self._root, place.removeprefix(_FILE)), entry))
        return found


def format_of_refs(value: str | None) -> str:
    """Return the name of the ref format that `extensions.refStorage` has; `files` without one.

    Raises:
        StoreError: it is none that is known here.
    """
    found = value or FILES
    if found not in (FILES, REFTABLE):
        raise StoreError(f"cannot read refs of the format {found!r}")
    return found
