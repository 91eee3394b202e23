"""A turn of 100,000 events: the plan of its undo, and the first `blame` of a file that it wrote.

Invariant: the contents are packed objects and the rows go in through the store, as the recorder's
do. What is on the disk is what the last row left.
"""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
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
    Turn,
)
from gitshadow.store.journal import bursts, events, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.object_format import SHA1

_EVENTS = 100_000
_FILES = 100
_LINES = 300
_CHUNK = 20_000
_SESSION = "claude-code-20261120-000001"

Content = Callable[[int], bytes]
"""What a file holds after an event; 0 is what it held before the first."""


def history(scale: float) -> Iterator[Row]:
    """`oops --dry-run` of a turn of 100,000 events, and the first `blame` of one of its files."""
    number, times = max(500, int(_EVENTS * scale)), 3
    shapes: tuple[tuple[str, int, Callable[[], Content]], ...] = (
        ("one file, 40 lines rewritten each time", 1, lambda: _rewritten),
        (f"one file, one of {_LINES} lines edited each time", 1, edited),
        (f"{_FILES} files, one line edited each time", _FILES, edited),
    )
    for what, files, content in shapes:
        said = f"{number:,} events, {what}"
        with repository(100) as place:
            paths = [f"long{at}.txt" for at in range(files)]
            record(place, paths, content(), number // files)
            place.shadow("start")
            plan = partial(place.shadow, "oops", "--dry-run")
            if f"restore {files} file" not in plan():
                raise RuntimeError("the plan does not restore every file")
            values = [timed(plan) for _ in range(times)]
            yield Row(f"`oops --dry-run`, {said}", "≤ 1.5 s", values, "s")
            if files == 1:
                blame = partial(place.shadow, "blame", paths[0])
                values = [_timed_anew(place, blame) for _ in range(times)]
                yield Row(f"first `blame`, {said}", "≤ 4 s", values, "s")
                values = [timed(blame) for _ in range(times)]
                yield Row("… the next one", "–", ms(values), "ms")


def _timed_anew(place: Place, run: Callable[[], object]) -> float:
    """Time a run for which no snapshot of blame stands."""
    with closing(sqlite3.connect(place.journal)) as journal, journal:
        journal.execute("DELETE FROM blame_states")
    return timed(run)


def _rewritten(at: int) -> bytes:
    return f"write {at} of the file\n".encode() * 40


def edited(number: int = _LINES) -> Content:
    """Return a file of so many lines, one of which each event edits."""
    lines = [f"line {at} of the file, as it was at first\n" for at in range(number)]

    def content(at: int) -> bytes:
        # Called with ascending numbers, because each content is the one before, edited.
        if at:
            lines[at * 7919 % number] = f"line written by event {at}\n"
        return "".join(lines).encode()

    return content


def record(place: Place, paths: Sequence[str], content: Content, each: int) -> None:
    """Make files and their history: each was written so often, all by one turn of an agent."""
    oids = _packed(place, content, each)
    last = place.git("cat-file", "blob", oids[-1])
    for path in paths:
        (place.root / path).write_text(last, encoding="ascii")
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "last")
    place.shadow("init")
    place.shadow("stop")
    tip = Oid(place.git("rev-parse", "HEAD").strip())
    with closing(Db.open(str(place.journal), create=False)) as db:
        first = events.reserve(db, each * len(paths))
        seqs = iter(range(first, first + each * len(paths)))
        rows = (
            _event(next(seqs), path, oids[at : at + 2], tip)
            for at in range(each)
            for path in paths
        )
        with db.write():
            _put_turn(db, first, first + each * len(paths) - 1)
            events.insert(db, rows)


def _packed(place: Place, content: Content, each: int) -> list[Oid]:
    """Store the contents in a pack, as a daemon that ran so long would have; return their ids."""
    oids: list[Oid] = []
    with subprocess.Popen(
        ["git", "fast-import", "--quiet"], cwd=place.root, stdin=subprocess.PIPE
    ) as importing:
        assert importing.stdin is not None
        for at in range(each + 1):
            data = content(at)
            oids.append(SHA1.blob(data))
            importing.stdin.write(b"blob\ndata %d\n%b\n" % (len(data), data))
    return oids


def _event(seq: int, path: str, ends: Sequence[Oid], tip: Oid) -> PathChange:
    return PathChange(
        seq=seq,
        ts_ns=_time(seq),
        worktree="main",
        kind=EventKind.MODIFY,
        path=RepoPath(path.encode()),
        before=FileVersion(ends[0], 0o100644),
        after=FileVersion(ends[1], 0o100644),
        attribution=Attribution(
            actor=Actor.AGENT,
            session=_SESSION,
            agent="claude-code",
            turn="turn-1",
            call=f"call-{seq}",
            tool="Edit",
            confidence=Confidence.CERTAIN,
            reason="inside the window of a call that names this path",
        ),
        burst="b-00000001",
        commit=tip,
    )


def _time(seq: int) -> int:
    return 1_700_000_000_000_000_000 + seq * 1_000_000


def _put_turn(db: Db, first: int, last: int) -> None:
    begin, end = _time(first), _time(last)
    session = Session(
        id=_SESSION,
        native_id=_SESSION,
        actor=Actor.AGENT,
        agent="claude-code",
        started_ns=begin,
        ended_ns=end,
    )
    sessions.put(db, session)
    turn = Turn(
        id="turn-1",
        session=_SESSION,
        ordinal=1,
        started_ns=begin,
        ended_ns=end,
        prompt="go",
    )
    turns.put_turn(db, turn)
    bursts.put(
        db,
        Burst(
            id="b-00000001",
            session=_SESSION,
            worktree="main",
            turn="turn-1",
            ordinal=1,
            started_ns=begin,
            ended_ns=end,
            first_seq=first,
            last_seq=last,
            open=False,
        ),
    )
