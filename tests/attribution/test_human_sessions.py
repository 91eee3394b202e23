"""When the sessions of human and unknown writes change."""

from dataclasses import replace

import pytest

from gitshadow.attribution.lifecycle import is_current, personal_session
from gitshadow.model import Actor, Session
from gitshadow.store.refs import session_id

HOUR = 3_600 * 1_000_000_000
MIDNIGHT = 20_000 * 24 * HOUR


def named(agent: str, native: str, day_ns: int) -> str:
    return session_id(agent, native, day_ns)


def opened(at_ns: int) -> Session:
    return personal_session(Actor.UNKNOWN, None, at_ns, named)


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
    again = personal_session(Actor.UNKNOWN, last, now_ns, named)
    assert (again == last) is current


def test_session_does_not_go_on_when_it_was_ended() -> None:
    last = replace(opened(MIDNIGHT), ended_ns=MIDNIGHT + 1)
    assert is_current(last, MIDNIGHT + 2) is False
