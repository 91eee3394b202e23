"""Between which looks a path changed, as far as the order of events shows it."""

from collections.abc import Iterator

import pytest

from gitshadow.attribution.native_ids import ProcessMarks
from gitshadow.model import RepoPath
from gitshadow.recording.activity import AgentActivity, EventLooks
from gitshadow.recording.workspace import Workspace
from tests.support.context import desk_of
from tests.support.kernel import Kernel
from tests.support.repo import Repo

A, B = RepoPath(b"a"), RepoPath(b"b")


class World:
    """An agent whose processes are looked at, and a clock that only looks move."""

    def __init__(self, workspace: Workspace) -> None:
        self.at_s = 0.0
        self.kernel = Kernel()
        root = self.kernel.start()
        self.order = AgentActivity(
            workspace,
            ProcessMarks(),
            counters=self.kernel,
            seconds=lambda: self.at_s,
        )
        self.order.watch(root.id)

    def settle(self) -> None:
        """Make a barrier, after which nothing is missing."""
        self.order.begin_barrier(())
        self.read()
        self.order.settled(1)

    def read(self, *paths: RepoPath, is_finished: bool = True) -> None:
        mark = self.order.begin()
        for path in paths:
            self.order.see(path, is_finished=is_finished)
        self.order.end(mark)

    def take(self, *paths: RepoPath) -> dict[RepoPath, EventLooks]:
        self.order.take(paths)
        return self.order.taken


@pytest.fixture
def world(repo: Repo) -> Iterator[World]:
    """Return a world after look 1, a reading and a barrier."""
    with desk_of(repo) as context:
        made = World(context.workspace)
        made.settle()
        assert made.order.done == 1
        yield made


def test_a_change_came_after_the_look_before_the_last_reading_without_it(
    world: World,
) -> None:
    assert world.order.look()  # 2: the event may have been in the queue by then
    world.read(A)
    assert world.take(A) == {A: EventLooks(before=1, after=3)}
    world.at_s += 1
    assert world.order.look()
    world.read()  # now it was not
    world.read(A)
    assert world.take(A) == {A: EventLooks(before=3, after=4)}


def test_a_look_during_a_reading_may_come_after_an_event_that_was_not_read(
    world: World,
) -> None:
    mark = world.order.begin()
    assert world.order.look()
    world.order.end(mark)
    world.read(A)
    assert world.take(A) == {A: EventLooks(before=1, after=3)}


def test_a_change_lasts_from_the_first_event_to_the_last(world: World) -> None:
    world.read(A, is_finished=False)
    assert world.order.look()
    world.read(A, B)
    assert world.order.look()  # at once, because something was finished
    assert world.take(A, B) == {A: EventLooks(1, 3), B: EventLooks(1, 3)}
    assert world.take(A, B) == {}


def test_the_end_of_a_change_is_unknown_while_it_is_written(world: World) -> None:
    world.read(A)
    world.read(A, is_finished=False)
    assert world.take(A) == {A: EventLooks(1, None)}


def test_the_begin_is_unknown_until_all_from_before_is_recorded(world: World) -> None:
    world.order.lost()
    world.read(A)
    assert world.take(A) == {}
    world.order.begin_barrier(())
    world.read()
    world.read(A)
    world.order.settled(1)
    world.read(A, B)
    assert world.take(A, B) == {A: EventLooks(None, 3), B: EventLooks(2, 3)}


def test_the_begin_is_unknown_of_what_could_not_be_recorded(world: World) -> None:
    world.read(A)
    world.take(A)
    world.order.spoil([A])
    world.read(A)
    assert world.take(A) == {A: EventLooks(None, 2)}


def test_nothing_is_known_after_more_events_than_are_kept(world: World) -> None:
    world.read(*(RepoPath(b"%d" % at) for at in range(10_000)))
    assert not world.order.is_on
    assert world.take(RepoPath(b"1")) == {}


def test_looks_are_due_soon_after_what_was_finished_and_else_later(
    world: World,
) -> None:
    def pass_time() -> None:
        world.at_s += 0.001

    world.order.stop()
    assert world.order.due() is None
    assert not world.order.look()
    world.settle()
    world.kernel.go_on = pass_time
    assert world.order.look()
    took_s = world.at_s
    assert took_s > 0
    late_s = pytest.approx(took_s + 500 * took_s)
    assert world.order.due() == late_s
    world.read(A, is_finished=False)
    assert world.order.due() == late_s
    world.read(A)
    assert world.order.due() == pytest.approx(took_s + 4 * took_s)
    assert not world.order.look()
    world.at_s *= 6
    assert world.order.look()
    world.order.stop()
    assert world.order.due() is None
