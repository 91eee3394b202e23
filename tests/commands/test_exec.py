"""`exec` as a wrapper: exit codes, environment and signals are the command's own.

No repository is recorded here, so that every row also proves that a command is run whatever
is wrong with the recording.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.support.waiting import HANGS_S

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
        timeout=HANGS_S,
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
        (("",), 127),
        (("/",), 126),
    ],
)
def test_att07_exit_code_is_the_commands_where_nothing_is_recorded(
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
        assert child.wait(timeout=HANGS_S) == 9


LEADER = """\
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    print("stopped by", os.WSTOPSIG(status), flush=True)
    os.killpg(pid, signal.SIGCONT)
print("exit", os.waitstatus_to_exitcode(status), flush=True)
"""
"""A shell with job control in ten lines: a session with the terminal, one job, `fg` at a stop."""


@contextmanager
def at_a_terminal(cwd: Path, script: str) -> Iterator[tuple[int, IO[bytes]]]:
    """Run a script in `exec` as the foreground job of a terminal; yield its keys and output."""
    keys, terminal = os.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", LEADER, *COMMAND, "sh", "-c", script],
            cwd=cwd,
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == b"ready\n"
            yield keys, running.stdout
            assert running.wait(timeout=HANGS_S) == 0
    finally:
        os.close(keys)
        os.close(terminal)


def test_ctrl_c_reaches_the_command_once_and_its_answer_is_ours(tmp_path: Path) -> None:
    script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    with at_a_terminal(tmp_path, script) as (keys, out):
        os.write(keys, b"\x03")
        assert out.read() == b"caught\nexit 9\n"


def test_ctrl_c_that_ends_the_command_is_130(tmp_path: Path) -> None:
    with at_a_terminal(tmp_path, "echo ready; exec sleep 60") as (keys, out):
        os.write(keys, b"\x03")
        assert out.read() == b"exit 130\n"


def test_ctrl_c_that_the_command_ignores_ends_nothing(tmp_path: Path) -> None:
    script = "trap '' INT; echo ready; read key; echo got $key"
    with at_a_terminal(tmp_path, script) as (keys, out):
        os.write(keys, b"\x03")
        os.write(keys, b"enter\n")
        assert out.read() == b"got enter\nexit 0\n"


def test_ctrl_z_stops_the_job_and_it_goes_on(tmp_path: Path) -> None:
    script = "echo ready; read key; echo got $key; exit 4"
    with at_a_terminal(tmp_path, script) as (keys, out):
        os.write(keys, b"\x1a")
        assert out.readline() == b"stopped by 20\n"
        os.write(keys, b"enter\n")
        assert out.read() == b"got enter\nexit 4\n"


def test_command_gets_the_default_disposition_of_a_broken_pipe(tmp_path: Path) -> None:
    """Python ignores SIGPIPE; a child that inherits that never ends at `| head`."""
    _, out, _ = run(tmp_path, "grep", "SigIgn", "/proc/self/status")
    ignored = int(out.split()[1], 16)
    assert ignored & (1 << (signal.SIGPIPE - 1)) == 0


MASKED = """\
import os, signal
from gitshadow.commands.exec import run_child
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
assert run_child(["true"], os.environ) == 0
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
"""


def test_run_child_restores_the_signal_mask() -> None:
    done = subprocess.run([sys.executable, "-c", MASKED], timeout=HANGS_S, check=False)
    assert done.returncode == 0


TAKEN = """\
import os, signal, threading
from gitshadow.commands.exec import run_child
from gitshadow.platform import current
machine = current().machine_facts()
await_signal, ended = machine.await_signal, threading.Event()
threading.Thread(target=ended.wait, daemon=True).start()
def late(waited, longest_s):
    # Nobody waits for the signal while the command ends, so it goes to the other thread.
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    return await_signal(waited, longest_s)
machine.await_signal = late
assert run_child(["true"], os.environ) == 0
"""


@pytest.mark.parametrize("platform", ["", "portable"])
def test_end_is_noticed_although_another_thread_was_given_the_signal(
    platform: str,
) -> None:
    env = {**os.environ, "GITSHADOW_PLATFORM": platform}
    done = subprocess.run(
        [sys.executable, "-c", TAKEN], env=env, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0


def test_end_of_the_command_is_noticed_by_a_kernel_that_drops_ignored_signals(
    tmp_path: Path,
) -> None:
    """BSD and macOS do that; SIGCHLD is ignored by default, which the command has all the same."""
    asks = "import signal; print(signal.getsignal(signal.SIGCHLD).name)"
    waits = """\
import os, signal, sys
from gitshadow.commands.exec import run_child
from gitshadow.platform import current
machine = current().machine_facts()
await_signal = machine.await_signal
def checked(waited, longest_s):
    assert signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, signal.SIG_IGN)
    return await_signal(waited, longest_s)
machine.await_signal = checked
sys.exit(run_child([sys.executable, "-c", sys.argv[1]], dict(os.environ)))
"""
    done = subprocess.run(
        [sys.executable, "-c", waits, asks],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "SIG_DFL\n", "")
