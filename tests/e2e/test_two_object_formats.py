"""Repositories in which Git keeps a second id of each object: `extensions.compatObjectFormat`."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.newer_git import need_two_formats
from tests.support.packed import Shelf
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Shadow

PAIRS = {"sha256": "sha1", "sha1": "sha256"}
MANY = 80


def in_two_formats(repo: Repo, second: str) -> None:
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.compatObjectFormat", second)


@pytest.fixture(params=sorted(PAIRS))
def first(request: pytest.FixtureRequest) -> str:
    """Return the format in which a repository stores its objects."""
    name: str = request.param
    return name


@pytest.fixture
def own_path(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let all that a test starts use a git that keeps second ids; return the PATH before."""
    with monkeypatch.context() as patch:
        before = os.environ["PATH"]
        need_two_formats(patch, sealed)
        yield before


@pytest.fixture
def repo(tmp_path: Path, first: str, own_path: str) -> Repo:
    """Return a repository like R in which each object has a second id."""
    repo = Repo(tmp_path / "repo")
    repo.root.mkdir()
    repo.git("init", "-q", "-b", "main", f"--object-format={first}")
    in_two_formats(repo, PAIRS[first])
    for name in "abc":
        repo.write(name, ten_lines(name))
    repo.commit("first")
    return repo


def without_second(repo: Repo) -> list[str]:
    """Return all objects that have no second id, with their kinds."""
    found = repo.git("cat-file", "--batch-all-objects", "--batch-check")
    second = PAIRS[repo.object_format.name]
    how = ("rev-parse", f"--output-object-format={second}", "--verify", "--quiet")
    rows = (line.split() for line in found.splitlines())
    return [
        f"{kind} {oid}" for oid, kind, _ in rows if not repo.git(*how, oid, check=False)
    ]


def commits(repo: Repo, *paths: str) -> None:
    """Check that a person can commit these files, and find the commit by its second id."""
    repo.git("add", "--", *paths)
    repo.git("commit", "-qm", f"the user's own of {' '.join(paths)}", "--", *paths)
    second = PAIRS[repo.object_format.name]
    other = repo.git("rev-parse", f"--output-object-format={second}", "HEAD")
    assert "the user's own" in repo.git("cat-file", "commit", other)


@pytest.mark.both_modes
def test_a_person_commits_what_was_recorded(shadow: Shadow, agent: Claude) -> None:
    """Git finds our blob and our trees in their place, and writes none of its own."""
    repo = shadow.repo
    agent.prompt("write")
    agent.write("a", "of the agent\n")
    agent.write("deep/in/new", "new\n")
    agent.stop()
    repo.write("b", "of the person\n")
    shadow.ok("flush")
    assert without_second(repo) == []
    commits(repo, "a", "b", "deep/in/new")
    assert without_second(repo) == []
    shadow.ok("flush")
    shadow.verify()
    with kept(repo, "a", "deep"):
        assert shadow.ok("oops", "--yes", "--json").json()["status"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()
    commits(repo, "a")
    shadow.ok("blame", "b")
    shadow.ok("doctor")


def test_many_writes_are_packed_by_git_alone(shadow_d: Shadow, first: str) -> None:
    """No pack of ours hides an object from Git's own list of ids, before and after its packing."""
    shadow, repo = shadow_d, shadow_d.repo
    agent = Claude(shadow)
    agent.prompt("many")
    files = " ".join(f"many/{number}" for number in range(MANY))
    agent.shell(f"mkdir many; for one in {files}; do echo $one >$one; done")
    agent.stop()
    assert len(shadow.log("--all")) >= MANY
    # The daemon may have packed what is stored; a new object in a pack would have no second id.
    assert without_second(repo) == []
    shelf = Shelf(repo)
    shelf.pack()
    assert shelf.names()
    assert without_second(repo) == []
    for command in (("gc", "-q"), ("repack", "-adfq"), ("gc", "-q", "--prune=now")):
        repo.git(*command)
        assert without_second(repo) == []
        repo.fsck()
    commits(repo, "many/3", "many/5")
    assert shadow.oops()["status"] == "reversed"
    assert not repo.exists("many")
    repo.write("many/3", "of the person\n")
    shadow.ok("flush")
    commits(repo, "many/3")
    shadow.verify()


def test_a_turn_is_staged_and_committed(shadow_d: Shadow) -> None:
    """`stage` and `commit` leave Git with both ids of what they make."""
    shadow, repo = shadow_d, shadow_d.repo
    agent = Claude(shadow)
    for name in "ab":
        agent.prompt(f"change {name}")
        agent.write(name, f"of the agent {name}\n")
        agent.stop()
    shadow.ok("stage", "t1", "--yes")
    assert repo.git("diff", "--cached", "--name-only") == "a"
    repo.git("commit", "-qm", "staged")
    shadow.ok("commit", "t2", "--yes")
    assert repo.git("status", "--porcelain") == ""
    assert without_second(repo) == []
    shadow.verify()


def test_a_repository_gets_second_ids_while_it_is_recorded(
    own_path: str, make_repo: Callable[..., Repo], make_shadow: Callable[..., Shadow]
) -> None:
    """What is written from then on has one, where all that it refers to has one."""
    repo = make_repo("later")
    shadow = make_shadow(repo)
    shadow.init()
    agent = Claude(shadow)
    agent.write("a", "before\n")
    shadow.ok("flush")
    in_two_formats(repo, PAIRS[repo.object_format.name])
    agent.write("b", "after\n")
    agent.write("new/deep", "after as well\n")
    shadow.ok("flush")
    lost = [row.split()[1] for row in without_second(repo)]
    for path in ("b", "new/deep"):
        assert repo.blob(path) not in lost
    tips = repo.shadow_refs().values()
    below = [repo.git("rev-parse", f"{tip}:new", check=False) for tip in tips]
    (made,) = {*filter(repo.object_format.is_oid, below)}
    assert made not in lost
    shadow.verify()
    repo.fsck()
    assert shadow.oops()["status"] == "reversed"
    assert not repo.exists("new")


def test_fetch_is_refused_for_git_gives_no_second_ids(
    shadow_d: Shadow, first: str, tmp_path: Path, make_shadow: Callable[..., Shadow]
) -> None:
    """`push` works: what it sends has its first ids."""
    shadow, repo = shadow_d, shadow_d.repo
    far, other = tmp_path / "far.git", Repo(tmp_path / "other")
    made = f"--object-format={first}"
    repo.git("init", "-q", "--bare", made, str(far))
    other.root.mkdir()
    other.git("init", "-q", made)
    theirs = make_shadow(other, daemon=False)
    theirs.init()
    for one in (theirs, shadow):
        agent = Claude(one)
        agent.prompt("write")
        agent.write("a", "of the agent\n")
        agent.stop()
        one.repo.git("remote", "add", "far", str(far))
        one.ok("push", "far")
    done = shadow("fetch", "far")
    assert done.code != 0
    (line,) = done.err.splitlines()
    assert "second ids" in line
    assert without_second(repo) == []


def test_a_lock_that_was_left_is_named(shadow_n: Shadow) -> None:
    """Git itself would wait for it without an end."""
    shadow, repo = shadow_n, shadow_n.repo
    lock = repo.common_dir / "objects" / "loose-object-idx.lock"
    lock.touch()
    repo.write("a", "changed\n")
    done = shadow("flush")
    assert (done.code != 0, str(lock) in done.err) == (True, True), done
    lock.unlink()
    shadow.ok("flush")
    assert "modify" in [row["kind"] for row in shadow.log()]
    assert without_second(repo) == []


def test_a_git_that_cannot_read_it_is_named_in_one_line(
    repo: Repo,
    own_path: str,
    make_shadow: Callable[..., Shadow],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A git without Rust, or an older one, opens no such repository."""
    with monkeypatch.context() as patch:
        patch.setenv("PATH", own_path)
        asked = ["git", "-C", str(repo.root), "status"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            pytest.skip("the machine's own git reads such repositories")
        done = make_shadow(repo, daemon=False)("init")
    assert done.code != 0
    error, hint = done.err.splitlines()
    assert error.startswith("error: could not open repository")
    assert "built with Rust" in hint
