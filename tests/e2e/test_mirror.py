"""The mirror: the history survives the loss of the repository."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import until


@pytest.fixture
def mirrored(shadow_d: Shadow, tmp_path: Path) -> Iterator[Shadow]:
    """Return R with a mirror, after a commit and a turn that nobody committed."""
    shadow = shadow_d
    shadow.repo.git("config", "agent-undo.mirror", str(tmp_path / "mirrors"))
    shadow.env["GITSHADOW_MIRROR"] = str(tmp_path / "mirrors")
    agent = Claude(shadow)
    agent.prompt("go")
    agent.write("src/app.py", "print('hello')\n")
    shadow.repo.commit("second")
    agent.write("src/app.py", "print('never committed')\n")
    agent.write("new", "neither\n")
    agent.stop()
    shadow.repo.write("b", "by hand\n")
    shadow.ok("mirror")
    yield shadow
    found = shadow.repo.git("for-each-ref", "--format=%(refname)", "refs/remotes")
    for ref in found.split():
        shadow.repo.git("update-ref", "-d", ref)


def lose(shadow: Shadow, *, worktree: bool) -> Repo:
    """Have the Git directory deleted, and what it was of; begin again where it was."""
    shadow("stop")
    root = shadow.repo.root
    shutil.rmtree(root if worktree else root / ".git")
    root.mkdir(exist_ok=True)
    repo = Repo(root)
    repo.git("init", "-q", "-b", "main")
    return repo


def test_tree_comes_back_after_the_whole_directory_was_deleted(
    mirrored: Shadow,
) -> None:
    before = {
        path: mirrored.repo.read(path) for path in ("src/app.py", "new", "a", "b")
    }
    head = mirrored.repo.git("rev-parse", "HEAD")
    repo = lose(mirrored, worktree=True)
    result = mirrored.ok("restore", "--from-mirror", "--yes")
    assert "refs restored from" in result.out
    assert {path: repo.read(path) for path in before} == before
    rows = mirrored.log()
    assert "src/app.py" in {row["path"] for row in rows if row["agent"]}
    (line,) = mirrored.ok("blame", "--json", "new").rows()
    assert line["agent"] == "claude-code"
    assert repo.git("rev-parse", "refs/remotes/agent-undo/mirror/main") == head
    assert repo.git("for-each-ref", "refs/heads") == "", (
        "no branch of the user's is made"
    )


def test_history_comes_back_where_the_files_are_still_there(mirrored: Shadow) -> None:
    """`rm -rf .git`: nothing in the working tree changes, and undo works again."""
    kept = mirrored.repo.tree_snapshot()
    lose(mirrored, worktree=False)
    mirrored("restore", "--from-mirror", "--yes")
    assert mirrored.repo.tree_snapshot() == kept
    report = mirrored.oops()
    assert report["status"] == "reversed"
    assert not mirrored.repo.exists("new")
    assert mirrored.repo.read("b") == b"by hand\n"


def test_files_come_back_after_a_plan_that_nobody_applied(mirrored: Shadow) -> None:
    """The plan recorded the loss itself; the mirror's newest state is what is asked for still."""
    repo = lose(mirrored, worktree=True)
    mirrored("restore", "--from-mirror", "--dry-run")
    refused = mirrored("restore", "--from-mirror")
    assert refused.code == 5
    mirrored.ok("restore", "--from-mirror", "--yes")
    assert repo.read("new") == b"neither\n"


def test_mirror_by_its_path_and_one_that_is_not_there(
    mirrored: Shadow, tmp_path: Path
) -> None:
    (place,) = (tmp_path / "mirrors").iterdir()
    lose(mirrored, worktree=True)
    del mirrored.env["GITSHADOW_MIRROR"]
    nowhere = mirrored("restore", "--from-mirror", "--yes")
    assert (nowhere.code, "--from-mirror PATH" in nowhere.err) == (2, True)
    empty = tmp_path / "empty"
    empty.mkdir()
    none = mirrored("restore", "--from-mirror", str(empty), "--yes")
    assert (none.code, "cannot find a mirror" in none.err) == (2, True)
    mirrored.ok("restore", "--from-mirror", str(place), "--yes")
    assert mirrored.repo.read("new") == b"neither\n"


def test_mirror_can_be_cloned_and_is_private(mirrored: Shadow, tmp_path: Path) -> None:
    (place,) = (tmp_path / "mirrors").iterdir()
    assert place.stat().st_mode & 0o077 == 0
    Repo(tmp_path).git("clone", "-q", "-b", "main", str(place), "clone")
    assert (tmp_path / "clone" / "src" / "app.py").read_bytes() == b"print('hello')\n"


def test_daemon_mirrors_by_itself(shadow_d: Shadow, tmp_path: Path) -> None:
    """When it is quiet; only what is new is copied."""
    shadow_d.repo.git("config", "agent-undo.mirror", str(tmp_path / "mirrors"))
    agent = Claude(shadow_d)
    agent.write("a", "one\n")

    def copied() -> bool:
        return any(
            "claude" in ref
            for place in tmp_path.glob("mirrors/*.git")
            for ref in Repo(place)
            .git("for-each-ref", "refs/agent-undo", check=False)
            .split()
        )

    until(copied)


def test_mirror_that_cannot_be_written_stops_nothing(
    shadow_d: Shadow, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    shadow_d.repo.git("config", "agent-undo.mirror", str(tmp_path / "taken"))
    Claude(shadow_d).write("a", "one\n")
    assert shadow_d("mirror").code == 1

    def named() -> bool:
        found = shadow_d("doctor", "--json").json()["checks"]
        assert isinstance(found, list)
        return any(one["name"] == "mirror" and not one["ok"] for one in found)

    until(named)
    assert shadow_d.oops()["status"] == "reversed"
