"""Files that are replaced as a whole."""

import os
from pathlib import Path

import pytest

from gitshadow.capture.fs_events import is_temporary
from gitshadow.model import RepoPath
from gitshadow.store.safe_files import replacing


def test_file_has_its_new_content_and_mode_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with replacing(str(path), 0o640) as out:
        out.write(b"new")
        assert path.read_bytes() == b"old"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    assert os.listdir(tmp_path) == ["a"]


def fail_half_way(path: str) -> None:
    with replacing(path) as out:
        out.write(b"half")
        raise KeyboardInterrupt


def test_old_file_stays_and_nothing_else_is_left_when_the_block_fails(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        fail_half_way(str(path))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_nothing_is_left_when_the_rename_fails(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError), replacing(str(tmp_path / "a")) as out:
        out.write(b"new")
    assert os.listdir(tmp_path) == ["a"]


def test_link_is_replaced_and_what_it_leads_to_is_kept(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "a").symlink_to("target")
    with replacing(str(tmp_path / "a")) as out:
        out.write(b"new")
    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"kept"


def test_unfinished_file_has_the_name_of_a_temporary_one(tmp_path: Path) -> None:
    with replacing(str(tmp_path / "a.py")):
        (name,) = os.listdir(os.fsencode(tmp_path))
    assert is_temporary(RepoPath(name))
