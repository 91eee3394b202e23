"""The look at the journal: told soon, late where that brought nothing, never lost."""

import threading
from itertools import count

from gitshadow.ui.page_loader import Watch
from tests.support.waiting import HANGS_S


def test_change_is_told_and_silence_is_not() -> None:
    marks, told = [1], threading.Semaphore(0)
    watch = Watch(lambda: marks[0], told.release)
    watch.start(0.001)
    marks[0] = 2
    assert told.acquire(timeout=HANGS_S)
    assert not told.acquire(timeout=0.05)
    watch.stop()


def test_again_is_told_though_nothing_changed() -> None:
    told = threading.Semaphore(0)
    watch = Watch(lambda: 1, told.release)
    watch.start(0.001)
    watch.again()
    assert told.acquire(timeout=HANGS_S)
    watch.stop()


def test_changes_that_bring_nothing_are_told_ever_later_until_one_does() -> None:
    """Without a daemon each question changes the journal: it must not ask for ever."""
    marks, told = count(), threading.Semaphore(0)
    watch = Watch(lambda: next(marks), told.release)
    for _ in range(8):
        watch.brought(something=False)
    watch.start(0.001)
    assert not told.acquire(timeout=0.2)
    watch.brought(something=True)
    assert told.acquire(timeout=HANGS_S)
    watch.stop()
