"""Polled directories: each difference is reported once, by the directory in which it is."""

import os
from pathlib import Path

import pytest

from gitshadow.model import RepoPath
from gitshadow.platform.portable.instance import Poller

TOP, DIR, SUB = RepoPath(b""), RepoPath(b"p\xff"), RepoPath(b"p\xff/s")


class Polled:
    """Poll a directory whose name is not UTF-8, the one above it and the one in it."""

    def __init__(self, root: Path) -> None:
        self.root = os.fsencode(root)
        self.told: set[RepoPath] = set()
        os.makedirs(self.at(b"p\xff/s"))
        for name in (b"p\xff/f", b"p\xff/s/g"):
            self.write(name)
        self.poller = Poller(str(root), self._report)
        self.poller.add([TOP, DIR, SUB])
        self.poller.close()

    def at(self, name: bytes) -> bytes:
        return os.path.join(self.root, name)

    def write(self, name: bytes) -> None:
        with open(self.at(name), "wb") as handle:
            handle.write(name)

    def poll(self) -> set[RepoPath]:
        self.told.clear()
        self.poller.poll()
        return set(self.told)

    def _report(self, paths: set[RepoPath], _: set[RepoPath]) -> None:
        self.told |= paths


@pytest.fixture
def polled(tmp_path: Path) -> Polled:
    return Polled(tmp_path)


def test_file_alone_is_reported_when_it_is_written_in_a_polled_directory(
    polled: Polled,
) -> None:
    """Who is told of a directory looks at everything below it."""
    polled.write(b"p\xff/s/new")
    told = polled.poll()
    assert b"p\xff/s/new" in told
    assert told.isdisjoint({b"p\xff", b"p\xff/s"})


def test_polled_directory_is_reported_when_a_file_takes_its_place(
    polled: Polled,
) -> None:
    os.unlink(polled.at(b"p\xff/s/g"))
    os.rmdir(polled.at(b"p\xff/s"))
    polled.write(b"p\xff/s")
    assert {b"p\xff/s", b"p\xff/s/g"} <= polled.poll()


def test_what_differs_is_reported_when_polled_directories_are_swapped(
    polled: Polled,
) -> None:
    os.rename(polled.at(b"p\xff"), polled.at(b"old"))
    os.makedirs(polled.at(b"p\xff/s/deeper"))
    polled.write(b"p\xff/s/g")
    told = polled.poll()
    assert {b"old", b"p\xff/f", b"p\xff/s/g", b"p\xff/s/deeper"} <= told
