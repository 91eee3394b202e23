"""What the kernel counts of processes, from files of /proc that stay open between two looks.

Linux counts for each process what it wrote, and a parent inherits the counts of the children that
it waits for (proc(5), /proc/PID/io). It also counts how often each was given a processor.
"""

import fcntl
import os
import sys
from collections.abc import Iterable, Sequence

from gitshadow.platform.port import CountedStat, Counts, FileSystem, ProcessId

_PAGE = 4096
_LONG = 65536
# A file of /proc is opened once for many looks; four for each process.
_MOST_OPEN = 256
# Here a copy cannot share the blocks of its original (ioctl_ficlone(2)), and so has to be written.
_WITHOUT_SHARING = frozenset({b"ext2", b"ext3", b"ext4", b"tmpfs"})
_WITHOUT_PAGES = frozenset({b"tmpfs"})
"""File systems that do not count which pages became dirty."""
# With these options (ext4(5)) content is written past the page cache, or by the journal's thread.
_UNCOUNTED_OPTIONS = (b"dax", b"data=journal")
_CENTISECOND_NS = 10_000_000
# <linux/fs.h>, for 64 bits: FS_IOC_GETFLAGS, and the flag FS_INLINE_DATA_FL.
_GET_FLAGS, _IS_INLINE = 0x8008_6601, 0x1000_0000
_NOTHING = Counts()


class ProcFiles:
    """The files of /proc, as they are at each moment."""

    def __init__(self, top: str = "/proc") -> None:
        self.top = top
        self._open: dict[int, dict[str, int]] = {}
        self._count = 0

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, None where it is gone or not for us to read."""
        try:
            with open(f"{self.top}/{name}", "rb", buffering=0) as file:
                # One read returns a page of most of these files, whatever is left.
                return file.readall()
        except OSError:
            return None

    def reread(self, pid: int, name: str) -> bytes | None:
        """Return what a file of a process holds; None if that is gone, not for us, or very long.

        An open file belongs to its process, not to the pid: it is never another one's.
        """
        own = self._open.get(pid, {})
        try:
            if name not in own:
                if self._count >= _MOST_OPEN:
                    return self.read(f"{pid}/{name}")
                flags = os.O_RDONLY | os.O_CLOEXEC
                own[name] = os.open(f"{self.top}/{pid}/{name}", flags)
                self._open[pid] = own
                self._count += 1
            found = os.pread(own[name], _LONG, 0)
        except OSError:
            self.close((pid,))
            return None
        # A kernel may return less than there is, but not less than a page.
        return found if len(found) < _PAGE // 2 else self.read(f"{pid}/{name}")

    def is_open(self, pid: int, name: str) -> bool:
        """Return whether a file is open of the process that had a pid at the last look."""
        return name in self._open.get(pid, {})

    def keep(self, pids: Iterable[int]) -> None:
        """Close the files of all other processes."""
        self.close(self._open.keys() - set(pids))

    def close(self, pids: Iterable[int]) -> None:
        """Close the files of processes."""
        for pid in list(pids):
            for descriptor in self._open.pop(pid, {}).values():
                os.close(descriptor)
                self._count -= 1

    def threads(self, pid: int) -> Sequence[str]:
        """Return the threads of a process; none where it is gone."""
        try:
            return os.listdir(f"{self.top}/{pid}/task")
        except OSError:
            return ()

    def io(self, name: str) -> Counts | None:
        """Return what an `io` file says of a process or thread; proc(5)."""
        return _counts(self.read(name))

    def stat_of(self, pid: int) -> CountedStat | None:
        """Return the state of a process, None where it is gone."""
        raw = self.reread(pid, "stat")
        # The name, which is in parentheses, can have blanks and parentheses too.
        fields = [] if raw is None else raw.rpartition(b")")[2].split()
        if len(fields) < 20:
            return None
        faults, reaped, more, more_reaped = map(int, fields[7:11])
        return CountedStat(
            ProcessId(pid, int(fields[19])),
            int(fields[17]),
            fields[0] == b"S",
            faults + more,
            reaped + more_reaped,
        )

    def counts_of(self, pid: int) -> Counts | None:
        """Return what a process wrote, without faults; None where it is gone or not for us."""
        return _counts(self.reread(pid, "io"))

    def counts_of_threads(self, pid: int, threads: Sequence[str]) -> Counts:
        """Return what living threads of a process wrote themselves, without faults."""
        own = _NOTHING
        for thread in threads:
            own = own.plus(_counts(self.reread(pid, f"task/{thread}/io")) or _NOTHING)
        return own

    def children_of(self, pid: int, threads: Sequence[str] | None) -> list[int]:
        """Return the children of some threads of a process, of all of them for None."""
        found: list[int] = []
        for thread in self.threads(pid) if threads is None else threads:
            raw = self.reread(pid, f"task/{thread}/children") or b""
            found += map(int, raw.split())
        return found

    def runs(self, pid: int) -> bytes | None:
        """Return what changes each time a process is given a processor; None: not counted."""
        found = self.reread(pid, "schedstat")
        fields = (found or b"").split()
        return found if len(fields) > 2 and fields[2] != b"0" else None

    def has_run(self, pid: int, runs: bytes) -> bool:
        """Return whether a process ran since the last look, or may be another one."""
        is_open = self.is_open(pid, "schedstat")
        return not is_open or self.reread(pid, "schedstat") != runs

    def file_systems(self) -> dict[int, FileSystem]:
        """Return what the mounted file systems let conclude, by device number; proc(5)."""
        return file_systems(self.read("self/mountinfo") or b"")

    def keeps_small_files_inline(self, fd: int) -> bool:
        """Return whether the file system of an open small file keeps it without any page.

        That is the feature `inline_data` of ext4, which no mount option shows.

        Raises:
            OSError: the file system does not know.
        """
        flags = fcntl.ioctl(fd, _GET_FLAGS, bytes(8))
        return bool(int.from_bytes(flags[:4], sys.byteorder) & _IS_INLINE)

    def time_to_disk_ns(self) -> int | None:
        """Return after how long an unchanged file is on the disk; None where nobody knows.

        Linux looks for dirty pages from time to time, and writes those that are old enough
        (Documentation/admin-guide/sysctl/vm.rst). Twice that time, because disks can be slow.
        """
        expire = self.read("sys/vm/dirty_expire_centisecs")
        pause = self.read("sys/vm/dirty_writeback_centisecs")
        # Without a pause nothing is written by itself.
        if not expire or not pause or int(pause) == 0:
            return None
        return 2 * (int(expire) + int(pause)) * _CENTISECOND_NS


def _counts(io: bytes | None) -> Counts | None:
    """Return what the content of an `io` file says of a process or thread; proc(5)."""
    words = (io or b"").split()
    if len(words) < 12:
        return None
    return Counts(written=int(words[3]), dirtied=int(words[11]))


def file_systems(mounts: bytes) -> dict[int, FileSystem]:
    """Return what the mounted file systems let conclude, by device number.

    Args:
        mounts: The content of /proc/self/mountinfo; proc(5).
    """
    found: dict[int, FileSystem] = {}
    for line in mounts.splitlines():
        fields, _, rest = line.partition(b" - ")
        major, _, minor = fields.split()[2].partition(b":")
        kind, _, *options = rest.split()
        is_known = kind in _WITHOUT_SHARING
        counts_pages = (
            is_known
            and kind not in _WITHOUT_PAGES
            and not any(
                option.startswith(_UNCOUNTED_OPTIONS)
                for option in b",".join(options).split(b",")
            )
        )
        device = os.makedev(int(major), int(minor))
        found[device] = FileSystem(is_known, counts_pages)
    return found
