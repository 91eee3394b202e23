"""A storm in a directory: `python -m tests.support.hammer DIRECTORY OUTSIDE SEED STEPS NAMES`.

What it does is decided by the seed; a step that another hammer spoils is skipped. Names that are
not UTF-8 come with `odd` alone: one makes the watcher look at everything again, which would hide
that it lost something else.
"""

import os
import random
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

_ODD_NAMES = [b"caf\xe9", b"\xff\xfe", b"\xff"]
_NAMES = [
    b"plain",
    b"x.tmp",
    b"4913",
    b"back~",
    "schön".encode(),
    b" space ",
    b"-dash",
    b'quo"te',
    b"new\nline",
    b"a.py",
]
_TARGETS = (b".", b"/", b"nowhere", b"../plain")


@dataclass(slots=True)
class Hammer:
    """Change a directory at random and never follow a link.

    `outside` is where a directory of it can be for a moment.
    """

    top: bytes
    outside: bytes
    names: Sequence[bytes]
    random: random.Random

    def run(self, steps: int) -> None:
        """Make that many changes."""
        acts: Sequence[Callable[[], None]] = (
            self.plant,
            self.plant,
            self.rewrite,
            self.rewrite,
            self.save,
            self.move,
            self.move,
            self.replace,
            self.fell,
            self.drop,
            self.swap,
            self.exchange,
            self.take_out,
            self.link,
            self.chmod,
        )
        for _ in range(steps):
            with suppress(OSError, shutil.Error):
                self.random.choice(acts)()

    def plant(self) -> None:
        """Make a deep new directory and write into every level of it at once."""
        at = self.directory()
        for _ in range(self.random.randint(1, 6)):
            at = os.path.join(at, self.name())
            os.mkdir(at)
            for _ in range(self.random.randint(0, 3)):
                self.write(os.path.join(at, self.name()))

    def rewrite(self) -> None:
        """Write one file again and again."""
        path = self.file()
        for _ in range(self.random.randint(1, 20)):
            self.write(path)

    def save(self) -> None:
        """Replace a file by a temporary one, as editors do."""
        path = self.file()
        self.write(path + b".tmp")
        os.rename(path + b".tmp", path)

    def move(self) -> None:
        """Give a directory another name, perhaps in another directory."""
        old = self.directory()
        if old != self.top:
            os.rename(old, os.path.join(self.directory(), self.name()))

    def replace(self) -> None:
        """Rename a file over another one or to a new name."""
        os.rename(self.file(), self.file())

    def fell(self) -> None:
        """Delete a whole tree, but not often the largest ones."""
        at = self.directory()
        if at != self.top and (os.path.dirname(at) != self.top or self.often(4)):
            shutil.rmtree(at)

    def drop(self) -> None:
        """Delete a file."""
        os.unlink(self.file())

    def swap(self) -> None:
        """Put a file where a directory was, or a directory where a file was."""
        path = self.file()
        if os.path.lexists(path):
            os.unlink(path)
            os.mkdir(path)
            self.write(os.path.join(path, b"inner"))
            return
        at = self.directory()
        if at != self.top:
            os.rename(at, at + b"-was")
            self.write(at)

    def exchange(self) -> None:
        """Build a directory anew by its name, the old one renamed, as release scripts do."""
        at = self.directory()
        if at != self.top:
            os.rename(at, at + b".old")
            self.build(at)

    def take_out(self) -> None:
        """The same, with the old directory outside the worktree in between."""
        at = self.directory()
        if at != self.top:
            os.rename(at, self.outside)
            self.build(at)
            os.rename(self.outside, at + b".back")

    def build(self, at: bytes) -> None:
        """Make a directory with a file and another directory."""
        os.makedirs(os.path.join(at, self.name()))
        self.write(os.path.join(at, self.name()))

    def link(self) -> None:
        """Make a symbolic link, or a second name of a file."""
        path = os.path.join(self.directory(), self.name())
        if self.often(3):
            os.link(self.file(), path, follow_symlinks=False)
        else:
            os.symlink(self.random.choice(_TARGETS), path)

    def chmod(self) -> None:
        """Change the permissions of a file."""
        mode = self.random.choice((0o600, 0o644, 0o755))
        # Another writer may have put a directory there, which none of us could enter then.
        handle = os.open(self.file(), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                os.fchmod(handle, mode)
        finally:
            os.close(handle)

    def write(self, path: bytes) -> None:
        """Write a few bytes; a link is not written through."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        handle = os.open(path, flags, 0o644)
        try:
            os.write(handle, b"%d\n" % self.random.randrange(50))
        finally:
            os.close(handle)

    def directory(self) -> bytes:
        """Return some directory that is there."""
        at = self.top
        while self.often(3) is False:
            with os.scandir(at) as scan:
                inner = sorted(one.path for one in scan if self.is_directory(one))
            if not inner:
                break
            at = self.random.choice(inner)
        return at

    def file(self) -> bytes:
        """Return some path that is a file, or could be one."""
        at = self.directory()
        with os.scandir(at) as scan:
            files = sorted(one.path for one in scan if not self.is_directory(one))
        if files and not self.often(5):
            return self.random.choice(files)
        return os.path.join(at, self.name())

    def name(self) -> bytes:
        """Return some name, odd ones among them."""
        return self.random.choice(self.names) + b"%d" % self.random.randrange(4)

    def often(self, times: int) -> bool:
        """Return True once in so many times."""
        return self.random.randrange(times) == 0

    def is_directory(self, entry: "os.DirEntry[bytes]") -> bool:
        """Return whether an entry is a directory itself."""
        return entry.is_dir(follow_symlinks=False)


if __name__ == "__main__":
    _, where, outside, seed, steps, kind = sys.argv
    os.makedirs(where, exist_ok=True)
    chosen = _NAMES + _ODD_NAMES * (kind == "odd")
    aside = os.fsencode(f"{outside}/{os.getpid()}")
    top = os.fsencode(where)
    Hammer(top, aside, chosen, random.Random(int(seed))).run(int(steps))
