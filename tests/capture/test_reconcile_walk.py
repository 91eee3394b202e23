"""Walks of real trees."""

import os
import sys
from pathlib import Path

import pytest

from gitshadow.capture.reconcile import walk
from gitshadow.model import RepoPath
from tests.capture.test_coverage import open_place
from tests.support.repo import Repo


def test_links_are_listed_and_never_entered(repo: Repo, tmp_path: Path) -> None:
    """CAP-23: links to `/`, to the top and to the outside are single entries."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    repo.symlink("l", "/")
    repo.symlink("m", ".")
    repo.symlink("n", str(tmp_path / "outside"))
    repo.symlink("sub/dangling", "nowhere")
    place = open_place(repo)
    found = walk(place.files, place.coverage)
    assert set(found.files) == {b"a", b"b", b"c", b"l", b"m", b"n", b"sub/dangling"}
    assert found.directories == [b"", b"sub"]
    assert found.files[RepoPath(b"l")].is_link


def test_only_covered_directories_are_watched(repo: Repo) -> None:
    """CAP-23: ignored trees and other repositories cost no watch."""
    repo.write(".gitignore", "ignored/\n")
    repo.write("ignored/deep/x", "x")
    repo.write("src/deep/x", "x")
    Repo.create(repo.root / "vendor", ())
    place = open_place(repo)
    found = walk(place.files, place.coverage)
    assert set(found.directories) == {b"", b"src", b"src/deep"}


def test_names_that_are_not_utf8_are_covered(repo: Repo) -> None:
    """CAP-11: they are like any other."""
    repo.write(b"odd/\xff", "x")
    repo.write(b"\xfe/x", "x")
    repo.write("é/x", "x")
    place = open_place(repo)
    found = walk(place.files, place.coverage)
    assert set(found.directories) == {b"", b"odd", b"\xfe", "é".encode()}
    assert {b"odd/\xff", b"\xfe/x", "é/x".encode()} <= set(found.files)


def test_excluded_items_carry_the_stat_of_their_path(repo: Repo) -> None:
    repo.write(".gitignore", "x\n")
    repo.write("x", "four")
    place = open_place(repo)
    (excluded, stat), *rest = walk(place.files, place.coverage).excluded
    assert (excluded.path, stat and stat.size, rest) == (b"x", 4, [])


def test_walk_of_one_directory_lists_one_directory_alone(repo: Repo) -> None:
    repo.write("src/deep/x", "x")
    place = open_place(repo)
    found = walk(place.files, place.coverage, directory=RepoPath(b"src"))
    assert set(found.files) == {b"src/deep/x"}
    assert found.directories == [b"src", b"src/deep"]


@pytest.mark.parametrize("directory", [b"gone", b"a", b"ignored/deep", b"vendor"])
def test_walk_of_one_directory_gives_nothing_when_the_directory_is_not_covered(
    repo: Repo, directory: bytes
) -> None:
    repo.write(".gitignore", "ignored/\n")
    repo.write("ignored/deep/x", "x")
    Repo.create(repo.root / "vendor", ("x",))
    place = open_place(repo)
    found = walk(place.files, place.coverage, directory=RepoPath(directory))
    assert (dict(found.files), found.directories) == ({}, [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads files whatever their mode")
def test_unreadable_directory_is_named_and_stops_nothing(repo: Repo) -> None:
    """CAP-20: the rest is walked."""
    repo.write("closed/x", "x")
    repo.write("open/x", "x")
    repo.chmod("closed", 0)
    place = open_place(repo)
    found = walk(place.files, place.coverage)
    repo.chmod("closed", 0o755)
    assert [path for path, _ in found.unreadable] == [b"closed"]
    assert [item.reason for item, _ in found.excluded] == ["unreadable"]
    assert b"open/x" in found.files


def test_depth_of_a_tree_is_no_limit(repo: Repo) -> None:
    levels = 400
    repo.write("d/" * levels + "x", "x")
    path = RepoPath(b"d/" * levels + b"x")
    place, fresh = open_place(repo), open_place(repo)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(levels)
    try:
        found = walk(place.files, place.coverage).files
        verdict = fresh.coverage.verdict(path, found[path])
    finally:
        sys.setrecursionlimit(limit)
    assert verdict is None
