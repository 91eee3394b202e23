"""Signals, the terminal, the shell's jobs and pagers, of a served command as of any other."""

import os
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.panes import terminal
from tests.support.probe import Probe
from tests.support.shells import Shell, shell
from tests.support.tools import need
from tests.support.waiting import until


def _lives(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, b"interrupted\n"),
        (signal.SIGTERM, -signal.SIGTERM, b""),
        (signal.SIGHUP, -signal.SIGHUP, b""),
        (signal.SIGQUIT, -signal.SIGQUIT, b""),
        (signal.SIGKILL, -signal.SIGKILL, b""),
    ],
)
@pytest.mark.parametrize("verb", ["sleep", "child"])
@pytest.mark.sampled
def test_a_signal_to_its_group_ends_it(
    probe: Probe,
    verb: str,
    number: signal.Signals,
    code: int,
    said: bytes,
    served: bool,
) -> None:
    with probe.start(verb, served=served, start_new_session=True) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        os.killpg(started.pid, number)
        _, err = started.communicate()
        assert (started.returncode, err) == (code, said)
        until(lambda: not _lives(pid))


@pytest.mark.parametrize("served", [False, True])
def test_what_it_leaves_running_goes_on(probe: Probe, served: bool) -> None:
    until(lambda: len(probe.children()) == 2)
    # It also has the connection, and is to come to its end last.
    os.kill(probe.server.pid, signal.SIGSTOP)
    code, out, _ = probe.run("leave", served=served)
    assert (code, _lives(int(out))) == (0, True)
    os.kill(int(out), signal.SIGTERM)


@pytest.mark.parametrize("served", [False, True])
def test_a_pipe_whose_reader_is_gone_ends_it(probe: Probe, served: bool) -> None:
    script = '"$@" | head -n 1; echo "${PIPESTATUS[0]}"'
    words = ["bash", "-c", script, "bash", *probe.words("page", "100000", "")]
    env = probe.environment(served=served)
    done = subprocess.run(words, env=env, capture_output=True, check=True)
    assert done.stdout == b"line 0\n141\n"


def _bash(probe: Probe, cwd: Path, *, served: bool) -> AbstractContextManager[Shell]:
    words = [need("bash"), "--norc", "--noprofile", "-i"]
    return shell(words, "", cwd, probe.environment(served=served))


def _line(probe: Probe, *args: str) -> str:
    return " ".join([*probe.client, *args])


@pytest.mark.parametrize("served", [False, True])
def test_a_question_is_answered_stopped_and_continued(
    probe: Probe, tmp_path: Path, served: bool
) -> None:
    with _bash(probe, tmp_path, served=served) as bash:
        assert "answer: True" in _typed(bash, _line(probe, "ask"), "y\n", "answer: ")
        stopped = _typed(bash, _line(probe, "ask"), "\x1a", "Stopped")
        assert "answer" not in stopped
        assert "answer: True" in _typed(bash, "fg", "y\n", "answer: ", asked="ask")
        assert "interrupted" in _typed(bash, _line(probe, "ask"), "\x03", "interrupted")
        assert bash.run("echo code $?").count("code 130") == 1


@pytest.mark.parametrize("served", [False, True])
def test_a_question_in_the_background_waits_for_the_foreground(
    probe: Probe, tmp_path: Path, served: bool
) -> None:
    with _bash(probe, tmp_path, served=served) as bash:
        _typed(bash, _line(probe, "ask"), "\x1a", "Stopped")
        bash.run("bg")
        until(lambda: "Stopped" in bash.run("jobs"))
        # What is typed is the shell's.
        assert "still here" in bash.run("echo still here")
        assert "answer: True" in _typed(bash, "fg", "y\n", "answer: ", asked="ask")


def _typed(
    bash: Shell, line: str, keys: str, until_shown: str, *, asked: str = "[y/N]"
) -> str:
    bash.shown = ""
    bash.press(f"{line}\n", until=asked)
    # A signal between Python's last look at signals and its read(2) waits for the next key.
    time.sleep(0.5)
    bash.press(keys, until=until_shown)
    shown = bash.press("", until="READY> ")
    bash.shown = ""
    return shown


@pytest.mark.parametrize("served", [False, True])
def test_a_pager_is_at_the_terminal(probe: Probe, tmp_path: Path, served: bool) -> None:
    need("less")
    line = _line(probe, "page", "1000", "'less -X'")
    words = ["sh", "-c", f"{line}; echo code $?; exec cat"]
    env = probe.environment(served=served)
    with terminal(tmp_path, words, tmp_path, env=env, lines=10) as shown:
        shown.sees("line 0", "line 8", without="code")
        shown.press("G")
        shown.sees("line 999")
        shown.resize(80, 20)
        shown.sees("line 991", "~", "(END)")
        shown.press("q")
        shown.sees("after the pager", "code 0")
