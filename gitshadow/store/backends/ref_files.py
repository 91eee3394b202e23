"""Refs as files: loose ones, `packed-refs`, and the reflog of HEAD (gitrepository-layout(5)).

Read here for any hash length, without a process. What is read is never changed: the one exception
is the file of a ref of ours that holds neither an object id nor a name, which Git and libgit2
neither read nor overwrite.
"""

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gitshadow.errors import StoreError, raise_shortage
from gitshadow.model import Oid
from gitshadow.store.backends.port import ReflogEntry
from gitshadow.store.digests import digest
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import ObjectFormat, is_null

REF_PREFIX = "refs/agent-undo/"
PACKED_HINT = (
    "keep a copy of packed-refs in the git directory, then remove its broken lines"
)
_OUR_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_LINE = re.compile(r"[\0\n]")
_PER_WORKTREE = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
_SYMBOLIC = b"ref:"
_NO_BRANCH = b"refs/heads/.invalid"
_SORTED = re.compile(rb"# pack-refs with:(?: [^\n]*)? sorted[ \n]")
_MAX_BYTES = 10_000
_MOST_LINKS = 5
"""So many symbolic refs in a row are followed (refs.c, SYMREF_MAXDEPTH)."""
_TAIL_BYTES = 1 << 16
_ENTRY_BYTES = 200
"""What an entry of a reflog takes, on the average."""
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def is_per_worktree(name: str) -> bool:
    """Return whether each worktree has a ref of this name of its own (gitglossary(7))."""
    return "/" not in name or name.startswith(_PER_WORKTREE)


def is_safe(name: str) -> bool:
    """Return whether a name leads to no file but that of a ref."""
    parts = name.split("/")
    return all(part and part[0] != "." for part in parts) and not _LINE.search(name)


def has_head(git_dir: str) -> bool:
    """Return whether the file HEAD is there and is no placeholder.

    It is one where refs are not files (gitrepository-layout(5)).
    """
    path = os.path.join(git_dir, "HEAD")
    if os.path.islink(path):
        return True
    try:
        with open(path, "rb") as file:
            return _NO_BRANCH not in file.read(_MAX_BYTES)
    except OSError as error:
        raise_shortage(error)
        return False


class LooseRefs:
    """The files of our refs in one repository."""

    def __init__(self, common_dir: str, form: ObjectFormat) -> None:
        self._common_dir = common_dir
        self._oid = re.compile(rb"[0-9a-f]{%d}" % form.digits)

    def broken(self) -> list[str]:
        """Return our refs whose files cannot be read, sorted."""
        # libgit2 leaves them out of its list (`refdb_fs_backend__iterator_next`, 1.9), or lists
        # what `packed-refs` has for them, and fails on each of them later.
        found: list[str] = []
        for directory, _, names in os.walk(os.path.join(self._common_dir, REF_PREFIX)):
            below = os.path.relpath(directory, self._common_dir)
            found += [f"{below}/{name}" for name in names if _OUR_NAME.fullmatch(name)]
        return [ref for ref in sorted(found) if self._is_broken(ref)]

    def discard_unreadable(self, name: str) -> None:
        """Remove the file of a ref of ours that is neither read nor overwritten by others."""
        if _is_ours(name) and self._is_broken(name):
            _unlink(os.path.join(self._common_dir, name))

    def drop_reflog(self, name: str) -> None:
        """Delete the reflog of a ref, which `core.logAllRefUpdates=always` makes."""
        # Git's gc keeps what a reflog names for 90 days (git-gc(1)): purged contents would stay.
        log = os.path.join(self._common_dir, "logs", name)
        with suppress(OSError):
            os.unlink(log)
            os.removedirs(os.path.dirname(log))

    def _is_broken(self, name: str) -> bool:
        """Return whether the file of a ref has no object id; one that is absent is not broken."""
        try:
            with open(os.path.join(self._common_dir, name), "rb") as file:
                return not self._is_whole(file.read(_MAX_BYTES).rstrip())
        except _ABSENT:
            return False
        except OSError as error:
            raise_shortage(error)
            return True

    def _is_whole(self, content: bytes) -> bool:
        target = _target(content)
        if target is not None:
            return is_safe(target)
        is_oid = self._oid.fullmatch(content) is not None
        return is_oid and not is_null(content.decode("ascii"))


def _is_ours(name: str) -> bool:
    parts = name.removeprefix(REF_PREFIX).split("/")
    return name.startswith(REF_PREFIX) and all(map(_OUR_NAME.fullmatch, parts))


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


class RefFiles:
    """All refs that one worktree sees."""

    def __init__(self, layout: Layout, form: ObjectFormat) -> None:
        self._git_dir = layout.git_dir
        self._common_dir = layout.common_dir
        self._digits = form.digits
        self._hex = re.compile(rb"([0-9a-f]{%d})(?:\s.*)?" % form.digits, re.DOTALL)
        self._packed = os.path.join(layout.common_dir, "packed-refs")
        self._row = re.compile(
            rb"(?:#.*|\^[0-9a-f]{%d}|([0-9a-f]{%d}) (\S+)|(.*))\n"
            % ((form.digits,) * 2)
        )

    def head(self) -> tuple[str | None, Oid | None]:
        """Return the branch that HEAD names (None: detached) and its commit (None: unborn).

        Raises:
            StoreError: HEAD or its branch cannot be read.
        """
        try:
            found = self._loose("HEAD")
            if found is None:
                raise StoreError("could not read HEAD: it is missing")
            target = _target(found)
            if target is None:
                return None, self._oid("HEAD", found)
            return target, self.ref(target)
        except StoreError as error:
            raise StoreError(
                f"could not read HEAD: {error.message.partition(': ')[2]}",
                hint=error.hint,
            ) from error

    def ref(self, name: str) -> Oid | None:
        """Return what a ref points at, through symbolic refs; None where there is no such ref.

        Raises:
            StoreError: the ref exists but cannot be read.
        """
        at = name
        for _ in range(_MOST_LINKS):
            # Loose first, as Git does: `git pack-refs` removes the file after it wrote the other.
            found = self._loose(at)
            if found is None:
                return self._packed_one(at)
            target = _target(found)
            if target is None:
                return self._oid(at, found)
            at = target
        raise _BrokenRefError(f"could not read ref {name}: too many symbolic refs")

    def exists(self, name: str) -> bool:
        """Return whether there is a ref, whatever it points at; errors as `ref`."""
        return self._loose(name) is not None or self._packed_one(name) is not None

    def refs(self, prefix: str) -> dict[str, Oid]:
        """Return all refs below a prefix that point at something, by name.

        One that leads to no object id is left out.

        Raises:
            StoreError: they cannot be read.
        """
        found: dict[str, Oid | None] = dict.fromkeys(self._loose_names(prefix))
        for name in found:
            with suppress(_BrokenRefError):
                found[name] = self.ref(name)
        packed = {
            name: oid for name, oid in self._packed_rows(prefix) if name not in found
        }
        loose = {name: oid for name, oid in found.items() if oid is not None}
        return dict(sorted({**packed, **loose}.items()))

    def _place(self, name: str) -> str:
        top = self._git_dir if is_per_worktree(name) else self._common_dir
        return os.path.join(top, name)

    def _loose(self, name: str) -> bytes | None:
        """Return what the file of a ref holds, None if there is none."""
        if not is_safe(name):
            raise _BrokenRefError(f"could not read ref {name}: not a name of a ref")
        path = self._place(name)
        try:
            with suppress(OSError):
                link = os.fsencode(os.readlink(path))
                if link.startswith(b"refs/"):
                    return _SYMBOLIC + b" " + link
            with open(path, "rb") as file:
                return file.read(_MAX_BYTES)
        except _ABSENT:
            return None
        except OSError as error:
            raise StoreError(
                f"could not read ref {name}: {error.strerror or error}"
            ) from error

    def _oid(self, name: str, content: bytes) -> Oid:
        found = self._hex.fullmatch(content)
        if found is None or is_null(found[1].decode("ascii")):
            raise _BrokenRefError(
                f"could not read ref {name}: corrupted loose reference"
            )
        return Oid(found[1].decode("ascii"))

    def _loose_names(self, prefix: str) -> Iterator[str]:
        top = prefix.rpartition("/")[0]
        # Those of the worktree itself are listed for it alone.
        places = dict.fromkeys((self._common_dir, self._git_dir))
        for place in places:
            start = os.path.join(place, top)
            for directory, _, names in os.walk(start, onerror=_raise_unlisted):
                below = os.path.relpath(directory, place)
                for one in names:
                    name = f"{below}/{one}"
                    here = self._git_dir if is_per_worktree(name) else self._common_dir
                    listed = place == here and not name.endswith(".lock")
                    if listed and name.startswith(prefix) and is_safe(name):
                        yield name

    def _packed_one(self, name: str) -> Oid | None:
        with _mapped(self._packed) as data:
            if not data:
                return None
            wanted = os.fsencode(name)
            if _SORTED.match(data):
                at = self._at(data, wanted)
                end = _line_end(data, at)
                if data[at + self._digits : end] == b" " + wanted:
                    return Oid(data[at : at + self._digits].decode("ascii"))
            # One that is not found, or of an old writer: in a file with broken lines or in another
            # order the search above may have missed it.
            return dict(self._rows(data, 0)).get(name)

    def _packed_rows(self, prefix: str) -> list[tuple[str, Oid]]:
        """Return the packed refs below a prefix, in no order."""
        with _mapped(self._packed) as data:
            # A search ends between two lines that it read: neither is broken.
            is_sorted = _SORTED.match(data) is not None
            at = self._at(data, os.fsencode(prefix)) if is_sorted else 0
            found: list[tuple[str, Oid]] = []
            for name, oid in self._rows(data, at):
                if name.startswith(prefix):
                    found.append((name, oid))
                elif is_sorted:
                    break
            return found

    def _at(self, data: mmap.mmap | bytes, wanted: bytes) -> int:
        """Return where the line of the first ref begins that is not before another one."""
        low, high = 0, len(data)
        while low < high:
            start = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
            if data[start : start + 1] == b"^":
                # The object of the tag in the line before, which has the name.
                start = data.rfind(b"\n", 0, start - 1) + 1
            row = self._whole(self._row.match(data, start))
            if row[2] is None or row[2] < wanted:
                low = row.end()
                if data[low : low + 1] == b"^":
                    low = _line_end(data, low) + 1
            else:
                high = start
        return low

    def _rows(self, data: mmap.mmap | bytes, at: int) -> Iterator[tuple[str, Oid]]:
        for row in map(self._whole, self._row.finditer(data, at)):
            if row[2] is not None:
                yield os.fsdecode(row[2]), Oid(row[1].decode("ascii"))

    def _whole(self, row: re.Match[bytes] | None) -> re.Match[bytes]:
        """Return a line of packed-refs; the last group has one that is none."""
        if row is None or row[3] is not None:
            raise _packed_error(b"" if row is None else row[3])
        return row


class _BrokenRefError(StoreError):
    """The file of a ref leads to no object id."""


class _mapped:  # noqa: N801 (a context manager that is used like a function)
    """Give the bytes of a file, empty if there is none; StoreError if it cannot be read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._map: mmap.mmap | None = None

    def __enter__(self) -> mmap.mmap | bytes:
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    return b""
                data = self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StoreError(
                f"could not read packed-refs: {error.strerror or error}"
            ) from error
        if data[-1:] != b"\n":
            # The name in a line that is cut short would be that of another ref.
            line = data[data.rfind(b"\n") + 1 :]
            data.close()
            raise _packed_error(line)
        return data

    def __exit__(self, *_: object) -> None:
        if self._map is not None:
            self._map.close()


def _line_end(data: mmap.mmap | bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _packed_error(line: bytes) -> StoreError:
    shown = line[:60].decode("utf-8", "backslashreplace")
    return StoreError(
        f"could not read refs: broken line in packed-refs: {shown!r}", hint=PACKED_HINT
    )


def _raise_unlisted(error: OSError) -> None:
    if not isinstance(error, _ABSENT):
        raise StoreError(f"could not list refs: {error.strerror or error}") from error


def _target(content: bytes) -> str | None:
    """Return the ref that a symbolic one names."""
    if not content.startswith(_SYMBOLIC):
        return None
    return os.fsdecode(content[len(_SYMBOLIC) :].strip())


class FileHeadLog:
    """The reflog of HEAD as a file; a mark has the offset of a line's end."""

    def __init__(self, git_dir: str) -> None:
        self._path = os.path.join(git_dir, "logs", "HEAD")

    def size(self) -> int:
        """Return the size of the log, 0 where there is none."""
        try:
            return os.stat(self._path).st_size
        # There is no log if `core.logAllRefUpdates` is off.
        except OSError:
            return 0

    def changed_ns(self) -> int | None:
        """Return when the log changed last; None where there is none."""
        try:
            return os.stat(self._path).st_ctime_ns
        except OSError:
            return None

    def since(self, size: int) -> Sequence[ReflogEntry]:
        """Return at least the entries made since the log had a size, oldest first."""
        begin = min(size, self.size()) - _TAIL_BYTES
        return _entries(self._read(max(0, begin)))

    def newest(self, most: int) -> Sequence[ReflogEntry]:
        """Return the newest entries, oldest first."""
        size, tail = self.size(), max(_TAIL_BYTES, most * _ENTRY_BYTES)
        found = _entries(self._read(max(0, size - tail)))
        if len(found) < most and tail < size:
            found = _entries(self._read(0))
        return found[-most:]

    def _read(self, begin: int) -> tuple[int, bytes]:
        """Read whole lines from an offset on; return where they begin."""
        try:
            with open(self._path, "rb") as handle:
                start = handle.seek(begin)
                data = handle.read()
        except OSError as error:  # logging may be off: core.logAllRefUpdates
            raise_shortage(error)
            return 0, b""
        if start:
            cut = data.find(b"\n") + 1
            start, data = start + cut, data[cut:]
        return start, data[: data.rfind(b"\n") + 1]


def _entries(chunk: tuple[int, bytes]) -> list[ReflogEntry]:
    at, data = chunk
    found: list[ReflogEntry] = []
    for line in data.split(b"\n")[:-1]:
        at += len(line) + 1
        entry = entry_of(line, at)
        if entry is not None:
            found.append(entry)
    return found


def entry_of(line: bytes, end: int) -> ReflogEntry | None:
    """Parse `<old> <new> <name> <<email>> <seconds> <zone>`, a tab and Git's words."""
    head, _, words = line.partition(b"\t")
    oids, when = head.split(b" ", 2), head.split(b" ")[-2:]
    if len(oids) != 3 or not when[0].isdigit():
        return None
    mark = f"{end}:{digest(line, 8)}"
    said = words.decode("utf-8", "replace")
    return ReflogEntry(_or_none(oids[0]), _or_none(oids[1]), said, int(when[0]), mark)


def _or_none(digits: bytes) -> Oid | None:
    return Oid(digits.decode("ascii", "replace")) if digits.strip(b"0") else None
