"""Which push refspecs would send our refs; git itself says whether that is right."""

from pathlib import Path

import pytest

from gitshadow.store.remotes import sends
from tests.support.repo import Repo

OURS = "refs/agent-undo/"
SPECS = [
    (["+refs/*:refs/*"], True),
    (["refs/*"], True),
    (["refs/agent-undo/*:refs/agent-undo/*"], True),
    (["refs/a*:refs/a*"], True),
    (["refs/agent-undo/s*:refs/heads/s*"], True),
    (["refs/agent-undo/s1:refs/heads/x"], True),
    (["refs/heads/*:refs/heads/*"], False),
    (["+refs/heads/*:refs/agent-undo/*"], False),
    (["main", ":"], False),
    (["+refs/*:refs/*", "^refs/agent-undo/*"], False),
    (["^refs/agent-undo/*", "+refs/*:refs/*"], False),
    (["+refs/*:refs/*", "^refs/agent-undo/s1"], True),
    (["+refs/*:refs/*", "^refs/a*"], False),
    (["+refs/*:refs/*", "^refs/agent-undo"], True),
    (["+refs/*:refs/*", "^refs/*1"], True),
    ([], False),
]


@pytest.mark.parametrize(("specs", "expected"), SPECS)
def test_refspecs_send_our_refs(specs: list[str], expected: bool) -> None:
    assert sends(specs, OURS) is expected


def test_git_sends_what_we_say_it_sends(repo: Repo, tmp_path: Path) -> None:
    """Two refs, because a refspec may leave out one of them alone."""
    repo.git("update-ref", OURS + "s1", "HEAD")
    repo.git("update-ref", OURS + "s2", "HEAD")
    repo.git("init", "-q", "--bare", str(tmp_path / "there.git"))
    repo.git("remote", "add", "there", str(tmp_path / "there.git"))
    for specs, expected in SPECS:
        if not specs:
            continue  # git's own default: the current branch
        repo.git("config", "--unset-all", "remote.there.push", check=False)
        for spec in specs:
            repo.git("config", "--add", "remote.there.push", spec)
        said = repo.git("push", "--dry-run", "--porcelain", "there")
        rows = [row.split("\t")[1] for row in said.splitlines() if "\t" in row]
        assert any(row.startswith(OURS) for row in rows) is expected, specs
