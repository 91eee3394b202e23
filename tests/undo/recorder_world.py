"""A worktree with a recorder but without the engine: undo's port over the real parts.

`yard.by("s1")` tells who writes from now on; `yard.record()` looks at the whole tree.
"""

import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

from gitshadow.capture.commit_plan import MOVED_IN, AttributedDraft
from gitshadow.capture.drafts import BatchTime, Draft, Seen, draft_changes
from gitshadow.capture.recorder import Recorder
from gitshadow.capture.states import StateTable
from gitshadow.errors import UsageError
from gitshadow.messages.undo import FileUndoRequest, HunkChoice
from gitshadow.model import (
    Actor,
    Attribution,
    CommitEvent,
    Confidence,
    Event,
    EventKind,
    FileState,
    FileVersion,
    Oid,
    Op,
    OpKind,
    PathChange,
    RepoPath,
    Session,
    StatKey,
    Turn,
)
from gitshadow.recording.head import HeadPosition, read_moves, reflog_mark, steps_of
from gitshadow.recording.switches import Witness, split_switched
from gitshadow.store.attributes import birth_of
from gitshadow.store.clock import StampClock
from gitshadow.store.files import TEMP_PREFIX, WorkFiles, digest
from gitshadow.store.git import Git
from gitshadow.store.journal import events, sessions, state, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.state import WorktreeRow
from gitshadow.store.layout import discover
from gitshadow.store.replay import catch_up
from gitshadow.store.repo import Repo
from gitshadow.undo.apply import Applied, StepHook, no_hook
from gitshadow.undo.engine import UndoPort
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.report import Reason, Report
from gitshadow.undo.restore_plan import PinSnapshot
from gitshadow.undo.run import ResolvedUndo, run
from gitshadow.undo.targets import Target
from tests.undo.histories import MAY_COME

_ACTORS = {"human": Actor.HUMAN, "unknown": Actor.UNKNOWN}


class Options(TypedDict, total=False):
    """Name the options of the four verbs."""

    apply: bool
    on_conflict: str
    only: Sequence[str]
    leave: Sequence[str]
    include_low: bool
    at_ns: int | None
    pin: str | None
    token: str | None
    offer: bool
    choice: HunkChoice | None
    hook: StepHook


@dataclass(slots=True)
class Yard:
    """One worktree, recorded without the engine."""

    root: Path
    repo: Repo
    db: Db
    clock: StampClock
    files: WorkFiles
    states_table: StateTable
    recorder: Recorder
    worktree: str = "main"
    ignored: dict[RepoPath, Reason] = field(default_factory=dict)
    pins: dict[str, PinSnapshot] = field(default_factory=dict)
    who: str = "unknown"
    turn: str | None = None
    call: str | None = None
    confidence: Confidence | None = None
    candidates: tuple[str, ...] = ()
    brought: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def open(cls, root: Path) -> "Yard":
        """Open a repository; what is in it is recorded as known."""
        layout = discover(str(root))
        assert layout is not None
        os.makedirs(layout.wt_dir, exist_ok=True)
        repo = Repo.open(layout)
        db = Db.open(layout.journal, create=not os.path.exists(layout.journal))
        states = StateTable(db, layout.worktree)
        known = state.get_worktree(db, layout.worktree)
        row = known or WorktreeRow(id=layout.worktree, path=b"")
        row = replace(row, path=os.fsencode(layout.root))  # it may be a copy
        files = WorkFiles(layout.root)
        recorder = Recorder(repo, files, db, row, states)
        made = cls(
            root,
            repo,
            db,
            StampClock(layout.stamp),
            files,
            states,
            recorder,
        )
        if known is None:
            made._init()
        return made

    def _init(self) -> None:
        """Record the present files as the baseline."""
        head = self.repo.head()
        seen = self._seen()
        with self.db.write():
            self.states_table.update(
                {one.path: one.after for one in seen if one.after is not None}, ()
            )
        changes = {
            one.path: (_git(one.after.version), one.after.version.oid)
            for one in seen
            if one.after is not None
        }
        tree = self.repo.trees.splice(None, changes)
        mark = reflog_mark(str(self.root / ".git"), head[1])
        self.recorder.set_tree(tree, head[1], head[0], mark)

    def close(self) -> None:
        """Give everything back."""
        self.db.close()
        self.repo.close()
        self.clock.close()

    # -- sentences -------------------------------------------------------------------------

    def by(
        self,
        who: str,
        turn: str | None = None,
        call: str | None = None,
        confidence: Confidence | None = None,
        candidates: tuple[str, ...] = (),
    ) -> "Yard":
        """Set who writes from now on: a session, `human` or `unknown`."""
        self.who, self.turn, self.call = who, turn, call
        self.confidence, self.candidates = confidence, candidates
        if sessions.get(self.db, who) is None:
            self.start(who)
        if turn is not None and turns.get_turn(self.db, who, turn) is None:
            ordinal = len(turns.list_turns(self.db, who)) + 1
            now = self.clock.now_ns()
            with self.db.write():
                opened = turns.open_turn_of(self.db, who)
                if opened is not None:
                    turns.close_turn(self.db, who, opened.id, now)
                turns.put_turn(
                    self.db,
                    Turn(session=who, id=turn, ordinal=ordinal, started_ns=now),
                )
        return self

    def start(self, who: str, parent: str | None = None) -> None:
        """Open a session."""
        actor = _ACTORS.get(who, Actor.AGENT)
        session = Session(
            id=who,
            native_id=f"native-{who}",
            actor=actor,
            agent="claude-code" if actor is Actor.AGENT else None,
            started_ns=self.clock.now_ns(),
            parent=parent,
        )
        with self.db.write():
            sessions.put(self.db, session)

    def write(
        self, path: str | bytes, data: str | bytes, mode: int | None = None
    ) -> list[CommitEvent]:
        """Write a file in place, or create it, and record that."""
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(fd, "wb") as handle:
            handle.write(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            os.chmod(full, mode)
        return self.record()

    def remove(self, path: str | bytes) -> list[CommitEvent]:
        """Remove a file or link and record that."""
        os.unlink(self.path(path))
        return self.record()

    def move(self, old: str, new: str) -> list[CommitEvent]:
        """Rename and record that."""
        os.makedirs(os.path.dirname(self.path(new)), exist_ok=True)
        os.rename(self.path(old), self.path(new))
        return self.record()

    def path(self, path: str | bytes) -> bytes:
        """Return a full path."""
        return os.path.join(os.fsencode(self.root), os.fsencode(path))

    def read(self, path: str | bytes) -> bytes:
        """Return a file's bytes."""
        with open(self.path(path), "rb") as handle:
            return handle.read()

    def mode(self, path: str | bytes) -> int:
        """Return a file's permission bits."""
        return stat.S_IMODE(os.lstat(self.path(path)).st_mode)

    def exists(self, path: str | bytes) -> bool:
        """Return whether anything exists at a path."""
        return os.path.lexists(self.path(path))

    def tree_now(self) -> dict[str, tuple[int, bytes]]:
        """Return mode and bytes of every file and link."""
        found: dict[str, tuple[int, bytes]] = {}
        for path in self._walk():
            reading = self.files.read(path)
            assert reading is not None
            found[os.fsdecode(path)] = (reading.mode, reading.data)
        return found

    def directories(self) -> set[str]:
        """Return every directory but Git's."""
        found: set[str] = set()
        for top, names, _ in os.walk(self.root):
            if ".git" in names:
                names.remove(".git")
            found |= {os.path.relpath(os.path.join(top, n), self.root) for n in names}
        return found

    def litter(self) -> list[RepoPath]:
        """Return temporary files of ours."""
        return [path for path in self._walk(temps=True) if _is_temp(path)]

    def log(self) -> list[Event]:
        """Return all events, newest first."""
        return events.rows(self.db, EventFilter())

    def changes(self) -> list[PathChange]:
        """Return the changes of paths, newest first; no other event is newer."""
        found = self.log()
        assert isinstance(found[0], PathChange)
        return events.path_changes(found)

    # -- undo ------------------------------------------------------------------------------

    def oops(self, **options: Unpack[Options]) -> Report:
        """Run `oops --yes`."""
        return self.ask(OpKind.OOPS, **options)

    def undo(self, *typed: str, **options: Unpack[Options]) -> Report:
        """Run `undo --yes`."""
        return self.ask(OpKind.UNDO, *typed, **options)

    def redo(self, **options: Unpack[Options]) -> Report:
        """Run `redo --yes`."""
        return self.ask(OpKind.REDO, **options)

    def restore(self, *typed: str, **options: Unpack[Options]) -> Report:
        """Run `restore --yes`."""
        return self.ask(OpKind.RESTORE, *typed, **options)

    def ask(self, kind: OpKind, *typed: str, **options: Unpack[Options]) -> Report:
        """Run one of the four verbs as the person at the keyboard."""
        self.by("human")
        only = tuple(map(_path, options.get("only", ())))
        leave = tuple(map(_path, options.get("leave", ())))
        asked = FileUndoRequest(
            verb=kind.value,
            on_conflict=options.get("on_conflict", "skip"),
            include_low=options.get("include_low", False),
            pin=options.get("pin"),
            yes=options.get("apply", True),
            token=options.get("token"),
            offer=options.get("offer", False),
            choice=options.get("choice"),
        )
        request = ResolvedUndo(
            asked,
            targets=tuple(Target(one, _path(one)) for one in typed),
            paths=PathFilter(only, leave),
            at_ns=options.get("at_ns"),
        )
        return run(self.port, request, options.get("hook", no_hook))

    # -- recording -------------------------------------------------------------------------

    def record(self) -> list[CommitEvent]:
        """Record whatever differs from what is known, as written by `who`."""
        now = self.clock.now_ns()
        drafts = draft_changes(self._seen(), BatchTime(0, now, lambda _: None))
        return self.recorder.record([self._claimed(draft) for draft in drafts])

    def bring(self, outside: bytes) -> None:
        """Remember a file outside that is about to be moved in."""
        found = os.stat(outside)
        born = birth_of(outside, -1)
        assert born is not None
        self.brought.add((found.st_ino, born.born_ns))

    def _claimed(self, draft: Draft) -> AttributedDraft:
        """Return a draft with who writes now, marked where its file was brought."""
        inode = draft.after.stat.inode if draft.after is not None else 0
        file = (inode, draft.born_ns or 0)
        moved_in = draft.kind in MAY_COME and file in self.brought
        self.brought.discard(file)
        return AttributedDraft(draft, self.claim(), (MOVED_IN,) * moved_in)

    def switch(self, note: str = "HEAD moved from main to other") -> list[CommitEvent]:
        """Record whatever differs as switched by Git."""
        now = self.clock.now_ns()
        moment = BatchTime(0, now, lambda _: None)
        drafts = [
            draft for one in self._seen() for draft in draft_changes([one], moment)
        ]
        self.by("unknown")
        return self.recorder.record_head(note, self.claim(), drafts, now)

    def moved(self) -> list[CommitEvent]:
        """Record what git commands did that `who` ran: moves of HEAD, and writes."""
        row, now = self.recorder.row, self.clock.now_ns()
        known = HeadPosition(row.head_ref, row.head, row.head_mark)
        moves = read_moves(self.repo, str(self.root / ".git"), known)
        moment = BatchTime(0, now, lambda _: None)
        steps = steps_of(self.repo, moves)
        stages, rest = split_switched(self._seen(), steps, moment, self._witness())
        who, rows = self.claim(), list[CommitEvent]()
        for move, written, gits in stages:
            rows += self.recorder.record([self._claimed(one) for one in written])
            fresh = replace(
                self.recorder.row,
                head=move.new,
                head_ref=move.new_ref,
                head_mark=move.mark,
            )
            rows += self.recorder.record_head(move.describe(), who, gits, now, fresh)
        drafts = draft_changes(rest, moment)
        return rows + self.recorder.record([self._claimed(one) for one in drafts])

    def _witness(self) -> Witness:
        layout = discover(str(self.root))
        assert layout is not None
        git = Git(layout, dict(os.environ))
        index_ns = os.stat(self.root / ".git" / "index").st_mtime_ns
        return Witness(
            data_of=self.repo.read_blob,
            staged=lambda paths: git.staged_stats(paths, index_ns),
            converted=git.with_filter,
            quiet=lambda _: False,
        )

    def claim(self) -> Attribution:
        """Return the attribution of what is written now."""
        actor = _ACTORS.get(self.who, Actor.AGENT)
        sure = Confidence.CERTAIN if actor is not Actor.UNKNOWN else Confidence.UNKNOWN
        return Attribution(
            actor=actor,
            session=self.who,
            agent="claude-code" if actor is Actor.AGENT else None,
            turn=self.turn,
            call=self.call,
            confidence=self.confidence or sure,
            reason="the test says so",
            candidates=self.candidates,
        )

    def _seen(self) -> list[Seen]:
        seen: list[Seen] = []
        known = dict(self.states_table.all())
        for path in self._walk():
            reading = self.files.read(path)
            before = known.pop(path, None)
            if reading is None:
                continue
            oid = self.repo.write_blob(reading.data)
            after = FileState(
                FileVersion(oid, reading.mode),
                digest(reading.data),
                reading.stat,
                self.clock.now_ns(),
                reading.racy,
            )
            if before is None or before.version != after.version:
                born = self.files.born_ns(path, reading.stat.inode)
                seen.append(Seen(path, before, after, born))
        return seen + [Seen(path, state, None) for path, state in known.items()]

    def _walk(self, *, temps: bool = False) -> list[RepoPath]:
        found: list[RepoPath] = []
        root = os.fsencode(self.root)
        for top, names, files in os.walk(root):
            if b".git" in names:
                names.remove(b".git")
            links = [name for name in names if os.path.islink(os.path.join(top, name))]
            for name in (*files, *links):
                path = RepoPath(os.path.relpath(os.path.join(top, name), root))
                if path in self.ignored or (_is_temp(path) and not temps):
                    continue
                found.append(path)
        return sorted(found)

    # -- the port --------------------------------------------------------------------------

    @property
    def port(self) -> UndoPort:
        """Return what undo works on: this yard."""
        return self

    def catch_up(self) -> None:
        """Give commits without rows their rows, as the engine's adoption does."""
        if not self.recorder.behind:
            return
        done = catch_up(self.db, self.repo, self.worktree)
        for row in events.path_changes(done.rows):
            gone = {one for one in (row.old_path, row.path) if one is not None}
            put: dict[RepoPath, FileState] = {}
            if row.after is not None:
                data = self.repo.read_blob(row.after.oid)
                stat = StatKey(len(data), 0, 0, 0)
                put[row.path] = FileState(row.after, digest(data), stat, 0, True)
            with self.states_table.consistent(), self.db.write():
                self.states_table.update(put, gone - put.keys())
        if done.rows:
            head = self.repo.head()
            self.recorder.set_tree(done.trees[self.worktree], head[1], head[0])
        self.recorder.behind = False

    def flush(self) -> None:
        """Record what nobody told us of."""
        self.catch_up()
        who = (self.who, self.turn, self.call, self.confidence, self.candidates)
        self.by("unknown")
        self.record()
        self.by(*who)

    def record_present(self, paths: Collection[RepoPath]) -> None:
        """Record everything."""
        del paths
        self.flush()

    def record_restore(self, op: Op, applied: Sequence[Applied]) -> Oid | None:
        """Publish an op's changes as they were made."""
        drafts = [
            Draft(
                kind=EventKind.RESTORE,
                path=one.path,
                old_path=one.old_path,
                before=self.states_table.get(one.old_path or one.path),
                after=one.after,
                begin_ns=op.ts_ns,
                end_ns=op.ts_ns,
            )
            for one in applied
        ]
        return self.recorder.record_restore(op, self.claim(), drafts)[-1].commit

    def actor_session(self) -> str:
        """Return the person's session."""
        return self.who

    def tree(self) -> Oid:
        """Return the recorded tree."""
        return self.recorder.tree

    def state(self, path: RepoPath) -> FileState | None:
        """Return the recorded state of a path."""
        return self.states_table.get(path)

    def states(self) -> Mapping[RepoPath, FileState]:
        """Return all recorded states."""
        return self.states_table.all()

    def uncovered_under(
        self, rules: Mapping[RepoPath, bytes | None]
    ) -> Callable[[RepoPath], Reason | None]:
        """Return why paths are not covered: no rule file decides that here."""
        return self.uncovered

    def directory_mode(self, directory: RepoPath) -> int | None:
        """Return the mode that a directory had: nobody looks at these here."""
        return None

    def uncovered(self, path: RepoPath) -> Reason | None:
        """Return why a path is not recorded."""
        return self.ignored.get(path)

    def snapshot(self, pin: str) -> PinSnapshot:
        """Return a pin."""
        if pin not in self.pins:
            raise UsageError(f"cannot find pin {pin}")
        return self.pins[pin]

    def pin(self, name: str) -> None:
        """Pin the present."""
        odd = {
            path: state.version.mode
            for path, state in self.states().items()
            if state.version.mode not in (0o100644, 0o100755, 0o120000)
        }
        self.pins[name] = PinSnapshot(
            self.tree(), self.clock.now_ns(), odd, (0o644, 0o755)
        )


def _path(text: str) -> RepoPath:
    return RepoPath(os.fsencode(text))


def _is_temp(path: RepoPath) -> bool:
    return path.rpartition(b"/")[2].startswith(TEMP_PREFIX)


def _git(version: FileVersion) -> int:
    if version.is_link:
        return version.mode
    return 0o100755 if version.mode & 0o100 else 0o100644
