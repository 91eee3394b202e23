"""Settings for Git itself: what they do, and that they go without a trace."""

import os
import subprocess
from pathlib import Path

import pytest

from gitshadow.errors import RefusedError
from gitshadow.hookfiles import gitconfig
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout
from tests.support.repo import Repo
from tests.support.studio import layout_of

CONFIG = ".git/config"
OURS = f".git/{gitconfig.NAME}"


class OldGit(Git):
    """A git from before the labels of `git log` were narrowed."""

    def version(self) -> tuple[int, ...]:
        return (2, 38, 1)


def plan(repo: Repo, kind: type[Git] = Git) -> list[FileStep]:
    layout = layout_of(repo)
    return gitconfig.plan(layout, kind(layout, dict(os.environ)))


def install(repo: Repo) -> Layout:
    assert all(step.error is None for step in gitconfig.apply(plan(repo)))
    return layout_of(repo)


def uninstall(repo: Repo) -> None:
    steps = gitconfig.apply(gitconfig.plan_removal(layout_of(repo)))
    assert all(step.error is None for step in steps)


@pytest.fixture
def shown(repo: Repo) -> Repo:
    """Return R with a recorded session, one that is shown, and a ref of another tool."""
    tree = repo.git("rev-parse", "HEAD^{tree}")
    shadow = repo.git("commit-tree", "-p", "HEAD", "-m", "shadow write", tree)
    for ref in ("refs/agent-undo/s1", "refs/remotes/agent-undo/s1"):
        repo.git("update-ref", ref, shadow)
    repo.git("update-ref", "refs/pull/1", "HEAD")
    return repo


@pytest.mark.parametrize(
    "end",
    [
        "",
        "[core]",
        "[core]\n\tbare = false",
        "[include]\n\tpath = other\n",
        "[x]\r\n\ty = z\r\n",
        "# a comment",
        "\n\n",
        "# caf\xe9\n",
    ],
)
def test_removal_gives_every_byte_back(repo: Repo, end: str) -> None:
    repo.append(CONFIG, end.encode("latin-1"))
    os.chmod(repo.path(CONFIG), 0o640)
    before = repo.snapshot()
    layout = install(repo)
    assert gitconfig.is_installed(layout)
    assert repo.mode(OURS) == repo.mode(CONFIG) == 0o640
    uninstall(repo)
    assert repo.snapshot() == before


def test_second_installation_and_second_removal_do_nothing(repo: Repo) -> None:
    install(repo)
    assert [step.action for step in plan(repo)] == [FileAction.NONE, FileAction.NONE]
    uninstall(repo)
    removal = gitconfig.plan_removal(layout_of(repo))
    assert [step.action for step in removal] == [FileAction.NONE, FileAction.NONE]


def test_what_git_writes_below_the_block_keeps_its_section(repo: Repo) -> None:
    install(repo)
    repo.git("config", "--add", "include.path", "theirs")
    repo.git("config", "user.name", "Somebody")
    uninstall(repo)
    assert repo.git("config", "--local", "--get-all", "include.path") == "theirs"
    assert repo.git("config", "--local", "user.name") == "Somebody"
    assert gitconfig.NAME not in repo.read(CONFIG).decode()


def test_mirror_clone_takes_nothing_of_ours(shown: Repo, tmp_path: Path) -> None:
    def cloned(name: str) -> list[str]:
        shown.git(
            "clone", "-q", "--mirror", f"file://{shown.root}", str(tmp_path / name)
        )
        bare = Repo(tmp_path / name)
        return bare.git("for-each-ref", "--format=%(refname)").split()

    assert "refs/agent-undo/s1" in cloned("before")
    install(shown)
    assert cloned("after") == ["refs/heads/main", "refs/pull/1"]


def test_git_log_can_leave_our_commits_out(shown: Repo) -> None:
    install(shown)
    every = shown.git("log", "--all", "--format=%s")
    hidden = shown.git("log", "--exclude-hidden=uploadpack", "--all", "--format=%s")
    assert (every, hidden) == ("shadow write\nfirst", "first")


def test_labels_stay_as_they_are_by_default(shown: Repo) -> None:
    """`log.excludeDecoration` alone would have git label `refs/pull/1` too."""
    log = ("log", "--format=%D", "refs/agent-undo/s1")
    before = shown.git(*log)
    install(shown)
    assert shown.git(*log) == before == "agent-undo/s1\nHEAD -> main"


def test_labels_are_hidden_where_all_refs_have_one(shown: Repo) -> None:
    log = ("log", "--format=%D", "refs/agent-undo/s1")
    shown.git("config", "log.initialDecorationSet", "all")
    assert "refs/agent-undo/s1" in shown.git(*log)
    install(shown)
    assert shown.git(*log) == "agent-undo/s1\nHEAD -> main, refs/pull/1"
    uninstall(shown)
    assert not shown.exists(OURS)


def test_labels_are_hidden_in_a_git_that_labels_everything(repo: Repo) -> None:
    (ours, _) = plan(repo, OldGit)
    assert b"excludeDecoration = refs/agent-undo/" in (ours.after or b"")


def test_others_who_may_read_the_configuration_may_read_ours(
    repo: Repo, tmp_path: Path
) -> None:
    """Git dies where an included file may not be read; our own directory is closed."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    for parent in [repo.root, *repo.root.parents][:-2]:
        parent.chmod(0o755)
    install(repo)
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "config", "--get-all", "uploadpack.hideRefs"],
        cwd=repo.root,
        env={**os.environ, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"},
        user=65534,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"refs/agent-undo/\nrefs/remotes/agent-undo/\n"


def test_nothing_is_written_where_the_configuration_changed_since(repo: Repo) -> None:
    steps = plan(repo)
    repo.git("config", "user.name", "Somebody")
    before = repo.read(CONFIG)
    done = gitconfig.apply(steps)
    assert [step.action for step in done] == [FileAction.CREATE, FileAction.FAIL]
    assert repo.read(CONFIG) == before


def test_git_at_work_on_the_configuration_is_not_disturbed(repo: Repo) -> None:
    before = repo.read(CONFIG)
    repo.write(f"{CONFIG}.lock", "")
    *_, step = gitconfig.apply(plan(repo))
    assert step.error is not None
    assert (step.error.hint or "").startswith("if no git process runs, remove ")
    assert (repo.read(CONFIG), repo.exists(f"{CONFIG}.lock")) == (before, True)


def test_file_of_that_name_that_is_not_ours_is_left(repo: Repo) -> None:
    repo.write(OURS, "[user]\n\tname = mine\n")
    with pytest.raises(RefusedError, match="was not created by gitshadow"):
        plan(repo)
    uninstall(repo)
    assert repo.exists(OURS)


def test_line_that_goes_on_is_not_gone_on_with(repo: Repo) -> None:
    repo.append(CONFIG, "[x]\n\ty = z\\")
    with pytest.raises(RefusedError, match="continues"):
        plan(repo)
