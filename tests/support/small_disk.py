"""A file system of a few megabytes, to fill up, and one that takes nothing."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """Mount an empty file system of some size at a new directory; skip where nobody may."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
        pytest.skip("only root can mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Fill a file system; return the file whose removal frees it."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        for size in (65536, 4096, 512, 1):
            with suppress(OSError):
                while True:
                    stream.write(b"x" * size)
    return ballast


@contextmanager
def read_only(place: Path, at: Path) -> Iterator[Path]:
    """Show a directory at a new one where nothing can be written; skip where nobody may."""
    at.mkdir()
    command = ["mount", "--bind", str(place), str(at)]
    if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
        pytest.skip("only root can mount a directory")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(at)], check=True)
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)
