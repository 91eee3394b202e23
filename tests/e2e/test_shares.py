"""File systems to which others write: what comes without an event is found by scans."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mounts import SHARE, fuse
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import until


@pytest.fixture
def share(tmp_path: Path) -> Iterator[tuple[Shadow, Repo]]:
    """Return the command in a repository on a share, and the same one as its server has it."""
    with fuse(tmp_path / "mount", *SHARE) as place:
        repo = Repo(place / "repo")
        repo.root.mkdir()
        repo.git("init", "-q", "-b", "main")
        repo.write("a", "one\n")
        repo.write("dir/b", "one\n")
        repo.commit("first")
        shadow = Shadow(repo, daemon=True)
        try:
            shadow.init()
            yield shadow, Repo(place.parent / "source" / "repo")
        finally:
            shadow.close()


def changed(shadow: Shadow) -> set[tuple[object, object]]:
    """Return kind and path of all rows, without baselines."""
    return {
        (row["kind"], row["path"])
        for row in shadow.log()
        if row["kind"] not in ("baseline", "gap")
    }


def test_writes_of_another_machine_are_found_by_the_next_command(
    share: tuple[Shadow, Repo],
) -> None:
    shadow, elsewhere = share
    elsewhere.write("a", "two\n")
    elsewhere.write("dir/new", "new\n")
    elsewhere.delete("dir/b")
    expected = {("modify", "a"), ("create", "dir/new"), ("delete", "dir/b")}
    assert changed(shadow) == expected
    shadow.ok("undo", "--yes", "a")
    assert elsewhere.read("a") == b"one\n"
    shadow.verify()


def test_writes_of_another_machine_are_found_without_a_command(
    share: tuple[Shadow, Repo],
) -> None:
    shadow, elsewhere = share
    elsewhere.write("a", "two\n")
    blob = elsewhere.blob("a")
    objects = elsewhere.git_dir / "objects" / blob[:2] / blob[2:]
    until(objects.exists)
    shadow.verify()


def test_status_and_doctor_say_that_all_is_scanned(share: tuple[Shadow, Repo]) -> None:
    shadow, _ = share
    assert "others may write to this file system (fuse.sshfs)" in shadow("status").out
    lines = shadow("doctor").out.splitlines()
    (line,) = [one for one in lines if "fuse.sshfs: other machines" in one]
    assert "all files are scanned for changes" in line
