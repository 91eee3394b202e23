"""init: asks nothing that it can find out, and works wherever a repository is."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.terminal import on_a_terminal

pytestmark = [pytest.mark.both_modes, pytest.mark.process]

SETTINGS = b'{"model": "opus"}\n'


@pytest.fixture
def settings(sealed: Path) -> Path:
    """Return the settings of an agent that is installed on this machine."""
    path = sealed / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(SETTINGS)
    return path


@pytest.fixture
def shadow(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the command, on a machine on which no agent is installed but those of a test."""
    made = make_shadow(repo, daemon=False)
    scripts = os.environ["PATH"].split(os.pathsep)[0]
    git = shutil.which("git")
    assert git is not None
    made.env["PATH"] = os.pathsep.join(
        [scripts, str(Path(git).parent), "/usr/bin", "/bin"]
    )
    return made


def test_hooks_are_shown_and_offered_once_on_a_terminal(
    shadow: Shadow, settings: Path
) -> None:
    first = on_a_terminal(shadow, "init", typed=b"y\n")
    assert first.code == 0
    assert f"claude-code (user): change {settings}" in first.text
    assert first.text.count("[Y/n]") == 1
    assert b"git-agent-undo hook claude-code" in settings.read_bytes()
    assert "protected by the hooks of claude-code" in first.text
    again = on_a_terminal(shadow, "init")
    assert (again.code, "[Y/n]" in again.text) == (0, False)
    shadow.ok("hooks", "uninstall", "--yes")
    assert settings.read_bytes() == SETTINGS


def test_hooks_that_do_not_run_yet_protect_nobody(shadow: Shadow, sealed: Path) -> None:
    """Codex asks its user to approve hooks: `status` says so, and `init` does."""
    (sealed / ".codex").mkdir()
    shadow.ok("hooks", "install", "codex", "--yes")
    said = shadow.ok("init").out
    assert "the hooks of codex do not run yet: not approved in Codex yet" in said
    assert "protected by" not in said
    verdict = shadow.status()["protected"]
    assert isinstance(verdict, dict)
    assert [row["state"] for row in verdict["hooks"]] == ["untrusted"]


@pytest.mark.parametrize(("options", "typed"), [((), b"n\n"), (("--no-hooks",), b"")])
def test_nothing_is_written_into_settings_where_a_person_says_no(
    shadow: Shadow, settings: Path, options: tuple[str, ...], typed: bytes
) -> None:
    done = on_a_terminal(shadow, "init", *options, typed=typed)
    assert done.code == 0
    assert settings.read_bytes() == SETTINGS
    assert "no hooks for claude-code, so authorship is a guess" in done.text


def test_nobody_is_asked_and_nothing_written_without_a_terminal(
    shadow: Shadow, settings: Path
) -> None:
    document = shadow.ok("init", "--json").json()
    assert (document["unhooked"], document["by"]) == (["claude-code"], [])
    said = shadow.ok("init").out.splitlines()
    assert not any(line.startswith("claude-code (user)") for line in said)
    assert said[-2:] == [
        "no hooks for claude-code, so authorship is a guess: git agent-undo hooks install",
        "if an agent goes wrong: git agent-undo oops",
    ]
    assert settings.read_bytes() == SETTINGS


def test_hooks_that_nobody_can_be_asked_about_are_a_usage_error(
    shadow: Shadow, settings: Path
) -> None:
    refused = shadow("init", "--hooks")
    assert (refused.code, settings.read_bytes()) == (2, SETTINGS)
    assert refused.err.splitlines() == [
        "error: cannot ask about hooks: no terminal",
        "hint: add --yes to write them, or omit --hooks",
    ]
    assert not shadow.repo.state_dir.exists()


def test_hooks_are_installed_unasked_with_yes(shadow: Shadow, settings: Path) -> None:
    document = shadow.ok("init", "--hooks", "--yes", "--json").json()
    done = document["hooks"]
    assert isinstance(done, dict)
    assert (done["status"], document["by"]) == ("done", ["claude-code"])
    assert b"git-agent-undo hook claude-code" in settings.read_bytes()


def test_settings_that_cannot_be_used_do_not_keep_init_from_its_work(
    shadow: Shadow, settings: Path
) -> None:
    settings.write_bytes(b"{")
    done = on_a_terminal(shadow, "init")
    assert (done.code, settings.read_bytes()) == (0, b"{")
    assert "if an agent goes wrong" in done.text
    assert shadow("init", "--yes").code == 1
    assert shadow.repo.state_dir.exists()


def test_repository_without_a_commit_can_be_undone_in(
    make_repo: Callable[..., Repo], make_shadow: Callable[..., Shadow]
) -> None:
    repo = make_repo(files=())
    repo.write("draft", "mine\n")
    shadow = make_shadow(repo, daemon=False)
    assert shadow.ok("init", "--json").json()["files"] == 1
    Claude(shadow).write("draft", "not mine\n")
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("draft") == b"mine\n"


def test_linked_worktree_is_recorded_apart(
    repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    shadow = make_shadow(Repo(tmp_path / "linked"), daemon=False)
    document = shadow.ok("init", "--json").json()
    assert (document["worktree"], document["files"]) == ("linked", 3)
    Claude(shadow).write("a", "by the agent\n")
    assert shadow.oops()["status"] == "reversed"
    assert not (repo.state_dir / "wt" / "main").exists()


def test_many_files_are_all_read(
    make_repo: Callable[..., Repo], make_shadow: Callable[..., Shadow]
) -> None:
    """100,000 of them are the benchmark's; here it is that none is left out."""
    repo = make_repo(files=())
    for folder in range(60):
        (repo.root / f"d{folder}").mkdir()
        for name in range(50):
            (repo.root / f"d{folder}" / f"f{name}").write_bytes(b"%d\n" % name)
    shadow = make_shadow(repo, daemon=False)
    assert shadow.ok("init", "--json").json()["files"] == 3000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_in_a_repository_of_somebody_else(
    repo: Repo, make_shadow: Callable[..., Shadow], sealed: Path
) -> None:
    """A container often runs as root on a directory of the user's: Git's own rule holds."""
    for path in (repo.root, *repo.root.rglob("*")):
        shutil.chown(path, 1234, 1234)
    shadow = make_shadow(repo, daemon=False)
    refused = shadow("init")
    assert (refused.code, refused.err.count("\n")) == (1, 2)
    trust = f"git config --global --add safe.directory {repo.root}"
    assert refused.err.splitlines()[1] == f"hint: if you trust it: {trust}"
    assert not repo.state_dir.exists()
    repo.git("config", "--global", "--add", "safe.directory", str(repo.root))
    shadow.ok("init")
    Claude(shadow).write("a", "by the agent\n")
    assert shadow.oops()["status"] == "reversed"
    assert (repo.root / "a").stat().st_uid == 1234


@pytest.mark.parametrize(("setting", "is_served"), [("auto", True), ("off", False)])
def test_init_says_what_it_read_whether_a_daemon_read_it_or_not(
    repo: Repo, make_shadow: Callable[..., Shadow], setting: str, is_served: bool
) -> None:
    repo.git("config", "agent-undo.daemon", setting)
    repo.write("n", "not tracked\n")
    shadow = make_shadow(repo, daemon=True)
    first, again = (shadow.ok("init", "--json").json() for _ in range(2))
    told = ("already", "files", "daemon", "daemon_allowed")
    assert [first[name] for name in told] == [False, 4, is_served, is_served]
    assert [again[name] for name in told] == [True, 4, is_served, is_served]
    assert bool(shadow.daemons()) == is_served
    assert [row["path"] for row in shadow.log("-n", "9")] == []
