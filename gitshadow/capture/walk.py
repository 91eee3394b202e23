"""The walk: every covered path of a worktree, with what lstat says of it.

Invariant: links and other repositories are never entered; a bad directory never stops the rest.
"""

import errno
from dataclasses import dataclass, field, replace

from gitshadow.capture.coverage import UNREADABLE, Coverage
from gitshadow.errors import is_shortage
from gitshadow.model import Excluded, RepoPath, StatKey
from gitshadow.store.files import Look, WorkFiles
from gitshadow.store.states import Looks

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(slots=True)
class Walk:
    """Collect what a walk found.

    `directories` are those to watch (the top is `b""`), `polled` those of them that a watcher
    cannot take, because their name or a name in them is not UTF-8. `excluded` are topmost.
    `modes` are the permission bits of the directories.
    """

    files: Looks = field(default_factory=Looks)
    directories: list[RepoPath] = field(default_factory=list)
    polled: list[RepoPath] = field(default_factory=list)
    modes: dict[RepoPath, int] = field(default_factory=dict)
    excluded: list[tuple[Excluded, StatKey | None]] = field(default_factory=list)
    unreadable: list[tuple[RepoPath, str]] = field(default_factory=list)


def walk(files: WorkFiles, coverage: Coverage) -> Walk:
    """Walk the whole worktree, by the rules that are found on the way."""
    return subwalk(files, coverage, RepoPath(b""))


def subwalk(files: WorkFiles, coverage: Coverage, directory: RepoPath) -> Walk:
    """Walk one directory and what is below it; one that is excluded or gone gives nothing."""
    found = Walk()
    look = files.look(directory)
    if look is None or not look.is_dir:
        return found
    coverage.refresh_submodules()
    if directory and coverage.enters(directory) is not None:
        return found
    stack = [(directory, look)]
    while stack:
        stack.extend(_list(files, coverage, *stack.pop(), found))
    return found


def _list(
    files: WorkFiles, coverage: Coverage, directory: RepoPath, own: Look, found: Walk
) -> list[tuple[RepoPath, Look]]:
    """Sort the entries of one directory; return the directories to go into."""
    try:
        entries = dict(files.list(directory))
    except OSError as error:
        if is_shortage(error):
            raise
        if error.errno not in _GONE:
            found.unreadable.append((directory, error.strerror or str(error)))
            found.excluded.append((Excluded(directory, UNREADABLE), own.stat))
        return []
    barred = coverage.listed(directory, entries)
    if barred is not None:
        found.excluded.append((barred, own.stat))
        return []
    entries.pop(b".git", None)
    found.directories.append(directory)
    found.modes[directory] = own.directory_mode
    if not _is_utf8(directory) or not all(map(_is_utf8, entries)):
        found.polled.append(directory)
    inner: list[tuple[RepoPath, Look]] = []
    prefix = directory + b"/" if directory else b""
    for name, look in entries.items():
        path = RepoPath(prefix + name)
        if look.is_dir:
            excluded = coverage.enters_listed(path)
            if excluded is None:
                inner.append((path, look))
        else:
            excluded = coverage.verdict(path, look)
            if excluded is None:
                found.files[path] = look
        if excluded is not None:
            found.excluded.append((replace(excluded, path=path), look.stat))
    return inner


def _is_utf8(name: bytes) -> bool:
    if name.isascii():
        return True
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
