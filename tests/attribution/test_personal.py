"""When the sessions of human and unknown writes change."""

from dataclasses import replace

import pytest

from gitshadow.attribution.personal import fresh_id, is_current, personal_session
from gitshadow.model import Actor, Session

HOUR = 3_600 * 1_000_000_000
MIDNIGHT = 20_000 * 24 * HOUR


def opened(at_ns: int) -> Session:
    return personal_session(Actor.UNKNOWN, None, at_ns, lambda name: False)


def test_session_is_new_when_there_was_none() -> None:
    found = opened(MIDNIGHT)
    assert (found.actor, found.agent) == (Actor.UNKNOWN, None)
    assert (found.started_ns, found.last_seen_ns) == (MIDNIGHT, MIDNIGHT)
    assert found.id.startswith("unknown-20241004-")


@pytest.mark.parametrize(
    ("seen", "now", "current"),
    [
        (1, 2, True),
        (1, 9, False),
        (1, 8.99, True),
        (20, 23.9, True),
        (20, 24, False),
        (5, 1, True),
        (5, -1, True),
    ],
    ids=["soon", "idle", "almost", "same-day", "next-day", "earlier", "day-before"],
)
def test_session_goes_on_within_a_day_without_long_idleness(
    seen: float, now: float, current: bool
) -> None:
    last = replace(opened(MIDNIGHT), last_seen_ns=MIDNIGHT + int(seen * HOUR))
    now_ns = MIDNIGHT + int(now * HOUR)
    assert is_current(last, now_ns) is current
    again = personal_session(Actor.UNKNOWN, last, now_ns, lambda name: False)
    assert (again == last) is current


def test_session_does_not_go_on_when_it_was_ended() -> None:
    last = replace(opened(MIDNIGHT), ended_ns=MIDNIGHT + 1)
    assert is_current(last, MIDNIGHT + 2) is False


def test_id_is_longer_when_the_short_one_is_taken() -> None:
    short = fresh_id("x", "n", MIDNIGHT, lambda name: False)
    longer = fresh_id("x", "n", MIDNIGHT, lambda name: name == short)
    assert longer.startswith(short)
    assert len(longer) > len(short)
