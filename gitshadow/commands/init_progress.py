"""Show on a terminal how far the first reading of a worktree is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from gitshadow.store import progress
from gitshadow.store.layout import Layout
from gitshadow.store.progress import Progress
from gitshadow.words import byte_size, counted

_AFTER_S = 1.0
_EVERY_S = 0.25


@contextmanager
def shown(layout: Layout) -> Iterator[None]:
    """Show it on standard error, if that is a terminal, once this has taken a second."""
    if not sys.stderr.isatty():
        yield
        return
    done = Event()
    thread = Thread(target=_show, args=(layout, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(layout: Layout, done: Event) -> None:
    width, pause = 0, _AFTER_S
    while not done.wait(pause):
        found, pause = progress.read(layout), _EVERY_S
        if found is not None:
            line = in_words(found)
            sys.stderr.write(f"\r{line:<{width}}")
            sys.stderr.flush()
            width = len(line)
    if width:
        sys.stderr.write(f"\r{'':<{width}}\r")
        sys.stderr.flush()


def in_words(found: Progress) -> str:
    """Return how far it is: `read 120 of 4000 files, 1.0 MiB of 4.0 MiB; 3 seconds left`."""
    said = (
        f"read {found.files} of {counted(found.of_files, 'file')},"
        f" {byte_size(found.size)} of {byte_size(found.of_size)}"
    )
    left = found.left_s
    return said if left is None else f"{said}; {counted(round(left), 'second')} left"
