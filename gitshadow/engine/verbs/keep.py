"""prune, du: dropping whole sessions, and what the history costs.

Invariant: objects and packs are never removed; refs and rows go, Git's own gc does the rest.
"""

import os
from contextlib import suppress

from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.rows import Row, rfc3339
from gitshadow.engine.usage import usage
from gitshadow.engine.verbs import Document, Params
from gitshadow.engine.verbs.expose import is_ours
from gitshadow.model import Session
from gitshadow.store import marks
from gitshadow.store.journal import prune as journal
from gitshadow.store.journal import sessions
from gitshadow.store.layout import page_of
from gitshadow.store.refs import exposed_ref


def prune(desk: Desk, params: Params) -> Document:
    """Drop sessions for good: whole ones, closed ones, never a pin.

    With `all` every session goes that is not open in an agent; personal sessions end first.
    """
    ws = desk.workspace
    desk.observer.settle()
    doomed = _doomed(desk, params)
    rows: list[Row] = [
        {"id": one.id, "started": rfc3339(one.started_ns)} for one in doomed
    ]
    if read.flag(params, "dry_run"):
        return {"dropped": rows, "dry_run": True}
    for session in doomed:
        _drop(desk, session)
    if doomed:
        marks.drop_orphans(ws.repo, {one.id for one in sessions.all_sessions(ws.db)})
        ws.repo.trees.forget()
        desk.claimant.forget()
    return {"dropped": rows, "dry_run": False}


def _doomed(desk: Desk, params: Params) -> list[Session]:
    ws = desk.workspace
    age_ns = read.number(params, "older_than")
    now_ns = ws.clock.now_ns()
    found = []
    for session in sessions.all_sessions(ws.db):
        is_open = session.ended_ns is None and session.agent is not None
        last_ns = session.last_seen_ns or session.started_ns
        old = age_ns is None or now_ns - last_ns > age_ns
        if old and not is_open:
            found.append(session)
    return found


def _drop(desk: Desk, session: Session) -> None:
    """Drop one session: tombstone first, then refs, then rows, and its page."""
    ws = desk.workspace
    chains = sessions.chains_of(ws.db, session.id)
    with ws.db.write():
        journal.bury(ws.db, session.id, ws.clock.now_ns(), chains)
    for chain in chains:
        shown = ws.repo.ref(exposed_ref(chain.ref))
        if shown is not None and is_ours(ws.repo, shown):
            ws.repo.delete_ref(exposed_ref(chain.ref))
        if ws.repo.ref(chain.ref) is not None:
            ws.repo.delete_ref(chain.ref)
    with ws.db.write():
        journal.drop_session(ws.db, session.id)
    with suppress(OSError):
        os.unlink(page_of(ws.layout, session.id))


def du(desk: Desk, params: Params) -> Document:
    """Return what the history takes, session by session and in total."""
    del params
    ws = desk.workspace
    return usage(ws.layout, ws.git, ws.repo, ws.db)
