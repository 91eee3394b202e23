"""Spellings: measured on file systems that fold names, with no cost for the others."""

import errno
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import StoreError
from gitshadow.model import RepoPath
from gitshadow.platform import current
from gitshadow.store import spelling
from gitshadow.store.files import WorkFiles
from gitshadow.store.object_format import SHA1
from gitshadow.store.paths import UnsafePathError
from gitshadow.store.spelling import Spelling, clashes, fold_key
from tests.support.mounts import APFS, HFS, VFAT, fuse

_COMPOSED = unicodedata.normalize("NFC", "né.txt").encode()
_DECOMPOSED = unicodedata.normalize("NFD", "né.txt").encode()


@pytest.fixture
def vfat(tmp_path: Path) -> Iterator[Path]:
    """Return an empty directory in which names fold by case."""
    with fuse(tmp_path / "mount", *VFAT) as place:
        yield place


@pytest.fixture
def apfs(tmp_path: Path) -> Iterator[Path]:
    """Return an empty directory in which names fold by case and form."""
    with fuse(tmp_path / "mount", *APFS) as place:
        yield place


def there(files: WorkFiles, *paths: bytes) -> list[bool]:
    """Return for each path whether something is there in exactly this spelling."""
    return [files.look(RepoPath(path)) is not None for path in paths]


def test_look_takes_only_the_spelling_of_the_disk(vfat: Path) -> None:
    (vfat / "Dir").mkdir()
    (vfat / "Dir" / "a.txt").write_text("x")
    files = WorkFiles(str(vfat), SHA1)
    paths = (b"Dir/a.txt", b"Dir/A.txt", b"dir/a.txt", b"dir", b"Dir")
    assert there(files, *paths) == [True, False, False, False, True]
    assert files.folds
    assert files.read(RepoPath(b"Dir/A.TXT")) is None
    assert files.spelled(RepoPath(b"dir/A.TXT")) == b"Dir/a.txt"
    assert files.spelled(RepoPath(b"dir/none/B")) == b"Dir/none/B"
    with files.together():
        assert there(files, *paths) == [True, False, False, False, True]


def test_look_takes_only_the_unicode_form_of_the_disk(apfs: Path) -> None:
    (apfs / os.fsdecode(_DECOMPOSED)).write_text("x")
    files = WorkFiles(str(apfs), SHA1)
    assert there(files, _DECOMPOSED, _COMPOSED) == [True, False]
    assert files.spelled(RepoPath(_COMPOSED)) == _DECOMPOSED


def test_names_are_shown_composed_where_git_composes_them(tmp_path: Path) -> None:
    with fuse(tmp_path / "mount", *HFS) as place:
        (place / os.fsdecode(_COMPOSED)).write_text("x")
        assert os.listdir(os.fsencode(place)) == [_DECOMPOSED]
        files = WorkFiles(str(place), SHA1, composes=True)
        assert [name for name, _ in files.scan(RepoPath(b""))] == [_COMPOSED]
        assert there(files, _COMPOSED, _DECOMPOSED) == [True, False]
        plain = WorkFiles(str(place), SHA1, composes=False)
        for above in (b"none/", b""):
            new = RepoPath(above + b"new-" + _DECOMPOSED)
            assert plain.spelled(new) == new
            assert files.spelled(new) == above + b"new-" + _COMPOSED
        assert [name for name, _ in plain.scan(RepoPath(b""))] == [_DECOMPOSED]


def test_change_by_another_spelling_is_refused(vfat: Path) -> None:
    (vfat / "dir").mkdir()
    (vfat / "dir" / "a").write_text("kept")
    (vfat / "empty").mkdir()
    files = WorkFiles(str(vfat), SHA1)
    temp = files.stage(RepoPath(b"dir/A"), b"new", 0o100644)
    with pytest.raises(UnsafePathError, match="spelled otherwise"):
        files.publish(temp, RepoPath(b"dir/A"))
    with pytest.raises(FileNotFoundError):
        files.unlink(RepoPath(b"dir/A"))
    with pytest.raises(UnsafePathError, match="spelled otherwise"):
        files.make_parents(RepoPath(b"DIR/b"))
    with pytest.raises(StoreError):
        files.unlink(RepoPath(b"DIR/a"))
    assert not files.rmdir_if_empty(RepoPath(b"Empty"))
    assert (vfat / "dir" / "a").read_text() == "kept"
    assert (vfat / "empty").is_dir()


def test_case_is_told_from_another_name_of_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "A")
    files = WorkFiles(str(tmp_path), SHA1)
    assert there(files, b"a", b"A") == [True, True]
    assert not files.folds


def test_file_that_is_removed_or_replaced_just_now_shows_nothing(
    apfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the file system would count as one that keeps all names apart, for good."""
    (apfs / "kept").write_text("0")
    stat = os.stat

    def replaced(name: bytes, **where: object) -> os.stat_result:
        found = stat(name, **where)  # type: ignore[arg-type]
        (apfs / "new").write_text("1")
        (apfs / "new").rename(apfs / "kept")
        return found

    directory = os.open(apfs, os.O_RDONLY)
    try:
        device = os.fstat(directory).st_dev
        for gone in (b"gone", "gön".encode()):
            told = Spelling(composes=False)
            told.is_true(directory, gone, device)
            assert not told.is_true(directory, b"KEPT", device)
            assert not told.is_true(directory, "GÖN".encode(), device)
        told = Spelling(composes=False)
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", replaced)
            assert told.is_true(directory, b"kept", device)
        assert not told.is_true(directory, b"KEPT", device)
    finally:
        os.close(directory)


def test_file_system_that_keeps_names_apart_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "é", "b"):
        (tmp_path / name).write_text("x")
    files = WorkFiles(str(tmp_path), SHA1)
    assert there(files, b"a", "é".encode()) == [True, True]
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", None)
        assert there(files, b"b", "é".encode(), b"B") == [True, True, False]
    assert not files.folds


def test_file_system_that_is_mounted_below_is_measured_on_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("x")
    with fuse(tmp_path / "mount", *VFAT) as place:
        (place / "dir").mkdir()
        (place / "dir" / "a").write_text("x")
        files = WorkFiles(str(tmp_path), SHA1)
        assert there(files, b"a", b"A") == [True, False]
        folded = [files.folds]
        below = b"mount/shown/"
        assert there(files, below + b"DIR/a", below + b"dir/a") == [False, True]
        assert [*folded, files.folds] == [False, True]
        assert there(files, b"a", below + b"dir/A", below + b"Dir") == [
            True,
            False,
            False,
        ]


def test_first_step_into_what_is_mounted_below_finds_only_the_true_spelling(
    tmp_path: Path,
) -> None:
    """The name of the mount is one of the file system above it, and shows nothing of this one."""
    (tmp_path / "a").write_text("x")
    below = b"mount/shown/"
    with fuse(tmp_path / "mount", *VFAT) as place:
        (place / "dir").mkdir()
        (place / "dir" / "a").write_text("x")

        def fresh() -> WorkFiles:
            files = WorkFiles(str(tmp_path), SHA1)
            assert there(files, b"a", below[:-1]) == [True, True]
            return files

        assert there(fresh(), below + b"DIR/a") == [False]
        assert fresh().read(RepoPath(below + b"DIR/a")) is None
        with pytest.raises(UnsafePathError, match="spelled otherwise"):
            fresh().unlink(RepoPath(below + b"DIR/a"))
        files = fresh()
        with files.together(), pytest.raises(UnsafePathError):
            files.stage(RepoPath(below + b"DIR/new"), b"x", 0o100644)
        with pytest.raises(UnsafePathError):
            fresh().make_parents(RepoPath(below + b"DIR/sub/new"))
        assert os.listdir(place / "dir") == ["a"]


def test_directory_that_is_set_to_fold_is_asked_each_time(
    vfat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `chattr +F` does on ext4: a directory beside it shows nothing of it."""
    for name in ("plain", "folding"):
        (vfat / name).mkdir()
        (vfat / name / "a").write_text("x")
    folding = (vfat / "folding").stat().st_ino
    facts = current().file_facts()
    monkeypatch.setattr(
        facts, "folds_by_flag", lambda fd: os.fstat(fd).st_ino == folding
    )
    monkeypatch.setattr(spelling, "_is_distinct", lambda *_: True)
    files = WorkFiles(str(vfat), SHA1)
    assert there(files, b"plain/A", b"folding/A") == [True, False]
    assert there(files, b"folding/a", b"folding/A") == [True, False]


def test_where_directories_may_be_set_to_fold_only_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most kernels of today can do that on ext4, though nearly no directory is set so."""
    asked: list[int] = []

    def is_set(directory: int) -> bool:
        asked.append(directory)
        return False

    monkeypatch.setattr(current().file_facts(), "folds_by_flag", is_set)
    for name in ("a", "é", "b"):
        (tmp_path / name).write_text("x")
    files = WorkFiles(str(tmp_path), SHA1)
    assert there(files, b"a", "é".encode()) == [True, True]
    asked.clear()
    with monkeypatch.context() as patch:
        patch.setattr(spelling, "_is_distinct", None)
        assert there(files, b"b", "é".encode(), b"B") == [True, True, False]
    assert len(asked) == 2
    monkeypatch.setattr(current().file_facts(), "folds_by_flag", lambda _: True)
    assert there(files, b"b") == [True]
    assert files.folds


def test_directory_whose_spelling_cannot_be_told_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dir").mkdir()
    files = WorkFiles(str(tmp_path), SHA1)
    before = len(os.listdir("/proc/self/fd"))

    def refused(*_: object) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(spelling.Spelling, "is_true", refused)
    with pytest.raises(OSError, match="Input/output"):
        files.look(RepoPath(b"dir/a"))
    assert len(os.listdir("/proc/self/fd")) == before


@given(st.text())
def test_key_is_the_same_for_each_case_and_form(text: str) -> None:
    name = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    keys = {
        fold_key(unicodedata.normalize(form, each).encode())
        for form in ("NFC", "NFD")
        for each in (name, name.casefold())
    }
    assert len(keys) == 1


def test_clashes_are_the_groups_of_paths_with_one_key() -> None:
    paths = [b"a/B", b"A/b", b"c", _COMPOSED, _DECOMPOSED, b"\xff", b"\xfe"]
    assert list(clashes(iter(paths))) == [
        (b"A/b", b"a/B"),
        tuple(sorted((_COMPOSED, _DECOMPOSED))),
    ]
