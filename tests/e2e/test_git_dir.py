"""A person's command honours `--git-dir` and `--work-tree` and their variables, as Git does."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.shadow import Document, Shadow


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    place = tmp_path / "elsewhere"
    place.mkdir()
    return place


def root_of(document: Document) -> Path:
    return Path(str(document["root"]))


Names = Callable[[Path], dict[str, str]]


@pytest.mark.parametrize(
    "named",
    [
        lambda root: {"GIT_DIR": f"{root}/.git", "GIT_WORK_TREE": str(root)},
        lambda root: {"GIT_DIR": "../repo/.git", "GIT_WORK_TREE": "../repo"},
    ],
)
def test_variables_name_the_worktree(
    repo: Repo, shadow: Shadow, elsewhere: Path, named: Names
) -> None:
    env = named(Path(os.path.relpath(repo.root, elsewhere)))
    if not env["GIT_DIR"].startswith("."):
        env = named(repo.root)
    found = shadow("status", "--json", cwd=elsewhere, env=env)
    assert root_of(found.json()) == repo.root


def test_git_dir_alone_means_the_current_directory(repo: Repo, shadow: Shadow) -> None:
    found = shadow("status", "--json", env={"GIT_DIR": ".git"})
    assert root_of(found.json()) == repo.root


def test_git_dir_leads_to_another_repository_as_with_git(
    repo: Repo, shadow: Shadow
) -> None:
    other = Repo.create(repo.root.parent / "other")
    env = {"GIT_DIR": f"{repo.root}/.git", "GIT_WORK_TREE": str(repo.root)}
    found = shadow("status", "--json", cwd=other.root, env=env)
    assert root_of(found.json()) == repo.root


def test_linked_worktree_of_a_bare_repository_is_recorded(
    tmp_path: Path, repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", ".", str(bare))
    repo.git("-C", str(bare), "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    linked = Repo(tmp_path / "linked")
    shadow = make_shadow(linked, daemon=False)
    shadow.init()
    shadow.ok("exec", "--agent", "helper", "--", "sh", "-c", "echo more >>a")
    shadow.ok("oops", "--yes")
    assert linked.git("status", "--porcelain") == ""
    git_dir = linked.git("rev-parse", "--absolute-git-dir")
    found = shadow(
        "status",
        "--json",
        cwd=tmp_path,
        env={"GIT_DIR": git_dir, "GIT_WORK_TREE": "linked"},
    )
    assert root_of(found.json()) == linked.root


def test_repository_of_dotfiles_says_what_is_missing(
    tmp_path: Path, shadow: Shadow
) -> None:
    home, bare = tmp_path / "dots", tmp_path / "dots.git"
    home.mkdir()
    shadow.repo.git("init", "-q", "--bare", str(bare))
    env = {"GIT_DIR": str(bare), "GIT_WORK_TREE": str(home)}
    found = shadow("status", cwd=home, env=env)
    assert found.code == 1
    assert f"nothing in it leads to its Git directory {bare}" in found.err
    shadow.repo.git("-C", str(bare), "config", "core.bare", "false")
    (home / ".git").write_text(f"gitdir: {bare}\n")
    (home / ".rc").write_text("set\n")
    shadow.ok("init", cwd=home, env=env)
    assert root_of(shadow("status", "--json", cwd=home, env=env).json()) == home
    shadow("daemon", "stop", cwd=home)


@pytest.mark.parametrize("verb", ["init", "status", "oops"])
def test_directory_whose_files_are_elsewhere_is_not_recorded(
    tmp_path: Path, make_shadow: Callable[..., Shadow], repo: Repo, verb: str
) -> None:
    """Git takes what `core.worktree` names for the working tree, not where `.git` is."""
    place, other = tmp_path / "files", Repo.create(tmp_path / "other")
    place.mkdir()
    other.git("config", "core.worktree", "../../files")
    shadow = make_shadow(repo, daemon=False)
    found = shadow(verb, cwd=other.root)
    assert found.code == 1
    if verb == "init":
        assert f"by core.worktree its files are in {place}" in found.err
    assert not other.exists(".git/agent-undo")
    (place / ".git").write_text(f"gitdir: {other.git_dir}\n")
    (place / "new").write_text("new\n")
    shadow.ok("init", cwd=place)
    assert root_of(shadow("status", "--json", cwd=place).json()) == place
    assert shadow("status", cwd=other.root).code == 1


def test_working_tree_alone_is_that_of_the_repository_here(
    tmp_path: Path, shadow: Shadow
) -> None:
    place = tmp_path / "files"
    place.mkdir()
    found = shadow("status", env={"GIT_WORK_TREE": str(place)})
    assert found.code == 1
    assert f"cannot record {place}: nothing in it leads to" in found.err


@pytest.mark.parametrize("given", ["", "/nowhere", "a"])
def test_variable_that_names_no_repository_is_an_error(
    shadow: Shadow, given: str
) -> None:
    found = shadow("status", env={"GIT_DIR": given})
    assert found.code != 0
    assert "Traceback" not in found.err


@pytest.mark.parametrize("sets", ["GIT_INDEX_FILE", "GIT_PREFIX"])
def test_command_that_git_runs_stays_where_it_is(
    repo: Repo, shadow: Shadow, sets: str
) -> None:
    """GIT-13: Git sets these for its hooks and aliases, and not for a person's command."""
    other = Repo.create(repo.root.parent / "other")
    env = {"GIT_DIR": f"{other.root}/.git", "GIT_WORK_TREE": str(other.root), sets: ""}
    found = shadow("status", "--json", env=env)
    assert root_of(found.json()) == repo.root


def test_hook_of_a_commit_elsewhere_records_where_it_goes(
    repo: Repo, shadow: Shadow
) -> None:
    """GIT-13: what real Git sets for a hook leads its commands nowhere."""
    other = Repo.create(repo.root.parent / "other")
    hook = other.root / ".git/hooks/post-checkout"
    for one in (hook, hook.with_name("post-commit")):
        said = f"cd '{repo.root}' && git agent-undo status --json >'{one}.out'"
        one.write_text(f"#!/bin/sh\n{said}\n")
        one.chmod(0o755)
    place = f"--git-dir={other.root}/.git", f"--work-tree={other.root}"
    other.git(
        *place, "commit", "-q", "--allow-empty", "-m", "next", env=shadow.environment()
    )
    other.git(*place, "checkout", "-q", "-b", "side", env=shadow.environment())
    for one in (hook, hook.with_name("post-commit")):
        said = Path(f"{one}.out").read_text()
        assert Path(json.loads(said)["root"]) == repo.root


def test_hook_never_follows_the_variables(
    repo: Repo, shadow: Shadow, tmp_path: Path
) -> None:
    """They are those of the git command that runs, perhaps in another repository."""
    other = Repo.create(tmp_path / "other")
    payload = f'{{"session_id": "s", "cwd": "{repo.root}", "hook_event_name": "SessionStart"}}'
    env = {"GIT_DIR": f"{other.root}/.git", "GIT_WORK_TREE": str(other.root)}
    done = shadow("hook", "claude-code", stdin=payload.encode(), env=env)
    assert (done.code, done.out) == (0, "")
    assert [
        row["native_id"]
        for row in shadow.ok("sessions", "--json").rows()
        if row["agent"]
    ] == ["s"]
    assert not (other.root / ".git" / "agent-undo").exists()
