"""Corrections: rows that turned out to belong to another session than their chain.

Others may have fetched a commit, so it is never changed: a later commit of the same chain names the
author of its rows. A correction changes rows of its own chain only, and the bursts follow.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.model import Attribution, Oid
from gitshadow.store.journal import bursts, events
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.event_rows import attribution_values

_HOLDER = "COALESCE((SELECT chain FROM corrections WHERE seq = events.seq), session)"
_ROWS = (
    "SELECT seq, burst FROM events WHERE seq BETWEEN ? AND ? AND op IS NULL"
    f" AND commit_oid IS NOT NULL AND {_HOLDER} = ?"
)
_OF_CHAIN = (
    "SELECT seq, commit_oid FROM events WHERE worktree = ?2 AND commit_oid IS NOT NULL"
    " AND (session = ?1 AND seq NOT IN (SELECT seq FROM corrections)"
    " OR seq IN (SELECT seq FROM corrections WHERE chain = ?1))"
)
_CHANGE = (
    "UPDATE events SET actor = ?, session = ?, agent = ?, turn = ?, call = ?, tool = ?,"
    " confidence = ?, reason = ?, candidates = ?, burst = ? WHERE seq = ?"
)


class Correction(NamedTuple):
    """The author that some rows of a chain turned out to have.

    `runs` are the first and last number of each run of rows; `burst` is the one they join.
    """

    chain: str
    runs: Sequence[tuple[int, int]]
    who: Attribution
    burst: str | None


def apply(db: Db, one: Correction) -> None:
    """Change the rows that a correction names; call it inside `db.write()`.

    Doing it again changes nothing more.
    """
    # The holder of each row is compared, because its session may be another one since an earlier
    # correction. A commit counts for the rows of its own chain only.
    found = [row for run in one.runs for row in db.rows(_ROWS, (*run, one.chain))]
    db.run_many(
        "INSERT OR REPLACE INTO corrections VALUES (?, ?)",
        [(seq, one.chain) for seq, _ in found],
    )
    named = attribution_values(one.who)
    db.run_many(_CHANGE, [(*named, one.burst, seq) for seq, _ in found])
    bursts.recount(db, {burst for _, burst in found} | {one.burst})


def forget(db: Db, session: str, worktree: str) -> frozenset[int]:
    """Forget which rows of a chain were corrected; return them, with their authors as they are.

    Call it inside `db.write()`, and `restore` these rows next.
    """
    # A correction commit has no row of its own. If a power cut takes one, its changes are only in
    # the journal, and the authors must be read from the commits that are left.
    rows = "SELECT seq FROM corrections JOIN events USING (seq) WHERE chain = ? AND worktree = ?"
    found = db.rows(rows, (session, worktree))
    db.run_many("DELETE FROM corrections WHERE seq = ?", found)
    return frozenset(seq for (seq,) in found)


def restore(db: Db, seqs: Sequence[int], who: Attribution, burst: str | None) -> None:
    """Set rows to the author that their own commit names; call it inside `db.write()`."""
    left = {row.burst for row in events.by_seqs(db, seqs).values()}
    named = attribution_values(who)
    db.run_many(_CHANGE, [(*named, burst, seq) for seq in seqs])
    bursts.recount(db, left | {burst})


def held(db: Db) -> list[tuple[str, str]]:
    """Return which sessions' chains hold the commits of rows of which other sessions."""
    rows = db.rows(
        "SELECT DISTINCT chain, session FROM corrections JOIN events USING (seq)"
        " WHERE chain <> session ORDER BY chain, session"
    )
    return [(str(chain), str(session)) for chain, session in rows]


def owners_without_chain(db: Db) -> list[str]:
    """Return the sessions of corrected rows that have no chain of their own."""
    rows = db.rows(
        "SELECT DISTINCT session FROM corrections JOIN events USING (seq)"
        " WHERE session NOT IN (SELECT session FROM chains) ORDER BY session"
    )
    return [str(session) for (session,) in rows]


def holder(db: Db, seq: int, session: str) -> str:
    """Return the session whose chain holds the commit of a row that is `session`'s."""
    row = db.row("SELECT chain FROM corrections WHERE seq = ?", (seq,))
    return session if row is None else str(row[0])


def rows_of_chain(db: Db, session: str, worktree: str) -> list[tuple[int, Oid]]:
    """Return number and commit of the rows that a session's chain in a worktree holds."""
    return [(seq, Oid(oid)) for seq, oid in db.rows(_OF_CHAIN, (session, worktree))]


def drop_chain(db: Db, chain: str) -> None:
    """Forget the rows of others on a session's chains, which go; call it inside `db.write()`."""
    rows = "SELECT seq FROM corrections WHERE chain = ?"
    found = db.rows(
        f"SELECT DISTINCT burst FROM events WHERE seq IN ({rows})", (chain,)
    )
    # Their commits are on this chain and go with its ref, so the rows would name nothing.
    db.run(f"DELETE FROM events WHERE seq IN ({rows})", (chain,))
    db.run("DELETE FROM corrections WHERE chain = ?", (chain,))
    bursts.recount(db, {burst for (burst,) in found})


def drop_strangers(db: Db) -> None:
    """Forget corrected rows of sessions that are not known; call it inside `db.write()`.

    Their session was dropped, and its rows with it, while the chain that holds them stayed.
    """
    strangers = db.rows(
        "SELECT DISTINCT session FROM corrections JOIN events USING (seq)"
        " WHERE session NOT IN (SELECT id FROM sessions)"
    )
    for table in ("events", "bursts", "turns", "calls"):
        db.run_many(f"DELETE FROM {table} WHERE session = ?", strangers)
    db.run("DELETE FROM corrections WHERE seq NOT IN (SELECT seq FROM events)")
