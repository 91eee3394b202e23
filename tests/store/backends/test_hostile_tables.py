"""Reftables that Git would never write: each is an error at once, never a wait or an absent ref."""

import zlib

import pytest

from gitshadow.errors import StoreError
from gitshadow.store.backends.reftable import RefTable
from gitshadow.store.object_format import SHA1

_HEADER_BYTES, _BLOCK_HEAD = 24, 4


def number(value: int) -> bytes:
    """Return a number as in a table."""
    found = bytearray([value & 127])
    while value := value >> 7:
        value -= 1
        found.insert(0, 128 | (value & 127))
    return bytes(found)


def key(name: bytes, kind: int = 0, shared: int = 0) -> bytes:
    return number(shared) + number(len(name) << 3 | kind) + name


def a_ref(name: bytes, shared: int = 0) -> bytes:
    return key(name, 1, shared) + number(0) + b"\1" * SHA1.size


def block(kind: bytes, rows: bytes, top: int) -> bytes:
    """Return a block with one restart; `top` bytes of the file's header count as part of it."""
    first = (top + _BLOCK_HEAD).to_bytes(3, "big")
    size = top + _BLOCK_HEAD + len(rows) + len(first) + 2
    return kind + size.to_bytes(3, "big") + rows + first + b"\0\1"


def table(first: bytes, rest: bytes = b"", index: int = 0) -> RefTable:
    header = b"REFT\1" + bytes(3) + bytes(16)
    footer = header + index.to_bytes(8, "big") + bytes(32)
    crc = zlib.crc32(footer).to_bytes(4, "big")
    data = header + block(b"r", first, _HEADER_BYTES) + rest + footer + crc
    return RefTable("hostile.ref", data, SHA1)


def test_such_a_table_can_be_read_at_all() -> None:
    """Else what follows would show nothing."""
    first = a_ref(b"refs/a")
    begin = _HEADER_BYTES + len(block(b"r", first, _HEADER_BYTES))
    index = block(b"i", key(b"refs/a") + number(0), 0)
    found = table(first, index, begin)
    assert found.ref(b"refs/a") == (True, "01" * SHA1.size)
    assert found.ref(b"refs/b") == (False, None)


def test_index_that_leads_in_a_circle_is_an_error() -> None:
    first = a_ref(b"refs/m")
    begin = _HEADER_BYTES + len(block(b"r", first, _HEADER_BYTES))
    low = block(b"i", key(b"refs/a") + number(0), 0)
    back = block(b"i", key(b"refs/z") + number(begin), 0)
    with pytest.raises(StoreError, match="its index is wrong"):
        table(first, low + back, begin).ref(b"refs/m")


def test_index_below_another_one_has_every_name_that_it_was_said_to_have() -> None:
    """Else the ref would be reported as absent."""
    first = a_ref(b"refs/m")
    begin = _HEADER_BYTES + len(block(b"r", first, _HEADER_BYTES))
    low = block(b"i", key(b"refs/a") + number(0), 0)
    top = block(b"i", key(b"refs/z") + number(begin), 0)
    with pytest.raises(StoreError, match="its index is wrong"):
        table(first, low + top, begin + len(low)).ref(b"refs/m")


def test_number_that_never_ends_is_an_error() -> None:
    endless = key(b"refs/a", 1) + b"\xff" * 100_000
    with pytest.raises(StoreError, match="cut short"):
        table(endless).ref(b"refs/a")


def test_name_of_many_bytes_is_an_error() -> None:
    """It would be copied for each name that begins like it: gigabytes for a small file."""
    long = b"refs/" + b"a" * 100_000
    with pytest.raises(StoreError, match="cut short"):
        table(a_ref(long)).ref(long)
