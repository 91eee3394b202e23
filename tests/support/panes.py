"""A terminal of fixed size for programs that fill one: `with pane(tmp, "tig", cwd) as shown:`."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.tools import need
from tests.support.waiting import until

COLUMNS, LINES = 160, 22
_AGAIN_S = 3.0


class Terminal(NamedTuple):
    """A program in tmux: what it shows, keys to press, its process."""

    run: Callable[..., str]

    def shown(self, *options: str) -> str:
        """Return the text on the screen, with colours (`-e`) if asked."""
        return self.run("capture-pane", "-p", "-t", "0", *options)

    def sees(self, *words: str, without: str = "") -> None:
        """Wait until all these words are on the screen, and another is not."""
        shown = ""

        def so() -> bool:
            nonlocal shown
            shown = self.shown().replace("\u00a0", " ")
            there = all(word in shown for word in words)
            return there and not (without and without in shown)

        try:
            until(so)
        except AssertionError:
            raise AssertionError(
                f"waited for {words}, no {without}:\n{shown}"
            ) from None

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names of them."""
        self.run("send-keys", "-t", "0", *keys)

    def press_until(self, holds: Callable[[str], bool], *keys: str) -> None:
        """Press keys until the screen is so: again, as what comes too early may be lost."""

        def again() -> None:
            self.press(*keys)
            time.sleep(_AGAIN_S)

        until(lambda: holds(self.shown()), between=again)

    def resize(self, columns: int, lines: int) -> None:
        """Make the terminal another size."""
        self.run("resize-window", "-t", "0", "-x", str(columns), "-y", str(lines))

    @property
    def pid(self) -> int:
        """Return the process of the program."""
        return int(self.run("display-message", "-p", "-t", "0", "#{pane_pid}"))


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
    with terminal(scratch, command, cwd, columns=columns, lines=lines) as shown:
        yield shown.shown


@contextmanager
def terminal(
    scratch: Path,
    command: Sequence[str],
    cwd: Path,
    *,
    columns: int = COLUMNS,
    lines: int = LINES,
    env: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Run a program in tmux, with this environment where one is given; yield the terminal."""
    tmux = (need("tmux"), "-u", "-S", str(scratch / "tmux"), "-f", os.devnull)
    environ = {**os.environ, "LC_ALL": "C.UTF-8"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [*tmux, *words], cwd=cwd, env=environ, capture_output=True, check=True
        )
        return done.stdout.decode()

    size = ("-x", str(columns), "-y", str(lines))
    words = ["env"] if env is None else ["env", "-i"]
    words += [f"{name}={value}" for name, value in (env or {}).items()]
    run("new-session", "-d", *size, *words, "TERM=screen-256color", *command)
    try:
        yield Terminal(run)
    finally:
        # no server is left where the program has ended by itself
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
