"""A terminal of fixed size for programs that fill one: `with pane(tmp, "tig", cwd) as shown:`."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.tools import need

COLUMNS, LINES = 160, 22


@contextmanager
def pane(
    scratch: Path,
    command: Sequence[str],
    cwd: Path,
    *,
    columns: int = COLUMNS,
    lines: int = LINES,
) -> Iterator[Callable[..., str]]:
    """Run a program in tmux; yield what returns the text that it shows, with colours if asked."""
    tmux = (need("tmux"), "-u", "-S", str(scratch / "tmux"), "-f", os.devnull)
    environ = {**os.environ, "LC_ALL": "C.UTF-8"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [*tmux, *words], cwd=cwd, env=environ, capture_output=True, check=True
        )
        return done.stdout.decode()

    size = ("-x", str(columns), "-y", str(lines))
    run("new-session", "-d", *size, "env", "TERM=screen-256color", *command)
    try:
        yield lambda *options: run("capture-pane", "-p", "-t", "0", *options)
    finally:
        run("kill-server")
