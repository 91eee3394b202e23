"""When a file was created, as the file system tells it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.platform.linux import files
from gitshadow.platform.linux.files import birth_of


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_birth_stays_when_a_file_is_written_and_renamed(
    tmp_path: Path, directory: int
) -> None:
    before_ns = time.time_ns() - 1_000_000_000
    (tmp_path / "a").write_text("a")
    first = birth_of(b"a", directory)
    if first is None:
        pytest.skip("this file system keeps no time of birth")
    os.utime(tmp_path / "a", (1, 1))
    os.rename(tmp_path / "a", tmp_path / "b")
    assert birth_of(b"b", directory) == first
    assert first.inode == os.stat(tmp_path / "b").st_ino
    assert before_ns < first.born_ns < time.time_ns() + 1_000_000_000


def test_birth_of_a_link_is_its_own(tmp_path: Path, directory: int) -> None:
    os.symlink("nowhere", tmp_path / "link")
    found = birth_of(b"link", directory)
    assert found is None or found.inode == os.lstat(tmp_path / "link").st_ino


def test_nothing_is_known_of_what_is_not_there(directory: int) -> None:
    assert birth_of(b"none", directory) is None


def test_nothing_is_known_where_the_system_has_no_such_call(
    tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a")
    monkeypatch.setattr(files, "_statx", lambda: None)
    assert birth_of(b"a", directory) is None
