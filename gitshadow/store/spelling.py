"""Whether a name in a directory is spelled as it is stored, where file systems fold names.

vfat, exfat, NTFS, APFS, many shares and directories with `chattr +F` find `readme.md` by the name
`README.MD`; some find a composed é by its decomposed form. Only a listing has the true spelling.
`core.ignoreCase` describes the file system on which `git init` ran, so it is measured here: by a
look at a name that exists, under other letters. Nothing is written for that.
Invariant: on a file system that distinguishes all names, a look costs a set lookup more, and where
each directory may be set to fold, a question to the kernel.
"""

import errno
import os
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal

from gitshadow.platform import current


def fold_key(name: bytes) -> bytes:
    """Return what two names or paths have in common that some file system takes for one."""
    if name.isascii():
        return name.lower()
    text = name.decode("utf-8", "surrogateescape")
    # Twice, because folding can leave what is not composed (Unicode 3.13, canonical caseless).
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
    return text.encode("utf-8", "surrogateescape")


class Spelling:
    """Measure, per file system, which names lead to one file.

    `folds` is set once a directory was met that folds names. With `composes`, names that a
    file system finds in either form are shown composed, as Git does on macOS
    (core.precomposeUnicode).
    """

    def __init__(self, *, composes: bool | None = None) -> None:
        """Start with nothing measured; None composes where this platform's Git does."""
        if composes is None:
            composes = current().file_facts().COMPOSES_NAMES
        self.folds = False
        self.composes = composes
        self._cased: set[int] = set()
        self._formed: set[int] = set()
        self._folding: set[int] = set()
        self._mixed: set[int] = set()

    @property
    def is_plain(self) -> bool:
        """Whether all that was met so far keeps ASCII names apart, and no directory is set to fold.

        What is mounted below may still fold: see `is_measured`.
        """
        return bool(self._cased) and not self.folds and not self._mixed

    def is_measured(self, device: int) -> bool:
        """Return whether it is known of a file system how it takes ASCII names."""
        return device in self._cased or device in self._folding

    def is_true(self, directory: int, name: bytes, device: int) -> bool:
        """Return whether an existing entry is spelled so.

        Args:
            directory: A descriptor of the directory.
            name: A name by which an entry was found.
            device: The file system of the entry.
        """
        is_cased = device in self._cased and device not in self._mixed
        if is_cased and (name.isascii() or device in self._formed):
            return True
        if _is_single(name) or not self._may_fold(directory, name):
            return True
        return name in self.listed(directory)

    def true_name(self, directory: int, name: bytes, found: os.stat_result) -> bytes:
        """Return how an entry is spelled that was found by a name."""
        if self.is_true(directory, name, found.st_dev):
            return name
        key = fold_key(name)
        # The last ones for a short name of vfat (`LONGFI~1.TXT`), or a rule of folding that is not
        # Unicode's.
        for one in sorted(self.listed(directory), key=lambda one: fold_key(one) != key):
            if _same(directory, one, found):
                return one
        return name

    def new(self, name: bytes, device: int) -> bytes:
        """Return how an entry would be shown that is made by a name which leads to nothing."""
        return (
            _form("NFC", name) if self.composes and device not in self._formed else name
        )

    def listed(self, directory: int) -> list[bytes]:
        """Return the names in a directory as they are shown."""
        names = [os.fsencode(name) for name in os.listdir(directory)]
        return [self.shown(directory, name, names) for name in names]

    def shown(self, directory: int, name: bytes, names: list[bytes]) -> bytes:
        """Return how a listed name is shown: as it is, or composed."""
        if not self.composes or name.isascii():
            return name
        composed = _form("NFC", name)
        if composed == name or composed in names:
            return name
        try:
            found = os.stat(composed, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return name
        return composed if _same(directory, name, found) else name

    def _may_fold(self, directory: int, name: bytes) -> bool:
        """Return whether an entry may have been found by another name than its own."""
        # Where another file system is mounted, the entry is of that one, and its name of this one.
        device = os.fstat(directory).st_dev
        by_flag = current().file_facts().folds_by_flag(directory)
        if by_flag is not None:
            self._mixed.add(device)
        if device in self._folding or by_flag:
            self.folds = True
            return True
        if device not in self._cased:
            distinct = _is_distinct(directory, name, name.swapcase())
            if distinct is None:
                return True
            if not distinct:
                self._met(device, by_flag)
                return True
            self._cased.add(device)
        if name.isascii() or device in self._formed:
            return False
        return self._folds_forms(directory, name, device, by_flag)

    def _folds_forms(
        self, directory: int, name: bytes, device: int, by_flag: bool | None
    ) -> bool:
        """Return whether a directory finds a name by another Unicode form of it."""
        others = {_form("NFC", name), _form("NFD", name)} - {name}
        found = {_is_distinct(directory, name, other) for other in others}
        if False in found:
            self._met(device, by_flag)
        elif True in found:
            self._formed.add(device)
            return False
        # Of another name it is not known yet, unless it has one form alone.
        return bool(found)

    def _met(self, device: int, by_flag: bool | None) -> None:
        self.folds = True
        if by_flag is None:
            self._folding.add(device)


def _form(form: Literal["NFC", "NFD"], name: bytes) -> bytes:
    text = unicodedata.normalize(form, name.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def _is_single(name: bytes) -> bool:
    """Return whether no file system has another spelling of a name."""
    # vfat drops dots and blanks at the end, and has short names with a tilde.
    plain = name.isascii() and name.swapcase() == name
    return plain and not name.endswith((b".", b" ")) and b"~" not in name


def _is_distinct(directory: int, name: bytes, other: bytes) -> bool | None:
    """Return whether a directory distinguishes a name that is there from another spelling.

    None: this name does not show it, as one that is being replaced or removed.
    """
    if other == name:
        return None
    try:
        os.stat(other, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        is_other_absent = error.errno == errno.ENOENT
        return True if is_other_absent and _is_there(directory, name) else None
    # Not by inode numbers: a save can replace the file between two looks at it.
    names = os.listdir(directory)
    if os.fsdecode(name) in names and os.fsdecode(other) in names:
        return True
    is_still_there = _is_there(directory, name) and _is_there(directory, other)
    return False if is_still_there else None


def _is_there(directory: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _same(directory: int, name: bytes, found: os.stat_result) -> bool:
    try:
        one = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (found.st_dev, found.st_ino)


def below_root(path: bytes, root: bytes) -> bytes:
    """Return an absolute path with the root's own spelling, where it names the root otherwise."""
    parts, depth = path.split(b"/"), root.count(b"/") + 1
    head = b"/".join(parts[:depth])
    if head == root or len(parts) <= depth or fold_key(head) != fold_key(root):
        return path
    try:
        is_root = os.path.samefile(head, root)
    except OSError:
        return path
    return b"/".join([root, *parts[depth:]]) if is_root else path


def clashes(paths: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Yield the paths, of some in any order, that are one where names fold; sorted groups."""
    groups: dict[bytes, list[bytes]] = {}
    for path in paths:
        groups.setdefault(fold_key(path), []).append(path)
    yield from sorted(tuple(sorted(one)) for one in groups.values() if len(one) > 1)
