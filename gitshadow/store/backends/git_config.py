"""The configuration of a repository by `git config`, read again once one of its files changed."""

import os
from collections.abc import Mapping, Sequence

from gitshadow.errors import StoreError
from gitshadow.store.backends.port import FILES, REFTABLE, ConfigEntry
from gitshadow.store.git import Git
from gitshadow.store.git_settings import (
    FileStamp,
    config_files,
    own_directory,
    stamp_of,
)
from gitshadow.store.layout import Layout

_FILE = "file:"
# What we pass with `-c` ourselves.
_OURS = "command line:"


class Configuration:
    """The configuration that one worktree sees."""

    def __init__(self, layout: Layout, environ: Mapping[str, str], git: Git) -> None:
        self._usual = config_files(layout, environ)
        self._root = layout.root
        self._default_ignore = f"{own_directory(environ)}/ignore"
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
            # Stamps are taken before the files are read. Those of files that it includes are known
            # only afterwards, so then it is read once more.
            names = set(self._usual)
            while True:
                self._stamps = {name: stamp_of(name) for name in names}
                found = self._read()
                origins = {origin for origin, _ in found}
                if origins <= names:
                    break
                names |= origins
            self._entries = [entry for _, entry in found]
        return self._entries

    def files(self) -> Sequence[str]:
        """Return the files that were read, and those that there may be; as of `entries`."""
        return list(self._stamps)

    def get(self, name: str) -> str | None:
        """Return the last value of a key, None if there is none."""
        found = [entry.value for entry in self.entries() if entry.name == name]
        return ("true" if found[-1] is None else found[-1]) if found else None

    def excludes_file(self) -> str:
        """Return the path of the user's own file of ignore rules."""
        named = self.get("core.excludesfile")
        if named is None:
            return self._default_ignore
        if named.startswith("~/"):
            named = self._home + named[1:]
        return os.path.join(self._root, named)

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
