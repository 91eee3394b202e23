"""A file system of our own behind /dev/fuse, for what no file system of the kernel here does.

It shows a directory as vfat, exfat, APFS or a share would: names fold by case or by Unicode
normalisation, times have steps, all files have one mode. Speaks the kernel's protocol
(include/uapi/linux/fuse.h, version 7.31) without a library, so that it runs wherever /dev/fuse can
be opened and mounted.
"""

import argparse
import ctypes
import errno
import os
import stat as st
import struct
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

_IN_HEADER = struct.Struct("<IIQQIIII")
_OUT_HEADER = struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_BUFFER = (1 << 20) + 4096
_MS_NOSUID_NODEV = 6
_FATTR_MODE, _FATTR_UID, _FATTR_GID, _FATTR_SIZE = 1, 2, 4, 8
_FATTR_ATIME, _FATTR_MTIME, _FATTR_ATIME_NOW, _FATTR_MTIME_NOW = 16, 32, 128, 256
_NO_ANSWER = (2, 42)  # FORGET, BATCH_FORGET


@dataclass(frozen=True)
class Ways:
    """How the file system differs from the directory that it shows."""

    fold_case: bool = False
    fold_forms: bool = False
    lists_decomposed: bool = False
    step_ns: int = 1
    mode: int | None = None
    links: bool = True
    new_name: bool = False

    def key(self, name: bytes) -> bytes:
        """Return what equal names have in common."""
        try:
            text = name.decode()
        except UnicodeDecodeError:
            return name
        if self.fold_forms:
            text = unicodedata.normalize("NFD", text)
        if self.fold_case:
            text = text.casefold()
        if self.fold_forms:
            text = unicodedata.normalize("NFD", text)
        return text.encode()

    def shown(self, name: bytes) -> bytes:
        """Return a name as a listing has it."""
        if not self.lists_decomposed:
            return name
        return unicodedata.normalize("NFD", os.fsdecode(name)).encode(
            "utf-8", "surrogateescape"
        )


@dataclass
class _Node:
    parent: int
    name: bytes


@dataclass
class Server:
    """Answer the kernel's requests for one mount, one after the other."""

    source: bytes
    ways: Ways
    nodes: dict[int, _Node] = field(default_factory=dict)
    ids: dict[tuple[int, int], int] = field(default_factory=dict)
    removed: dict[int, int] = field(default_factory=dict)

    def look(self, node: int) -> os.stat_result:
        """Return the stat of a node, also after its name was removed."""
        if node in self.removed:
            return os.fstat(self.removed[node])
        return os.lstat(self.path(node))

    def keep(self, path: bytes) -> None:
        """Keep what loses its name: somebody may have it open, and no handle comes with fstat."""
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        found = os.fstat(fd)
        node = self.ids.get((found.st_dev, found.st_ino))
        if node is None or found.st_nlink > 1:
            os.close(fd)
        else:
            self.removed[node] = fd

    def path(self, node: int) -> bytes:
        """Return where a node is in the directory that is shown."""
        if node == 1:
            return self.source
        known = self.nodes[node]
        return self.path(known.parent) + b"/" + known.name

    def true_name(self, parent: int, name: bytes) -> bytes:
        """Return how an entry is spelled, the name itself where there is none."""
        if not (self.ways.fold_case or self.ways.fold_forms):
            return name
        entries, key = os.listdir(self.path(parent)), self.ways.key(name)
        if name in entries:
            return name
        return next((one for one in entries if self.ways.key(one) == key), name)

    def at(self, parent: int, name: bytes) -> bytes:
        """Return the path of an entry."""
        return self.path(parent) + b"/" + self.true_name(parent, name)

    def attributes(self, found: os.stat_result) -> bytes:
        """Return a stat as the kernel reads it."""
        mode = found.st_mode
        if self.ways.mode is not None and not st.S_ISLNK(mode):
            mode = st.S_IFMT(mode) | self.ways.mode
        step = self.ways.step_ns
        times = [
            ns // step * step
            for ns in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        ]
        whole = [ns // 1_000_000_000 for ns in times]
        parts = [ns % 1_000_000_000 for ns in times]
        ids = (mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0)
        return _ATTR.pack(
            found.st_ino, found.st_size, found.st_blocks, *whole, *parts, *ids
        )

    def entry(self, parent: int, name: bytes) -> bytes:
        """Return the answer about an entry, which gets a node."""
        name = self.true_name(parent, name)
        found = os.lstat(self.path(parent) + b"/" + name)
        identity = (found.st_dev, found.st_ino)
        node = self.ids.setdefault(identity, len(self.ids) + 2)
        self.nodes[node] = _Node(parent, name)
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self.attributes(found)

    def serve(self, device: int) -> None:
        """Answer until the file system is unmounted."""
        while True:
            try:
                request = os.read(device, _BUFFER)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            _, kind, unique, node, *_ = _IN_HEADER.unpack_from(request)
            if kind in _NO_ANSWER:
                continue
            handler = _HANDLERS.get(kind)
            code, answer = 0, b""
            try:
                if handler is None:
                    code = -errno.ENOSYS
                else:
                    answer = handler(self, node, request[_IN_HEADER.size :])
            except OSError as error:
                code = -(error.errno or errno.EIO)
            head = _OUT_HEADER.pack(_OUT_HEADER.size + len(answer), code, unique)
            try:
                os.write(device, head + answer)
            except OSError as error:
                # The caller was interrupted and waits no longer.
                if error.errno != errno.ENOENT:
                    raise


def _name(data: bytes) -> bytes:
    return data.split(b"\0", 1)[0]


def _init(server: Server, node: int, data: bytes) -> bytes:
    # Big writes and no open flags; 7.31 answers with 64 bytes.
    return struct.pack(
        "<IIIIHHIIHHI7I", 7, 31, 65536, 32, 12, 10, 1 << 17, 1, *[0] * 10
    )


def _lookup(server: Server, node: int, data: bytes) -> bytes:
    return server.entry(node, _name(data))


def _attributes(server: Server, found: os.stat_result) -> bytes:
    return struct.pack("<QII", 0, 0, 0) + server.attributes(found)


def _getattr(server: Server, node: int, data: bytes) -> bytes:
    flags, _, handle = struct.unpack_from("<IIQ", data)
    if flags & 1:
        return _attributes(server, os.fstat(handle))
    return _attributes(server, server.look(node))


def _setattr(server: Server, node: int, data: bytes) -> bytes:
    valid, _, handle, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, *_ = (
        struct.unpack_from("<IIQQQQQQIIIIII", data)
    )
    path = server.path(node)
    uid, gid = struct.unpack_from("<II", data, 76)
    if valid & _FATTR_SIZE:
        os.truncate(handle if valid & 64 else path, size)
    if valid & _FATTR_MODE and server.ways.mode is None:
        os.chmod(path, st.S_IMODE(mode))
    if valid & (_FATTR_UID | _FATTR_GID):
        uid = uid if valid & _FATTR_UID else -1
        gid = gid if valid & _FATTR_GID else -1
        os.chown(path, uid, gid, follow_symlinks=False)
    if valid & (_FATTR_ATIME | _FATTR_MTIME):
        now = os.lstat(path)
        times = [now.st_atime_ns, now.st_mtime_ns]
        if valid & _FATTR_ATIME and not valid & _FATTR_ATIME_NOW:
            times[0] = atime * 1_000_000_000 + atime_ns
        if valid & _FATTR_MTIME and not valid & _FATTR_MTIME_NOW:
            times[1] = mtime * 1_000_000_000 + mtime_ns
        if valid & (_FATTR_ATIME_NOW | _FATTR_MTIME_NOW):
            os.utime(path, follow_symlinks=False)
        else:
            os.utime(path, ns=(times[0], times[1]), follow_symlinks=False)
    return _attributes(server, os.lstat(path))


def _readlink(server: Server, node: int, data: bytes) -> bytes:
    return os.readlink(server.path(node))


def _symlink(server: Server, node: int, data: bytes) -> bytes:
    if not server.ways.links:
        raise OSError(errno.EPERM, "no links")
    name, target = data.split(b"\0")[:2]
    os.symlink(target, server.at(node, name))
    return server.entry(node, name)


def _mknod(server: Server, node: int, data: bytes) -> bytes:
    mode, device, umask, _ = struct.unpack_from("<IIII", data)
    name = _name(data[16:])
    os.mknod(server.at(node, name), mode & ~umask, device)
    return server.entry(node, name)


def _mkdir(server: Server, node: int, data: bytes) -> bytes:
    mode, umask = struct.unpack_from("<II", data)
    name = _name(data[8:])
    os.mkdir(server.at(node, name), mode & ~umask)
    return server.entry(node, name)


def _unlink(server: Server, node: int, data: bytes) -> bytes:
    path = server.at(node, _name(data))
    server.keep(path)
    os.unlink(path)
    return b""


def _rmdir(server: Server, node: int, data: bytes) -> bytes:
    os.rmdir(server.at(node, _name(data)))
    return b""


def _move(server: Server, node: int, target: int, old: bytes, new: bytes) -> bytes:
    moved = server.at(node, old)
    there = server.at(target, new)
    identity = os.lstat(moved)
    wanted = server.path(target) + b"/" + new
    if there != moved:
        server.keep(there)
    os.rename(moved, there)
    # vfat keeps the name that was there, APFS takes the new one.
    if there != wanted and server.ways.new_name:
        os.rename(there, wanted)
    known = server.ids.get((identity.st_dev, identity.st_ino))
    if known is not None:
        server.nodes[known] = _Node(target, server.true_name(target, new))
    return b""


def _rename(server: Server, node: int, data: bytes) -> bytes:
    (target,) = struct.unpack_from("<Q", data)
    old, new = data[8:].split(b"\0")[:2]
    return _move(server, node, target, old, new)


def _rename2(server: Server, node: int, data: bytes) -> bytes:
    target, flags, _ = struct.unpack_from("<QII", data)
    old, new = data[16:].split(b"\0")[:2]
    if flags & ~1:
        raise OSError(errno.EINVAL, "no such rename")
    if flags & 1 and os.path.lexists(server.at(target, new)):
        raise OSError(errno.EEXIST, "it is there")
    return _move(server, node, target, old, new)


def _link(server: Server, node: int, data: bytes) -> bytes:
    if not server.ways.links:
        raise OSError(errno.EPERM, "no links")
    (old,) = struct.unpack_from("<Q", data)
    name = _name(data[8:])
    os.link(server.path(old), server.at(node, name))
    return server.entry(node, name)


def _open(server: Server, node: int, data: bytes) -> bytes:
    (flags,) = struct.unpack_from("<I", data)
    flags &= ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND)
    return struct.pack("<QII", os.open(server.path(node), flags), 0, 0)


def _create(server: Server, node: int, data: bytes) -> bytes:
    flags, mode, umask, _ = struct.unpack_from("<IIII", data)
    name = _name(data[16:])
    flags &= ~(os.O_NOFOLLOW | os.O_APPEND)
    handle = os.open(server.at(node, name), flags | os.O_CREAT, mode & ~umask & 0o7777)
    return server.entry(node, name) + struct.pack("<QII", handle, 0, 0)


def _read(server: Server, node: int, data: bytes) -> bytes:
    handle, offset, size = struct.unpack_from("<QQI", data)
    return os.pread(handle, size, offset)


def _write(server: Server, node: int, data: bytes) -> bytes:
    handle, offset, size = struct.unpack_from("<QQI", data)
    return struct.pack("<II", os.pwrite(handle, data[40 : 40 + size], offset), 0)


def _statfs(server: Server, node: int, data: bytes) -> bytes:
    found = os.statvfs(server.source)
    counts = (
        found.f_blocks,
        found.f_bfree,
        found.f_bavail,
        found.f_files,
        found.f_ffree,
    )
    return struct.pack("<5Q4I6I", *counts, found.f_bsize, 255, found.f_frsize, *[0] * 7)


def _release(server: Server, node: int, data: bytes) -> bytes:
    os.close(struct.unpack_from("<Q", data)[0])
    return b""


def _fsync(server: Server, node: int, data: bytes) -> bytes:
    os.fsync(struct.unpack_from("<Q", data)[0])
    return b""


def _nothing(server: Server, node: int, data: bytes) -> bytes:
    return b""


def _opendir(server: Server, node: int, data: bytes) -> bytes:
    os.lstat(server.path(node))
    return struct.pack("<QII", 0, 0, 0)


def _readdir(server: Server, node: int, data: bytes) -> bytes:
    _, offset, size = struct.unpack_from("<QQI", data)
    path, answer = server.path(node), b""
    entries = [b".", b"..", *sorted(os.listdir(path))]
    for at, name in enumerate(entries[offset:], offset + 1):
        found = os.lstat(path + b"/" + name)
        shown = server.ways.shown(name)
        cell = struct.pack("<QQII", found.st_ino, at, len(shown), found.st_mode >> 12)
        cell += shown + b"\0" * (-len(shown) % 8)
        if len(answer) + len(cell) > size:
            break
        answer += cell
    return answer


_HANDLERS: dict[int, Callable[[Server, int, bytes], bytes]] = {
    1: _lookup,
    3: _getattr,
    4: _setattr,
    5: _readlink,
    6: _symlink,
    8: _mknod,
    9: _mkdir,
    10: _unlink,
    11: _rmdir,
    12: _rename,
    13: _link,
    14: _open,
    15: _read,
    16: _write,
    17: _statfs,
    18: _release,
    20: _fsync,
    25: _nothing,  # FLUSH
    26: _init,
    27: _opendir,
    28: _readdir,
    29: _nothing,  # RELEASEDIR
    30: _nothing,  # FSYNCDIR
    35: _create,
    38: _nothing,  # DESTROY
    45: _rename2,
}


def mount(target: str, kind: str) -> int:
    """Mount a FUSE file system of a kind such as `fuse.sshfs`; return its device.

    Raises:
        OSError: this process may not.
    """
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    ids = f"user_id={os.getuid()},group_id={os.getgid()}"
    options = f"fd={device},rootmode=40000,{ids},allow_other,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    texts = [one.encode() for one in ("tests", target, kind)]
    if libc.mount(*texts, _MS_NOSUID_NODEV, options.encode()):
        code = ctypes.get_errno()
        os.close(device)
        raise OSError(code, os.strerror(code))
    return device


def main() -> None:
    """Mount, report that on stdout, and serve until it is unmounted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--kind", default="fuse.tests")
    parser.add_argument("--fold-case", action="store_true")
    parser.add_argument("--fold-forms", action="store_true")
    parser.add_argument("--lists-decomposed", action="store_true")
    parser.add_argument("--new-name", action="store_true")
    parser.add_argument("--no-links", dest="links", action="store_false")
    parser.add_argument("--step-ns", type=int, default=1)
    parser.add_argument("--mode", type=lambda text: int(text, 8))
    given = vars(parser.parse_args())
    source, target, kind = (given.pop(name) for name in ("source", "target", "kind"))
    try:
        device = mount(target, kind)
    except OSError as error:
        sys.exit(f"cannot mount: {error.strerror}")
    sys.stdout.write("mounted\n")
    sys.stdout.flush()
    os.umask(0)
    Server(os.fsencode(source), Ways(**given)).serve(device)


if __name__ == "__main__":
    main()
