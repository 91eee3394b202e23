"""The formats of Git objects that libgit2 would decode, refuse to write, or hang on.

Commits are built and read as bytes: an author keeps the bytes of its name, whatever the encoding.
Loose objects (gitformat-loose(5): zlib of `<kind> <size>`, a NUL byte and the content) are read
here because a power cut or a full disk can leave a file that is cut short. What is returned has
the size that its header says, and the hash that is its name. They are written here because libgit2
looks at all packs again for each new object, which takes longer than to write it.
"""

import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import accumulate
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.object_format import ObjectFormat, format_of, object_header
from gitshadow.store.shared_modes import BY_UMASK, SharedModes

_FAN = re.compile(r"[0-9a-f]{2}")
_HEADER = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,18})\0")
_LONGEST_HEADER = 32
_PIECE = 1 << 20
# O_NONBLOCK: a FIFO in the place of an object would make the open wait.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# `git prune` removes files of such names that a crash left (prune_object in its builtin/prune.c).
_TEMPORARY = "tmp_obj_"
_TRIES = 10


def despite_prune(write: Callable[[], None]) -> None:
    """Write a file of the object store, again if what it needs vanishes meanwhile.

    `git prune --expire=now` removes temporary files and empty directories at any moment.

    Raises:
        OSError: the system refused.
    """
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            return write()
    write()


class BrokenObjectError(StoreError):
    """The file of a loose object is empty, cut short, or does not match its name."""


class LooseObjects:
    """The loose objects of one object directory, whose ids are of one format."""

    def __init__(
        self, objects_dir: str, form: ObjectFormat, modes: SharedModes = BY_UMASK
    ) -> None:
        """Use a directory; what is new in it gets permissions that may be those of many users."""
        self._dir = objects_dir
        self._form = form
        self._modes = modes

    def path(self, oid: Oid) -> str:
        """Return the path of an object's file, whether it exists or not.

        Raises:
            StoreError: that is not an object id.
        """
        if not self._form.is_oid(oid):
            raise StoreError(f"could not read object {oid!r}: not an object id")
        return os.path.join(self._dir, oid[:2], oid[2:])

    def read(self, oid: Oid) -> tuple[str, bytes] | None:
        """Return kind and content of an object, None if it is not loose.

        Raises:
            BrokenObjectError: its file is broken.
            StoreError: its file cannot be opened.
        """
        try:
            file = os.open(self.path(oid), _READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"could not read object {oid}: {error.strerror}"
            ) from error
        # A buffer gives its bytes without a copy: a large object is in memory once.
        content = BytesIO()
        try:
            pieces = _unpacked(oid, file)
            header, _, first = next(pieces).partition(b"\0")
            content.write(first)
            content.writelines(pieces)
        except OSError as error:
            raise _broken(oid, error.strerror or str(error)) from error
        finally:
            os.close(file)
        return header.partition(b" ")[0].decode("ascii"), content.getvalue()

    def is_broken(self, oid: Oid) -> bool:
        """Return whether an object is loose and its file is broken."""
        try:
            file = os.open(self.path(oid), _READ)
        except (OSError, StoreError):
            return False
        try:
            # The pieces are dropped as they come, so that a check of all objects needs no memory
            # for the largest.
            deque(_unpacked(oid, file), maxlen=0)
        except (BrokenObjectError, OSError):
            return True
        finally:
            os.close(file)
        return False

    def all_broken(self) -> list[Oid]:
        """Return every object of the directory whose file is broken."""
        return [oid for oid in self._all() if self.is_broken(oid)]

    def with_prefix(self, prefix: str) -> list[Oid]:
        """Return the loose objects whose id begins like that; at least two digits are needed."""
        return [oid for oid in self._in(prefix[:2]) if oid.startswith(prefix)]

    def has(self, oid: Oid) -> bool:
        """Return whether the file of an object exists, broken or not."""
        return os.path.exists(self.path(oid))

    def write(self, kind: str, content: bytes, oid: Oid) -> None:
        """Write the file of an object whose id was computed from these bytes.

        It appears whole or not at all, and nothing is synced to the disk, as by libgit2.

        Raises:
            OSError: the system refused.
        """
        despite_prune(lambda: self._write_file(kind, content, self.path(oid)))

    def _write_file(self, kind: str, content: bytes, path: str) -> None:
        temporary = os.path.join(self._dir, _TEMPORARY + os.urandom(8).hex())
        # Level 1 as libgit2 has it: most of these objects are packed within minutes.
        zipped = zlib.compressobj(1)
        try:
            with open(os.open(temporary, _CREATE, 0o444), "wb") as file:
                file.write(zipped.compress(object_header(kind, content)))
                for at in range(0, len(content), _PIECE):
                    file.write(zipped.compress(content[at : at + _PIECE]))
                file.write(zipped.flush())
            self._modes.adjust(temporary)
            self._publish(temporary, path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _publish(self, temporary: str, path: str) -> None:
        try:
            os.rename(temporary, path)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(path))
                self._modes.adjust(os.path.dirname(path))
            os.rename(temporary, path)

    def remove(self, oid: Oid) -> None:
        """Remove the file of an object if it is broken; one that is gone is fine."""
        if self.is_broken(oid):
            with suppress(FileNotFoundError):
                os.unlink(self.path(oid))

    def _all(self) -> Iterator[Oid]:
        for fan in sorted(filter(_FAN.fullmatch, os.listdir(self._dir))):
            yield from self._in(fan)

    def _in(self, fan: str) -> list[Oid]:
        try:
            names = os.listdir(os.path.join(self._dir, fan))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [Oid(fan + name) for name in names if self._form.is_oid(fan + name)]


def _unpacked(oid: Oid, file: int) -> Iterator[bytes]:
    """Yield header and content in pieces.

    Raises:
        BrokenObjectError: the file is broken.
    """
    # In pieces of limited size, so that a header with a false size, or a small file that unpacks to
    # gigabytes, cannot take all memory.
    unzip, digest, length = zlib.decompressobj(), format_of(oid).hasher(), 0
    head = b""
    while not unzip.eof:
        packed = unzip.unconsumed_tail or os.read(file, _PIECE)
        if not packed:
            raise _broken(oid, "it is cut short" if length else "it is empty")
        try:
            piece = unzip.decompress(packed, _PIECE)
        except zlib.error as error:
            raise _broken(oid, str(error)) from error
        digest.update(piece)
        head = head or piece[:_LONGEST_HEADER]
        length += len(piece)
        yield piece
    found = _HEADER.match(head)
    if found is None or length != found.end() + int(found[2]):
        raise _broken(oid, "its header is wrong")
    # Bytes behind the end of the stream are an error for Git, too (object-file.c, "garbage at end
    # of loose object").
    if digest.hexdigest() != oid or unzip.unused_data or os.read(file, 1):
        raise _broken(oid, "its content does not match its name")


def _broken(oid: Oid, why: str) -> BrokenObjectError:
    return BrokenObjectError(
        f"could not read object {oid}: {why}", hint="git agent-undo doctor --fix"
    )


_PACKED_KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
PACK_MAGIC = b"PACK\0\0\0\2"
INDEX_MAGIC = b"\xfftOc\0\0\0\2"


class NewPack(NamedTuple):
    """A pack and its index, both of version 2, and the checksum by which they are named."""

    digits: str
    pack_data: bytes
    index_data: bytes


def pack_of(contents: Mapping[Oid, tuple[str, bytes]], form: ObjectFormat) -> NewPack:
    """Return a pack of some objects, each with its kind and content; less than 2 GiB in all.

    gitformat-pack(5): ids and checksums are of the format of the repository. No object is a delta
    of another one: `git pack-objects` finds deltas when packs are merged.
    """
    parts = [PACK_MAGIC + len(contents).to_bytes(4, "big")]
    rows: list[tuple[bytes, int, int]] = []
    at = len(parts[0])
    for oid, (kind, content) in contents.items():
        part = _packed_size(kind, len(content)) + zlib.compress(content, 1)
        rows.append((bytes.fromhex(oid), zlib.crc32(part), at))
        parts.append(part)
        at += len(part)
    data = b"".join(parts)
    checksum = form.hasher(data).digest()
    rows.sort()
    fans = [0] * 256
    for name, _, _ in rows:
        fans[name[0]] += 1
    index = b"".join(
        (
            INDEX_MAGIC,
            *(count.to_bytes(4, "big") for count in accumulate(fans)),
            *(name for name, _, _ in rows),
            *(crc.to_bytes(4, "big") for _, crc, _ in rows),
            *(offset.to_bytes(4, "big") for _, _, offset in rows),
            checksum,
        )
    )
    index += form.hasher(index).digest()
    return NewPack(checksum.hex(), data + checksum, index)


def _packed_size(kind: str, size: int) -> bytes:
    """Return the head of an object in a pack: its kind and size, four and then seven bits each."""
    head = bytearray([_PACKED_KINDS[kind] << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head)


OUR_NAME = b"gitshadow"
OUR_EMAIL = b"gitshadow@agent-undo.invalid"
_IDENT_STRIP = b"<>\n\r\0\t .,:;\"'\\"


class CommitInfo(NamedTuple):
    """One commit: its author as `name <email>`, times in seconds since the epoch."""

    oid: Oid
    tree: Oid
    parents: tuple[Oid, ...]
    author: bytes
    author_time: int
    committer_time: int
    message: bytes


class NewCommit(NamedTuple):
    """What a new shadow commit is made of; the committer's name is always ours."""

    tree: Oid
    parents: tuple[Oid, ...]
    author_name: bytes
    author_email: bytes
    author_time: int
    committer_time: int
    message: bytes


def format_commit(new: NewCommit) -> bytes:
    """Return the bytes of a commit object with our committer identity."""
    head = [b"tree " + new.tree.encode()]
    head += [b"parent " + parent.encode() for parent in new.parents]
    author = _ident(new.author_name, new.author_email, new.author_time)
    head += [b"author " + author]
    head += [b"committer " + _ident(OUR_NAME, OUR_EMAIL, new.committer_time)]
    return b"\n".join(head) + b"\n\n" + new.message


def on_tree(
    data: bytes, tree: Oid, parents: Sequence[Oid], message: bytes | None = None
) -> bytes:
    """Return a commit's bytes with another tree, other parents and perhaps another message."""
    head, blank, old = data.partition(b"\n\n")
    rest = [
        line
        for line in head.split(b"\n")
        if not line.startswith((b"tree ", b"parent "))
    ]
    lines = [b"tree " + tree.encode(), *(b"parent " + one.encode() for one in parents)]
    return b"\n".join([*lines, *rest]) + blank + (old if message is None else message)


def parse_commit(oid: Oid, data: bytes) -> CommitInfo:
    """Parse a commit object; raise StoreError if it is none."""
    head, _, message = data.partition(b"\n\n")
    tree, parents, author, times = "", [], b"", [0, 0]
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree":
            tree = value.decode("ascii")
        elif key == b"parent":
            parents.append(Oid(value.decode("ascii")))
        elif key in (b"author", b"committer"):
            who, _, when = value.rpartition(b"> ")
            # A commit with a date that is no number (badDate in git-fsck(1)) must still be
            # readable.
            seconds = when.split(b" ")[0]
            times[key == b"committer"] = int(seconds) if seconds.isdigit() else 0
            author = who + b">" if key == b"author" else author
    if not tree:
        raise StoreError(f"could not read commit {oid}: it has no tree")
    return CommitInfo(
        oid, Oid(tree), tuple(parents), author, times[0], times[1], message
    )


def _ident(name: bytes, email: bytes, seconds: int) -> bytes:
    """Format an identity; bytes that would break the commit are left out."""
    # Git strips the same characters at the ends of a name (`crud` in its ident.c), and leaves `<`,
    # `>` and line ends out.
    clean_name = _plain(name).strip(_IDENT_STRIP) or b"unknown"
    clean_email = _plain(email).strip(_IDENT_STRIP) or b"unknown@agent-undo.invalid"
    return b"%b <%b> %d +0000" % (clean_name, clean_email, max(seconds, 1))


def _plain(text: bytes) -> bytes:
    return bytes(c for c in text if c >= 0x20 and c not in b"<>")
