"""`exec` as a wrapper: exit codes, environment and signals are the command's own.

No repository is recorded here, so that every row also proves that a command is run whatever
is wrong with the recording.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gitshadow.commands.exec import run_child

START = "import sys; from gitshadow.cli import main; sys.exit(main(sys.argv[1:]))"
COMMAND = [sys.executable, "-c", START, "exec", "--agent", "x", "--"]


def run(
    cwd: Path, *words: str, env: dict[str, str] | None = None
) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("no-such-command-here",), 127),
        (("/",), 126),
    ],
)
def test_exit_code_is_the_commands_where_nothing_is_recorded(
    tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    """ATT-07: 7, 143, 127; with the engine unable to record at all."""
    assert run(tmp_path, *words)[0] == code


def test_command_runs_with_one_line_of_complaint_outside_a_repository(
    tmp_path: Path,
) -> None:
    code, out, err = run(tmp_path, "echo", "done")
    assert (code, out) == (0, "done\n")
    assert err == "git-agent-undo: not recorded: not in a Git working tree\n"


def test_words_of_the_command_are_not_read_as_ours(tmp_path: Path) -> None:
    script = 'for word; do echo "$word"; done'
    code, out, _ = run(tmp_path, "sh", "-c", script, "sh", "--json", "--", "-h", "")
    assert (code, out) == (0, "--json\n--\n-h\n\n")


def test_environment_is_passed_on_and_no_git_variable_is_added(tmp_path: Path) -> None:
    """ROB-14: the user's variables pass, no GIT_* of ours is added."""
    code, out, _ = run(tmp_path, "env", env={"GIT_EDITOR": "ed"})
    found = {line.split("=")[0] for line in out.splitlines()}
    ours = {name for name in found if name.startswith("GIT_")}
    assert code == 0
    assert ours == {name for name in os.environ if name.startswith("GIT_")} | {
        "GIT_EDITOR"
    }


def test_file_without_a_permission_is_not_executable(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert run(tmp_path, "./script")[0] == 126


def test_signal_to_the_wrapper_reaches_the_command(tmp_path: Path) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    child = subprocess.Popen(
        [*COMMAND, "sh", "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=20) == 9


def test_command_gets_the_default_disposition_of_a_broken_pipe(tmp_path: Path) -> None:
    """Python ignores SIGPIPE; a child that inherits that never ends at `| head`."""
    _, out, _ = run(tmp_path, "grep", "SigIgn", "/proc/self/status")
    ignored = int(out.split()[1], 16)
    assert ignored & (1 << (signal.SIGPIPE - 1)) == 0


def test_run_child_restores_the_signal_mask() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert run_child(["true"], os.environ) == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
