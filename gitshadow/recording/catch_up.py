"""Catch up: give commits without rows their rows, and the file states that follow from them.

A crash between ref and row leaves such commits, and so does a journal that could not be written.
Invariant: afterwards every commit of this worktree's chains has its rows; tree and states agree.
"""

from collections.abc import Sequence

from gitshadow.model import CommitEvent, FileState, HeadChange, Oid, RepoPath, StatKey
from gitshadow.recording.head import HeadPosition, read_moves
from gitshadow.recording.workspace import Workspace
from gitshadow.store import machine
from gitshadow.store.journal import events
from gitshadow.store.replay import NOTHING, CatchUp, agree, catch_up


def adopt(ws: Workspace) -> CatchUp:
    """Add the rows that refs have and the journal lacks; the caller journals what is lost.

    Raises:
        StoreError, JournalError: it could not be done, and nothing was written.
    """
    done = NOTHING
    if not agree(ws.db, ws.repo.refs()):
        ours = machine.ours(ws.layout)
        done = catch_up(ws.db, ws.repo, ws.layout.worktree, ours)
    if done.foreign:
        # Loaded only if somebody fetched by hand.
        from gitshadow.recording import ingest

        ingest.move(ws.layout, ws.repo, done.foreign)
    if done.rows:
        _take_over(ws, done.rows, done.trees[ws.layout.worktree])
    ws.recorder.behind = False
    return done


def _take_over(ws: Workspace, rows: Sequence[CommitEvent], tree: Oid) -> None:
    """Store tree, states and HEAD as these rows leave them."""
    put: dict[RepoPath, FileState] = {}
    gone: set[RepoPath] = set()
    for row in events.path_changes(events.unfolded(ws.db, rows)):
        for path in (row.old_path, row.path if row.after is None else None):
            if path is not None:
                put.pop(path, None)
                gone.add(path)
        if row.after is not None:
            # No file has this stat, so the next look reads the file and compares the bytes.
            stat = StatKey(0, 0, 0, 0)
            put[row.path] = FileState(row.after, stat, row.ts_ns, True)
            gone.discard(row.path)
    with ws.states.consistent(), ws.db.write():
        ws.states.update(put, gone)
    # A move that has its row already would get another one from the next capture.
    known = ws.recorder.row
    at = HeadPosition(known.head_ref, known.head, known.head_mark)
    heads = [row.note for row in rows if isinstance(row, HeadChange)]
    for move in read_moves(ws.repo, at):
        if not heads or heads[0] != move.describe():
            break
        del heads[0]
        at = HeadPosition(move.new_ref, move.new, move.mark)
    ws.recorder.set_tree(tree, at.oid, at.ref, at.mark)
