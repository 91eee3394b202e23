"""What a key asks for at the cursor: an undo, or the reason why there is none.

Invariant: pure; a request names what is under the cursor and nothing else.
"""

from gitshadow.errors import UsageError
from gitshadow.messages.undo import FileUndoRequest, UndoTarget
from gitshadow.ui.timeline import BlockKind, TimelineLine, moment_named


def undo_of(*ids: str, only: tuple[str, ...] = ()) -> FileUndoRequest:
    """Return the undo of what has these ids, or of a part of its paths."""
    return FileUndoRequest("undo", tuple(map(UndoTarget, ids)), only)


def redo_of(*ops: str) -> FileUndoRequest:
    """Return the redo of an op, or of the newest one."""
    return FileUndoRequest("redo", tuple(map(UndoTarget, ops)))


def undo(line: TimelineLine | None, path: str = "") -> FileUndoRequest:
    """Return the undo of a block, of one event of it, or of what it did to one file.

    Raises:
        UsageError: it is nothing that can be undone.
    """
    line = _selected(line)
    block = line.block
    if block.kind is BlockKind.PIN:
        raise UsageError("a pin cannot be undone: R restores its state")
    # No undo reverts what Git itself wrote; a restore to an earlier time can.
    if block.row.kind == "head" and block.row.files:
        raise UsageError("Git switched these files: R restores an earlier time")
    if block.kind is BlockKind.RARE:
        raise UsageError("nothing to undo here: no file was changed")
    only = (path,) if path else ()
    return undo_of(str(line.event.seq) if line.event else block.row.id, only=only)


def undo_turn(line: TimelineLine | None) -> FileUndoRequest:
    """Return the undo of the whole turn.

    Raises:
        UsageError: there is none.
    """
    row = _selected(line).block.row
    if row.kind != "turn":
        raise UsageError("this is not part of a turn: u undoes the block")
    return undo_of(row.id)


def undo_session(line: TimelineLine | None) -> FileUndoRequest:
    """Return the undo of the session, of an agent or a person.

    Raises:
        UsageError: there is none.
    """
    session = _selected(line).block.row.session
    if not session:
        raise UsageError("this belongs to no session")
    return undo_of(session)


def redo(line: TimelineLine | None) -> FileUndoRequest:
    """Return the redo of the op that is selected or undid the block, else of the newest one."""
    if line is None:
        return redo_of()
    block = line.block
    if block.kind is BlockKind.OP:
        return redo_of(block.row.id) if block.row.kind != "redo" else redo_of()
    undone = block.row.undone_by
    return redo_of(undone) if undone else redo_of()


def restore(line: TimelineLine | None, path: str = "") -> FileUndoRequest:
    """Return the restore of a file, or of all, as they were right after what is selected.

    Raises:
        UsageError: nothing is selected.
    """
    line = _selected(line)
    paths = (UndoTarget(path, path_only=True),) if path else ()
    request = FileUndoRequest("restore", paths)
    if line.block.kind is BlockKind.PIN:
        return request._replace(pin=line.block.row.id)
    return request._replace(at=moment_named(line))


def _selected(line: TimelineLine | None) -> TimelineLine:
    if line is None:
        raise UsageError("nothing is selected")
    return line
