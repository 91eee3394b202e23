"""How far the first reading of a worktree is."""

import io
import os
import sys
import time
from collections.abc import Callable

import pytest

from gitshadow.commands import init
from gitshadow.maintenance import setup
from gitshadow.store import progress
from gitshadow.store.progress import Progress
from tests.support.repo import Repo
from tests.support.studio import layout_of


def test_reading_says_how_far_it_is(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A tracked file is read too where Git's index is too young to vouch for it.
    for name in "abc":
        repo.delete(name)
    for number in range(6):
        repo.write(f"new/{number}", bytes([number]) * 1000)
    layout = layout_of(repo)
    monkeypatch.setattr(progress, "_EVERY_S", 0)
    told: list[Progress] = []

    def state(reader: setup._Reader, *rest: object) -> object:
        told.extend(filter(None, [progress.read(layout)]))
        return plain(reader, *rest)

    plain: Callable[..., object] = setup._Reader._state
    monkeypatch.setattr(setup._Reader, "_state", state)
    setup.initialise(layout, os.environ, force=False)
    assert [one.files for one in told] == [1, 2, 3, 4, 5]
    assert {(one.of_files, one.of_size) for one in told} == {(6, 6000)}
    assert progress.read(layout) is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Progress(1, 0, 2, 10, 1), "read 1 of 2 files, 0 B of 10 B"),
        (
            Progress(120, 2**20, 4000, 2**22, 2),
            "read 120 of 4000 files, 1.0 MiB of 4.0 MiB; 6 seconds left",
        ),
    ],
)
def test_progress_in_words(found: Progress, said: str) -> None:
    assert init.in_words(found) == said


class Terminal(io.StringIO):
    """What a person sees; `shows` waits for a text."""

    def isatty(self) -> bool:
        return True

    def shows(self, text: str) -> bool:
        end = time.monotonic() + 30
        while text not in self.getvalue() and time.monotonic() < end:
            time.sleep(0.001)
        return text in self.getvalue()


def test_terminal_shows_it_and_then_no_more(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, seen = layout_of(repo), Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(init, "_AFTER_S", 0)
    os.makedirs(layout.wt_dir)
    with open(os.path.join(layout.wt_dir, "reading"), "w") as stream:
        stream.write("1 5 3 10 5.0")
    line = "read 1 of 3 files, 5 B of 10 B; 5 seconds left"
    with init.shown(layout):
        assert seen.shows(f"\r{line}")
    assert seen.getvalue().endswith(f"\r{'':<{len(line)}}\r")
