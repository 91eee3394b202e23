"""File systems on which several spellings of a name are one file: one file, one history.

No file system of this kind is in every kernel, so the tests mount one of their own behind FUSE
(`fuse_server`), which folds names as vfat, APFS and HFS+ do.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.platform import current
from tests.support import audit
from tests.support.claude import Claude
from tests.support.mounts import APFS, VFAT, fuse
from tests.support.repo import Repo
from tests.support.shadow import Document, Shadow

_KINDS = {"vfat": VFAT, "apfs": APFS}


@pytest.fixture(params=_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of file system, for what differs between them."""
    return str(request.param)


@pytest.fixture
def folded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shadow]:
    """Return the command in a repository that folds names, as vfat does or as `kind` says."""
    asked = "kind" in request.fixturenames
    ways = _KINDS[request.getfixturevalue("kind") if asked else "vfat"]
    with fuse(tmp_path / "mount", *ways) as place:
        repo = Repo(place / "repo")
        repo.root.mkdir()
        repo.git("init", "-q", "-b", "main")
        repo.write("a.txt", "one\n")
        repo.write("dir/inner.txt", "inner\n")
        repo.commit("first")
        shadow = Shadow(repo, daemon=True)
        try:
            shadow.init()
            yield shadow
        finally:
            shadow.close()


def rows(shadow: Shadow) -> list[tuple[object, ...]]:
    """Return kind, path and old path of all rows, oldest first, without baselines."""
    found = reversed(shadow.log())
    return [
        (row["kind"], row["path"], row.get("old_path"))
        for row in found
        if row["kind"] != "baseline"
    ]


def changes(shadow: Shadow) -> list[tuple[object, ...]]:
    """Return rows without gaps: no watcher but that of Linux is in a new directory at once."""
    return [row for row in rows(shadow) if row[0] != "gap"]


def check(shadow: Shadow) -> None:
    """Check the journal and the refs; Git's own list of files has the spellings of its index."""
    shadow.settle()
    shadow.repo.check()
    audit.audit(shadow.repo)


def versions(shadow: Shadow, path: str) -> list[Document]:
    """Return what the rows of a path left there, oldest first."""
    found = [row["after"] for row in reversed(shadow.log(path))]
    return [one for one in found if isinstance(one, dict)]


def respell(shadow: Shadow, old: str, new: str) -> None:
    """Rename by case alone: Linux does it in two steps, of which the daemon sees the end."""
    daemons = shadow.daemons()
    for pid in daemons:
        os.kill(pid, signal.SIGSTOP)
    try:
        shadow.repo.rename(old, "between")
        shadow.repo.rename("between", new)
    finally:
        for pid in daemons:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.usefixtures("kind")
def test_write_by_another_spelling_is_one_of_the_file(folded: Shadow) -> None:
    folded.repo.write("A.TXT", "two\n")
    assert rows(folded) == [("modify", "a.txt", None)]
    assert folded.ok("log", "--json", "A.TXT").rows()[0]["path"] == "a.txt"
    check(folded)


@pytest.mark.usefixtures("kind")
def test_rename_by_case_is_undone_and_redone(folded: Shadow) -> None:
    repo = folded.repo
    respell(folded, "a.txt", "A.txt")
    assert changes(folded)[-1] == ("rename", "A.txt", "a.txt")
    folded.ok("undo", "--yes", "A.txt")
    assert "a.txt" in os.listdir(repo.root)
    assert repo.read("a.txt") == b"one\n"
    folded.ok("redo", "--yes")
    assert "A.txt" in os.listdir(repo.root)
    assert repo.read("A.txt") == b"one\n"
    check(folded)


@pytest.mark.usefixtures("kind")
def test_directory_renamed_by_case_is_undone_and_redone(folded: Shadow) -> None:
    repo = folded.repo
    respell(folded, "dir", "Dir")
    assert changes(folded)[-1] == ("rename", "Dir/inner.txt", "dir/inner.txt")
    repo.append("Dir/inner.txt", "more\n")
    assert changes(folded)[-1] == ("modify", "Dir/inner.txt", None)
    folded.ok("undo", "--yes", "Dir/inner.txt")
    assert sorted(os.listdir(repo.root)) == [".git", "a.txt", "dir"]
    assert repo.read("dir/inner.txt") == b"inner\n"
    folded.ok("redo", "--yes")
    assert sorted(os.listdir(repo.root)) == [".git", "Dir", "a.txt"]
    assert repo.read("Dir/inner.txt") == b"inner\nmore\n"
    check(folded)


def test_undo_keeps_a_directory_with_a_new_spelling_and_other_files(
    folded: Shadow,
) -> None:
    repo = folded.repo
    respell(folded, "dir", "Dir")
    folded.ok("flush")
    repo.write("Dir/mine.txt", "mine\n")
    done = folded("undo", "--yes", "Dir/inner.txt")
    assert done.code == 4
    assert "this file system has one file for this name and Dir" in done.out
    assert repo.read("Dir/mine.txt") == b"mine\n"
    assert repo.read("Dir/inner.txt") == b"inner\n"
    check(folded)


def test_undo_of_a_deletion_keeps_a_file_of_another_spelling(folded: Shadow) -> None:
    repo = folded.repo
    repo.delete("a.txt")
    folded.ok("flush")
    repo.write("A.txt", "mine\n")
    assert rows(folded)[-2:] == [
        ("delete", "a.txt", None),
        ("create", "A.txt", None),
    ]
    (deleted,) = [row for row in folded.log() if row["kind"] == "delete"]
    done = folded("undo", "--yes", str(deleted["seq"]))
    assert done.code == 4
    assert "this file system has one file for this name and A.txt" in done.out
    assert repo.read("A.txt") == b"mine\n"
    check(folded)


def test_directory_and_the_file_of_another_spelling_after_it_are_undone_together(
    folded: Shadow,
) -> None:
    repo = folded.repo
    repo.delete("dir/inner.txt")
    os.rmdir(repo.path("dir"))
    repo.write("Dir", "file\n")
    assert folded.oops()["status"] == "reversed"
    assert sorted(os.listdir(repo.root)) == [".git", "a.txt", "dir"]
    assert repo.read("dir/inner.txt") == b"inner\n"
    folded.ok("redo", "--yes")
    assert repo.read("Dir") == b"file\n"
    folded.ok("undo", "--yes")
    repo.delete("a.txt")
    repo.write("A.TXT/in", "in\n")
    assert folded.oops()["status"] == "reversed"
    assert sorted(os.listdir(repo.root)) == [".git", "a.txt", "dir"]
    assert repo.read("a.txt") == b"one\n"
    check(folded)


def test_hook_that_spells_a_path_otherwise_claims_the_file(folded: Shadow) -> None:
    repo = folded.repo
    claude = Claude(folded)
    claude.start()
    claude.write("A.TXT", "agent\n")
    (row,) = [row for row in folded.log() if row["kind"] == "modify"]
    assert row["path"] == "a.txt"
    assert row["session"] is not None
    assert folded.oops()["status"] == "reversed"
    assert repo.read("a.txt") == b"one\n"
    check(folded)


def test_write_in_the_same_step_of_a_coarse_clock_is_recorded(folded: Shadow) -> None:
    repo = folded.repo
    found = []
    for text in ("aaa\n", "bbb\n", "ccc\n"):
        repo.write("a.txt", text)
        folded.ok("flush")
        found.append(repo.blob("a.txt"))
    oids = [version["oid"] for version in versions(folded, "a.txt")]
    assert oids[-3:] == found
    check(folded)


def test_two_names_of_a_commit_that_are_one_file_are_reported(folded: Shadow) -> None:
    repo = folded.repo
    other = repo.git("hash-object", "-w", "--stdin", stdin=b"other\n")
    repo.git("config", "core.ignoreCase", "false")
    repo.git("update-index", "--add", "--cacheinfo", f"100644,{other},A.TXT")
    repo.git("commit", "-q", "-m", "two names")
    repo.git("config", "core.ignoreCase", "true")
    repo.git("checkout", "-q", "HEAD~1", check=False)
    repo.git("checkout", "-q", "main", check=False)
    said = "1 file here for several names of the last commit: A.TXT and a.txt"
    assert said in folded("doctor").out
    assert said in folded.ok("status").out
    (name,) = [one for one in os.listdir(repo.root) if one.lower() == "a.txt"]
    kept = repo.read(name)
    repo.write(name, "changed\n")
    folded.ok("undo", "--yes", name)
    assert repo.read(name) == kept
    check(folded)


def test_two_names_that_are_two_files_are_not_reported(tmp_path: Path) -> None:
    """Another file system, mounted below, folds its names; or a single directory does."""
    repo = Repo.create(tmp_path / "repo", ["a"])
    repo.write("A", "other\n")
    repo.commit("two files")
    with fuse(repo.root / "mount", *_KINDS["vfat"]) as place:
        (place / "x").write_text("x")
        shadow = Shadow(repo, daemon=False)
        shadow.init()
        (place / "x").write_text("looked at again")
        out = shadow("doctor").out
        assert "names that differ only by case or Unicode form are one file" in out
        assert "several names" not in out


def test_doctor_says_what_is_different_here(folded: Shadow) -> None:
    out = folded("doctor").out
    assert "names that differ only by case or Unicode form are one file" in out
    kind = current().machine_facts().shared_file_system(str(folded.repo.root))
    assert ("all files are scanned for changes" in out) is (kind is not None)


def test_ignore_rules_match_any_case_as_those_of_git(folded: Shadow) -> None:
    repo = folded.repo
    repo.write(".gitignore", "*.LOG\nBuild/\n")
    repo.write("x.log", "1\n")
    repo.write("build/out", "1\n")
    repo.write("kept", "1\n")
    assert [row[1] for row in rows(folded)] == [".gitignore", "kept"]
    check(folded)


@pytest.mark.usefixtures("kind")
def test_file_replaced_by_another_spelling_is_one_change(folded: Shadow) -> None:
    repo = folded.repo
    repo.write("between", "two\n")
    os.rename(repo.path("between"), repo.path("A.TXT"))
    (name,) = [one for one in os.listdir(repo.root) if one.lower() == "a.txt"]
    kind, old = ("modify", None) if name == "a.txt" else ("rename", "a.txt")
    assert [row for row in rows(folded) if row[1] != "between"] == [(kind, name, old)]
    folded.ok("undo", "--yes", name)
    assert "a.txt" in os.listdir(repo.root)
    assert repo.read("a.txt") == b"one\n"
    folded.ok("redo", "--yes")
    assert name in os.listdir(repo.root)
    assert repo.read(name) == b"two\n"
    check(folded)


def test_root_may_be_spelled_otherwise_in_a_hook(folded: Shadow) -> None:
    claude = Claude(folded)
    claude.start()
    other = str(folded.repo.root).replace("/repo", "/REPO")
    call = claude.pre("Write", {"file_path": f"{other}/A.TXT", "content": "agent\n"})
    folded.repo.write("a.txt", "agent\n")
    claude.post(call)
    (row,) = [row for row in folded.log() if row["kind"] == "modify"]
    assert (row["path"], row["call"]) == ("a.txt", call)
    # The file system has a coarse clock: in doubt the call was open at about that time.
    assert row["confidence"] in ("certain", "high")
    assert "names the path" in str(row["reason"])


def test_root_may_be_spelled_otherwise_in_a_command(folded: Shadow) -> None:
    repo = folded.repo
    other = str(repo.root).replace("/repo", "/REPO")
    repo.write("a.txt", "two\n")
    (row,) = folded.ok("log", "--json", f"{other}/A.TXT", cwd=other).rows()
    assert (row["kind"], row["path"]) == ("modify", "a.txt")
    folded.ok("undo", "--yes", f"{other}/a.txt")
    assert repo.read("a.txt") == b"one\n"
    check(folded)
