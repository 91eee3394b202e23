"""Read files of /proc, and keep those open that are read again and again."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_PAGE = 4096
_LONG = 65536
# A file of /proc is opened once for many looks; four for each process.
_MOST_OPEN = 256


class Counts(NamedTuple):
    """What processes did, with their children that are gone.

    `written`: bytes by write(2) and its kin. `dirtied`: bytes of the pages that became dirty by any
    means. `faults`: page faults, which every program has when it starts.
    """

    written: int = 0
    dirtied: int = 0
    faults: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Counts") -> "Counts":
        """Return the differences."""
        return Counts(*(a - b for a, b in zip(self, other, strict=True)))


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
        return counts_of(self.read(name))


def counts_of(io: bytes | None) -> Counts | None:
    """Return what the content of an `io` file says of a process or thread; proc(5)."""
    words = (io or b"").split()
    if len(words) < 12:
        return None
    return Counts(written=int(words[3]), dirtied=int(words[11]))
