"""Both ends of a rename become one row, whichever directory tells of it first."""

import errno
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping

import pytest

from gitshadow.maintenance import setup
from gitshadow.model import EventKind, Gap, RepoPath
from gitshadow.platform.watching import EventSink, Hints
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.recording.observer import Observer
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.layout import discover
from tests.support.repo import Repo
from tests.support.waiting import HANGS_S


class LatePort:
    """A watcher that tells what a test says, some of it not before a barrier."""

    def __init__(self) -> None:
        self.late: set[bytes] = set()

    def add(self, directories: Iterable[RepoPath]) -> None:
        """Watch nothing."""

    def replace(self, directories: Iterable[RepoPath]) -> None:
        """Watch nothing."""

    def enter(self, directories: Mapping[RepoPath, int]) -> None:
        """Watch nothing."""

    def barrier(self) -> Hints:
        """Tell what is late."""
        late, self.late = self.late, set()
        return hints(*late)

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        """Return every path."""
        return set(paths)

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        """Return no directory."""
        return set()

    def degraded(self) -> str | None:
        """Have no complaints."""
        return None

    def follow(self, order: EventSink) -> None:
        """Know no order."""


def hints(*paths: bytes) -> Hints:
    """Return hints of some paths."""
    return Hints(frozenset(RepoPath(path) for path in paths))


@pytest.fixture
def port() -> LatePort:
    return LatePort()


@pytest.fixture
def context(repo: Repo, port: LatePort) -> Iterator[RecorderContext]:
    """Return a context that watches R and what the tests move: `p/q/f` and an empty `p/e`."""
    repo.write("p/q/f", "moved\n")
    repo.write("p/e", "")
    layout = discover(str(repo.root))
    assert layout is not None
    setup.initialise(layout, os.environ, force=True)
    opened = open_context(layout, os.environ, lock_timeout_s=1.0)
    opened.observer.start(port)
    yield opened
    opened.close()


def rows_after(
    context: RecorderContext, *batches: Hints
) -> list[tuple[EventKind, bytes, bytes]]:
    """Return kind, path and old path of what is recorded of some batches, oldest first."""
    for batch in batches:
        context.observer.hints(batch)
        while (due := context.observer.due()) is not None:
            del due
            context.observer.tick()
    found = events.rows(context.workspace.db, EventFilter())
    assert not any(isinstance(row, Gap) and row.path for row in found)
    return [
        (row.kind, bytes(row.path), bytes(row.old_path or b""))
        for row in events.path_changes(reversed(found))
    ]


RENAMED = [(EventKind.RENAME, b"new/er/f", b"p/q/f")]


@pytest.mark.parametrize("name", ["p/moved", "p/f.bak"], ids=["plain", "temporary"])
def test_new_name_comes_late(
    repo: Repo, context: RecorderContext, port: LatePort, name: str
) -> None:
    """Also one that looks like that of a temporary file."""
    repo.rename("p/q/f", name)
    port.late = {name.encode()}
    assert rows_after(context, hints(b"p/q/f")) == [
        (EventKind.RENAME, name.encode(), b"p/q/f")
    ]


def test_new_name_is_in_a_directory_that_was_listed_before_it_came(
    repo: Repo, context: RecorderContext
) -> None:
    """Its watch is younger than the file: only a second look finds it."""
    repo.mkdir("new/er")
    assert rows_after(context, hints(b"new")) == []
    repo.rename("p/q/f", "new/er/f")
    assert rows_after(context, hints(b"p/q/f")) == RENAMED


def test_new_directory_comes_late(
    repo: Repo, context: RecorderContext, port: LatePort
) -> None:
    repo.mkdir("new/er")
    repo.rename("p/q/f", "new/er/f")
    port.late = {b"new"}
    assert rows_after(context, hints(b"p/q/f")) == RENAMED


def test_old_name_comes_late(repo: Repo, context: RecorderContext) -> None:
    """An old file by a new name was somewhere before."""
    then_ns = 1_000_000_000_000_000_000
    os.utime(repo.path("p/q/f"), ns=(then_ns, then_ns))
    context.observer.settle()
    repo.mkdir("new/er")
    repo.rename("p/q/f", "new/er/f")
    assert rows_after(context, hints(b"new"), hints(b"p/q/f")) == RENAMED


def test_directory_s_new_name_comes_late(
    repo: Repo, context: RecorderContext, port: LatePort
) -> None:
    """An empty file moves along: it is older than the last look at the old one."""
    repo.rename("p", "moved")
    port.late = {b"moved"}
    assert rows_after(context, hints(b"p")) == [
        (EventKind.RENAME, b"moved/e", b"p/e"),
        (EventKind.RENAME, b"moved/q/f", b"p/q/f"),
    ]


def test_file_that_was_split_from_its_old_name_is_not_one_moved_in(
    repo: Repo, context: RecorderContext
) -> None:
    """Its old name was recorded as deleted: what came is known."""
    repo.mkdir("new/er")
    os.rename(repo.path("p/q/f"), repo.path("p/.git-like"))
    os.rename(repo.path("p/.git-like"), repo.root.parent / "kept")
    assert rows_after(context, hints(b"p/q/f")) == [(EventKind.DELETE, b"p/q/f", b"")]
    os.rename(repo.root.parent / "kept", repo.path("new/er/f"))
    rows_after(context, hints(b"new"))
    (row,) = events.changes(
        context.workspace.db, EventFilter(kinds=(EventKind.CREATE,))
    )
    assert not row.moved_in


@pytest.mark.parametrize("step", ["tick", "settle"])
def test_path_is_recorded_at_the_next_barrier_when_the_first_one_failed(
    repo: Repo, context: RecorderContext, port: LatePort, step: str
) -> None:
    """What a failing step had taken from the list of what is put off is in no list then."""
    context.observer.settle()
    repo.delete("p/q/f")
    context.observer.hints(hints(b"p/q/f"))
    port.barrier = fails  # type: ignore[method-assign]
    with pytest.raises(OSError, match="too many"):
        run_to_barrier(context.observer, step)
    del port.barrier
    context.observer.settle()
    assert rows_after(context) == [(EventKind.DELETE, b"p/q/f", b"")]


def run_to_barrier(observer: Observer, step: str) -> None:
    """Run a step until it fails; a tick waits longer where Git's directory has just changed."""
    until = time.monotonic() + HANGS_S
    while time.monotonic() < until:
        time.sleep(max(0.0, (observer.due() or 0.0) - time.monotonic()))
        getattr(observer, step)()


def fails() -> Hints:
    """Fail as a barrier does that cannot read the queue."""
    raise OSError(errno.EMFILE, "too many open files")


def test_hint_of_a_barrier_that_is_no_new_name_is_recorded_too(
    repo: Repo, context: RecorderContext, port: LatePort
) -> None:
    repo.write("a", "written\n")
    repo.delete("p/q/f")
    port.late = {b"a"}
    assert set(rows_after(context, hints(b"p/q/f"))) == {
        (EventKind.DELETE, b"p/q/f", b""),
        (EventKind.MODIFY, b"a", b""),
    }
