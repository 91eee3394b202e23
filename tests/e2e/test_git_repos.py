"""GIT: repositories of every shape: unborn, nested, linked, sparse, shallow, partial."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.repo import Repo, ten_lines
from tests.support.reports import hints, uncovered
from tests.support.shadow import Document, Shadow

MakeShadow = Callable[..., Shadow]


@pytest.fixture(params=["daemon", "nodaemon"])
def start(request: pytest.FixtureRequest, make_shadow: MakeShadow) -> MakeShadow:
    """Return a function that does `init` in a repository, with and without the daemon."""

    def started(repo: Repo) -> Shadow:
        shadow = make_shadow(repo, daemon=request.param == "daemon")
        shadow.init()
        return shadow

    return started


def taken_back(report: Document) -> None:
    assert report["status"] == "reversed", report


def covers(shadow: Shadow) -> dict[str, str]:
    """Return what `status` says is not covered, and why."""
    coverage = shadow.status()["coverage"]
    assert isinstance(coverage, dict)
    return {str(item["path"]): str(item["reason"]) for item in coverage["excluded"]}


def write_and_take_back(shadow: Shadow) -> None:
    """Do W(a) and `oops`; nothing else of the repository changes."""
    repo = shadow.repo
    with kept(repo, "a"):
        Claude(shadow).write("a", "agent\n")
        assert [row["kind"] for row in shadow.log()] == ["modify"]
        taken_back(shadow.oops())
    assert repo.read("a") == ten_lines("a").encode()


def test_unborn_branch_is_recorded_and_stays_unborn(
    start: MakeShadow, make_repo: Callable[..., Repo]
) -> None:
    """GIT-05: two turns on an unborn branch: one burst back, then `a` absent."""
    repo = make_repo("unborn", files=())
    shadow = start(repo)
    agent = Claude(shadow)
    with kept(repo, "a"):
        for text in ("first\n", "second\n"):
            agent.prompt(text)
            agent.write("a", text)
            agent.stop()
        taken_back(shadow.oops())
        assert repo.read("a") == b"first\n"
        taken_back(shadow.oops())
        assert not repo.exists("a")
    assert repo.git("rev-parse", "--verify", "--quiet", "HEAD", check=False) == ""
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"


def test_repositories_inside_are_another_repository(
    start: MakeShadow, make_repo: Callable[..., Repo]
) -> None:
    """GIT-07: a submodule and nested repositories are named and never entered."""
    repo, library = make_repo(), make_repo("library", files=("x",))
    allowed = ("-c", "protocol.file.allow=always")
    repo.git(*allowed, "submodule", "--quiet", "add", str(library.root), "sub")
    repo.commit("with a submodule")
    make_repo("repo/nested", files=("x",))
    empty = make_repo("repo/empty", files=())
    empty.write("x", "x\n")
    shadow = start(repo)
    agent = Claude(shadow)
    inner = ("sub/x", "nested/x", "empty/x")
    gits = repo.tree_snapshot(exclude=["a", *inner])
    with kept(repo, "a", *inner):
        agent.prompt("go")
        agent.write("a", "agent\n")
        for path in inner:
            agent.write(path, "agent\n")
        agent.stop()
        assert {row["path"] for row in shadow.log()} == {"a"}
        result = shadow("oops", "--yes", "--json")
    report = result.json()
    assert (result.code, report["status"]) == (0, "reversed")
    assert repo.read("a") == ten_lines("a").encode()
    assert [repo.read(path) for path in inner] == [b"agent\n"] * 3
    assert repo.tree_snapshot(exclude=["a", *inner]) == gits
    named = uncovered(report)
    for path, top in zip(inner, ("sub", "nested", "empty"), strict=True):
        assert {named.get(path), named.get(top)} & {"another repository", "submodule"}
    assert covers(shadow) == {
        "sub": "submodule",
        "nested": "another repository",
        "empty": "another repository",
    }
    assert repo.git("ls-tree", "HEAD", "sub").startswith("160000 commit")


def test_directory_that_becomes_a_repository_leaves_coverage(agent: Claude) -> None:
    """GIT-08: after `git init vendor` its paths leave by a coverage row, nothing is deleted."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.write("vendor/x", "old\n")
    repo.write("vendor/y", "y\n")
    shadow.ok("flush")
    agent.prompt("go")
    agent.shell("git init -q vendor")
    agent.write("vendor/x", "agent\n")
    agent.write("a", "agent\n")
    agent.stop()
    rows = shadow.log()
    left = {row["path"]: row["kind"] for row in rows if row["after"] is None}
    assert left == {"vendor/x": "coverage", "vendor/y": "coverage"}
    assert "delete" not in {row["kind"] for row in rows}
    with kept(repo, "a"):
        report = shadow.oops()
    assert report["status"] == "reversed"
    assert (repo.read("vendor/x"), repo.read("vendor/y")) == (b"agent\n", b"y\n")
    assert repo.read("a") == ten_lines("a").encode()
    assert "another repository" in uncovered(report).values()
    (hint,) = hints(report).values()
    assert hint.endswith(": git -C vendor agent-undo init")
    assert covers(shadow) == {"vendor": "another repository"}


def test_linked_worktrees_do_not_mix(
    repo: Repo, start: MakeShadow, tmp_path: Path
) -> None:
    """GIT-09: oops in one worktree leaves the other alone; a removed one stays readable."""
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Repo(tmp_path / "linked")
    first, second = start(repo), start(linked)
    Claude(first, session="one").write("a", "first\n")
    Claude(second, session="two").write("a", "second\n")
    first.ok("flush")
    with kept(repo), kept(linked, "a"):
        taken_back(second.oops())
    assert repo.read("a") == b"first\n"
    assert linked.read("a") == ten_lines("a").encode()
    rows = second.ok("sessions", "--json").rows()
    assert {(row["native_id"], row["worktree"]) for row in rows if row["agent"]} == {
        ("one", "main"),
        ("two", "linked"),
    }
    (written,) = [row for row in second.log() if row["kind"] == "modify"]
    seq = str(written["seq"])
    repo.git("worktree", "remove", "--force", str(linked.root))
    assert not linked.root.exists()
    theirs = first.ok("log", "--json", "--session", "two").rows()
    assert seq in [str(row["seq"]) for row in theirs]
    assert first.ok("cat", "a", "--at", seq).raw == b"second\n"
    Claude(first, session="one").write("b", "first\n")
    with kept(repo, "a", "b"):
        taken_back(first.oops())
    assert repo.read("b") == ten_lines("b").encode()


def test_sparse_paths_are_no_deletions(start: MakeShadow, repo: Repo) -> None:
    """GIT-10: what a cone-mode sparse checkout leaves out is not in the journal."""
    for path in ("in/x", "out/y", "out/deep/z"):
        repo.write(path, ten_lines(path))
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert not repo.exists("out")
    shadow = start(repo)
    assert shadow.log() == []
    shadow.ok("status")
    write_and_take_back(shadow)
    rows = shadow.ok("log", "--json", "--all").rows()
    assert not [row for row in rows if str(row["path"]).startswith("out")]
    for tip in repo.shadow_refs():
        assert repo.git("diff", "--name-only", "HEAD", tip, "--", "in", "out") == ""


def test_directory_made_in_what_a_sparse_checkout_leaves_out_goes(
    start: MakeShadow, repo: Repo
) -> None:
    """The agent made it for its file; one with a file in it was there before."""
    for path in ("in/x", "out/y", "out/deep/z", "shown/deep/w"):
        repo.write(path, ten_lines(path))
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--no-cone", "/*", "!/out/", "!/shown/deep/")
    assert (repo.exists("out"), repo.exists("shown")) == (False, False)
    repo.write("shown/mine", "mine\n")
    shadow = start(repo)
    agent = Claude(shadow)
    agent.prompt("write")
    for path in ("out/deep/n", "shown/deep/n"):
        agent.write(path, "agent\n")
    assert shadow.oops()["status"] == "reversed"
    assert not repo.exists("out")
    assert os.listdir(repo.path("shown")) == [b"mine"]
    agent.write("out/deep/n", "agent\n")
    shadow.ok("flush")
    repo.write("out/mine", "mine\n")
    shadow.ok("flush")
    repo.delete("out/mine")
    shadow.oops()
    assert repo.exists("out")
    assert not repo.exists("out/deep")


def test_a_left_out_file_that_a_person_writes_and_deletes_is_no_longer_recorded(
    start: MakeShadow, repo: Repo
) -> None:
    """What is recorded of it would be what was there before the deletion."""
    for path in ("in/x", "out/y"):
        repo.write(path, ten_lines(path))
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "in")
    shadow = start(repo)
    repo.write("out/y", "mine\n")
    shadow.ok("flush")
    repo.delete("out/y")
    shadow.ok("flush")
    newest = shadow.log("--", "out/y")[0]
    assert (newest["kind"], newest["after"]) == ("coverage", None)
    shadow.verify()
    repo.write("out/y", "mine again\n")
    shadow.ok("flush")
    assert shadow.ok("cat", "out/y").out == "mine again\n"


def test_a_left_out_file_that_an_agent_writes_goes_back_to_what_git_has(
    start: MakeShadow, repo: Repo
) -> None:
    """Nobody had it on the disk, so what it was is what Git has of it."""
    for path in ("in/x", "out/y", "out/z"):
        repo.write(path, ten_lines(path))
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "in")
    shadow = start(repo)
    agent = Claude(shadow)
    agent.prompt("write")
    agent.write("out/y", "agent\n")
    agent.shell("echo agent > out/z; git status --short")
    found = {str(row["path"]): row for row in shadow.log()}
    for path, sure in (("out/y", "certain"), ("out/z", "medium")):
        row = found.pop(path)
        assert (row["kind"], row["agent"], row["confidence"]) == (
            "modify",
            "claude-code",
            sure,
        )
    assert not found
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("out/y") == ten_lines("out/y").encode()
    assert repo.read("out/z") == ten_lines("out/z").encode()
    assert repo.git("status", "--short") == ""
    shadow.verify()
    assert shadow.ok("redo", "--yes", "--json").json()["status"] == "reversed"
    assert repo.read("out/y") == b"agent\n"


def test_a_left_out_file_is_that_of_the_branch_that_git_switched_to(
    start: MakeShadow, repo: Repo
) -> None:
    """Git writes nothing there, and has another content of it all the same."""
    for path in ("in/x", "out/y"):
        repo.write(path, ten_lines(path))
    repo.commit("more")
    repo.git("switch", "-qc", "other")
    repo.write("out/y", "of the other\n")
    repo.commit("other")
    repo.git("switch", "-q", "-")
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    shadow = start(repo)
    repo.git("switch", "-q", "other")
    agent = Claude(shadow)
    agent.prompt("write")
    agent.write("out/y", "agent\n")
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("out/y") == b"of the other\n"
    shadow.verify()


def test_what_git_brings_back_into_a_sparse_checkout_is_nobodys(
    start: MakeShadow, repo: Repo
) -> None:
    """Git's index says that Git wrote it, whatever a filter made of its bytes."""
    repo.git("config", "filter.rot.clean", "tr a-z n-za-m")
    repo.git("config", "filter.rot.smudge", "tr a-z n-za-m")
    repo.write(".gitattributes", "out/* filter=rot\n")
    for path in ("in/x", "out/y"):
        repo.write(path, ten_lines(path))
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "in")
    shadow = start(repo)
    agent = Claude(shadow)
    agent.prompt("show more")
    agent.shell("git sparse-checkout add out")
    assert [row for row in shadow.log() if row["kind"] != "coverage"] == []
    assert shadow.oops()["status"] == "nothing_to_do"
    assert repo.read("out/y") == ten_lines("out/y").encode()


def test_separate_git_dir_works(start: MakeShadow, repo: Repo, tmp_path: Path) -> None:
    """GIT-12: `.git` is a file that names a directory elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    repo.git("init", "-q", f"--separate-git-dir={elsewhere}")
    assert (repo.root / ".git").is_file()
    write_and_take_back(start(repo))
    assert (elsewhere / "agent-undo" / "journal.db").exists()


def cloned(repo: Repo, target: Path, *options: str) -> Repo:
    """Clone a repository whose history has an older version of `a`; then it is gone."""
    repo.git("config", "uploadpack.allowFilter", "true")
    old = repo.read("a")
    repo.write("a", "an older version\n")
    repo.commit("older")
    repo.write("a", old)
    repo.commit("newest")
    repo.git("clone", "-q", *options, f"file://{repo.root}", str(target))
    shutil.rmtree(repo.root)
    return Repo(target)


def test_shallow_clone_works_without_its_remote(
    start: MakeShadow, repo: Repo, tmp_path: Path
) -> None:
    """GIT-12: a clone of depth 1 whose remote is gone."""
    clone = cloned(repo, tmp_path / "clone", "--depth=1")
    assert clone.git("rev-list", "--count", "HEAD") == "1"
    write_and_take_back(start(clone))


def test_partial_clone_works_without_its_remote(
    start: MakeShadow, repo: Repo, tmp_path: Path
) -> None:
    """GIT-12: a blobless clone whose remote is gone; nothing is fetched."""
    clone = cloned(repo, tmp_path / "clone", "--filter=blob:none")
    missing = clone.git("rev-list", "--objects", "--missing=print", "HEAD")
    assert missing.count("?") == 1
    write_and_take_back(start(clone))
    clone.fsck()
    clone.check_litter()
    clone.damaged = (
        True  # the checks list all objects, and one of the user's is not here
    )
