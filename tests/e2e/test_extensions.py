"""Repositories with extensions: what libgit2 refuses is read through Git itself."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.store.backends.following import open_backend
from gitshadow.store.backends.libgit2 import Libgit2Backend
from gitshadow.store.backends.plumbing import PlumbingBackend
from gitshadow.store.layout import discover
from gitshadow.store.object_format import SHA1
from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.newer_git import need_newer_git
from tests.support.packed import packs_of
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Shadow

pytestmark = pytest.mark.kinds

KNOWN = ("noop", "preciousObjects", "worktreeConfig")


def has_extension(repo: Repo, name: str) -> None:
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", f"extensions.{name}", "true")


def engine_of(repo: Repo) -> type[object]:
    layout = discover(str(repo.root))
    assert layout is not None
    backend = open_backend(layout, os.environ)
    backend.close()
    return type(backend)


def usual(repo: Repo) -> type[object]:
    """Return what reads a repository of this kind without extensions."""
    is_plain = repo.object_format == SHA1 and not repo.has_reftables
    return Libgit2Backend if is_plain else PlumbingBackend


def works(shadow: Shadow) -> None:
    """Check that a turn is recorded, shown, packed and undone, and nothing else changes."""
    repo = shadow.repo
    agent = Claude(shadow)
    with kept(repo, "a", "new"):
        agent.prompt("write")
        agent.write("a", "agent\n")
        agent.write("new/file", "agent\n")
        agent.stop()
        rows = {(row["path"], row["kind"]) for row in shadow.log()}
        assert rows == {("a", "modify"), ("new/file", "create")}
        shadow.ok("pack")
        shadow.ok("blame", "a")
        assert shadow.oops()["status"] == "reversed"
        shadow.ok("doctor")
    assert repo.read("a") == ten_lines("a").encode()
    assert not repo.exists("new")


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.sampled
def test_extensions_of_every_version_of_libgit2(
    repo: Repo, name: str, make_shadow: Callable[..., Shadow]
) -> None:
    has_extension(repo, name)
    assert engine_of(repo) is usual(repo)
    shadow = make_shadow(repo)
    shadow.init()
    works(shadow)


def test_no_object_goes_where_all_are_precious(shadow_d: Shadow) -> None:
    """`extensions.preciousObjects`: not even the copy of what is in a pack."""
    shadow, repo = shadow_d, shadow_d.repo
    has_extension(repo, "preciousObjects")
    Claude(shadow).write("a", "agent\n")
    shadow.ok("flush")
    how = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    before = {*repo.git(*how).split()}
    loose = {*(repo.common_dir / "objects").glob("??/*")}
    shadow.ok("pack")
    assert packs_of(repo, ".keep")
    assert loose <= {*(repo.common_dir / "objects").glob("??/*")}
    assert before <= {*repo.git(*how).split()}


def test_configuration_of_one_worktree_is_its_own(
    repo: Repo, tmp_path: Path, make_shadow: Callable[..., Shadow]
) -> None:
    """`extensions.worktreeConfig`: a person has another name in each worktree."""
    has_extension(repo, "worktreeConfig")
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Repo(tmp_path / "linked")
    linked.git("config", "--worktree", "user.name", "Of the worktree")
    first, second = make_shadow(repo), make_shadow(linked)
    first.init()
    second.init()
    works(first)
    works(second)
    linked.write("a", "of the person\n")
    second.ok("flush")
    tips = linked.shadow_refs().values()
    assert "Of the worktree" in linked.git("log", "--format=%an", *tips)


def test_worktrees_with_relative_paths(
    repo: Repo,
    tmp_path: Path,
    make_shadow: Callable[..., Shadow],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`extensions.relativeWorktrees` (git 2.48): older versions of libgit2 refuse both."""
    need_newer_git(monkeypatch)
    at = str(tmp_path / "linked")
    repo.git("worktree", "add", "-q", "--relative-paths", "-b", "side", at)
    linked = Repo(tmp_path / "linked")
    assert not linked.read(".git").startswith(b"gitdir: /")
    assert engine_of(repo) is engine_of(linked)
    for one in (repo, linked):
        shadow = make_shadow(one)
        shadow.init()
        works(shadow)


def test_a_sparse_index_of_every_kind(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """What the sparse checkout leaves out is no deletion, and one entry of the index."""
    for path in ("in/x", "out/y", "out/deep/z"):
        repo.write(path, ten_lines(path))
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert "out/" in repo.git("ls-files", "--sparse").splitlines()
    shadow = make_shadow(repo)
    shadow.init()
    works(shadow)
    assert not [row for row in shadow.log("--all") if "out" in str(row["path"])]
    agent = Claude(shadow)
    agent.prompt("outside")
    agent.write("out/deep/z", "agent\n")
    agent.stop()
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("out/deep/z") == ten_lines("out/deep/z").encode()
    repo.git("sparse-checkout", "disable")
    shadow.ok("flush")
    shadow.verify()
