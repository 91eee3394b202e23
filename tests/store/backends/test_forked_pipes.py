"""A fork of a process that has git children closes nothing but its own copies of the pipes."""

import os
from pathlib import Path

from gitshadow.store.backends.git_pipes import Answers, GitPipe


def line(answers: Answers) -> bytes:
    return answers.line()


def test_fork_closes_no_number_a_second_time(tmp_path: Path) -> None:
    """A number that was closed belongs to the next file that the fork opens."""
    pipe = GitPipe(["cat"], str(tmp_path), dict(os.environ))
    assert pipe.ask(b"one\n", line) == b"one"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            fresh = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
            del pipe
            for number in fresh:
                os.fstat(number)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    pipe.close()
