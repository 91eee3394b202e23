"""Each kind of repository beside what Git does: maintenance, worktrees, clones, other kinds."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import kinds
from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.kinds import FILES, REFTABLE, Kind
from tests.support.packed import packs_of
from tests.support.repo import SHADOW_REFS, Repo, ten_lines
from tests.support.reports import uncovered
from tests.support.shadow import Shadow

pytestmark = pytest.mark.kinds

# In this order, each finds what the one before has left.
MAINTENANCE = (
    ("fsck", "--strict"),
    ("pack-refs", "--all"),
    ("repack", "-d", "-q"),
    ("multi-pack-index", "write"),
    ("commit-graph", "write", "--reachable"),
    ("maintenance", "run", "--quiet", "--task=loose-objects", "--task=commit-graph"),
    ("gc", "-q"),
    ("repack", "-adfq", "--write-bitmap-index"),
    ("reflog", "expire", "--expire=now", "--all"),
    ("gc", "-q", "--prune=now"),
    ("gc", "-q", "--aggressive", "--prune=now"),
    ("prune", "--expire=now"),
)


def goes_on(agent: Claude, *others: str) -> None:
    """Check that a turn is recorded and undone, and that Git finds nothing wrong.

    Args:
        agent: It writes `a`.
        others: Where other repositories are, which have daemons of their own.
    """
    shadow, repo = agent.shadow, agent.shadow.repo
    before = repo.read("a")
    with kept(repo, "a", *others):
        agent.prompt("go on")
        agent.write("a", before + b"more\n")
        agent.stop()
        (newest, *_) = shadow.log("--", "a")
        assert (newest["kind"], newest["agent"]) == ("modify", "claude-code")
        assert shadow.oops()["status"] == "reversed"
        assert repo.read("a") == before
    listed = repo.git("for-each-ref", "--format=%(objecttype)", SHADOW_REFS)
    assert {*listed.split()} == {"commit"}
    repo.fsck()


@pytest.fixture
def recorded(repo: Repo, make_shadow: Callable[..., Shadow]) -> Claude:
    """Return an agent after two turns that wrote `b`."""
    shadow = make_shadow(repo)
    shadow.init()
    agent = Claude(shadow)
    for text in ("one\n", "two\n"):
        agent.prompt(f"write {text}")
        agent.write("b", text)
        agent.stop()
    return agent


@pytest.fixture
def other_refs(repo_kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Return the kind of the same hash whose refs are stored otherwise.

    It comes before daemons, which need a git that knows both.
    """
    other = repo_kind._replace(refs=FILES if repo_kind.refs == REFTABLE else REFTABLE)
    able = [one for one in (repo_kind, other) if one.refs == REFTABLE]
    places = kinds.beginning(able[0])
    if places is None:
        pytest.skip(kinds.missing(able[0]))
    path = os.pathsep.join([*places, os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)
    return other


@pytest.fixture
def other_hash(repo_kind: Kind) -> Kind:
    """Return the kind that has the other hash."""
    return repo_kind._replace(hash="sha256" if repo_kind.hash == "sha1" else "sha1")


def of_kind(kind: Kind, root: Path, *words: str) -> Repo:
    """Run `git init` or `git clone` for a directory that becomes a repository of a kind."""
    variables = {**os.environ, **kind.variables}
    subprocess.run(["git", *words, str(root)], env=variables, check=True)
    made = Repo(root)
    refs = REFTABLE if (root / "reftable").exists() or made.has_reftables else FILES
    assert Kind(made.object_format.name, refs) == kind
    return made


def test_maintenance_by_git_loses_nothing(recorded: Claude) -> None:
    """KEEP-02: also with everything expired that is not reachable; older turns are undone."""
    shadow, repo = recorded.shadow, recorded.shadow.repo
    seq = str(next(row["seq"] for row in reversed(shadow.log("--", "b"))))
    for words in MAINTENANCE:
        repo.git(*words)
        goes_on(recorded)
    assert packs_of(repo) != []
    assert shadow.ok("cat", "b", "--at", seq).out == "one\n"
    shadow.ok("undo", "--yes", "s1")
    assert repo.read("b") == ten_lines("b").encode()
    shadow.verify()


def test_chains_are_where_git_has_refs(recorded: Claude, repo_kind: Kind) -> None:
    """Nothing of ours is written as another kind would have it, and no reflog."""
    repo = recorded.shadow.repo
    goes_on(recorded)
    recorded.shadow.ok("pin", "good")
    recorded.shadow.ok("flush")
    assert repo.has_reftables == (repo_kind.refs == REFTABLE)
    loose = [*(repo.git_dir / "refs").glob("agent-undo/**/*")]
    packed = repo.git_dir / "packed-refs"
    if repo_kind.refs == REFTABLE:
        assert loose == []
        assert not packed.exists()
        assert repo.git("refs", "verify") == ""
    for tip in repo.shadow_refs().values():
        assert len(tip) == repo_kind.object_format.digits
    assert not (repo.git_dir / "logs" / "refs" / "agent-undo").exists()


def test_linked_worktree_is_recorded_on_its_own(
    recorded: Claude, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    """GIT-09: also a detached one, after one of its commits, and when it is gone."""
    repo = recorded.shadow.repo
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = Repo(tmp_path / "linked")
    second = make_shadow(linked)
    second.init()
    agent = Claude(second, session="s2")
    files = repo.tree_snapshot()
    goes_on(agent)
    linked.git("switch", "-q", "-c", "side")
    linked.write("c", "committed\n")
    linked.commit("on the side")
    goes_on(agent)
    assert "head" in {row["kind"] for row in second.log()}
    assert repo.tree_snapshot() == files
    goes_on(recorded)
    for shadow in (second, recorded.shadow):
        shadow.repo.git("gc", "-q", "--prune=now")
        shadow.verify()
    second.ok("stop")
    repo.git("worktree", "remove", "--force", str(linked.root))
    goes_on(recorded)


def test_clone_is_recorded_and_objects_go_both_ways(
    other_refs: Kind,
    recorded: Claude,
    make_shadow: Callable[..., Shadow],
    tmp_path: Path,
) -> None:
    """Refs are stored otherwise there: pushed and fetched by Git, sessions by us."""
    shadow, repo = recorded.shadow, recorded.shadow.repo
    repo.commit("second")
    command = ("clone", "-q", "--bare", str(repo.root))
    server = of_kind(other_refs, tmp_path / "server", *command)
    clone = of_kind(other_refs, tmp_path / "clone", "clone", "-q", str(server.root))
    theirs = make_shadow(clone)
    theirs.init()
    agent = Claude(theirs, session="s2")
    goes_on(agent)
    agent.write("c", "theirs\n")
    clone.commit("third")
    clone.git("push", "-q", "origin", "main")
    theirs.ok("push", "origin")
    goes_on(agent)
    repo.git("remote", "add", "origin", str(server.root))
    repo.git("pull", "-q", "origin", "main")
    shadow.ok("push", "origin")
    shadow.ok("fetch", "origin")
    (line,) = shadow.ok("blame", "--json", "c").rows()
    assert (line["agent"], line["session"]) == (
        "claude-code",
        theirs.session("s2")["id"],
    )
    goes_on(recorded)
    server.git("fsck", "--strict")


def test_refs_that_git_migrates_are_found_where_they_are(
    other_refs: Kind, recorded: Claude, repo_kind: Kind
) -> None:
    """`git refs migrate`, beside the daemon, to the other format and back."""
    shadow, repo = recorded.shadow, recorded.shadow.repo
    refs = repo.shadow_refs()
    for to in (other_refs, repo_kind):
        repo.git("refs", "migrate", f"--ref-format={to.refs}")
        assert repo.has_reftables == (to.refs == REFTABLE)
        assert repo.shadow_refs().keys() >= refs.keys()
        goes_on(recorded)
    shadow.ok("undo", "--yes", "s1")
    assert repo.read("b") == ten_lines("b").encode()
    shadow.verify()


def test_bundle_holds_the_chains(
    recorded: Claude, repo_kind: Kind, tmp_path: Path
) -> None:
    """A clone of it has what Git copies; our refs can be fetched from it."""
    repo, bundle = recorded.shadow.repo, str(tmp_path / "bundle")
    recorded.shadow.ok("flush")
    refs = repo.shadow_refs()
    repo.git("bundle", "create", "-q", bundle, "--all")
    clone = of_kind(repo_kind, tmp_path / "clone", "clone", "-q", bundle)
    clone.git("fetch", "-q", bundle, f"+{SHADOW_REFS}*:{SHADOW_REFS}*")
    assert clone.shadow_refs() == refs
    clone.fsck()
    goes_on(recorded)


def test_mirror_is_of_the_same_hash_and_restored_into_other_refs(
    other_refs: Kind, recorded: Claude, tmp_path: Path
) -> None:
    """The repository is lost, and made again as another kind that has the same hash."""
    shadow, repo = recorded.shadow, recorded.shadow.repo
    repo.git("config", "agent-undo.mirror", str(tmp_path / "mirrors"))
    shadow.env["GITSHADOW_MIRROR"] = str(tmp_path / "mirrors")
    shadow.ok("mirror")
    (place,) = (tmp_path / "mirrors").iterdir()
    assert Repo(place).git("rev-parse", "--show-object-format") == other_refs.hash
    assert Repo(place).shadow_refs() == repo.shadow_refs()
    goes_on(recorded)
    shadow.ok("stop")
    repo.delete(".git")
    of_kind(other_refs, repo.root, "init", "-q", "-b", "main")
    shadow.ok("restore", "--from-mirror", "--yes")
    assert repo.read("b") == b"two\n"
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("b") == b"one\n"
    brought = repo.git("for-each-ref", "--format=delete %(refname)", "refs/remotes")
    assert "refs/remotes/agent-undo/mirror/main" in brought
    repo.git("update-ref", "--stdin", stdin=brought.encode() + b"\n")


def test_remote_of_another_hash_is_refused_in_one_line(
    recorded: Claude, other_hash: Kind, tmp_path: Path
) -> None:
    """Git cannot copy between them: nothing is sent, nothing is brought."""
    shadow, repo = recorded.shadow, recorded.shadow.repo
    server = of_kind(other_hash, tmp_path / "server", "init", "-q")
    server.write("a", "theirs\n")
    server.commit("first")
    server.git("update-ref", f"{SHADOW_REFS}claude-code-20260101-0a1b2c", "HEAD")
    theirs = server.git("for-each-ref")
    repo.git("remote", "add", "origin", str(server.root))
    shadow.ok("flush")
    with kept(repo):
        refs = repo.shadow_refs()
        for verb in ("push", "fetch"):
            refused = shadow(verb, "origin")
            assert refused.code == 1, refused
            assert re.fullmatch(rf"error: cannot run git {verb}: .*\n", refused.err)
            assert "algorithm" in refused.err
        assert repo.shadow_refs() == refs
    assert server.git("for-each-ref") == theirs
    goes_on(recorded)


def test_repository_of_another_kind_inside_is_another_repository(
    recorded: Claude, other_hash: Kind, make_shadow: Callable[..., Shadow]
) -> None:
    """GIT-07: neither is recorded by the other, and both are recorded."""
    repo = recorded.shadow.repo
    inner = of_kind(other_hash, repo.root / "inner", "init", "-q", "-b", "main")
    for path in ("a", "b"):
        inner.write(path, ten_lines(path))
    inner.commit("first")
    shadow = make_shadow(inner)
    shadow.init()
    agent = Claude(shadow, session="inner")
    goes_on(agent)
    recorded.prompt("write inside")
    recorded.write("inner/x", "x\n")
    recorded.write("c", "outside\n")
    recorded.stop()
    report = recorded.shadow.oops()
    assert report["status"] == "reversed"
    assert "another repository" in uncovered(report).values()
    assert (inner.read("x"), repo.read("c")) == (b"x\n", ten_lines("c").encode())
    assert "x" in {row["path"] for row in shadow.log()}
    goes_on(recorded, "inner")


def test_submodule_of_other_refs_is_a_submodule(
    other_refs: Kind,
    recorded: Claude,
    make_shadow: Callable[..., Shadow],
    make_repo: Callable[..., Repo],
) -> None:
    """GIT-07: of the same hash, as Git demands; recorded on its own."""
    repo, library = recorded.shadow.repo, make_repo("library", files=("a",))
    allowed = ("-c", "protocol.file.allow=always")
    command = ["git", *allowed, "submodule", "--quiet", "add", str(library.root), "sub"]
    variables = {**os.environ, **other_refs.variables}
    subprocess.run(command, cwd=repo.root, env=variables, check=True)
    repo.commit("with a submodule")
    inner = Repo(repo.root / "sub")
    assert inner.has_reftables == (other_refs.refs == REFTABLE)
    shadow = make_shadow(inner)
    shadow.init()
    goes_on(Claude(shadow, session="inner"))
    goes_on(recorded)
    coverage = recorded.shadow.status()["coverage"]
    assert isinstance(coverage, dict)
    assert {one["path"]: one["reason"] for one in coverage["excluded"]} == {
        "sub": "submodule"
    }
