"""What the acceptance rows share: the check after every row, and programs that stand for agents."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.agent_process import PROGRAM, Agent
from tests.support.repo import Repo
from tests.support.shadow import Shadow


@pytest.fixture
def untouched(repo: Repo) -> Iterator[Callable[[], None]]:
    """Check V1 over the whole test; call it after a Git action of the row's own."""
    kept = [repo.snapshot()]

    def renew() -> None:
        kept[0] = repo.snapshot()

    yield renew
    assert repo.snapshot() == kept[0]


@pytest.fixture
def running(shadow: Shadow, tmp_path: Path) -> Iterator[Agent]:
    """Return a function that starts a program of some name in R."""
    with ExitStack() as stack:

        def start(name: str) -> subprocess.Popen[bytes]:
            program = tmp_path / name
            if not program.exists():
                program.symlink_to(sys.executable)
            process = subprocess.Popen(
                [program, "-c", PROGRAM],
                cwd=shadow.repo.root,
                env=shadow.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            return process

        yield start
