"""Mounts for tests: a file system of our own behind FUSE, and others; skipped where nobody may."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

VFAT = ("--fold-case", "--step-ns=2000000000", "--mode=755", "--no-links")
"""Names fold by case, times have two seconds, modes and links are not stored."""
APFS = ("--fold-case", "--fold-forms", "--new-name")
"""Names fold by case and by Unicode form; a rename sets the new spelling."""
HFS = ("--fold-case", "--fold-forms", "--lists-decomposed", "--step-ns=1000000000")
SHARE = ("--kind=fuse.sshfs",)


@contextmanager
def fuse(place: Path, *ways: str) -> Iterator[Path]:
    """Show an empty directory at a new one as another file system would (`fuse_server`).

    Skips the test where no such file system can be mounted, with the reason.
    """
    source, target = place / "source", place / "shown"
    source.mkdir(parents=True)
    target.mkdir()
    command = [sys.executable, "-m", "tests.support.fuse_server", *ways]
    server = subprocess.Popen(
        [*command, str(source), str(target)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        assert server.stderr is not None
        if server.stdout.readline() != "mounted\n":
            pytest.skip(f"FUSE is not there: {server.stderr.read().strip()}")
        try:
            yield target
        finally:
            unmount(target)


def unmount(place: Path) -> None:
    """Unmount a directory, also while somebody uses it."""
    subprocess.run(["umount", "-l", os.fspath(place)], check=True)
