"""Hooks in the configuration of a repository that somebody else made: none of them runs."""

import os
from pathlib import Path

import pytest

from gitshadow.model import Oid
from gitshadow.store.backends.following import Engine, open_backend
from gitshadow.store.backends.plumbing import PlumbingBackend
from gitshadow.store.git import Git
from tests.support.newer_git import need_newer_git
from tests.support.repo import Repo
from tests.support.studio import layout_of


@pytest.mark.parametrize("trick", ["plain", "of the name of an event", "strange name"])
def test_no_hook_of_the_configuration_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: Path, trick: str
) -> None:
    """Git has these since 2.54."""
    need_newer_git(monkeypatch)
    repo, ran = Repo.create(tmp_path / "repo"), tmp_path / "ran"
    tip = Oid(repo.git("rev-parse", "HEAD"))
    name = 'a="b.c' if trick == "strange name" else "mine"
    repo.git("config", f"hook.{name}.command", f"touch {ran}")
    for event in ("reference-transaction", "post-index-change"):
        repo.git("config", "--add", f"hook.{name}.event", event)
        if trick == "of the name of an event":
            repo.git("config", f"hook.{event}.parallel", "true")
    repo.git("update-ref", "refs/x/git", tip)
    assert ran.exists()
    ran.unlink()
    layout = layout_of(repo)
    git = Git(layout, dict(os.environ))
    git.put_ref("refs/x/1", tip, None)
    git.drop_ref("refs/x/1", tip)
    git.run("read-tree", "HEAD")
    backend = open_backend(layout, os.environ, Engine.PLUMBING)
    assert isinstance(backend, PlumbingBackend)
    backend.create_ref("refs/agent-undo/s-1", tip)
    backend.delete_ref("refs/agent-undo/s-1")
    backend.close()
    assert not ran.exists()
