"""Between which looks a path changed, as far as the order of events shows it."""

from gitshadow.capture.fs_events import EventLooks, EventOrder
from gitshadow.model import RepoPath

A, B = RepoPath(b"a"), RepoPath(b"b")


class Looks:
    """Looks that are over at once, and a clock that stands still but for them."""

    def __init__(self) -> None:
        self.begun = self.done = 0
        self.at_s = 0.0

    def seconds(self) -> float:
        return self.at_s

    def look(self) -> None:
        self.begun += 1
        self.done = self.begun


def order_of(looks: Looks) -> EventOrder:
    """Return an order that is on, with nothing missing, after look 1 and a reading."""
    order = EventOrder(looks, looks.seconds)
    order.start()
    looks.look()
    read(order)
    order.settled()
    return order


def read(order: EventOrder, *paths: RepoPath, is_finished: bool = True) -> None:
    mark = order.begin()
    for path in paths:
        order.see(path, is_finished=is_finished)
    order.end(mark)


def test_a_change_came_after_the_look_before_the_last_reading_without_it() -> None:
    looks = Looks()
    order = order_of(looks)
    looks.look()  # 2: the event may have been in the queue by then
    read(order, A)
    assert order.take([A]) == {A: EventLooks(before=1, after=3)}
    looks.look()
    read(order)  # now it was not
    read(order, A)
    assert order.take([A]) == {A: EventLooks(before=3, after=4)}


def test_a_look_during_a_reading_may_come_after_an_event_that_was_not_read() -> None:
    looks = Looks()
    order = order_of(looks)
    mark = order.begin()
    looks.look()
    order.end(mark)
    read(order, A)
    assert order.take([A]) == {A: EventLooks(before=1, after=3)}


def test_a_change_lasts_from_the_first_event_to_the_last() -> None:
    looks = Looks()
    order = order_of(looks)
    read(order, A, is_finished=False)
    assert order.look()
    read(order, A, B)
    assert order.look()  # at once, because something was finished
    assert order.take([A, B]) == {A: EventLooks(1, 3), B: EventLooks(1, 3)}
    assert order.take([A, B]) == {}


def test_the_end_of_a_change_is_unknown_while_it_is_written() -> None:
    order = order_of(Looks())
    read(order, A)
    read(order, A, is_finished=False)
    assert order.take([A]) == {A: EventLooks(1, None)}


def test_a_path_that_was_taken_is_changed_again_by_its_next_event() -> None:
    order = order_of(Looks())
    read(order, A)
    order.take([A])
    assert not order.is_changed(A)
    read(order, A)
    assert order.is_changed(A)


def test_the_begin_is_unknown_until_all_from_before_is_recorded() -> None:
    looks = Looks()
    order = order_of(looks)
    order.lost()
    assert order.is_changed(A)
    read(order, A)
    assert order.take([A]) == {}
    order.start()
    read(order)
    read(order, A)
    order.settled()
    read(order, A, B)
    assert order.take([A, B]) == {A: EventLooks(None, 2), B: EventLooks(1, 2)}


def test_the_begin_is_unknown_of_what_could_not_be_recorded() -> None:
    order = order_of(Looks())
    read(order, A)
    order.take([A])
    order.spoil([A])
    read(order, A)
    assert order.take([A]) == {A: EventLooks(None, 2)}


def test_nothing_is_known_after_more_events_than_are_kept() -> None:
    order = order_of(Looks())
    read(order, *(RepoPath(b"%d" % at) for at in range(10_000)))
    assert not order.is_on
    assert order.take([RepoPath(b"1")]) == {}


def test_looks_are_due_soon_after_what_was_finished_and_else_later() -> None:
    class Slow(Looks):
        def look(self) -> None:
            super().look()
            self.at_s += 0.001

    looks = Slow()
    order = EventOrder(looks, looks.seconds)
    assert order.due() is None
    assert not order.look()
    order.start()
    assert order.look()
    assert order.due() == 0.001 + 0.5
    read(order, A, is_finished=False)
    assert order.due() == 0.001 + 0.5
    read(order, A)
    assert order.due() == 0.001 + 0.004
    assert not order.look()
    looks.at_s = 0.006
    assert order.look()
    order.stop()
    assert order.due() is None
