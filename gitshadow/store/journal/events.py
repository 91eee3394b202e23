"""Events: one row per observed change of one path, in the order they were recorded.

What Git switched when HEAD moved has no rows: `switches` reads it from trees, and the functions
here that return changes of paths include it. Of a row only its author ever changes (`corrections`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from operator import attrgetter
from typing import NamedTuple

from gitshadow.model import (
    CommitEvent,
    Event,
    EventKind,
    HeadChange,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.store.journal import meta, switches
from gitshadow.store.journal.db import Db, Row, Value
from gitshadow.store.journal.event_rows import INSERT, RARE, SELECT, event_of, values_of
from gitshadow.store.paths import is_within

_RESERVE = (
    "UPDATE meta SET value = CAST(value AS INTEGER) + ?1 WHERE key = 'next_seq'"
    " RETURNING CAST(value AS INTEGER) - ?1"
)
_SEQS_BETWEEN = "SELECT seq FROM events WHERE seq BETWEEN ? AND ?"
_NEXT = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'next_seq'"
_RARE_KINDS = frozenset(
    {EventKind.GAP, EventKind.HEAD, EventKind.BASELINE, EventKind.COVERAGE}
)
# A path itself or what is below it: `0` is the byte after `/`.
_AT_PATH = (
    "path = ?",
    "path > ? AND path < ?",
    "old_path = ?",
    "old_path > ? AND old_path < ?",
)
_ANY_AT_PATH = " OR ".join(_AT_PATH)
# SQLite may be built so that LIKE matches no BLOB (SQLITE_LIKE_DOESNT_MATCH_BLOBS).
_HOLDS_TEXT = (
    "(CAST(path AS TEXT) LIKE ? ESCAPE '\\' OR CAST(old_path AS TEXT) LIKE ? ESCAPE '\\'"
    " OR (session, turn) IN"
    " (SELECT session, id FROM turns WHERE prompt LIKE ? ESCAPE '\\'))"
)
_SWITCHED_KINDS = frozenset(
    {
        EventKind.CREATE,
        EventKind.MODIFY,
        EventKind.DELETE,
        EventKind.MODE,
        EventKind.TYPE,
    }
)
_NEWEST = (
    "SELECT seq FROM events WHERE worktree = ? AND kind <> 'gap'"
    " ORDER BY seq DESC LIMIT 1"
)
_SURE = "NOT (actor IS 'agent' AND confidence IS 'low')"  # as `Attribution.is_maybe`
_GAPS = (
    f"SELECT seq, ts_ns, note FROM events WHERE {RARE} AND kind = 'gap' ORDER BY seq"
)
_GAPS_SEEN = "gaps_seen"
# Older builds of SQLite allow 999 variables in one statement (https://sqlite.org/limits.html).
_CHUNK = 400
_PAGE = 100
_MOST_SEQ = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A choice of events; a field that is None does not restrict it.

    `paths` are exact paths or directories above; `turn` and `call` go with `sessions`; `text` is
    looked for in paths and prompts, whatever the case of its ASCII letters. With `after_seq` and
    a limit those next to it are meant, not the newest. `outside` means other worktrees than this,
    `ambiguous` events with candidates.
    """

    limit: int | None = None
    sessions: Collection[str] | None = None
    agent: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    paths: Collection[RepoPath] | None = None
    kinds: Collection[EventKind] | None = None
    worktree: str | None = None
    turn: str | None = None
    call: str | None = None
    burst: str | None = None
    op: str | None = None
    before_seq: int | None = None
    after_seq: int | None = None
    text: str | None = None
    outside: str | None = None
    ambiguous: bool = False


class GapRow(NamedTuple):
    """One gap: its number, when it was journalled, why, and whether nobody has seen it."""

    seq: int
    ts_ns: int
    note: str
    is_new: bool


def files_of_burst(db: Db, burst: str) -> int:
    """Return the number of paths that a burst wrote, without reading its events."""
    query = "SELECT COUNT(DISTINCT path) FROM events WHERE burst = ?"
    return db.number(query, (burst,))


def reserve(db: Db, count: int) -> int:
    """Reserve a block of sequence numbers; return the first."""
    # Before the commits are written, because their messages contain the numbers; a crash leaves a
    # hole, which is harmless. One statement is a transaction by itself, and each write pays for it.
    return db.number(_RESERVE, (count,))


def insert(db: Db, rows: Iterable[Event]) -> None:
    """Store rows; one whose seq exists already is not changed."""
    db.run_many(INSERT, [values_of(row) for row in rows])


def insert_new(db: Db, rows: Sequence[CommitEvent]) -> list[CommitEvent]:
    """Store those of some rows, in order of seq, whose seq is new; return them."""
    if not rows:
        return []
    # INSERT OR IGNORE does not say which rows are new, and file states follow from those.
    standing = {row[0] for row in db.rows(_SEQS_BETWEEN, (rows[0].seq, rows[-1].seq))}
    fresh = [row for row in rows if row.seq not in standing]
    insert(db, fresh)
    return fresh


def raise_next(db: Db, next_seq: int) -> None:
    """Raise the next sequence number to `next_seq`, or above every row."""
    found = max(next_seq, last_seq(db) + 1, db.number(_NEXT))
    db.run(_RESERVE, (found - db.number(_NEXT),))


def get(db: Db, seq: int) -> Event | None:
    """Return one event, or None."""
    row = db.row(f"{SELECT} WHERE seq = ?", (seq,))
    return None if row is None else event_of(row)


def numbered(db: Db, typed: str) -> Event | None:
    """Return the event whose number was typed; None for any other text."""
    # SQLite's integers end at 19 digits.
    is_number = typed.isascii() and typed.isdigit() and len(typed) < 19
    return get(db, int(typed)) if is_number else None


def by_seqs(db: Db, seqs: Collection[int]) -> dict[int, PathChange]:
    """Return changes by their numbers; those that are gone, and other events, are missing."""
    changed = path_changes(_by_seqs(db, seqs).values())
    return {row.seq: row for row in changed}


def by_places(
    db: Db, places: Collection[tuple[int, RepoPath]]
) -> dict[tuple[int, RepoPath], PathChange]:
    """Return changes by their numbers and paths, since a switch has one number for all paths."""
    rows = _by_seqs(db, {seq for seq, _ in places})
    found: dict[tuple[int, RepoPath], PathChange] = {}
    for seq, path in places:
        row = rows.get(seq)
        if isinstance(row, PathChange):
            found[seq, path] = row
        elif isinstance(row, HeadChange):
            found.update(
                ((seq, path), one) for one in switches.changes_at(db, row, (path,))
            )
    return found


def _by_seqs(db: Db, seqs: Collection[int]) -> dict[int, Event]:
    wanted = sorted(seqs)
    found: dict[int, Event] = {}
    for start in range(0, len(wanted), _CHUNK):
        part = wanted[start : start + _CHUNK]
        sql = f"{SELECT} WHERE seq IN ({', '.join('?' * len(part))})"
        found.update((row[0], event_of(row)) for row in db.rows(sql, part))
    return found


def is_named(db: Db, paths: Collection[RepoPath], until_seq: int) -> bool:
    """Return whether any event up to one names some paths, by new name or old."""
    if any(_count_rows(db, path, until_seq) for path in paths):
        return True
    heads = switches.heads(db, "seq <= ?", (until_seq,)) if paths else ()
    return any(switches.changes_at(db, head, paths) for head in heads)


def count_named(db: Db, paths: Collection[RepoPath], until_seq: int) -> int:
    """Return a number that differs if another row up to one may concern some paths.

    It counts the rows that name them, by new name or old, and all switches; by indexes alone.
    """
    count = f"SELECT COUNT(*) FROM events WHERE {switches.SWITCHES} AND seq <= ?"
    named = sum(_count_rows(db, path, until_seq) for path in paths)
    return named + db.number(count, (until_seq,))


def _count_rows(db: Db, path: RepoPath, until_seq: int) -> int:
    total = 0
    for column in ("path", "old_path"):
        sql = f"SELECT COUNT(*) FROM events WHERE {column} = ? AND seq <= ?"
        total += db.number(sql, (path, until_seq))
    return total


def first(db: Db, paths: Collection[RepoPath]) -> PathChange | None:
    """Return the first change that names one of some paths, by its new name or its old."""
    found: list[int] = []
    for path in paths:
        for column in ("path", "old_path"):
            sql = f"SELECT seq FROM events WHERE {column} = ? AND kind <> 'gap'"
            row = db.row(sql + " ORDER BY seq LIMIT 1", (path,))
            found += [] if row is None else [row[0]]
    seq = min(found, default=0)
    for head in switches.heads(db, "seq < ?", (seq or _MOST_SEQ,)):
        if switched := switches.changes_at(db, head, paths):
            return switched[0]
    return by_seqs(db, (seq,)).get(seq)


def path_changes(found: Iterable[Event | None]) -> list[PathChange]:
    """Return the changes of paths among events, in the order given."""
    return [event for event in found if isinstance(event, PathChange)]


def page(db: Db, after: int, limit: int) -> list[Event]:
    """Return the events behind a number, oldest first, at most so many."""
    sql = f"{SELECT} WHERE seq > ? ORDER BY seq LIMIT ?"
    return [event_of(row) for row in db.rows(sql, (after, limit))]


def begins_ns(db: Db, worktree: str) -> int | None:
    """Return the time of the oldest recorded state of a worktree, None where there is none."""
    row = db.row(
        "SELECT ts_ns FROM events WHERE worktree = ? AND commit_oid IS NOT NULL"
        " ORDER BY seq LIMIT 1",
        (worktree,),
    )
    return None if row is None else int(row[0])


def is_written(db: Db, path: RepoPath) -> bool:
    """Return whether any event names a path, except gaps and switches by Git."""
    sql = "SELECT 1 FROM events WHERE {} = ? AND kind <> 'gap' AND switched = 0 LIMIT 1"
    return any(db.row(sql.format(end), (path,)) for end in ("path", "old_path"))


def first_baseline(db: Db) -> Oid | None:
    """Return our commit with which recording began, None where nothing was recorded."""
    row = db.row(
        f"SELECT commit_oid FROM events WHERE {RARE} AND kind = 'baseline'"
        " AND commit_oid IS NOT NULL ORDER BY seq LIMIT 1"
    )
    return None if row is None else Oid(row[0])


def commits(db: Db) -> list[Oid]:
    """Return every commit that a row names, each once."""
    sql = "SELECT DISTINCT commit_oid FROM events WHERE commit_oid IS NOT NULL"
    return [Oid(commit) for (commit,) in db.rows(sql)]


def last_seq(db: Db) -> int:
    """Return the newest sequence number, 0 where there is none."""
    return db.number("SELECT MAX(seq) FROM events")


def writers_since(db: Db, worktree: str, seq: int) -> list[str]:
    """Return the sessions that wrote in a worktree after a row, sorted."""
    found = db.rows(
        "SELECT DISTINCT session FROM events WHERE seq > ? AND worktree = ?"
        " AND session IS NOT NULL AND kind <> 'baseline' ORDER BY session",
        (seq, worktree),
    )
    return [str(session) for (session,) in found]


def newest_seq(db: Db, worktree: str) -> int:
    """Return the sequence number of a worktree's newest row but gaps, 0 where there is none."""
    return db.number(_NEWEST, (worktree,))


def count(db: Db) -> int:
    """Return how many changes of paths were recorded."""
    pathless = f"SELECT COUNT(*) FROM events WHERE {RARE} AND kind <> 'coverage'"
    return db.number(f"SELECT COUNT(*) - ({pathless}) FROM events")


def count_gaps(db: Db) -> int:
    """Return how many gaps were journalled."""
    return db.number(f"SELECT COUNT(*) FROM events WHERE {RARE} AND kind = 'gap'")


def list_gaps(db: Db) -> list[GapRow]:
    """Return every gap, oldest first."""
    seen = int(meta.get(db, _GAPS_SEEN) or "0")
    return [GapRow(seq, ts, note or "", seq > seen) for seq, ts, note in db.rows(_GAPS)]


def see_gaps(db: Db) -> list[GapRow]:
    """Mark every gap as seen; return the new ones. Call it inside `db.write()`."""
    fresh = [one for one in list_gaps(db) if one.is_new]
    if fresh:
        meta.put(db, _GAPS_SEEN, str(fresh[-1].seq))
    return fresh


def last_gap_ns(db: Db, worktree: str) -> int | None:
    """Return when a worktree's newest gap was journalled, None where there is none."""
    row = db.row(
        f"SELECT MAX(ts_ns) FROM events WHERE {RARE} AND kind = 'gap' AND worktree = ?",
        (worktree,),
    )
    return None if row is None or row[0] is None else int(row[0])


def counts(db: Db, session: str, turn: str | None = None) -> tuple[int, int]:
    """Return the numbers of events and of files of a session, or of one turn of it.

    Without what may as well be a person's.
    """
    where = "session = ?" if turn is None else "session = ? AND turn = ?"
    row = db.row(
        "SELECT COUNT(*), COUNT(DISTINCT path) FROM events"
        f" WHERE {where} AND path IS NOT NULL AND {_SURE}",
        (session,) if turn is None else (session, turn),
    )
    return (row[0], row[1]) if row else (0, 0)


def since(db: Db, worktree: str, begin_ns: int) -> list[PathChange]:
    """Return a worktree's changes of paths since a moment, newest first."""
    # Rows are numbered in the order in which they were noticed, which is not quite that of their
    # times, so this goes back until a whole page is older.
    found: list[PathChange] = []
    before: int | None = None
    while True:
        part = rows(db, EventFilter(worktree=worktree, before_seq=before, limit=_PAGE))
        fitting = [row for row in part if row.ts_ns >= begin_ns]
        found += path_changes(fitting)
        if len(part) < _PAGE or not fitting:
            return found
        before = part[-1].seq


def changes(db: Db, wanted: EventFilter) -> list[PathChange]:
    """Return the changes of paths among the events that fit, newest first.

    What Git switched is among them; a limit counts a switch as one event.
    """
    kinds = wanted.kinds
    if kinds is not None and not _SWITCHED_KINDS.isdisjoint(kinds):
        wanted = replace(wanted, kinds={*kinds, EventKind.HEAD})
    paths = wanted.paths or (RepoPath(b""),)
    found: list[PathChange] = []
    for event in path_changes(unfolded(db, rows(db, wanted)[::-1])):
        is_there = not event.switched or any(is_within(event.path, p) for p in paths)
        if is_there and (kinds is None or event.kind in kinds):
            found.append(event)
    return found[::-1]


def writes(db: Db, wanted: EventFilter) -> list[PathChange]:
    """Return the changes of paths among the rows that fit, without switches, newest first."""
    return [row for row in path_changes(own_rows(db, wanted)) if not row.switched]


def unfolded(db: Db, found: Iterable[Event]) -> Iterator[Event]:
    """Yield events, oldest first, after each move of HEAD what Git switched by it."""
    for event in found:
        yield event
        if isinstance(event, HeadChange):
            yield from switches.changes_of(db, event)


def rows(db: Db, wanted: EventFilter) -> list[Event]:
    """Return the events that fit, newest first; a switch fits the paths that it changed."""
    return with_switches(db, wanted, own_rows(db, wanted))


def with_switches(db: Db, wanted: EventFilter, found: list[Event]) -> list[Event]:
    """Return what `own_rows` found, with the switches that fit."""
    paths = wanted.paths or (RepoPath(b""),)
    if b"" in paths or None is not (wanted.burst or wanted.op or wanted.text):
        return found
    if wanted.kinds is not None and EventKind.HEAD not in wanted.kinds:
        return found
    upwards = wanted.limit is not None and wanted.after_seq is not None
    clauses, values = _where(replace(wanted, paths=None, kinds=None))
    where = (
        " AND ".join(clauses or ["1"]) + f" ORDER BY seq{'' if upwards else ' DESC'}"
    )
    heads = switches.heads(db, where, values)
    # Beyond the last row that fits the limit no tree is read.
    if wanted.limit is not None and len(found) == wanted.limit:
        last = found[0 if upwards else -1].seq if found else 0
        heads = takewhile(lambda head: (head.seq < last) is upwards, heads)
    fitting = (head for head in heads if switches.touches(db, head, paths))
    found = sorted(
        [*found, *islice(fitting, wanted.limit)], key=attrgetter("seq"), reverse=True
    )
    if wanted.limit is None:
        return found
    return found[-wanted.limit :] if upwards else found[: wanted.limit]


def own_rows(db: Db, wanted: EventFilter) -> list[Event]:
    """Return the events that fit by what their own rows say, newest first; reads no tree."""
    paths = wanted.paths or ()
    # The rows next to `after_seq` are the oldest that fit, so LIMIT needs the other order.
    upwards = wanted.limit is not None and wanted.after_seq is not None
    single = wanted.limit is not None and len(paths) == 1 and b"" not in paths
    if single and not upwards:
        return _newest_at(db, next(iter(paths)), wanted)
    clauses, values = _where(wanted)
    sql = SELECT + (" WHERE " + " AND ".join(clauses) if clauses else "")
    sql += " ORDER BY seq" + ("" if upwards else " DESC")
    if wanted.limit is not None:
        sql += " LIMIT ?"
        values.append(wanted.limit)
    found = [event_of(row) for row in db.rows(sql, values)]
    return found[::-1] if upwards else found


def _newest_at(db: Db, path: RepoPath, wanted: EventFilter) -> list[Event]:
    """Return the newest events at one path."""
    # Each condition is a query of its own with its own index. With OR in one condition, SQLite
    # reads and sorts every event of the path: a second for the newest 50 of 50,000.
    clauses, values = _where(replace(wanted, paths=None))
    seqs: list[str] = []
    asked: list[Value] = []
    for condition in _AT_PATH:
        where = " AND ".join((condition, *clauses))
        # Each part has its own ORDER BY and LIMIT, which SQLite allows only in a subquery.
        seqs.append(
            f"SELECT * FROM (SELECT seq FROM events WHERE {where}"
            " ORDER BY seq DESC LIMIT ?)"
        )
        ends = (path,) if condition.count("?") == 1 else (path + b"/", path + b"0")
        asked += (*ends, *values, wanted.limit)
    sql = f"{SELECT} WHERE seq IN ({' UNION '.join(seqs)}) ORDER BY seq DESC LIMIT ?"
    return [event_of(row) for row in db.rows(sql, (*asked, wanted.limit))]


def history(
    db: Db, worktree: str | None, paths: Collection[RepoPath], since_seq: int
) -> list[PathChange]:
    """Return, oldest first, every change of these paths and of what they were renamed to or from.

    What Git switched is among them: a switch has one number, and a change for each path.

    Args:
        db: The journal.
        worktree: Its worktree; None for all.
        paths: Where to begin; the closure under renames since `since_seq` is taken.
        since_seq: The first sequence number of interest.
    """
    rows, _, switched = stored_history(db, worktree, paths, since_seq)
    changes = [*changes_of(rows), *switched]
    return sorted(changes, key=attrgetter("seq", "path"))


def stored_history(
    db: Db, worktree: str | None, paths: Collection[RepoPath], since_seq: int
) -> tuple[list[Row], list[HeadChange], list[PathChange]]:
    """Return the rows of `history` as they are stored, in order, and what it has without rows.

    The latter are the moves of HEAD by which Git switched anything, and what it switched there.
    """
    found: dict[int, Row] = {}
    asked: set[RepoPath] = set()
    todo = set(paths)
    # A rename can lead to a path that was renamed itself, so the closure takes several rounds.
    while todo:
        asked |= todo
        more = _stored_of_paths(db, worktree, sorted(todo), since_seq)
        new = {row[0]: row for row in more if row[3] != EventKind.GAP.value}
        found |= new
        # Each name is asked once: renames may lead in a circle.
        ends = {(row[4], row[5]) for row in new.values()}
        todo = {end for pair in ends for end in pair if end is not None} - asked
    heads = [
        head
        for head in switches_since(db, since_seq)
        if worktree in (None, head.worktree)
    ]
    switched = [one for head in heads for one in switches.changes_at(db, head, asked)]
    return [found[seq] for seq in sorted(found)], heads, switched


def switches_since(db: Db, since_seq: int) -> list[HeadChange]:
    """Return the moves of HEAD by which Git switched anything, oldest first."""
    return list(switches.heads(db, "seq >= ?", (since_seq,)))


def head_notes(db: Db, limit: int) -> list[str]:
    """Return what the newest moves of HEAD were, newest first, in every worktree."""
    where = f"{RARE} AND kind = 'head' AND note IS NOT NULL ORDER BY seq DESC LIMIT ?"
    found = db.rows(f"SELECT note FROM events WHERE {where}", (limit,))
    return [str(row[0]) for row in found]


def commit_before(
    db: Db, commit: Oid, session: str, worktree: str, below_seq: int
) -> Oid | None:
    """Return the commit of the newest row before a commit's on the same chain, or None.

    Args:
        db: The journal.
        commit: The commit. A correction has no rows; then `below_seq` counts.
        session: Whose chain it is.
        worktree: In which worktree.
        below_seq: A number that is known to come after the commit on the chain.
    """
    first = db.row("SELECT MIN(seq) FROM events WHERE commit_oid = ?", (commit,))
    if first is not None and first[0] is not None:
        below_seq = first[0]
    before = db.row(
        "SELECT MAX(seq), commit_oid FROM (SELECT seq, commit_oid FROM events"
        " WHERE session = ?1 AND worktree = ?2 AND seq < ?3 AND commit_oid IS NOT NULL"
        " AND seq NOT IN (SELECT seq FROM corrections) UNION ALL"
        " SELECT seq, commit_oid FROM corrections JOIN events USING (seq)"
        " WHERE chain = ?1 AND worktree = ?2 AND seq < ?3)",
        (session, worktree, below_seq),
    )
    return None if before is None or before[1] is None else Oid(before[1])


def commit_with(db: Db, path: RepoPath, blob: Oid) -> Oid | None:
    """Return the newest commit of ours that left a content at a path, None for none."""
    row = db.row(
        "SELECT seq, commit_oid FROM events WHERE path = ? AND after_oid = ?"
        " AND commit_oid IS NOT NULL ORDER BY seq DESC LIMIT 1",
        (path, blob),
    )
    newer = switches.heads(
        db, "seq > ? ORDER BY seq DESC", (0 if row is None else row[0],)
    )
    switched = switches.switched_to(db, newer, path, blob)
    if switched is not None:
        return switched.commit
    return None if row is None else Oid(row[1])


def seq_until(db: Db, worktree: str, until_ns: int) -> int:
    """Return the number of a worktree's newest row up to a time, 0 where there is none."""
    return db.number(
        "SELECT MAX(seq) FROM events WHERE worktree = ? AND ts_ns <= ?",
        (worktree, until_ns),
    )


def of_commit(db: Db, commit: Oid, seqs: tuple[int, int] | None) -> list[Event]:
    """Return the events whose rows name a commit, oldest first.

    Args:
        db: The journal.
        commit: One of our commits.
        seqs: The first and the last number that its message gives; None for none.
    """
    if seqs is None:
        return []
    sql = f"{SELECT} WHERE seq BETWEEN ? AND ? AND commit_oid = ? ORDER BY seq"
    return [event_of(row) for row in db.rows(sql, (*seqs, commit))]


def newest_with(
    db: Db, worktree: str, path: RepoPath, after: Oid | None, until_ns: int
) -> PathChange | None:
    """Return the newest change, up to a time, that left a content (None: nothing) at a path."""
    left = "path = ? AND after_oid IS ?"
    if after is None:
        left = "((path = ? AND after_oid IS ?) OR old_path = ?)"
    values = (path, after, path) if after is None else (path, after)
    found = db.rows(
        f"{SELECT} WHERE {left} AND worktree = ? AND ts_ns <= ? AND kind <> 'gap'"
        " ORDER BY seq DESC LIMIT 1",
        (*values, worktree, until_ns),
    )
    newest = next(iter(path_changes(map(event_of, found))), None)
    where = "seq > ? AND worktree = ? AND ts_ns <= ? ORDER BY seq DESC"
    since = 0 if newest is None else newest.seq
    newer = switches.heads(db, where, (since, worktree, until_ns))
    return switches.switched_to(db, newer, path, after) or newest


def stored(db: Db, wanted: EventFilter) -> Iterator[Row]:
    """Yield the rows of the events that fit, oldest first, as they are stored."""
    clauses, values = _where(wanted)
    yield from db.each(f"{SELECT} WHERE {' AND '.join(clauses)} ORDER BY seq", values)


def _stored_of_paths(
    db: Db, worktree: str | None, paths: Sequence[RepoPath], since_seq: int
) -> Iterator[Row]:
    """Yield the rows that name these paths, some twice, as they are stored."""
    for start in range(0, len(paths), _CHUNK):
        part = paths[start : start + _CHUNK]
        marks = ", ".join("?" * len(part))
        for column in ("path", "old_path"):
            sql = f"{SELECT} WHERE {column} IN ({marks}) AND seq >= ?"
            values: list[Value] = [*part, since_seq]
            if worktree is not None:
                sql += " AND worktree = ?"
                values.append(worktree)
            yield from db.each(sql, values)


def groups(db: Db, wanted: EventFilter) -> Iterator[tuple[str, str, str | None]]:
    """Yield burst, session and turn of the events that fit and have a burst, each once."""
    clauses, values = _where(wanted)
    where = " AND ".join([*clauses, "burst IS NOT NULL"])
    sql = f"SELECT DISTINCT burst, session, turn FROM events WHERE {where}"
    for burst, session, turn in db.each(sql, values):
        yield str(burst), str(session), None if turn is None else str(turn)


def changes_of(found: Iterable[Row]) -> list[PathChange]:
    """Return the changes of paths among stored rows, in the order given."""
    return path_changes(map(event_of, found))


def _where(wanted: EventFilter) -> tuple[list[str], list[Value]]:
    clauses: list[str] = []
    values: list[Value] = []
    plain: tuple[tuple[str, Value], ...] = (
        ("agent = ?", wanted.agent),
        ("ts_ns >= ?", wanted.since_ns),
        ("ts_ns <= ?", wanted.until_ns),
        ("worktree = ?", wanted.worktree),
        ("turn = ?", wanted.turn),
        ("call = ?", wanted.call),
        ("burst = ?", wanted.burst),
        ("op = ?", wanted.op),
        ("seq < ?", wanted.before_seq),
        ("seq > ?", wanted.after_seq),
        ("worktree <> ?", wanted.outside),
    )
    for clause, value in plain:
        if value is not None:
            clauses.append(clause)
            values.append(value)
    if wanted.ambiguous:
        clauses.append("candidates IS NOT NULL")
    if wanted.text is not None:
        clauses.append(_HOLDS_TEXT)
        values += [_like(wanted.text)] * 3
    for column, chosen in (("session", wanted.sessions), ("kind", wanted.kinds)):
        if chosen is not None:
            clauses.append(f"{column} IN ({', '.join('?' * len(chosen))})")
            values.extend(chosen)
    if wanted.kinds is not None and _RARE_KINDS.issuperset(wanted.kinds):
        # Redundant for the result, but only with it SQLite uses the partial index.
        clauses.append(RARE)
    if wanted.paths is not None and b"" not in wanted.paths:
        clauses.append(
            "(" + " OR ".join([_ANY_AT_PATH] * len(wanted.paths) or ["0"]) + ")"
        )
        for path in wanted.paths:
            values += [path, path + b"/", path + b"0"] * 2
    return clauses, values


def _like(text: str) -> str:
    """Return the pattern of what holds a text; no character of the text is a wildcard."""
    for char in "\\%_":
        text = text.replace(char, "\\" + char)
    return f"%{text}%"
