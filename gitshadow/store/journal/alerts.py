"""Alerts about agents: what was alarming in a turn, kept for lists and for the agent itself.

There is one of a kind per turn, and only the newest are kept, so they are one small value.
"""

import json
from typing import NamedTuple

from gitshadow.store.journal import meta, turns
from gitshadow.store.journal.db import Db

_KEY = "alerts"
_MOST = 200


class Alert(NamedTuple):
    """What an agent did; `told` is set once its session was told."""

    kind: str
    ts_ns: int
    session: str
    agent: str
    turn: str
    text: str
    told: bool = False

    @property
    def place(self) -> tuple[str, str, str]:
        """Return what there is one alert of."""
        return self.kind, self.session, self.turn


def all_alerts(db: Db, since_ns: int = 0) -> list[Alert]:
    """Return the alerts since a time, newest first."""
    rows = json.loads(meta.get(db, _KEY) or "[]")
    found = [Alert(*row) for row in rows]
    return [one for one in reversed(found) if one.ts_ns >= since_ns]


def turn_of(db: Db, alert: Alert) -> str:
    """Return the short id of an alert's turn, empty outside turns and once it is forgotten."""
    turn = turns.get_turn(db, alert.session, alert.turn) if alert.turn else None
    return "" if turn is None else turn.short_id


def of_turns(db: Db) -> dict[tuple[str, str], list[str]]:
    """Return the texts of all alerts by session and turn."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in reversed(all_alerts(db)):
        found.setdefault((one.session, one.turn), []).append(one.text)
    return found


def put(db: Db, alert: Alert) -> bool:
    """Store an alert in place of the one of its kind and turn; return whether there was none."""
    found = list(reversed(all_alerts(db)))
    places = [one.place for one in found]
    is_new = alert.place not in places
    if is_new:
        found.append(alert)
    else:
        at = places.index(alert.place)
        found[at] = alert._replace(ts_ns=found[at].ts_ns, told=found[at].told)
    with db.write():
        _store(db, found)
    return is_new


def drop(db: Db, session: str) -> None:
    """Forget the alerts of a session; call it inside `db.write()`."""
    found = list(reversed(all_alerts(db)))
    kept = [one for one in found if one.session != session]
    if kept != found:
        _store(db, kept)


def take_untold(db: Db, session: str) -> list[Alert]:
    """Return the alerts of which a session was not told, oldest first, and note that it is."""
    found = list(reversed(all_alerts(db)))
    untold = [one for one in found if one.session == session and not one.told]
    if untold:
        now = [one._replace(told=one.told or one in untold) for one in found]
        with db.write():
            _store(db, now)
    return untold


def _store(db: Db, found: list[Alert]) -> None:
    meta.put(db, _KEY, json.dumps(found[-_MOST:]))
