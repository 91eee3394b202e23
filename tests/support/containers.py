"""Containers without a container engine: namespaces by unshare(1), overlay mounts."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.mounts import unmount

ROOTLESS = ("--user", "--map-root-user", "--mount")
"""A user namespace in which we are root, and other users are nobody."""
NUMBERED = ("--pid", "--fork", "--mount-proc", "--kill-child")
"""A PID namespace with a /proc of its own."""
UNSEEN = ("--pid", "--fork", "--kill-child")
"""A PID namespace in which /proc has the processes of the one outside, by other numbers."""


def enter(*ways: str) -> list[str]:
    """Return the words before a command that runs it in new namespaces; skip where nobody may."""
    words = ["unshare", *ways, "--"]
    try:
        done = subprocess.run([*words, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare(1)")
    if done.returncode != 0:
        pytest.skip(f"no such namespace here: {done.stderr.decode().strip()}")
    return words


@contextmanager
def overlay(place: Path, lower: Path) -> Iterator[Path]:
    """Show a directory with a layer above it that takes all writes; skip where nobody may."""
    upper, work, shown = (place / name for name in ("upper", "work", "shown"))
    for directory in (upper, work, shown):
        directory.mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    _mount("-t", "overlay", "overlay", "-o", options, os.fspath(shown))
    try:
        yield shown
    finally:
        unmount(shown)


@contextmanager
def bound(source: Path, at: Path) -> Iterator[Path]:
    """Show a directory at a second place; skip where nobody may."""
    at.mkdir(parents=True, exist_ok=True)
    _mount("--bind", os.fspath(source), os.fspath(at))
    try:
        yield at
    finally:
        unmount(at)


def _mount(*words: str) -> None:
    command: Sequence[str] = ("mount", *words)
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
