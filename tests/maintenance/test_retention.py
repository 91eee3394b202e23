"""What is to be forgotten: whole units, oldest first, never what is open or pinned."""

from collections.abc import Iterator, Sequence

import pytest

from gitshadow.maintenance.retention import (
    RetentionLimits,
    RetentionUnit,
    beyond,
    everything,
    needed,
    units,
)
from gitshadow.model import Actor, Oid, Session
from gitshadow.store.journal.pins import Pin

DAY = 86400 * 10**9
NOW = 100 * DAY


def unit(
    name: str, day: int, *, is_open: bool = False, pinned: bool = False
) -> RetentionUnit:
    return RetentionUnit((name,), (), (day - 1) * DAY, day * DAY, is_open, pinned)


class Scales:
    """Every unit frees ten bytes."""

    def __init__(self, total: int) -> None:
        self.whole = total
        self.asked = 0

    def total(self) -> int:
        return self.whole

    def frees(self, going: Sequence[RetentionUnit]) -> Iterator[int]:
        for _ in going:
            self.asked += 1
            yield 10


OLD = [
    unit("a", 10),
    unit("pinned", 20, pinned=True),
    unit("b", 30),
    unit("open", 40, is_open=True),
    unit("c", 60),
    unit("d", 99),
]


def names(found: Sequence[RetentionUnit]) -> list[str]:
    return [one.name for one in found]


def test_by_age_the_old_ones_go() -> None:
    """KEEP-06: open and pinned ones stay, however old."""
    found = beyond(OLD, RetentionLimits(age_ns=50 * DAY), NOW, Scales(100))
    assert names(found) == ["a", "b"]


def test_age_zero_is_all_that_is_closed() -> None:
    """KEEP-06: 0s is a limit, not the absence of one; what ended this very moment goes too."""
    assert names(beyond(OLD, RetentionLimits(age_ns=0), NOW, Scales(100))) == [
        "a",
        "b",
        "c",
        "d",
    ]
    now = [unit("now", 100)]
    assert names(beyond(now, RetentionLimits(age_ns=0), NOW, Scales(100))) == ["now"]
    assert names(beyond(now, RetentionLimits(age_ns=1), NOW, Scales(100))) == []


def test_by_number_the_oldest_go() -> None:
    """KEEP-06: what stays counts, the open and pinned ones too."""
    assert names(beyond(OLD, RetentionLimits(most=5), NOW, Scales(100))) == ["a"]
    assert names(beyond(OLD, RetentionLimits(most=3), NOW, Scales(100))) == [
        "a",
        "b",
        "c",
    ]
    assert names(beyond(OLD, RetentionLimits(most=0), NOW, Scales(100))) == [
        "a",
        "b",
        "c",
        "d",
    ]


def test_by_size_the_oldest_go_till_the_rest_fits() -> None:
    """KEEP-06: each counts what it frees after those before it."""
    assert names(beyond(OLD, RetentionLimits(size_bytes=75), NOW, Scales(100))) == [
        "a",
        "b",
        "c",
    ]


def test_what_fits_is_not_weighed() -> None:
    """KEEP-06: cheap where there is nothing to do."""
    scales = Scales(100)
    assert beyond(OLD, RetentionLimits(size_bytes=100), NOW, scales) == []
    assert scales.asked == 0


def test_limits_go_together() -> None:
    limits = RetentionLimits(age_ns=80 * DAY, most=5, size_bytes=85)
    assert names(beyond(OLD, limits, NOW, Scales(100))) == ["a", "b"]


def test_no_limit_keeps_everything() -> None:
    assert beyond(OLD, RetentionLimits(), NOW, Scales(100)) == []


def test_everything_is_all_but_what_is_open() -> None:
    assert names(everything(OLD)) == ["a", "pinned", "b", "c", "d"]


def session(
    name: str,
    *,
    agent: str | None = "codex",
    parent: str | None = None,
    last: int = 10,
    ended: bool = True,
) -> Session:
    return Session(
        id=name,
        native_id=f"native-{name}",
        actor=Actor.AGENT if agent else Actor.UNKNOWN,
        agent=agent,
        started_ns=5 * DAY,
        ended_ns=last * DAY if ended else None,
        last_seen_ns=last * DAY,
        parent=parent,
    )


def test_subagents_go_with_the_session_that_began_them() -> None:
    """KEEP-06: never half a session: one that is open keeps all of them."""
    known = [
        session("a"),
        session("b", parent="a", last=20),
        session("c", parent="b", ended=False),
    ]
    (found,) = units(known, {}, [], NOW)
    assert found == RetentionUnit(("a", "b", "c"), (), 5 * DAY, 20 * DAY, True)


def test_a_person_has_closed_what_was_not_written_to_lately() -> None:
    known = [session("u", agent=None, last=50, ended=False)]
    assert [one.is_kept for one in units(known, {}, [], NOW)] == [False]
    known = [session("u", agent=None, last=50, ended=False)]
    assert [one.is_kept for one in units(known, {}, [], 5 * DAY + 1)] == [True]


def test_a_pin_keeps_the_session_in_whose_time_it_was_made() -> None:
    """KEEP-06: pinned, by when."""
    pin = Pin(
        name="good",
        ref="refs/agent-undo/pin-good",
        commit=Oid("1" * 40),
        worktree="main",
        ts_ns=15 * DAY,
    )
    known = [session("a"), session("b", last=20)]
    found = {one.name: one.is_kept for one in units(known, {}, [pin], NOW)}
    assert found == {"a": False, "b": True}


def test_a_program_goes_with_its_files() -> None:
    """KEEP-06: artifacts and inverses of a program that is at work stay, and its files too."""
    programs = {
        "native-a": (DAY, 9 * DAY, True),
        "alone": (DAY, 3 * DAY, False),
    }
    found = units([session("a")], programs, [], NOW)
    assert found == [
        RetentionUnit((), ("alone",), DAY, 3 * DAY, False),
        RetentionUnit(("a",), ("native-a",), 5 * DAY, 10 * DAY, True),
    ]
    assert names(found) == ["alone", "a"]


def held(*pairs: str) -> list[RetentionUnit]:
    """Return the units of five sessions; `"ab"` says that a chain of `a` holds a row of `b`."""
    known = [session(name, last=last) for last, name in enumerate("abcde", 10)]
    return units(known, {}, [], NOW, [(one[0], one[1]) for one in pairs])


def test_a_session_goes_after_those_whose_rows_its_chains_hold() -> None:
    assert names(held("ac", "cd")) == ["b", "d", "c", "a", "e"]
    assert names(beyond(held("ac", "cd"), RetentionLimits(most=3), NOW, Scales(0))) == [
        "b",
        "d",
    ]
    by_age = beyond(held("ae", "eb"), RetentionLimits(age_ns=87 * DAY), NOW, Scales(0))
    assert names(by_age) == ["b", "c", "d"]


def test_sessions_go_together_when_each_holds_rows_of_the_other() -> None:
    found = held("ab", "bd", "da", "ca")
    assert [one.ids for one in found] == [("a", "b", "d"), ("c",), ("e",)]
    assert [sorted(one.owners) for one in found] == [[], ["a", "b", "d"], []]


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_session_stays_when_its_chain_holds_rows_of_an_open_one(
    all_of_it: bool,
) -> None:
    known = [session("a"), session("b"), session("c", ended=False), session("d")]
    found = units(known, {}, [], NOW, [("a", "b"), ("b", "c"), ("x", "d"), ("d", "x")])
    by_age = beyond(found, RetentionLimits(age_ns=0), NOW, Scales(0))
    assert names(everything(found) if all_of_it else by_age) == ["d"]
    assert needed(found) == 2


def test_a_session_stays_by_age_alone_when_its_chain_holds_rows_of_a_kept_one() -> None:
    known = [session("a"), session("u", agent=None, ended=False, last=5)]
    found = units(known, {}, [], 5 * DAY + 1, [("a", "u")])
    assert beyond(found, RetentionLimits(age_ns=0), NOW, Scales(0)) == []
    assert names(everything(found)) == ["u", "a"]
