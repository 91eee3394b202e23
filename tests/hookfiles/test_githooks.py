"""Our calls in Git's own hooks: written as shown, harmless, and taken out exactly."""

import os
import shlex
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.errors import RefusedError
from gitshadow.hookfiles import githooks
from gitshadow.hookfiles.githooks import Act, GitHookPlan, GitHookState, Way
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.studio import layout_of
from tests.support.waiting import HANGS_S

_FOREIGN = '#!/bin/sh\necho "$@" >>../seen\ncat >>../seen\nexit %d\n'


class OldGit(Git):
    """A git that says it is 2.39, as if this machine had no newer one."""

    def version(self) -> tuple[int, ...]:
        return (2, 39, 5)


class NewGit(Git):
    """A git that says it is 2.54, the first with configured hooks; e2e has a real one."""

    def version(self) -> tuple[int, ...]:
        return (2, 54, 0)


class Yard:
    """Install into one repository; how git is asked stays as it is."""

    def __init__(self, repo: Repo, kind: type[Git] = OldGit) -> None:
        layout = layout_of(repo)
        self.repo = repo
        self.layout: Layout = layout
        self.git = kind(layout, dict(os.environ))

    def plan(self, command: str = COMMAND) -> GitHookPlan:
        return githooks.plan(self.layout, self.git, command)

    def install(self, command: str = COMMAND, *, check: bool | None = None) -> None:
        wanted = githooks.plan(self.layout, self.git, command, check=check)
        githooks.apply(wanted, self.git)

    def uninstall(self) -> GitHookPlan:
        removal = githooks.plan_removal(self.layout, self.git)
        githooks.apply(removal, self.git)
        return removal

    def status(self, command: str = COMMAND) -> GitHookState:
        return githooks.status(self.layout, self.git, command)

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        """Return mode and bytes of all hooks and of the configuration."""
        hooks = self.repo.root / ".git" / "hooks"
        files = [*hooks.glob("*"), self.repo.root / ".git" / "config"]
        return {f.name: (f.lstat().st_mode, f.read_bytes()) for f in files}


@pytest.fixture
def yard(repo: Repo) -> Yard:
    return Yard(repo)


def check_by(repo: Repo, code: int) -> str:
    """Return a program that ends as `check` does, and says what it was called with."""
    lines = (
        "#!/bin/sh",
        f'echo "$@" >>{repo.root.parent}/called',
        f'[ "$1" != check ] || exit {code}',
    )
    text = "".join(f"{line}\n" for line in lines)
    repo.write("../program", text, 0o755)
    return str(repo.root.parent / "program")


def commits(yard: Yard) -> bool:
    """Tell whether git makes a commit."""
    head = yard.repo.git("rev-parse", "HEAD")
    yard.repo.git("commit", "--allow-empty", "-qm", "x", check=False)
    return yard.repo.git("rev-parse", "HEAD") != head


def test_scripts_are_written_where_there_is_no_hook(yard: Yard) -> None:
    assert yard.status() is GitHookState.MISSING
    yard.install()
    hooks = yard.repo.root / ".git" / "hooks"
    assert all(os.access(hooks / event, os.X_OK) for event in githooks.EVENTS)
    assert (yard.plan().changes, yard.status()) == ((), GitHookState.INSTALLED)


def test_scripts_call_us_and_keep_git_going(shadow_n: Shadow) -> None:
    yard = Yard(shadow_n.repo)
    yard.install()
    shadow_n.repo.write("a", "committed\n")
    shadow_n.repo.git("commit", "-qam", "second")
    shadow_n.repo.git("commit", "-q", "--amend", "-m", "third")
    shadow_n.repo.git("checkout", "-q", "-b", "other")
    journal = shadow_n.repo.state_dir / "journal.db"  # `log` would look for itself
    with closing(sqlite3.connect(journal)) as db:
        rows = db.execute("SELECT kind FROM events ORDER BY seq").fetchall()
    assert [kind for (kind,) in rows] == ["baseline", "modify", "head", "head", "head"]


def test_removal_restores_every_byte_when_nothing_changed_since(yard: Yard) -> None:
    yard.repo.write(".git/hooks/post-commit", _FOREIGN % 0, 0o750)
    yard.repo.write(".git/hooks/post-merge", "# not executable\n", 0o644)
    before = yard.snapshot()
    yard.install()
    assert yard.snapshot() != before
    assert yard.uninstall().advice == ""
    assert yard.snapshot() == before


def test_hook_that_stood_there_runs_too_and_decides(yard: Yard) -> None:
    yard.repo.write(".git/hooks/pre-commit", _FOREIGN % 1, 0o755)
    yard.install()
    head = yard.repo.git("rev-parse", "HEAD")
    yard.repo.git("commit", "--allow-empty", "-qm", "no", check=False)
    assert yard.repo.git("rev-parse", "HEAD") == head
    assert (yard.repo.root.parent / "seen").exists()


def test_post_rewrite_gives_its_list_to_both(yard: Yard) -> None:
    yard.repo.write(".git/hooks/post-rewrite", _FOREIGN % 0, 0o755)
    reader = yard.repo.root.parent / "reader"
    reader.write_text("#!/bin/sh\ncat >>../ours\n")
    reader.chmod(0o755)
    yard.install(str(reader))
    old = yard.repo.git("rev-parse", "HEAD")
    yard.repo.git("commit", "-q", "--amend", "-m", "anew")
    new = yard.repo.git("rev-parse", "HEAD")
    top = yard.repo.root.parent
    assert (top / "seen").read_text() == f"amend\n{old} {new}\n"
    assert (top / "ours").read_text() == f"{old} {new}\n"


def test_post_rewrite_gives_its_list_where_nothing_can_be_written(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that stood there gets all that git sends, whatever our own trouble is."""
    yard.repo.write(".git/hooks/post-rewrite", _FOREIGN % 0, 0o755)
    yard.install()
    monkeypatch.setenv("TMPDIR", "/nowhere")
    old = yard.repo.git("rev-parse", "HEAD")
    yard.repo.git("commit", "-q", "--amend", "-m", "anew")
    new = yard.repo.git("rev-parse", "HEAD")
    seen = yard.repo.root.parent / "seen"
    assert seen.read_text() == f"amend\n{old} {new}\n"


@pytest.mark.parametrize("kind", [OldGit, NewGit])
def test_hooks_succeed_silently_without_the_program(
    repo: Repo, kind: type[Git]
) -> None:
    yard = Yard(repo, kind)
    for event in githooks.EVENTS:
        for text in commands_of(yard, event, "/nowhere/git-agent-undo"):
            assert run(text, "a", "b") == (0, b"", b"")


def test_stale_scripts_are_replaced_and_still_chain(yard: Yard) -> None:
    yard.repo.write(".git/hooks/post-commit", _FOREIGN % 0, 0o755)
    before = yard.snapshot()
    yard.install("/old/git-agent-undo")
    assert yard.status() is GitHookState.STALE
    yard.install()
    assert yard.status() is GitHookState.INSTALLED
    yard.uninstall()
    assert yard.snapshot() == before


def test_removal_leaves_a_hook_that_somebody_changed(yard: Yard) -> None:
    yard.install()
    yard.repo.append(".git/hooks/post-commit", "make deploy\n")
    removal = yard.uninstall()
    assert "post-commit was changed" in removal.advice
    assert b"make deploy" in yard.repo.read(".git/hooks/post-commit")
    assert not yard.repo.exists(".git/hooks/post-merge")


def test_plan_is_refused_when_a_hook_changed_since(yard: Yard) -> None:
    yard.repo.write(".git/hooks/post-commit", _FOREIGN % 0, 0o755)
    plan = yard.plan()
    yard.repo.append(".git/hooks/post-commit", "echo more\n")
    with pytest.raises(RefusedError):
        githooks.apply(plan, yard.git)
    assert not yard.repo.exists(".git/hooks/pre-commit")


def test_second_foreign_hook_is_left_where_a_backup_is_in_the_way(yard: Yard) -> None:
    yard.repo.write(".git/hooks/post-commit", _FOREIGN % 0, 0o755)
    yard.repo.write(".git/hooks/post-commit.before-gitshadow", "mine\n", 0o644)
    plan = yard.plan()
    assert "already exists" in plan.advice
    assert not any("post-commit" in change.place for change in plan.changes)


@pytest.mark.parametrize("value", [".husky", "/dev/null", "missing"])
def test_nothing_is_written_where_hooks_are_somebody_elses(
    yard: Yard, value: str
) -> None:
    (yard.repo.root / ".husky").mkdir()
    yard.repo.git("config", "core.hooksPath", value)
    plan = yard.plan()
    assert (plan.way, plan.changes) == (Way.MANUAL, ())
    assert 'git-hook --beside post-commit "$@" || true' in plan.advice
    assert yard.status() is GitHookState.MANUAL


def test_link_into_the_working_tree_counts_as_the_working_tree(yard: Yard) -> None:
    hooks = yard.repo.root / ".git" / "hooks"
    hooks.rename(yard.repo.root / "hooks")
    hooks.symlink_to("../hooks")
    assert yard.plan().way is Way.MANUAL


def test_linked_worktree_shares_the_hooks(yard: Yard) -> None:
    yard.repo.git("worktree", "add", "-q", "../linked")
    linked = Yard(Repo(yard.repo.root.parent / "linked"))
    linked.install()
    assert yard.status() is GitHookState.INSTALLED


def test_configuration_is_used_by_a_git_that_runs_hooks_from_it(repo: Repo) -> None:
    yard = Yard(repo, NewGit)
    repo.git("config", "core.hooksPath", ".husky")
    before = yard.snapshot()
    assert {change.act for change in yard.plan().changes} == {Act.SET}
    yard.install()
    assert yard.status() is GitHookState.INSTALLED
    for event in githooks.EVENTS:
        assert repo.git("config", f"hook.gitshadow-{event}.event") == event
    yard.uninstall()
    assert yard.snapshot() == before


def test_configured_command_bears_the_arguments_that_git_appends(repo: Repo) -> None:
    """Git runs `sh -c 'COMMAND "$@"' COMMAND ARGS`, see run_command.c of 2.54."""
    reader = repo.root.parent / "it's a reader"
    reader.write_text('#!/bin/sh\necho "$@"\n')
    reader.chmod(0o755)
    (text,) = commands_of(Yard(repo, NewGit), "post-checkout", str(reader))
    done = subprocess.run(
        ["/bin/sh", "-c", f'{text} "$@"', text, "old", "new", "1"],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"git-hook --beside post-checkout old new 1\n"


def test_scripts_make_way_for_configuration_when_git_is_newer(repo: Repo) -> None:
    before = Yard(repo).snapshot()
    Yard(repo).install()
    yard = Yard(repo, NewGit)
    yard.install()
    assert not repo.exists(".git/hooks/post-commit")
    yard.uninstall()
    assert yard.snapshot() == before


def commands_of(yard: Yard, event: str, program: str) -> Sequence[str]:
    """Return what a shell is to run for one event."""
    plan = yard.plan(program)
    if plan.way is Way.CONFIG:
        name = f"hook.gitshadow-{event}.command"
        return [change.text for change in plan.changes if change.place == name]
    path = yard.repo.root.parent / f"{event}.sh"
    path.write_text(githooks.script(event, program))
    return [f"sh {shlex.quote(str(path))}"]


def run(text: str, *args: str) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        ["/bin/sh", "-c", f'{text} "$@"', text, *args],
        input=b"old new\n",
        capture_output=True,
        cwd=Path("/"),
        timeout=HANGS_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("code", "passes"), [(0, True), (5, False), (1, True)])
@pytest.mark.parametrize("foreign", [False, True])
def test_check_holds_up_what_a_policy_refuses_alone(
    yard: Yard, code: int, passes: bool, foreign: bool
) -> None:
    if foreign:
        yard.repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
    yard.install(check_by(yard.repo, code), check=True)
    assert commits(yard) is passes
    called = (yard.repo.root.parent / "called").read_text().splitlines()
    assert called[0] == "check --quiet"


def test_check_whose_program_is_gone_holds_nothing_up(yard: Yard) -> None:
    yard.install("/nowhere/git-agent-undo", check=True)
    assert commits(yard)


def test_nothing_is_checked_unless_it_was_asked_for(yard: Yard) -> None:
    yard.install(check_by(yard.repo, 5))
    assert commits(yard)


@pytest.mark.parametrize("kind", [OldGit, NewGit])
def test_check_stays_as_it_is_until_it_is_asked_for_otherwise(
    repo: Repo, kind: type[Git]
) -> None:
    yard = Yard(repo, kind)
    before = yard.snapshot()
    yard.install(check=True)
    checked = yard.snapshot()
    assert (yard.plan().changes, yard.status()) == ((), GitHookState.INSTALLED)
    yard.install(check=False)
    assert yard.snapshot() not in (before, checked)
    yard.install(check=True)
    assert yard.snapshot() == checked
    assert yard.uninstall().advice == ""
    assert yard.snapshot() == before


@pytest.mark.parametrize(("code", "status"), [(0, 0), (5, 1), (1, 0)])
def test_configured_check_ends_as_its_policies_say(
    repo: Repo, code: int, status: int
) -> None:
    """Git 2.54 runs `sh -c COMMAND`."""
    text = githooks.check_command(check_by(repo, code))
    assert run(text)[0] == status


def test_line_of_the_check_is_among_what_is_added_by_hand(yard: Yard) -> None:
    yard.repo.git("config", "core.hooksPath", ".husky")
    plan = githooks.plan(yard.layout, yard.git, COMMAND, check=True)
    assert (
        f"  pre-commit: {COMMAND} check --quiet || [ $? -ne 5 ] || exit 1"
        in plan.advice
    )
