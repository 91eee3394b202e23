"""The guard of pushes: it stops shadow refs, says what to do, and nothing else waits for it."""

import os
import subprocess
from pathlib import Path

import pytest

from gitshadow.hookfiles import githooks
from gitshadow.ipc import pushguard
from gitshadow.store import refs
from gitshadow.store.git import Git
from tests.support.repo import Repo
from tests.support.shadow import COMMAND
from tests.support.studio import layout_of

OID, ZERO = "1" * 40, "0" * 40


def line(local: str, remote: str) -> bytes:
    return f"{local} {OID} {remote} {ZERO}\n".encode()


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (line("refs/heads/main", "refs/heads/main"), []),
        (line("refs/agent-undo/s", "refs/agent-undo/s"), ["refs/agent-undo/s"]),
        (line("refs/agent-undo/s", "refs/heads/s"), ["refs/agent-undo/s"]),
        (line(OID, "refs/agent-undo/s"), ["refs/agent-undo/s"]),
        (
            line("refs/remotes/agent-undo/s", "refs/remotes/agent-undo/s"),
            ["refs/remotes/agent-undo/s"],
        ),
        (line("(delete)", "refs/agent-undo/s"), []),
        (line("refs/heads/refs/agent-undo/s", "refs/heads/x"), []),
        (b"", []),
        (b"\xff\n\n refs/agent-undo/s\n", []),
    ],
)
def test_shadow_refs_are_those_that_are_sent(told: bytes, found: list[str]) -> None:
    assert pushguard.shadow_refs(told) == found


def test_namespaces_are_those_of_the_grammar() -> None:
    """They are written twice, because the grammar takes milliseconds to import."""
    assert pushguard.NAMESPACES == (refs.REF_PREFIX, refs.EXPOSED_PREFIX)


def test_refusal_shows_a_few_refs_and_every_way_on() -> None:
    names = [f"refs/agent-undo/s{n}" for n in range(5)]
    assert pushguard.refusal(names, "back\x1bup").splitlines() == [
        "git-agent-undo: stopped, this push would send 5 refs of the recorded history "
        "to 'back\\x1bup':",
        "  refs/agent-undo/s0, refs/agent-undo/s1, refs/agent-undo/s2, …",
        "They contain every recorded state of your files, including uncommitted changes.",
        "  only your branches:    git push 'back\\x1bup' --all",
        "  only the sessions:     git agent-undo push 'back\\x1bup'",
        "  to exclude them from a mirror remote: git agent-undo doctor",
        "  this push anyway:      GITSHADOW_PUSH_GUARD=false git push …",
    ]


class Pushing:
    """A repository with a shadow ref, the hooks installed, and a bare one to push to."""

    def __init__(self, repo: Repo, there: Path) -> None:
        self.repo = repo
        self.there = Repo(there)
        repo.git("init", "-q", "--bare", str(there))
        repo.git("remote", "add", "there", str(there))
        repo.git("update-ref", "refs/agent-undo/s1", "HEAD")

    def install(self, command: str = COMMAND) -> None:
        layout = layout_of(self.repo)
        git = Git(layout, dict(os.environ))
        githooks.apply(githooks.plan(layout, git, command), git)

    def push(self, *args: str, **env: str) -> tuple[int, str, list[str]]:
        """Push; return the exit code, what was said, and the refs over there."""
        done = subprocess.run(
            ["git", "push", "-q", "there", *args],
            cwd=self.repo.root,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        listed = self.there.git("for-each-ref", "--format=%(refname)").split()
        return done.returncode, done.stderr, listed


@pytest.fixture
def pushing(repo: Repo, tmp_path: Path) -> Pushing:
    made = Pushing(repo, tmp_path / "there.git")
    made.install()
    return made


def test_mirror_push_is_stopped_whole(pushing: Pushing) -> None:
    code, said, there = pushing.push("--mirror")
    assert (code, there) == (1, [])
    assert said.startswith(
        "git-agent-undo: stopped, this push would send 1 ref of the recorded history to"
        " there:\n  refs/agent-undo/s1\n"
    )


def test_shown_session_is_stopped_too(pushing: Pushing) -> None:
    pushing.repo.git("update-ref", "-d", "refs/agent-undo/s1")
    pushing.repo.git("update-ref", "refs/remotes/agent-undo/s1", "HEAD")
    assert pushing.push("--mirror")[0] == 1


def test_ordinary_pushes_go_through_without_starting_us(
    repo: Repo, tmp_path: Path
) -> None:
    called = tmp_path / "called"
    program = tmp_path / "git-agent-undo"
    program.write_text(f'#!/bin/sh\necho "$@" >>{called}\nexit {pushguard.REFUSED}\n')
    program.chmod(0o755)
    pushing = Pushing(repo, tmp_path / "there.git")
    pushing.install(str(program))
    repo.git("tag", "v1")
    for args in (["main"], ["--all"], ["--tags"], [":refs/tags/v1"]):
        assert pushing.push(*args)[:2] == (0, "")
    assert not called.exists()
    assert pushing.push("--mirror")[0] == 1
    assert called.read_text() == f"git-hook pre-push there {pushing.there.root}\n"


@pytest.mark.parametrize("end", ["exit 1", "exit 127", "kill -9 $$", "exit 2"])
def test_broken_installation_stops_no_push(
    repo: Repo, tmp_path: Path, end: str
) -> None:
    program = tmp_path / "git-agent-undo"
    program.write_text(f"#!/bin/sh\n{end}\n")
    program.chmod(0o755)
    pushing = Pushing(repo, tmp_path / "there.git")
    pushing.install(str(program))
    assert pushing.push("--mirror")[0] == 0
    program.unlink()
    assert pushing.push("--mirror")[0] == 0


def test_override_lets_one_push_through(pushing: Pushing) -> None:
    code, said, there = pushing.push("--mirror", GITSHADOW_PUSH_GUARD="false")
    assert (code, said) == (0, "")
    assert "refs/agent-undo/s1" in there


def test_setting_switches_the_guard_off(pushing: Pushing) -> None:
    pushing.repo.git("config", "agent-undo.pushGuard", "nonsense")
    assert pushing.push("--mirror")[0] == 1
    pushing.repo.git("config", "agent-undo.pushGuard", "false")
    assert pushing.push("--mirror")[0] == 0


def test_deletion_over_there_is_no_leak(pushing: Pushing) -> None:
    pushing.push("--mirror", "--no-verify")
    code, _, there = pushing.push(":refs/agent-undo/s1")
    assert (code, there) == (0, ["refs/heads/main"])


def test_hook_that_stood_there_decides_with_the_same_input(
    repo: Repo, tmp_path: Path
) -> None:
    pushing = Pushing(repo, tmp_path / "there.git")
    repo.write(".git/hooks/pre-push", "#!/bin/sh\ncat >seen\nexit 3\n", 0o755)
    pushing.install()
    assert pushing.push("main")[0] == 1
    oid = repo.git("rev-parse", "HEAD")
    expected = f"refs/heads/main {oid} refs/heads/main {ZERO}\n"
    assert repo.read("seen").decode() == expected
    repo.delete("seen")
    assert pushing.push("--mirror")[0] == 1
    assert not repo.exists("seen")


@pytest.mark.parametrize("refs_pushed", [1, 20_000])
def test_configured_hook_says_the_same(pushing: Pushing, refs_pushed: int) -> None:
    """Git 2.54 runs `sh -c 'COMMAND "$@"' COMMAND ARGS`; no packaged git does yet."""
    command = githooks.configured_command("pre-push", COMMAND)
    told = line("refs/heads/x", "refs/heads/x") * refs_pushed

    def run(given: bytes) -> int:
        return subprocess.run(
            ["sh", "-c", f'{command} "$@"', command, "there", "url"],
            cwd=pushing.repo.root,
            input=given,
            capture_output=True,
            check=False,
        ).returncode

    assert run(told) == 0
    assert run(told + line("refs/agent-undo/s1", "refs/agent-undo/s1")) != 0
