"""`git bisect run` over a session's chain, as docs/blame.md says, with a real agent's hooks."""

import pytest

from tests.support.blaming import Scene
from tests.support.repo import Repo
from tests.support.shadow import Document, Shadow

STEPS = 7


@pytest.fixture
def scene(shadow_n: Shadow) -> Scene:
    """Return R, recorded without a daemon."""
    return Scene(shadow_n)


def work(scene: Scene, bad: int) -> None:
    """Have an agent take as many steps, of which one breaks `b`; a person writes meanwhile."""
    agent = scene.agent("S1")
    lines = scene.shadow.repo.read("b").decode().splitlines()
    for step in range(STEPS):
        agent.prompt(f"do step {step}")
        if step == bad:
            lines[3] = "broken"
            agent.write("b", "".join(f"{line}\n" for line in lines))
        else:
            agent.write(f"new{step}", f"step {step}\n")
        agent.stop()
        scene.shadow.repo.append("c", f"by hand after step {step}\n")


def first_bad(scene: Scene, script: str) -> str:
    """Run the commands of docs/blame.md; return the first bad commit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITSHADOW_ENABLED", "false")
        return bisected(scene.shadow.repo, script)


def bisected(repo: Repo, script: str) -> str:
    ref = repo.git("for-each-ref", "--format=%(refname)", "refs/agent-undo/c*")
    good = repo.git(
        "log", "-1", "--format=%H", "--grep=^Agent-Undo-Kind: baseline$", ref
    )
    there = str(repo.root.parent / "bisect")
    repo.git("worktree", "add", "-q", "--detach", there, ref)
    repo.git("-C", there, "bisect", "start", ref, good)
    repo.git("-C", there, "bisect", "run", "sh", "-c", script)
    bad = repo.git("-C", there, "rev-parse", "refs/bisect/bad")
    repo.git("worktree", "remove", "--force", there)
    return bad


def events_in(document: Document) -> list[Document]:
    found = document["events"]
    assert isinstance(found, list)
    return found


def shown(scene: Scene, typed: str) -> Document:
    return scene.shadow.ok("show", "--json", typed).json()


@pytest.mark.parametrize("hooked", [False, True])
def test_bisect_finds_the_write_and_leaves_everything_alone(
    scene: Scene, hooked: bool
) -> None:
    repo = scene.shadow.repo
    if hooked:
        scene.shadow.ok("hooks", "install", "git", "--yes")
    work(scene, bad=4)
    scene.shadow.ok("flush")
    before, files = repo.snapshot(), repo.tree_snapshot()
    rows = scene.shadow.ok("log", "--all", "--json").rows()
    bad = first_bad(scene, "! grep -q broken b")
    assert scene.shadow.ok("log", "--all", "--json").rows() == rows
    assert (repo.snapshot(), repo.tree_snapshot()) == (before, files)
    document = shown(scene, bad[:9])
    assert (document["type"], document["id"], document["kind"]) == (
        "commit",
        bad,
        "write",
    )
    assert (document["agent"], document["prompt"]) == ("claude-code", "do step 4")
    (event,) = events_in(document)
    assert (event["path"], event["turn"]) == ("b", document["turn"])
    scene.shadow.ok("undo", "--yes", str(event["seq"]))
    assert b"broken" not in repo.read("b")
    assert repo.exists("new6")


def test_sync_commit_leads_to_the_events_of_others(scene: Scene) -> None:
    work(scene, bad=9)
    scene.shadow.ok("flush")
    bad = first_bad(scene, "! grep -q 'by hand after step 2' c")
    document = shown(scene, bad)
    assert document["kind"] == "sync"
    (event,) = events_in(document)
    assert (event["path"], event["agent"]) == ("c", None)
    assert "by hand after step 2" in str(shown(scene, str(event["seq"]))["diff"])


def test_commits_of_ours_are_moments(scene: Scene) -> None:
    """cat, diff, blame and restore take them whole and abbreviated."""
    scene.write("S1", "n", "one")
    first = str(scene.shadow.log("n")[0]["commit"])
    scene.write("S1", "n", "one", "two")
    second = str(scene.shadow.log("n")[0]["commit"])
    for one, two in ((first, second), (first[:7], second[:12])):
        assert scene.shadow.ok("cat", "--at", one, "n").out == "one\n"
        assert "+two\n" in scene.shadow.ok("diff", one, two).out
        assert len(scene.rows("n", "--at", one)) == 1
    scene.shadow.ok("restore", "--at", first[:10], "--yes", "n")
    assert scene.shadow.repo.read("n") == b"one\n"


@pytest.mark.parametrize("verb", ["show", "cat"])
def test_commit_of_the_users_is_no_id_of_ours(scene: Scene, verb: str) -> None:
    head = scene.shadow.repo.git("rev-parse", "HEAD")
    args = ("show", head) if verb == "show" else ("cat", "--at", head, "a")
    result = scene.shadow(*args)
    assert result.code == 2
    assert "cannot find id" in result.err
