"""Steps: groups of drafts turned into commits and rows, before anything is written.

Invariant: pure; the rows of a step are in the order of path bytes, as in `docs/format.md`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from gitshadow.capture.drafts import Draft, leaves, making_room
from gitshadow.model import (
    Attribution,
    Burst,
    Call,
    CommitEvent,
    EventKind,
    Oid,
    Op,
    OpKind,
    PathChange,
    RepoPath,
    Turn,
    git_mode,
    has_hidden_mode,
    is_odd_mode,
    micro,
)
from gitshadow.store import refs
from gitshadow.store.commit_rows import RowedChange, change_rows
from gitshadow.store.paths import c_quoted
from gitshadow.store.refs import PathNote, ShadowCommit
from gitshadow.store.trees import Entry

# A commit per path costs a tree and a commit object each; from here on it is a checkout, a
# formatter or a generator.
STORM_PATHS = 64
OFFLINE, MOVED_IN, INEXACT = "offline", "moved_in", "inexact"
_SUBJECT_CHARS = 72
_VERBS = {
    EventKind.CREATE: "Create",
    EventKind.MODIFY: "Edit",
    EventKind.DELETE: "Delete",
    EventKind.MODE: "Chmod",
    EventKind.TYPE: "Retype",
    EventKind.RENAME: "Rename",
}
_MANY = {"write": "Write", "head": "Switch", "coverage": "Cover", "restore": "Restore"}


class AttributedDraft(NamedTuple):
    """Store one draft, who wrote it, and the marks of its row."""

    draft: Draft
    attribution: Attribution
    flags: tuple[str, ...] = ()


class Group(NamedTuple):
    """Store the drafts of one future commit; all share its attribution and marks.

    `listed` are those that get rows, None for all. `trees` differ in the drafts and in nothing
    else but submodules; None where no such trees are known.
    """

    kind: str
    attribution: Attribution
    flags: tuple[str, ...]
    drafts: tuple[Draft, ...]
    note: str | None = None
    op: Op | None = None
    listed: tuple[Draft, ...] | None = None
    trees: tuple[Oid, Oid] | None = None

    @property
    def rowed(self) -> tuple[Draft, ...]:
        """Return the drafts that get rows."""
        return self.drafts if self.listed is None else self.listed

    @property
    def rows(self) -> int:
        """Return how many rows the commit stands for."""
        return len(self.rowed) + (self.kind == "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Store what a group's commit and rows say besides its drafts.

    `seq` is the first sequence number, `modes` what 100644 and 100755 stand for, `prompt` what
    the commit is to have of its turn, `head_ns` the time of a move of HEAD or of a correction.
    """

    worktree: str
    modes: tuple[int, int]
    seq: int
    burst: Burst | None = None
    turn: Turn | None = None
    prompt: str | None = None
    call: Call | None = None
    head_ns: int | None = None


class CommitStep(NamedTuple):
    """A commit to append: its message without what the chain adds, its changes and its origin."""

    message: ShadowCommit
    changes: Mapping[RepoPath, Entry | None]
    group: Group
    frame: Frame

    def rows(self, commit: Oid) -> list[CommitEvent]:
        """Return the rows that the commit stands for, in order of seq."""
        group = self.group
        listed = [
            RowedChange(draft.path, draft.old_path, *draft.versions)
            for draft in group.rowed
        ]
        modes = self.frame.modes
        return change_rows(self.message, group.attribution, commit, listed, modes)


def group_of(claimed: Sequence[AttributedDraft]) -> Group:
    """Return a group of writes that share their attribution, by path."""
    first = claimed[0]
    drafts = tuple(sorted((one.draft for one in claimed), key=lambda draft: draft.path))
    return Group("write", first.attribution, first.flags, drafts)


def switch_of(
    note: str,
    attribution: Attribution,
    switched: Sequence[Draft],
    modes: tuple[int, int],
) -> Group:
    """Return the group of one move of HEAD, with what Git switched by it.

    Its trees say what was switched, so only changes with a mode that they do not have get rows.
    """
    drafts = tuple(sorted(switched, key=attrgetter("path")))
    listed = (one for one in drafts if has_hidden_mode(*one.versions, modes))
    return Group("head", attribution, (), drafts, note, None, tuple(listed))


def split_writes(claimed: Sequence[AttributedDraft]) -> list[list[AttributedDraft]]:
    """Split a batch into the drafts of each commit, in order of time.

    One commit per write, but one for all that share attribution and marks where a session has
    more than 64 paths in the batch (a storm); it has the place of its last write. What had to go
    before another path could be there is a step of its own: a storm would put it after that.
    """
    counts = Counter(one.attribution.session for one in claimed)
    first = making_room([one.draft for one in claimed])
    parts: list[list[AttributedDraft]] = []
    storms: dict[tuple[Attribution, tuple[str, ...]], list[AttributedDraft]] = {}
    # Backwards, so that a storm is placed where its last write was: its tree then has all of them.
    for one in reversed(claimed):
        is_storm = counts[one.attribution.session] > STORM_PATHS
        if not is_storm or not first.isdisjoint(leaves(one.draft)):
            parts.append([one])
            continue
        key = (one.attribution, one.flags)
        if key not in storms:
            storms[key] = []
            parts.append(storms[key])
        storms[key].append(one)
    parts.reverse()
    return parts


def step_of(group: Group, frame: Frame) -> CommitStep:
    """Turn a group into the commit to append and the rows it stands for."""
    ends = [draft.end_ns for draft in group.drafts]
    # Refs store microseconds, and rows that are rebuilt from them must be equal.
    ts_ns = micro(max(ends + ([frame.head_ns] if frame.head_ns else [])))
    changes: dict[RepoPath, Entry | None] = {}
    for draft in group.drafts:
        if draft.old_path is not None:
            # Another draft of the group may fill the old path again.
            changes.setdefault(draft.old_path, None)
        after = draft.versions[1]
        changes[draft.path] = (git_mode(after.mode), after.oid) if after else None
    message = _message(group, frame, ts_ns)
    return CommitStep(message, changes, group, frame)


def correction_of(
    who: Attribution, rows: Sequence[PathChange], frame: Frame
) -> CommitStep:
    """Return the commit without a change that corrects the author of some rows of a chain."""
    group = Group("correction", who, (), ())
    count = f"{len(rows)} write{'' if len(rows) == 1 else 's'}"
    message = replace(
        _message(group, frame, micro(frame.head_ns or 0)),
        subject=f"Correct who made {count}",
        seqs=(frame.seq, frame.seq),
        actor=who.actor,
        owner=who.session,
        corrects=refs.format_rows(row.seq for row in rows),
    )
    return CommitStep(message, {}, group, frame)


def _message(group: Group, frame: Frame, ts_ns: int) -> ShadowCommit:
    who, op, turn, call = group.attribution, group.op, frame.turn, frame.call
    flags = (*group.flags, *(("switched",) * (group.kind == "head")))
    return ShadowCommit(
        subject=subject_for(group.kind, group.drafts, op.kind if op else None),
        kind=group.kind,
        worktree=frame.worktree,
        time_ns=ts_ns,
        seqs=(frame.seq, frame.seq + group.rows - 1),
        files=len(group.drafts) if group.kind == "head" else None,
        turn=who.turn,
        prompt=frame.prompt,
        turn_ordinal=turn.ordinal if turn else None,
        turn_started_ns=turn.started_ns if turn else None,
        call=who.call,
        tool=who.tool,
        tool_class=call.tool_class if call else None,
        call_opened_ns=call.opened_ns if call else None,
        confidence=who.confidence,
        reason=who.reason,
        candidates=who.candidates,
        burst=frame.burst.id if frame.burst else None,
        flags=flags,
        op=op.id if op else None,
        op_kind=op.kind if op else None,
        undoes=op.undoes if op else (),
        target=op.target if op else None,
        token=op.token if op else None,
        note=group.note,
        # What has no row of its own has no mode to note.
        paths=tuple(_notes(group.rowed, frame.modes)),
    )


def _notes(drafts: Sequence[Draft], modes: tuple[int, int]) -> Iterator[PathNote]:
    for draft in drafts:
        before, after = draft.versions
        if after is None:
            continue
        hidden = before is not None and before.mode != after.mode
        # Git's modes do not show such a change, so a rebuild would miss it without a note.
        hidden &= before is None or git_mode(before.mode) == git_mode(after.mode)
        if draft.old_path is not None or is_odd_mode(after.mode, modes) or hidden:
            yield PathNote(after.mode, draft.path, draft.old_path)


def subject_for(
    kind: str, changed: Sequence[Draft | PathChange], op_kind: OpKind | None = None
) -> str:
    """Return the subject of a commit of these changes; never with a control character."""
    count = f"{len(changed)} file{'' if len(changed) == 1 else 's'}"
    if kind == "restore":
        return f"Restore {count} ({op_kind.value if op_kind else 'restore'})"
    if kind != "write" or len(changed) != 1:
        return f"{_MANY.get(kind, 'Write')} {count}"
    row = changed[0]
    name = _shown(row.path)
    if row.old_path is not None:
        name = f"{_shown(row.old_path)} → {name}"
    subject = f"{_VERBS.get(row.kind, 'Write')} {name}"
    return (
        subject
        if len(subject) <= _SUBJECT_CHARS
        else subject[: _SUBJECT_CHARS - 1] + "…"
    )


def _shown(path: RepoPath) -> str:
    text = refs.display_path(path)
    return c_quoted(path) if refs.UNSAFE.search(text) else text
