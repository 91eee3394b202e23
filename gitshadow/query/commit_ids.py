"""Commits of ours as people name them, from `git log` or `git bisect`: whole or abbreviated.

Invariant: a commit that is not of our format, as every one of the user's, is None.
"""

import re
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Event, Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.store.commits import CommitInfo
from gitshadow.store.journal import events
from gitshadow.store.refs import ShadowCommit, parse_message

_MICRO_NS = 999
"""A message holds whole microseconds, the journal nanoseconds."""
_OID = re.compile(r"[0-9a-f]{7,40}")


class Recorded(NamedTuple):
    """Hold one commit of ours and what its message says."""

    oid: Oid
    info: CommitInfo
    said: ShadowCommit


def recorded_commit(ws: Workspace, typed: str) -> Recorded | None:
    """Return the commit of ours that an id names, None where it names none.

    Args:
        ws: The workspace.
        typed: An object id or its beginning, seven digits or more.
    """
    if _OID.fullmatch(typed) is None or _is_seq(ws, typed):
        return None
    oid = ws.repo.resolve(typed)
    if oid is None or not oid.startswith(typed):
        return None
    try:
        info = ws.repo.commit(oid)
        said = parse_message(info.message)
    except StoreError:
        return None
    return None if said is None else Recorded(oid, info, said)


def _is_seq(ws: Workspace, typed: str) -> bool:
    """Tell the number of an event: of the ids of seven digits a 27th has no letter."""
    return (
        len(typed) < 19
        and typed.isdigit()
        and events.get(ws.db, int(typed)) is not None
    )


def events_of_commit(ws: Workspace, commit: Recorded) -> list[Event]:
    """Return the events that made what a commit changed, oldest first.

    A sync commit repeats what other sessions wrote: its events are theirs.
    """
    own = events.of_commit(ws.db, commit.oid, commit.said.seqs)
    return own or _foreign(ws, commit)


def newest_until(ws: Workspace, commit: Recorded) -> int:
    """Return the number of the newest row when a commit was made."""
    until_ns = commit.said.time_ns + _MICRO_NS
    return events.seq_until(ws.db, commit.said.worktree, until_ns)


def _foreign(ws: Workspace, commit: Recorded) -> list[Event]:
    if not commit.info.parents:
        return []
    before = ws.repo.commit(commit.info.parents[0]).tree
    until_ns = commit.said.time_ns + _MICRO_NS
    found: dict[int, Event] = {}
    for change in ws.repo.diff(before, commit.info.tree):
        oid = None if change.new is None else change.new[1]
        row = events.newest_with(
            ws.db, commit.said.worktree, change.path, oid, until_ns
        )
        if row is not None:
            found[row.seq] = row
    return [found[seq] for seq in sorted(found)]
