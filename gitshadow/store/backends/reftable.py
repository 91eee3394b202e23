"""Read refs and reflogs from reftables, without a process; reftable(5), Git's technical document.

A stack is a file `tables.list` that names tables, oldest first; what a newer table says of a ref
counts. Tables are never changed, so each is read once. Git alone writes them.
Invariant: what cannot be read, or is of a format that is not known here, is an error and never
"absent".
"""

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import NamedTuple

from gitshadow.errors import StoreError, raise_shortage
from gitshadow.model import Oid
from gitshadow.store.backends.port import REFTABLE, ReflogEntry
from gitshadow.store.backends.ref_files import entry_of, is_per_worktree
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import SHA1, SHA256, ObjectFormat, is_null

_LIST = "tables.list"
_TABLE = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z._-]*\.(?:ref|log)")
_MAGIC = b"REFT"
_HEADER_BYTES = {1: 24, 2: 28}
_FORMS = {b"sha1": SHA1, b"s256": SHA256}
_POSITIONS_BYTES = 40
_CRC_BYTES = 4
_ZLIB_BYTES = 64
"""What a stream of zlib takes at most beyond its content and a thousandth of that."""
_OTHERS = (b"i", b"o", b"g")
"""The kinds of blocks by which a section ends."""
_DELETION, _OID, _PEELED, _SYMBOLIC = range(4)
_MOST_LINKS = 5
_MOST_TRIES = 10
"""A stack is read again so often if Git merges its tables meanwhile."""
_TAIL = 1000
"""So many numbers before the one that was the last are read again, in case entries expired."""
_MOST_NUMBER = (1 << 64) - 1
_MOST_NAME_BYTES = 1 << 16
"""No name of a ref is that long; a false one would be copied for each that begins like it."""
_HEAD = b"HEAD"

Value = Oid | str | None
"""What a table says of a ref: an object, the name of another ref, or that it was deleted."""


class _Symref(str):
    """The ref that a symbolic ref names."""

    __slots__ = ()


class LogRow(NamedTuple):
    """One row of a log: its number, and a line as in the file of a reflog; None: deleted."""

    number: int
    line: bytes | None


class _CircularError(StoreError):
    """A symbolic ref leads to no object id."""


class _BrokenTableError(StoreError):
    """A table cannot be read."""


def _broken(name: str, why: str) -> _BrokenTableError:
    return _BrokenTableError(
        f"could not read refs: reftable {name}: {why}",
        hint="check that git itself can read it: git refs verify",
    )


class _Reader:
    """A position in the bytes of a block."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def number(self) -> int:
        """Read a number of variable length, as in an offset delta of a pack, of 64 bits at most."""
        data, at = self.data, self.at
        byte = data[at]
        found = byte & 127
        while byte & 128:
            at += 1
            byte = data[at]
            found = ((found + 1) << 7) | (byte & 127)
            if found > _MOST_NUMBER:
                raise IndexError
        self.at = at + 1
        return found

    def take(self, count: int) -> bytes:
        """Read so many bytes."""
        begin = self.at
        self.at = begin + count
        if self.at > len(self.data):
            raise IndexError
        return self.data[begin : self.at]


class _Block(NamedTuple):
    """One block: its bytes up to the restarts, their offsets, and where the next block begins."""

    kind: bytes
    data: bytes
    first: int
    restarts: Sequence[int]
    next_at: int


class RefTable:
    """One reftable, of which the bytes are in memory.

    Raises:
        StoreError: it is broken or of an unknown format, in each method, too.
    """

    def __init__(self, name: str, data: bytes, form: ObjectFormat) -> None:
        self.name = name
        self._data = data
        self._form = form
        self._newest_of_head: int | None = None
        try:
            self._open()
        except (IndexError, ValueError) as error:
            raise _broken(name, "it is cut short") from error

    def _open(self) -> None:
        data = self._data
        size = _HEADER_BYTES.get(data[4]) if data[:4] == _MAGIC else None
        if size is None:
            raise _broken(self.name, "unknown format")
        form = SHA1 if data[4] == 1 else _FORMS.get(data[24:28])
        if form != self._form:
            raise _broken(self.name, "it is of another hash algorithm")
        self._block_size = int.from_bytes(data[5:8], "big")
        self._first = size
        end = len(data) - size - _POSITIONS_BYTES - _CRC_BYTES
        footer = data[end:]
        crc = int.from_bytes(footer[-_CRC_BYTES:], "big")
        if end < size or zlib.crc32(footer[:-_CRC_BYTES]) != crc:
            raise _broken(self.name, "its checksum is wrong")
        if footer[:size] != data[:size]:
            raise _broken(self.name, "its header is wrong")
        self._end = end
        ref_index, objects, _, logs, log_index = (
            int.from_bytes(footer[size + 8 * i : size + 8 * i + 8], "big")
            for i in range(5)
        )
        self._ref_index, self._log_index = ref_index, log_index
        # A table of logs alone has no block of refs, and its first block is one of a log.
        kind = data[size : size + 1] if end > size else b""
        self._has_refs = kind == b"r"
        self._logs = logs or (size if kind == b"g" else 0)
        ends = [one for one in (ref_index, objects >> 5, self._logs) if one]
        self._refs_end = min([*ends, end])
        self._logs_end = log_index or end

    def ref(self, name: bytes) -> tuple[bool, Value]:
        """Return whether this table says something of a ref, and what."""
        for found, value in self.refs_from(name):
            return (True, value) if found == name else (False, None)
        return False, None

    def refs_from(self, name: bytes) -> Iterator[tuple[bytes, Value]]:
        """Yield the refs from a name on, in the order of their names."""
        if not self._has_refs:
            return
        try:
            yield from self._refs_from(name)
        except (IndexError, ValueError, zlib.error) as error:
            raise _broken(self.name, "it is cut short") from error

    def _refs_from(self, name: bytes) -> Iterator[tuple[bytes, Value]]:
        for block in self._blocks(name, b"r", 0, self._ref_index, self._refs_end):
            reader = _Reader(block.data, self._restart(block, name))
            key = b""
            while reader.at < len(block.data):
                key, kind = _key(reader, key)
                reader.number()
                value = self._value(reader, kind)
                if key >= name:
                    yield key, value

    def _value(self, reader: _Reader, kind: int) -> Value:
        if kind == _DELETION:
            return None
        if kind == _SYMBOLIC:
            return _Symref(os.fsdecode(reader.take(reader.number())))
        if kind not in (_OID, _PEELED):
            raise _broken(self.name, f"unknown kind of value {kind}")
        oid = Oid(reader.take(self._form.size).hex())
        if kind == _PEELED:
            reader.take(self._form.size)
        return oid

    def newest_of_head(self) -> int:
        """Return the number of the newest entry of HEAD's log, 0 if there is none."""
        if self._newest_of_head is None:
            rows = self.log_of(_HEAD)
            self._newest_of_head = next((r.number for r in rows if r.line), 0)
        return self._newest_of_head

    def log_of(self, ref: bytes) -> Iterator[LogRow]:
        """Yield the log of a ref, newest first."""
        if not self._logs:
            return
        try:
            yield from self._log_of(ref)
        except (IndexError, ValueError, zlib.error) as error:
            raise _broken(self.name, "it is cut short") from error

    def _log_of(self, ref: bytes) -> Iterator[LogRow]:
        begin = ref + b"\0"
        blocks = self._blocks(begin, b"g", self._logs, self._log_index, self._logs_end)
        for block in blocks:
            reader = _Reader(block.data, self._restart(block, begin))
            key = b""
            while reader.at < len(block.data):
                key, kind = _key(reader, key)
                if kind > 1:
                    raise _broken(self.name, f"unknown kind of log {kind}")
                line = self._line(reader) if kind else None
                if key.startswith(begin):
                    number = _MOST_NUMBER - int.from_bytes(key[len(begin) :], "big")
                    yield LogRow(number, line)
                elif key > begin:
                    return

    def _line(self, reader: _Reader) -> bytes | None:
        """Return one entry as a line of a reflog file, None for the mark that there is a log."""
        size = self._form.size
        old, new = reader.take(size).hex(), reader.take(size).hex()
        name = reader.take(reader.number())
        email = reader.take(reader.number())
        seconds = reader.number()
        zone = int.from_bytes(reader.take(2), "big", signed=True)
        words = reader.take(reader.number()).rstrip(b"\n").replace(b"\n", b" ")
        # Git itself writes hours and minutes as they are in the file of a reflog, `-0800` as -800
        # (refs/reftable-backend.c, fill_reftable_log_record), not minutes.
        sign = b"-" if zone < 0 else b"+"
        who = b"%b <%b> %d %b%04d" % (name, email, seconds, sign, abs(zone))
        tail = b"\t" + words if words else b""
        if is_null(old) and is_null(new):
            return None
        return b"%b %b %b%b" % (old.encode(), new.encode(), who, tail)

    def _blocks(
        self, name: bytes, kind: bytes, begin: int, index: int, end: int
    ) -> Iterator[_Block]:
        """Yield the blocks of a section, from the one on that may have a name."""
        at = self._found_by_index(name, index, kind) if index else begin
        while at is not None and (at or self._first) < end:
            block = self._block(at)
            if block.kind in _OTHERS and block.kind != kind:
                return
            self._expect(block, kind, at)
            yield block
            at = block.next_at

    def _found_by_index(self, name: bytes, index: int, kind: bytes) -> int | None:
        """Return where the first block is whose last name is not before another one."""
        at, is_top = index, True
        while True:
            block = self._block(at)
            if block.kind == kind:
                return at
            self._expect(block, b"i", at)
            reader = _Reader(block.data, self._restart(block, name))
            key, below = b"", None
            while reader.at < len(block.data):
                key, _ = _key(reader, key)
                position = reader.number()
                if key >= name:
                    below = position
                    break
            if below is not None and below < min(at, index):
                # Each level is in the file before the one above it, so this comes to an end.
                at, is_top = below, False
                continue
            if below is not None or not is_top:
                raise _broken(self.name, "its index is wrong")
            # The highest level may have up to three blocks in a row (reftable/writer.c,
            # writer_finish_section).
            at = block.next_at
            if self._data[at : at + 1] != b"i":
                return None

    def _expect(self, block: _Block, kind: bytes, at: int) -> None:
        if block.kind != kind:
            raise _broken(self.name, f"block of kind {block.kind!r} at {at}")

    def _block(self, at: int) -> _Block:
        """Return the block at a position; that at 0 begins after the header."""
        data = self._data
        start = at or self._first
        if start >= self._end:
            raise _broken(self.name, "a block is missing")
        kind, size = (
            data[start : start + 1],
            int.from_bytes(data[start + 1 : start + 4], "big"),
        )
        # Offsets and size count from the beginning of the block, the header of the file included.
        top = 0 if start == self._first else start
        if kind == b"g":
            return self._log_block(top, start + 4, size)
        whole = data[top : top + size]
        if len(whole) < size or size < start - top + 6:
            raise _broken(self.name, "a block is cut short")
        return _block_of(kind, whole, start - top + 4, self._after(top, size))

    def _after(self, top: int, size: int) -> int:
        """Return where the block after one begins: at once, or after padding."""
        # As Git reads it (reftable/block.c, reftable_block_init): the last block of a section may
        # have no padding even if others have.
        after, aligned = top + size, top + self._block_size
        is_padded = after < aligned and self._data[after : after + 1] == b"\0"
        return aligned if is_padded else after

    def _log_block(self, top: int, begin: int, size: int) -> _Block:
        """Return a block of which all after the header is compressed."""
        unzip, head = zlib.decompressobj(), self._data[top:begin]
        expected = size - len(head)
        # No more than a stream of so much content can take, since all that is given is copied.
        end = min(self._end, begin + max(0, expected) + expected // 1000 + _ZLIB_BYTES)
        content = unzip.decompress(self._data[begin:end], max(1, expected))
        if not unzip.eof:
            # The end of the stream holds no content.
            content += unzip.decompress(unzip.unconsumed_tail, 1)
        if len(content) != expected or not unzip.eof:
            raise _broken(self.name, "a log is cut short")
        next_at = end - len(unzip.unused_data)
        return _block_of(b"g", head + content, len(head), next_at)

    def _restart(self, block: _Block, name: bytes) -> int:
        """Return where to begin reading for a name: the last whole key that is before it."""
        low, high = 0, len(block.restarts)
        while low < high:
            middle = (low + high) // 2
            reader = _Reader(block.data, block.restarts[middle])
            if _key(reader, b"")[0] < name:
                low = middle + 1
            else:
                high = middle
        return block.restarts[low - 1] if low else block.first


def _block_of(kind: bytes, whole: bytes, first: int, next_at: int) -> _Block:
    count = int.from_bytes(whole[-2:], "big")
    end = len(whole) - 2 - 3 * count
    if end < first:
        raise IndexError
    restarts = [
        int.from_bytes(whole[at : at + 3], "big")
        for at in range(end, len(whole) - 2, 3)
    ]
    return _Block(kind, whole[:end], first, restarts, next_at)


def _key(reader: _Reader, before: bytes) -> tuple[bytes, int]:
    """Read a name that may begin like the one before; return it and three bits of its kind."""
    shared = reader.number()
    size = reader.number()
    if shared > len(before) or shared + (size >> 3) > _MOST_NAME_BYTES:
        raise IndexError
    return before[:shared] + reader.take(size >> 3), size & 7


class Stack:
    """The tables of one directory, as they are at each call."""

    def __init__(self, directory: str, form: ObjectFormat) -> None:
        self._dir = directory
        self._form = form
        self._listed: bytes | None = None
        self._tables: tuple[RefTable, ...] = ()

    def tables(self) -> tuple[RefTable, ...]:
        """Return the tables, oldest first.

        Raises:
            StoreError: one of them cannot be read.
        """
        for _ in range(_MOST_TRIES):
            listed = self._read_list()
            # Names are never used twice: they have a random part.
            if listed == self._listed:
                return self._tables
            with suppress(FileNotFoundError):
                self._tables = self._load(listed)
                self._listed = listed
                return self._tables
        raise _broken(_LIST, "it names tables that do not exist")

    def changed_ns(self) -> int | None:
        """Return when a table was added last, None if the stack is empty."""
        try:
            return os.stat(os.path.join(self._dir, _LIST)).st_mtime_ns
        except OSError:
            return None

    def let_go(self) -> None:
        """Forget all tables."""
        self._listed, self._tables = None, ()

    def _read_list(self) -> bytes:
        try:
            with open(os.path.join(self._dir, _LIST), "rb") as file:
                return file.read()
        except OSError as error:
            raise_shortage(error)
            raise _broken(_LIST, error.strerror or str(error)) from error

    def _load(self, listed: bytes) -> tuple[RefTable, ...]:
        known = {table.name: table for table in self._tables}
        names = os.fsdecode(listed).splitlines()
        if not names:  # HEAD is in one, also before the first commit
            raise _broken(_LIST, "it is empty")
        return tuple(known.get(name) or self._open(name) for name in names)

    def _open(self, name: str) -> RefTable:
        if not _TABLE.fullmatch(name):
            raise _broken(_LIST, "it names something else than tables")
        try:
            with open(os.path.join(self._dir, name), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise_shortage(error)
            raise _broken(name, error.strerror or str(error)) from error
        return RefTable(name, data, self._form)


class Reftables:
    """All refs that one worktree sees: those of the repository and those of its own.

    `own` is the stack that has this worktree's HEAD.
    """

    def __init__(self, layout: Layout, form: ObjectFormat) -> None:
        self.own = self._shared = Stack(f"{layout.common_dir}/{REFTABLE}", form)
        if layout.git_dir != layout.common_dir:
            self.own = Stack(f"{layout.git_dir}/{REFTABLE}", form)

    def let_go(self) -> None:
        """Forget all tables."""
        self._shared.let_go()
        self.own.let_go()

    def head(self) -> tuple[str | None, Oid | None]:
        """Return the branch that HEAD names (None: detached) and its commit (None: unborn).

        Raises:
            StoreError: HEAD or its branch cannot be read.
        """
        try:
            found = self._value("HEAD")
            if isinstance(found, _Symref):
                return str(found), self.ref(str(found))
        except StoreError as error:
            raise StoreError(
                f"could not read HEAD: {error.message}", hint=error.hint
            ) from error
        if found is None:
            raise StoreError("could not read HEAD: it is missing")
        return None, Oid(found)

    def ref(self, name: str) -> Oid | None:
        """Return what a ref points at, through symbolic refs; None where there is no such ref.

        Raises:
            StoreError: the tables cannot be read.
        """
        at = name
        for _ in range(_MOST_LINKS):
            found = self._value(at)
            if not isinstance(found, _Symref):
                return None if found is None else Oid(found)
            at = str(found)
        raise _CircularError(f"could not read ref {name}: too many symbolic refs")

    def exists(self, name: str) -> bool:
        """Return whether there is a ref, whatever it points at; errors as `ref`."""
        return self._value(name) is not None

    def refs(self, prefix: str) -> dict[str, Oid]:
        """Return all refs below a prefix that point at something, by name.

        Raises:
            StoreError: the tables cannot be read.
        """
        start = os.fsencode(prefix)
        found: dict[bytes, Value] = {}
        for stack in dict.fromkeys((self._shared, self.own)):
            for table in stack.tables():
                for name, value in table.refs_from(start):
                    if not name.startswith(start):
                        break
                    text = os.fsdecode(name)
                    if stack is self._stack_of(text):
                        found[name] = value
        ends = {name: self._end(value) for name, value in sorted(found.items())}
        return {os.fsdecode(name): Oid(oid) for name, oid in ends.items() if oid}

    def _end(self, value: Value) -> str | None:
        """Return what a ref of this value leads to, None for nothing."""
        with suppress(_CircularError):
            return self.ref(value) if isinstance(value, _Symref) else value
        return None

    def _stack_of(self, name: str) -> Stack:
        return self.own if is_per_worktree(name) else self._shared

    def _value(self, name: str) -> Value:
        key = os.fsencode(name)
        for table in reversed(self._stack_of(name).tables()):
            says, value = table.ref(key)
            if says:
                return value
        return None


class ReftableHeadLog:
    """The reflog of HEAD in the tables of a worktree; a mark has the number of an entry."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def size(self) -> int:
        """Return the highest number of an entry, 0 where there is none."""
        try:
            tables = self._stack.tables()
            return max((table.newest_of_head() for table in tables), default=0)
        except StoreError:
            return 0

    def changed_ns(self) -> int | None:
        """Return when any ref of the stack changed last; None where there is no log."""
        return self._stack.changed_ns() if self.size() else None

    def since(self, size: int) -> Sequence[ReflogEntry]:
        """Return at least the entries made since the log had a size, oldest first."""
        begin = max(0, min(size, self.size()) - _TAIL)
        return self._entries(None, begin)

    def newest(self, most: int) -> Sequence[ReflogEntry]:
        """Return the newest entries, oldest first."""
        return self._entries(most, 0)

    def _entries(self, most: int | None, begin: int) -> list[ReflogEntry]:
        found = list(islice(self._newest_first(begin), most))
        found.reverse()
        return found

    def _newest_first(self, begin: int) -> Iterator[ReflogEntry]:
        """Yield the entries from a number on."""
        # What the newest table says of a number counts. One that deletes rows, by `git reflog
        # expire`, has a row for each of them.
        tables = reversed(self._stack.tables())
        logs = (table.log_of(_HEAD) for table in tables)
        before = None
        for row in merge(*logs, key=lambda row: -row.number):
            if row.number < begin:
                return
            if row.number != before and row.line is not None:
                entry = entry_of(row.line, row.number)
                if entry is not None:
                    yield entry
            before = row.number
