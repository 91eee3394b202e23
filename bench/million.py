"""`log` of a journal with a million rows, a whole process.

Invariant: the rows go in through the store, as the recorder's do.
"""

from collections.abc import Iterator
from functools import partial

from bench.measure import Row, ms, timed
from bench.places import Place, repository
from gitshadow.model import (
    Actor,
    Attribution,
    Burst,
    Confidence,
    EventKind,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
    Session,
)
from gitshadow.store.journal import bursts, events, sessions
from gitshadow.store.journal.db import Db

_OFF = {"GITSHADOW_DAEMON": "off"}
_BURST = 500
_CHUNK = 50_000


def log(scale: float) -> Iterator[Row]:
    """`log -n 50` of a journal with 1,000,000 rows, beside one with almost none."""
    rows = int(1_000_000 * scale)
    times = max(5, int(15 * scale))
    with repository(100) as place:
        place.shadow("init")
        yield from _logs(place, "almost no", times)
        place.shadow("stop")
        fill(place, rows)
        yield from _logs(place, f"{rows:,}", times)


def _logs(place: Place, rows: str, times: int) -> Iterator[Row]:
    alone = Place(place.root, place.env | _OFF)
    place.shadow("start")
    path = "d000/e00000/f000007.txt"
    for words in (("-n", "50"), ("-n", "50", "--", path)):
        said = " ".join(("log", *words[:2], *(["PATH"] if len(words) > 2 else [])))
        read = partial(place.shadow, "log", *words)
        values = [timed(read) for _ in range(times)]
        yield Row(f"`{said}`, {rows} rows, daemon up", "≤ 40 ms", ms(values), "ms")
    place.shadow("stop")
    values = [timed(lambda: alone.shadow("log", "-n", "50")) for _ in range(times)]
    yield Row(f"`log -n 50`, {rows} rows, no daemon", "≤ 110 ms", ms(values), "ms")


def fill(place: Place, count: int, burst: int = _BURST) -> None:
    """Put rows into the journal, as agents of 20 sessions would have left them.

    Args:
        place: Where something was recorded, and no daemon runs.
        count: How many rows.
        burst: How many rows make a burst.
    """
    db = Db.open(str(place.journal), create=False)
    tip = Oid(place.git("rev-parse", "HEAD").strip())
    for number in range(20):
        with db.write():
            sessions.put(db, _session(number))
    first = events.reserve(db, count)
    for start in range(first, first + count, _CHUNK):
        numbers = range(start, min(start + _CHUNK, first + count))
        with db.write():
            events.insert(db, (_event(number, tip, burst) for number in numbers))
            for number in numbers:
                if number % burst == 0:
                    bursts.put(db, _burst(number, burst))
    db.close()


def _session(number: int) -> Session:
    name = f"claude-code-20261120-{number:06x}"
    return Session(
        id=name,
        native_id=name,
        actor=Actor.AGENT,
        agent="claude-code",
        started_ns=1,
        ended_ns=2,
    )


def _event(number: int, tip: Oid, burst: int) -> PathChange:
    session = _session(number // burst % 20)
    return PathChange(
        seq=number,
        ts_ns=1_700_000_000_000_000_000 + number * 1_000_000,
        worktree="main",
        kind=EventKind.MODIFY,
        path=RepoPath(f"d000/e00000/f{number % 20:06}.txt".encode()),
        before=FileVersion(tip, 0o100644),
        after=FileVersion(tip, 0o100644),
        attribution=Attribution(
            actor=Actor.AGENT,
            session=session.id,
            agent=session.agent,
            turn=f"turn-{number // burst}",
            call=f"call-{number}",
            tool="Edit",
            confidence=Confidence.CERTAIN,
            reason="inside the window of a call that names this path",
        ),
        burst=f"b-{number // burst:08x}",
        commit=tip,
    )


def _burst(number: int, size: int) -> Burst:
    at_ns = _event(number, Oid(""), size).ts_ns
    return Burst(
        id=f"b-{number // size:08x}",
        session=_session(number // size % 20).id,
        worktree="main",
        turn=f"turn-{number // size}",
        ordinal=number // size,
        started_ns=at_ns,
        ended_ns=at_ns + size * 1_000_000,
        first_seq=number,
        last_seq=number + size - 1,
        open=False,
    )
