"""Git children that are kept open: they die with us, and their death is not an answer."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.errors import StoreError, is_shortage
from gitshadow.store.backends.git_pipes import Answers, DeadError, GitPipe
from tests.support.waiting import HANGS_S

_ENDS = 'read line; echo "$line"; read line; echo bad luck >&2; exit 3'


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[GitPipe]:
    """Give a child that answers each line with itself."""
    pipe = GitPipe(["cat"], str(tmp_path), dict(os.environ))
    yield pipe
    pipe.close()


def line(answers: Answers) -> bytes:
    return answers.line()


def pid_of(pipe: GitPipe) -> int:
    assert pipe._child is not None
    return pipe._child.process.pid


def test_one_child_answers_many_questions(echo: GitPipe) -> None:
    assert echo.ask(b"one\n", line) == b"one"
    first = pid_of(echo)
    assert echo.ask(b"two\n", lambda answers: answers.take(4)) == b"two\n"
    assert echo.ask(b"a\0b\0", lambda a: a.take(4)) == b"a\0b\0"
    assert pid_of(echo) == first


def test_killed_child_is_replaced_once(echo: GitPipe) -> None:
    echo.ask(b"one\n", line)
    first = pid_of(echo)
    os.kill(first, signal.SIGKILL)
    assert echo.ask(b"two\n", line) == b"two"
    assert pid_of(echo) != first


def test_child_that_dies_again_is_an_error_with_its_words(tmp_path: Path) -> None:
    pipe = GitPipe(["sh", "-c", _ENDS], str(tmp_path), dict(os.environ))
    assert pipe.ask(b"1\n", line) == b"1"
    with pytest.raises(DeadError) as caught:
        pipe.ask_once(b"2\n", line)
    assert caught.value.said == "bad luck"
    assert pipe.ask(b"3\n", line) == b"3"
    pipe.close()
    dead = GitPipe(["sh", "-c", "exit 1"], str(tmp_path), dict(os.environ))
    with pytest.raises(DeadError):
        dead.ask(b"1\n", line)


def test_child_that_cannot_begin_says_why(tmp_path: Path) -> None:
    """Its words come before the question."""
    script = "echo no luck >&2; exit 1"
    pipe = GitPipe(["sh", "-c", script], str(tmp_path), dict(os.environ))
    child = pipe._start()
    child.process.wait(HANGS_S)
    with pytest.raises(DeadError) as caught:
        pipe.ask_once(b"1\n", line)
    assert caught.value.said == "no luck"


def test_interrupted_question_ends_the_child(echo: GitPipe) -> None:
    """The rest of the answer would be taken for that to the next question."""

    def interrupted(answers: Answers) -> bytes:
        answers.take(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        echo.ask(b"one\n", interrupted)
    assert echo.ask(b"two\n", line) == b"two"


def test_child_without_a_descriptor_is_a_shortage(
    echo: GitPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(StoreError) as caught:
        echo.ask(b"one\n", line)
    assert is_shortage(caught.value)


def test_fork_leaves_child_and_answers_to_its_parent(echo: GitPipe) -> None:
    echo.ask(b"one\n", line)
    pid = os.fork()
    if pid == 0:
        fresh = not echo.is_open and echo.ask(b"mine\n", line) == b"mine"
        echo.close()
        os._exit(0 if fresh else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert echo.ask(b"two\n", line) == b"two"


def test_children_die_with_us_even_if_a_fork_lives_on(tmp_path: Path) -> None:
    program = f"""
import os, signal, sys, time
from gitshadow.store.backends.git_pipes import GitPipe
pipe = GitPipe(["cat"], {str(tmp_path)!r}, dict(os.environ))
pipe.ask(b"x\\n", lambda answers: answers.line())
if os.fork() == 0:
    os.close(1)
    time.sleep({HANGS_S})
    os._exit(0)
print(pipe._child.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        child.wait()
        deadline = time.monotonic() + HANGS_S
        try:
            while _runs(pid):
                assert time.monotonic() < deadline, "the child is still there"
                time.sleep(0.01)
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    """Return whether a process runs; one that nobody waits for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_child_inherits_no_other_pipe(tmp_path: Path) -> None:
    """One that did would keep another from seeing the end of its input."""
    pipes = [GitPipe(["cat"], str(tmp_path), dict(os.environ)) for _ in range(3)]
    for pipe in pipes:
        pipe.ask(b"x\n", line)
    for pipe in pipes:
        assert sorted(os.listdir(f"/proc/{pid_of(pipe)}/fd")) == ["0", "1", "2"]
        pipe.close()
