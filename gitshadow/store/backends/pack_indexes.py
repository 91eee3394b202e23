"""Which objects the packs of an object store have: their index files, read without a process.

gitformat-pack(5), both versions: `pack.indexVersion` may ask for the old one. What is not found
here is not asked of Git, which would fetch it from a partial clone's remote, or look at all packs
again. An index that is broken hides no other pack, as in Git; but what is found nowhere else may be
in it, and is an error then.
"""

import mmap
import os
from collections.abc import Iterator
from typing import BinaryIO

from gitshadow.errors import StoreError, is_shortage
from gitshadow.model import Oid
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.objects import INDEX_MAGIC

_FAN_BYTES = 4 * 256
_MARK_BYTES = 4
"""What of the first bytes an index of the old version cannot begin with."""
_SMALL_BYTES = 1 << 16
_MOST_MAPPED = 100
"""A map holds a file descriptor (mmap.mmap before Python 3.13), of which there may be 1024 in all.

A partial clone has thousands of packs, most of them small.
"""
_ABSENT = (FileNotFoundError, NotADirectoryError)


class PackIndex:
    """The index of one pack, of which a small one is in memory."""

    def __init__(self, path: str, form: ObjectFormat, *, maps: bool = True) -> None:
        """Open an index; a large one is opened for each question unless it is to be mapped.

        Raises:
            OSError: it cannot be opened.
            StoreError: it is broken or of an unknown version.
        """
        self._size = form.size
        self.path = path
        with open(path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            head = file.read(len(INDEX_MAGIC) + _FAN_BYTES)
            is_old = not head.startswith(INDEX_MAGIC[:_MARK_BYTES])
            begin = 0 if is_old else len(INDEX_MAGIC)
            first = begin + _FAN_BYTES
            fans = [
                int.from_bytes(head[at : at + 4], "big")
                for at in range(begin, first, 4)
            ]
            # The old version has the offset of an object before its name; the new one names,
            # checksums and offsets. Then come two checksums of the whole.
            self._before = 4 if is_old else 0
            least = first + fans[-1] * (form.size + (4 if is_old else 8))
            more = length - least - 2 * form.size
            # A file of zeros, as a power cut leaves, looks like an old index of nothing, but for
            # its size. The new one ends in large offsets if there are such.
            is_known = more == 0 if is_old else head.startswith(INDEX_MAGIC)
            if more < 0 or not is_known or fans != sorted(fans):
                raise StoreError(f"could not read {path}: unknown or broken pack index")
            self._data: bytes | None = None
            self._map: mmap.mmap | None = None
            if length <= _SMALL_BYTES:
                self._data = head + file.read()
            elif maps:
                self._map = _map_of(file)
        self._fans = fans
        self._first = first

    @property
    def pack(self) -> str:
        """Return the path of the pack."""
        return self.path.removesuffix(".idx") + ".pack"

    @property
    def is_cruft(self) -> bool:
        """Return whether the pack has unreachable objects with a time of each."""
        return os.path.exists(self.path.removesuffix(".idx") + ".mtimes")

    def has(self, oid: bytes) -> bool:
        """Return whether the pack has an object.

        Raises:
            StoreError: the index cannot be opened again.
        """
        data = self._data or self._map
        if data is not None:
            return self._lists(data, oid)
        try:
            with open(self.path, "rb") as file, _map_of(file) as data:
                return self._lists(data, oid)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unread(self.path, error) from error

    @property
    def is_mapped(self) -> bool:
        """Return whether this holds a file descriptor."""
        return self._map is not None

    def _lists(self, data: bytes | mmap.mmap, oid: bytes) -> bool:
        size, step = self._size, self._before + self._size
        first = self._first + self._before
        low = self._fans[oid[0] - 1] if oid[0] else 0
        high = self._fans[oid[0]]
        while low < high:
            middle = (low + high) // 2
            at = first + middle * step
            found = data[at : at + size]
            if found == oid:
                return True
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return False

    def close(self) -> None:
        """Close the file."""
        if self._map is not None:
            self._map.close()


class PackIndexes:
    """The indexes of all packs in some object directories, the repository's own first."""

    def __init__(self, places: list[str], form: ObjectFormat) -> None:
        self._dirs = [os.path.join(place, "pack") for place in places]
        self._form = form
        self._known: dict[str, PackIndex] | None = None
        self._unread: StoreError | None = None

    def having(self, oid: Oid) -> PackIndex | None:
        """Return the index of a pack that has an object, by a look at the directories now.

        Raises:
            StoreError: none has it, but a directory or an index cannot be read.
        """
        self._look()
        found = self._first(oid)
        if found is None and self._unread is not None:
            raise self._unread
        return found

    def known_having(self, oid: Oid) -> PackIndex | None:
        """Return the same as of the last look, if that pack still exists.

        Packs that could not be read then are left out.
        """
        if self._known is None:
            self._look()
        found = self._first(oid)
        if found is not None and not os.path.exists(found.pack):
            self._look()
            found = self._first(oid)
        return found

    def _first(self, oid: Oid) -> PackIndex | None:
        name = bytes.fromhex(oid)
        indexes = (self._known or {}).values()
        return next((index for index in indexes if index.has(name)), None)

    def _look(self) -> None:
        """Open the indexes that are new, and close those that are gone."""
        known = dict(self._known or {})
        found: dict[str, PackIndex] = {}
        self._unread = None
        mapped = sum(index.is_mapped for index in known.values())
        for path in self._paths():
            index = known.pop(path, None)
            if index is None:
                index = self._opened(path, mapped)
                mapped += index is not None and index.is_mapped
            if index is not None:
                found[path] = index
        for index in known.values():
            index.close()
        self._known = found

    def _paths(self) -> Iterator[str]:
        for directory in self._dirs:
            try:
                names = os.listdir(directory)
            except _ABSENT:
                continue
            except OSError as error:
                self._note(_unread(directory, error))
                continue
            packs = {name for name in names if name.endswith(".pack")}
            for name in names:
                if name.endswith(".idx") and name[:-4] + ".pack" in packs:
                    yield os.path.join(directory, name)

    def _opened(self, path: str, mapped: int) -> PackIndex | None:
        """Return an index; None if Git has removed it since it was listed, or it cannot be read."""
        try:
            return PackIndex(path, self._form, maps=mapped < _MOST_MAPPED)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._note(_unread(path, error))
        except StoreError as error:
            self._note(error)
        return None

    def _note(self, error: StoreError) -> None:
        if is_shortage(error):
            raise error
        self._unread = error

    def let_go(self) -> None:
        """Close all of them."""
        for index in (self._known or {}).values():
            index.close()
        self._known = None


def _map_of(file: BinaryIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _unread(path: str, error: OSError) -> StoreError:
    return StoreError(f"could not read {path}: {error.strerror or error}")
