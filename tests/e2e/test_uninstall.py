"""uninstall leaves no trace: tree, refs, configuration and hooks are as before `init`."""

import os
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import Shadow


def everything(repo: Repo) -> dict[str, bytes]:
    """Return every file of the Git directory but objects and reftables, and all refs."""
    found = {"refs of Git": repo.git("for-each-ref").encode()}
    top = str(repo.common_dir)
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if name not in ("objects", "reftable")]
        for name in (*files, *(f"{one}/" for one in names)):
            path = os.path.join(directory, name)
            key = os.path.relpath(path, top)
            found[key] = b"" if name.endswith("/") else Path(path).read_bytes()
    return found


def count_objects(repo: Repo) -> str:
    listed = repo.git("cat-file", "--batch-all-objects", "--batch-check")
    return "\n".join(sorted(listed.splitlines()))


def lived(shadow: Shadow) -> None:
    """Have everything of ours be in the repository: hooks, pins, copies, packs, a fetched chain."""
    repo = shadow.repo
    shadow.ok("hooks", "install", "claude-code", "--project", "--yes")
    shadow.ok("hooks", "install", "git", "git-config", "--yes")
    agent = Claude(shadow)
    agent.prompt("go")
    agent.write("a", "by the agent\n")
    agent.write("new", "by the agent\n")
    agent.stop()
    shadow.ok("pin", "good")
    (session,) = [
        str(row["id"]) for row in shadow.ok("sessions", "--json").rows() if row["agent"]
    ]
    shadow.ok("expose", session)
    shadow.ok("pack")
    tip = repo.git("rev-parse", f"refs/agent-undo/{session}")
    repo.git("update-ref", f"refs/agent-undo/fetched/{session}", tip)
    shadow.oops()


@pytest.mark.kinds
def test_nothing_is_left_in_the_repository(shadow_new: Shadow) -> None:
    """KEEP-12: no ref, no directory, no hook entry; after gc the objects of before."""
    shadow, repo = shadow_new, shadow_new.repo
    repo.git("gc", "-q", "--prune=now")
    before, objects = everything(repo), count_objects(repo)
    files = {path: one.data for path, one in repo.tree_snapshot().items()}
    shadow.ok("init")
    lived(shadow)
    shadow.ok("uninstall", "--yes")
    assert everything(repo) == before
    assert {path: one.data for path, one in repo.tree_snapshot().items()} == files
    assert shadow.daemons() == []
    repo.git("gc", "-q", "--prune=now")
    assert count_objects(repo) == objects
    for table in repo.common_dir.glob("reftable/*.ref"):
        assert b"agent-undo" not in table.read_bytes()
    again = shadow("uninstall", "--yes")
    assert again.code == 0
    assert everything(repo).keys() - before.keys() == set()


def test_nothing_goes_before_somebody_said_yes(shadow: Shadow) -> None:
    Claude(shadow).write("a", "by the agent\n")
    shown = shadow("uninstall")
    assert (shown.code, "refs/agent-undo" in shown.out) == (5, True)
    dry = shadow("uninstall", "--dry-run")
    assert dry.code == 0
    assert shadow.oops()["status"] == "reversed"


def test_history_is_exported_first_where_that_is_asked(
    shadow: Shadow, tmp_path: Path
) -> None:
    Claude(shadow).write("a", "by the agent\n")
    file = tmp_path / "history.jsonl"
    shadow.ok("uninstall", "--yes", "--export", str(file))
    assert b'"path": "a"' in file.read_bytes() or b'"path":"a"' in file.read_bytes()
    assert shadow.repo.shadow_refs() == {}
    Claude(shadow).write("b", "hooks of the user find nothing, and say nothing\n")
    assert not (shadow.repo.common_dir / "agent-undo").exists()


def test_begin_again_after_it(shadow: Shadow) -> None:
    Claude(shadow).write("a", "by the agent\n")
    shadow.ok("uninstall", "--yes")
    shadow.ok("init")
    Claude(shadow).write("a", "by another\n")
    assert shadow.oops()["status"] == "reversed"
    assert shadow.repo.read("a") == b"by the agent\n"
