"""What Git 2.54 and later do otherwise: hooks of the configuration, geometric maintenance."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.newer_git import need_newer_git
from tests.support.packed import Shelf
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import until

pytestmark = pytest.mark.release


@pytest.fixture(autouse=True)
def _newer(monkeypatch: pytest.MonkeyPatch) -> None:
    need_newer_git(monkeypatch)


def kinds(repo: Repo) -> list[str]:
    """Return the rows' kinds in order; `log` would look for itself."""
    with closing(sqlite3.connect(repo.state_dir / "journal.db")) as db:
        rows = db.execute("SELECT kind FROM events ORDER BY seq").fetchall()
    return [kind for (kind,) in rows]


def test_configured_hooks_call_us_beside_the_users_own(shadow_n: Shadow) -> None:
    """Nothing is written into the hooks directory, and what stands there runs too."""
    shadow, repo = shadow_n, shadow_n.repo
    repo.write(".git/hooks/post-commit", "#!/bin/sh\ntouch ../mine\n", 0o755)
    before = sorted(path.name for path in (repo.root / ".git" / "hooks").iterdir())
    shadow.ok("hooks", "install", "git", "--yes")
    repo.write("a", "committed\n")
    repo.git("commit", "-qam", "second")
    repo.git("checkout", "-q", "-b", "other")
    assert kinds(repo) == ["baseline", "modify", "head", "head"]
    assert (repo.root.parent / "mine").exists()
    assert sorted(p.name for p in (repo.root / ".git" / "hooks").iterdir()) == before


def test_configured_hooks_go_without_a_trace(shadow_n: Shadow) -> None:
    shadow, repo = shadow_n, shadow_n.repo
    before = repo.read(".git/config")
    shadow.ok("hooks", "install", "git", "--yes")
    assert repo.read(".git/config") != before
    shadow.ok("hooks", "uninstall", "git", "--yes")
    assert repo.read(".git/config") == before


def test_configured_check_refuses_what_a_policy_forbids(shadow_n: Shadow) -> None:
    shadow, repo = shadow_n, shadow_n.repo
    shadow.ok("hooks", "install", "git", "--check", "--yes")
    repo.write(".agent-undo.toml", '[check]\nprotectedPaths = ["/a"]\n')
    shadow.ok("exec", "--agent", "helper", "--", "sh", "-c", "echo theirs >>a")
    head = repo.git("rev-parse", "HEAD")
    repo.git("add", ".")
    repo.git("commit", "-qm", "no", check=False)
    assert repo.git("rev-parse", "HEAD") == head


def test_maintenance_never_starts_because_of_us(
    shadow_d: Shadow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEEP-03: two files in `objects/17` are enough for it now; the user's commits see none."""
    shadow, repo = shadow_d, shadow_d.repo
    for number in range(150):
        repo.write("a", f"version {number}\n")
        if number % 10 == 9:
            shadow.ok("flush")
    shelf = Shelf(repo)
    until(
        lambda: sum(one.startswith("17") for one in shelf.ours() & shelf.loose()) <= 1
    )
    trace = tmp_path / "trace"
    trace.touch()
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(trace))
    repo.write("mine", "the user's own\n")
    repo.git("add", "mine")
    repo.git("commit", "-qm", "mine", "--", "mine")
    begun = [json.loads(line) for line in trace.read_text().splitlines()]
    children = [one["argv"] for one in begun if one["event"] == "child_start"]
    assert any("maintenance" in words for words in children)
    assert not [words for words in children if {"repack", "pack-objects"} & {*words}]
