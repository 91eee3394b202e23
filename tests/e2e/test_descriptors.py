"""Where file descriptors are short, commands say so in plain words and nothing is lost."""

import os
import resource
import subprocess
import sys

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow

pytestmark = pytest.mark.process

_WORDS = "error: could not open a file: too many files are open\nhint: raise the limit"


def leave_descriptors(pid: int, free: int) -> None:
    """Let a process open as many more descriptors as are given, and no others."""
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    unused = (number for number in range(len(taken) + free + 1) if number not in taken)
    limit = [next(unused) for _ in range(free + 1)][-1]
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))


@pytest.mark.parametrize("free", [1, 2])
def test_daemon_records_everything_once_it_gets_descriptors_back(
    repo: Repo, shadow_d: Shadow, free: int
) -> None:
    pid = int(str(shadow_d.ok("start", "--json").json()["pid"]))
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    repo.write("gone", "1\n")
    repo.write(".gitignore", "ignored\n")
    shadow_d.ok("flush")
    leave_descriptors(pid, free)
    repo.write("a", "other\n")
    repo.write("new/deep/file", "1\n")
    repo.write("new/ignored", "secret\n")
    repo.delete("gone")
    refused = shadow_d("flush")
    assert (refused.code, refused.err[: len(_WORDS)]) == (1, _WORDS)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
    rows = shadow_d.log()
    named = {(row["kind"], row["path"]) for row in rows}
    assert {("modify", "a"), ("create", "new/deep/file"), ("delete", "gone")} <= named
    assert "new/ignored" not in {path for _, path in named}
    # The daemon says once that it failed, maybe only later; no path is given up.
    assert {row["path"] for row in rows if row["kind"] == "gap"} <= {None}
    repo.write("new/deep/later", "1\n")
    shadow_d.verify()
    assert int(str(shadow_d.ok("start", "--json").json()["pid"])) == pid


def test_every_command_is_answered_when_no_descriptor_is_free(
    repo: Repo, shadow_d: Shadow
) -> None:
    """The daemon itself takes what a first command gives back, and the second one gets none."""
    pid = int(str(shadow_d.ok("start", "--json").json()["pid"]))
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    leave_descriptors(pid, 0)
    repo.write("a", "other\n")
    for _ in range(3):
        refused = shadow_d("status")
        assert (refused.code, _WORDS in refused.out + refused.err) == (1, True)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
    assert ("modify", "a") in {(row["kind"], row["path"]) for row in shadow_d.log()}


def test_hook_waits_for_a_daemon_that_has_no_descriptors(
    repo: Repo, shadow_d: Shadow
) -> None:
    pid = int(str(shadow_d.ok("start", "--json").json()["pid"]))
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    agent = Claude(shadow_d)
    agent.start()
    agent.prompt("write it")
    leave_descriptors(pid, 1)
    agent.write("a", "agent\n")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
    (row,) = shadow_d.log("a")[:1]
    assert row["kind"] == "modify"
    assert str(row["session"]).startswith("claude-code-")


def test_command_without_descriptors_says_so_in_plain_words(shadow_n: Shadow) -> None:
    # Git is asked which of the directories are submodules.
    shadow_n.repo.write("d/x", "x\n")
    done = subprocess.run(
        ["sh", "-c", f"ulimit -n 12; exec {COMMAND} flush"],
        cwd=shadow_n.repo.root,
        env=shadow_n.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.lower().startswith(("error: could not ", "error: cannot "))
    assert "too many" in done.stderr.lower()
    assert "Errno" not in done.stderr
    assert "ulimit -n" in done.stderr


_NEXT = "import os; from gitshadow import entry; entry.open_standard_streams(); os._exit(os.dup(0))"


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "<&- >&-", ">&- 2>&-", "2>&-", ""])
def test_closed_standard_streams_never_become_files_of_ours(
    repo: Repo, shadow_n: Shadow, closed: str
) -> None:
    """The next open file would have the number of a closed stream, and get what is printed."""
    for words in (f"{COMMAND} flush", f"{COMMAND} undo --no-such-option"):
        repo.append("a", "more\n")
        _run(shadow_n, f"exec {words} {closed}")
    assert {row["path"] for row in shadow_n.log()} == {"a"}
    shadow_n.verify()
    assert _run(shadow_n, f"exec {sys.executable} -c '{_NEXT}' {closed}") > 2


def _run(shadow: Shadow, line: str) -> int:
    """Return how a command of the shell ended."""
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        capture_output=True,
        check=False,
    )
    return done.returncode
