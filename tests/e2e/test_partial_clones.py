"""Partial clones: nothing is fetched, and what is missing is said to be missing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.packed import packs_of
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Shadow

pytestmark = pytest.mark.kinds

FILTERS = ("blob:none", "tree:0")
# Each reads history, or all objects that there are.
LOOKS = (
    ("status",),
    ("log", "-p"),
    ("log", "--events", "--all"),
    ("show", "t1"),
    ("blame", "a"),
    ("diff",),
    ("doctor",),
    ("du",),
    ("verify",),
    ("report", "-o", "../report.html"),
    ("export", "--format", "jsonl"),
    ("stats",),
)


@pytest.fixture(params=FILTERS)
def clone(request: pytest.FixtureRequest, repo: Repo, tmp_path: Path) -> Repo:
    """Return a sparse partial clone of a history of three commits, with two branches."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    for text in ("older", "old"):
        repo.write("a", f"an {text} version\n")
        repo.write("out/deep/z", f"{text}\n")
        repo.write("out/y", f"{text}\n")
        repo.commit(text)
    repo.write("a", ten_lines("a"))
    repo.commit("newest")
    repo.git("branch", "other")
    made = Repo(tmp_path / "clone")
    url = f"file://{repo.root}"
    filtered = f"--filter={request.param}"
    repo.git("clone", "-q", "--sparse", filtered, url, str(made.root))
    assert made.exists("a")
    assert not made.exists("out")
    return made


@pytest.fixture
def fetched(clone: Repo, tmp_path: Path) -> Path:
    """Return a file that is there once something asked the remote for anything."""
    mark, program = tmp_path / "fetched", tmp_path / "upload-pack"
    program.write_text(
        f'#!/bin/sh\necho "$PPID" >>"{mark}"\nexec git-upload-pack "$@"\n'
    )
    program.chmod(0o755)
    clone.git("config", "remote.origin.uploadpack", str(program))
    return mark


def missing(repo: Repo) -> set[str]:
    """Return the objects of HEAD's history that are not here."""
    listed = repo.git("rev-list", "--objects", "--missing=print", "--all")
    return {row[1:] for row in listed.splitlines() if row.startswith("?")}


@pytest.mark.parametrize("daemon", [True, False])
@pytest.mark.sampled
def test_all_that_looks_at_history_fetches_nothing(
    clone: Repo, fetched: Path, make_shadow: Callable[..., Shadow], daemon: bool
) -> None:
    before = missing(clone)
    assert before
    shadow = make_shadow(clone, daemon=daemon)
    shadow.init()
    agent = Claude(shadow)
    with kept(clone, "a"):
        agent.prompt("write")
        agent.write("a", ten_lines("a") + "agent\n")
        agent.stop()
        for words in LOOKS:
            shadow.ok(*words)
        assert "agent" in shadow.ok("blame", "a").out
        shadow.ok("pack")
        (ours,) = packs_of(clone, ".keep")
        assert ours not in packs_of(clone, ".promisor")
        assert shadow.oops()["status"] == "reversed"
    assert clone.read("a") == ten_lines("a").encode()
    shadow.ok("reindex")
    shadow.ok("pack")
    assert not fetched.exists()
    assert missing(clone) == before
    clone.git("gc", "-q", "--prune=now")
    clone.fsck()
    shadow.ok("doctor")
    assert not fetched.exists()


@pytest.mark.sampled
def test_left_out_file_does_not_come_back_while_git_does_not_have_it(
    clone: Repo, fetched: Path, make_shadow: Callable[..., Shadow]
) -> None:
    """What it was before is said to be missing, and the file stays as the agent left it."""
    shadow = make_shadow(clone)
    shadow.init()
    agent = Claude(shadow)
    agent.prompt("write")
    agent.write("out/y", "agent\n")
    agent.write("a", "agent\n")
    agent.stop()
    lost = clone.git("rev-parse", "HEAD:out/y")
    done = shadow("cat", "out/y", "--at", "t1^")
    assert (done.code, done.raw) == (1, b"")
    assert done.err == f"error: could not read object {lost}: it is missing\n"
    for words in (("diff", "t1"), ("show", "t1"), ("log", "-p")):
        assert "content is missing from the object store" in shadow.ok(*words).out
    report = shadow("oops", "--yes", "--json").json()
    assert report["status"] == "partial"
    items = report["items"]
    assert isinstance(items, list)
    (left,) = [item for item in items if item["state"] != "reversed"]
    assert left["path"] == "out/y"
    assert "is missing" in left["detail"]
    assert (clone.read("out/y"), clone.read("a")) == (
        b"agent\n",
        ten_lines("a").encode(),
    )
    shadow.ok("pack")
    shadow.ok("doctor")
    clone.fsck()
    assert not fetched.exists()


@pytest.mark.sampled
def test_history_goes_on_where_the_users_commits_are_gone(
    clone: Repo, fetched: Path, make_shadow: Callable[..., Shadow]
) -> None:
    """The trees of the recorded commits then name objects that nothing else here names."""
    shadow = make_shadow(clone)
    shadow.init()
    agent = Claude(shadow)
    agent.prompt("write")
    agent.write("a", "agent\n")
    agent.stop()
    shadow.ok("flush")
    clone.git("checkout", "-q", "--orphan", "fresh")
    clone.git("commit", "-qm", "fresh")
    for ref in clone.git("for-each-ref", "--format=%(refname)").splitlines():
        if ref.startswith(("refs/heads/main", "refs/remotes/")):
            clone.git("update-ref", "--no-deref", "-d", ref)
    clone.git("reflog", "expire", "--expire=now", "--all")
    # Git itself fetched to switch and to commit.
    fetched.unlink(missing_ok=True)
    agent.prompt("again")
    agent.write("a", "agent again\n")
    agent.stop()
    for _ in range(2):
        shadow.ok("pack")
        shadow.ok("doctor")
        clone.git("gc", "-q", "--prune=now")
    ours = packs_of(clone, ".keep")
    assert ours
    assert not {*ours} & {*packs_of(clone, ".promisor")}
    shadow.ok("doctor", "--fix")
    shadow.ok("prune", "--older-than", "1d", "--yes")
    assert shadow.oops()["status"] == "reversed"
    assert clone.read("a") == b"agent\n"
    clone.fsck()
    assert not fetched.exists()


@pytest.mark.sampled
def test_a_head_without_its_tree_is_a_gap_and_never_a_guess(
    clone: Repo, repo: Repo, fetched: Path, make_shadow: Callable[..., Shadow]
) -> None:
    """`reset --soft` needs no tree, so a clone without trees does not have that of its HEAD."""
    shadow = make_shadow(clone)
    shadow.init()
    repo.write("out/y", "of the remote\n")
    repo.write("c", "of the remote\n")
    repo.commit("remote")
    clone.git("fetch", "-q")
    clone.git("reset", "-q", "--soft", "origin/main")
    fetched.unlink()
    is_here = missing(clone).isdisjoint([clone.git("log", "-1", "--format=%T")])
    before = clone.read("a")
    agent = Claude(shadow)
    agent.prompt("write")
    agent.write("a", "agent\n")
    agent.stop()
    assert shadow("flush").code == (0 if is_here else 1)
    assert not fetched.exists()
    clone.git("ls-tree", "HEAD")  # as any look of the user's at it
    fetched.unlink(missing_ok=True)
    shadow.ok("flush")
    found = [row for row in shadow.log("--", "a") if row["kind"] == "modify"]
    assert len(found) == 1
    if is_here:
        assert shadow.oops()["status"] == "reversed"
        assert clone.read("a") == before
    assert not fetched.exists()


@pytest.mark.sampled
def test_purge_says_which_commits_hold_a_content_without_the_others(
    clone: Repo, fetched: Path, make_shadow: Callable[..., Shadow]
) -> None:
    """To find them, Git compares trees; where those are missing, the newest commit is named."""
    shadow = make_shadow(clone)
    shadow.init()
    agent = Claude(shadow)
    agent.prompt("write")
    agent.write("b", clone.read("a"))
    agent.stop()
    shadow.ok("flush")
    blob = clone.blob("b")
    said = shadow.ok("purge", "b", "--yes").out
    assert not fetched.exists()
    assert clone.git("rev-parse", "--short=7", "HEAD") in said
    for tip in clone.shadow_refs().values():
        assert blob not in clone.git("ls-tree", tip, "b")
    clone.write("b", "of the person\n")
    shadow.ok("flush")
    shadow.ok("doctor")
    clone.fsck()
    assert not fetched.exists()


def test_a_clone_without_trees_is_told_how_to_fetch_them(
    repo: Repo, tmp_path: Path, make_shadow: Callable[..., Shadow]
) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    repo.write("a", "1\n")
    repo.commit("first")
    made = Repo(tmp_path / "clone")
    how = ("--filter=tree:0", "--no-checkout")
    repo.git("clone", "-q", *how, f"file://{repo.root}", str(made.root))
    shadow = make_shadow(made)
    done = shadow("init")
    assert (done.code, "this fetches it: git status" in done.err) == (1, True), done
    made.git("status")
    shadow.init()
