"""A recorded history made by the letter of docs/format.md: refs and journal, without capture.

The journal rows are put together here from what was done, never from what was published, so that
they can stand against rows that were replayed from the refs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gitshadow.model import (
    LINK_MODE,
    Actor,
    Attribution,
    Baseline,
    Burst,
    Call,
    Chain,
    CommitEvent,
    Confidence,
    Digest,
    EventKind,
    FileState,
    FileVersion,
    HeadChange,
    Oid,
    Op,
    OpKind,
    OpStatus,
    PathChange,
    RepoPath,
    Session,
    StatKey,
    ToolClass,
    Turn,
    git_mode,
)
from gitshadow.store import refs
from gitshadow.store.journal import bursts, events, ops, pins, sessions, state, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import discover
from gitshadow.store.objects import NewCommit
from gitshadow.store.refs import PathNote, ShadowCommit
from gitshadow.store.repo import Repo
from tests.support.repo import Repo as Folder

START_NS = 1_795_248_000_000_000_000
UNKNOWN = Oid("")
Table = dict[RepoPath, FileVersion]


def open_repo(folder: Folder) -> Repo:
    """Open a test repository as the product does."""
    layout = discover(str(folder.root))
    assert layout is not None
    return Repo.open(layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one path: its new content, None for a deletion."""

    path: RepoPath
    after: FileVersion | None
    old_path: RepoPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One commit to publish."""

    session: str
    changes: tuple[Change, ...]
    kind: str = "write"
    turn: str | None = None
    call: str | None = None
    op: str | None = None
    flags: tuple[str, ...] = ()
    note: str | None = None
    confidence: Confidence = Confidence.CERTAIN
    candidates: tuple[str, ...] = ()


@dataclass(slots=True)
class World:
    """Publish writes of several sessions in one worktree and journal them."""

    repo: Repo
    db: Db
    worktree: str = "main"
    plain: tuple[int, int] = (0o644, 0o755)
    table: Table = field(default_factory=dict)
    journalling: bool = True
    _now_ns: int = START_NS
    _tree: Oid | None = None

    def begin(self, session: str, actor: Actor, agent: str | None = None) -> None:
        """Open a session."""
        with self.db.write():
            made = Session(
                id=session,
                native_id=f"native of {session}",
                actor=actor,
                agent=agent,
                started_ns=self._tick(),
                pid=4711,
            )
            sessions.put(self.db, made)

    def version(self, data: bytes, mode: int) -> FileVersion:
        """Store a blob; `mode` is permissions, or a link's whole mode."""
        full = mode if mode == LINK_MODE else 0o100000 | mode
        return FileVersion(self.repo.write_blob(data), full)

    def plant(self, path: RepoPath, data: bytes, mode: int) -> None:
        """Add a file that existed before anything was recorded."""
        self._change((Change(path=path, after=self.version(data, mode)),))

    def write(self, wanted: Write) -> list[CommitEvent]:
        """Publish one commit; journal its rows unless a crash is being played."""
        if wanted.turn is not None:
            self._open_turn(wanted)
        time_ns = self._tick()
        rows = self._rows(wanted, time_ns)
        chain, root = self._chain(wanted.session)
        message = self._message(wanted, rows, time_ns)
        chain = self._sync(chain, message)
        self._change(wanted.changes)
        chain = self._publish(chain, message)
        rows = [row._replace(commit=chain.tip) for row in rows]
        chain = replace(chain, tip_seq=rows[-1].seq if rows else chain.tip_seq)
        if self.journalling:
            with self.db.write():
                self._journal(wanted, [*root, *rows], chain)
        return [*root, *rows]

    def _change(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            self.table.pop(change.old_path or change.path, None)
        for change in changes:
            if change.after is not None:
                self.table[change.path] = change.after
        self._tree = None

    def pin(self, name: str) -> Oid:
        """Publish a pin of the present."""
        time_ns = self._tick()
        message = ShadowCommit(
            subject=f"Pin {name}",
            kind="pin",
            time_ns=time_ns,
            worktree=self.worktree,
            pin=name,
            modes=self.plain,
            paths=self._odd(self.table),
        )
        commit = self._commit(message, self.tree, ())
        self.repo.create_ref(refs.pin_ref(name), commit)
        row = pins.Pin(
            name=name,
            ref=refs.pin_ref(name),
            commit=commit,
            worktree=self.worktree,
            ts_ns=time_ns,
        )
        if self.journalling:
            with self.db.write():
                pins.put(self.db, row)
        return commit

    # -- what a row says -------------------------------------------------------------------

    def _rows(self, wanted: Write, time_ns: int) -> Sequence[PathChange | HeadChange]:
        count = len(wanted.changes) + (wanted.kind == "head")
        seq = events.reserve(self.db, count)
        session = sessions.get(self.db, wanted.session)
        assert session is not None
        who = Attribution(
            actor=session.actor,
            session=session.id,
            agent=session.agent,
            turn=wanted.turn,
            call=wanted.call,
            tool="Edit" if wanted.call else None,
            confidence=wanted.confidence,
            reason=f"because of {wanted.kind}",
            candidates=wanted.candidates,
        )
        rows: list[PathChange | HeadChange] = []
        if wanted.kind == "head":
            head = HeadChange(seq, time_ns, self.worktree, who, UNKNOWN, wanted.note)
            rows.append(head)
        for change in sorted(wanted.changes, key=lambda one: one.path):
            before = self.table.get(change.old_path or change.path)
            row = PathChange(
                seq=seq + len(rows),
                ts_ns=time_ns,
                worktree=self.worktree,
                attribution=who,
                commit=UNKNOWN,
                burst=self._burst(wanted),
                op=wanted.op,
                offline="offline" in wanted.flags,
                kind=self._kind(wanted, change, before),
                path=change.path,
                old_path=change.old_path,
                before=before,
                after=change.after,
                switched=wanted.kind == "head",
            )
            rows.append(row)
        return rows

    def _kind(
        self, wanted: Write, change: Change, before: FileVersion | None
    ) -> EventKind:
        if wanted.kind in ("restore", "coverage"):
            return EventKind(wanted.kind)
        if change.old_path is not None:
            return EventKind.RENAME
        if before is None:
            return EventKind.CREATE
        if change.after is None:
            return EventKind.DELETE
        if before.is_link != change.after.is_link:
            return EventKind.TYPE
        same = before.oid == change.after.oid
        return EventKind.MODE if same else EventKind.MODIFY

    def _burst(self, wanted: Write) -> str | None:
        if wanted.kind != "write":
            return None
        return self._assigned(wanted).id

    def _assigned(self, wanted: Write) -> Burst:
        return bursts.assign(
            self.db,
            session=wanted.session,
            worktree=self.worktree,
            turn=wanted.turn,
            ts_ns=self._now_ns,
            idle_gap_ns=10**18,
        )

    # -- what a commit says ----------------------------------------------------------------

    def _message(
        self, wanted: Write, rows: Sequence[CommitEvent], time_ns: int
    ) -> ShadowCommit:
        turn = wanted.turn and turns.get_turn(self.db, wanted.session, wanted.turn)
        call = wanted.call and turns.get_call(self.db, wanted.session, wanted.call)
        op = ops.get(self.db, wanted.op) if wanted.op else None
        who = rows[0].attribution if rows else None
        session = sessions.get(self.db, wanted.session)
        assert session is not None
        changes = events.path_changes(rows)
        return ShadowCommit(
            subject=refs.subject_for(wanted.kind, changes, op.kind if op else None),
            kind=wanted.kind,
            time_ns=time_ns,
            session=wanted.session,
            agent=session.agent,
            worktree=self.worktree,
            seqs=(rows[0].seq, rows[-1].seq) if rows else None,
            turn=wanted.turn,
            turn_ordinal=turn.ordinal if turn else None,
            turn_started_ns=turn.started_ns if turn else None,
            call=wanted.call,
            tool=who.tool if who else None,
            tool_class=call.tool_class if call else None,
            call_opened_ns=call.opened_ns if call else None,
            confidence=wanted.confidence,
            reason=who.reason if who else None,
            candidates=wanted.candidates,
            burst=changes[0].burst if changes else None,
            flags=wanted.flags,
            op=wanted.op,
            op_kind=op.kind if op else None,
            undoes=op.undoes if op else (),
            target=op.target if op else None,
            token=op.token if op else None,
            note=wanted.note,
            paths=tuple(self._notes(wanted, rows)),
        )

    def _notes(self, wanted: Write, rows: Sequence[CommitEvent]) -> list[PathNote]:
        found: list[PathNote] = []
        for row in events.path_changes(rows):
            if row.after is None:
                continue
            mode = row.after.mode
            hidden = (
                row.before is not None
                and row.before.mode != mode
                and git_mode(row.before.mode) == git_mode(mode)
            )
            if row.old_path is not None or hidden or self._is_odd(mode):
                found.append(PathNote(mode, row.path, row.old_path))
        return found

    def _is_odd(self, mode: int) -> bool:
        return mode != refs.exact_mode(git_mode(mode), self.plain)

    def _odd(self, paths: Mapping[RepoPath, object]) -> tuple[PathNote, ...]:
        return tuple(
            PathNote(version.mode, path)
            for path, version in sorted(self.table.items())
            if path in paths and self._is_odd(version.mode)
        )

    # -- publishing ------------------------------------------------------------------------

    @property
    def tree(self) -> Oid:
        """Return the present as a Git tree."""
        if self._tree is None:
            entries = {
                path: (git_mode(version.mode), version.oid)
                for path, version in self.table.items()
            }
            self._tree = self.repo.trees.splice(None, entries)
        return self._tree

    def _chain(self, session_id: str) -> tuple[Chain, list[Baseline]]:
        """Return where a chain stands, begun with a baseline where it is new."""
        ref = refs.chain_ref(session_id, self.worktree)
        tip = self.repo.ref(ref)
        if tip is not None:
            known = sessions.get_chain(self.db, session_id, self.worktree)
            seq = known.tip_seq if known else 0
            return self._at(ref, session_id, tip, seq), []
        session = sessions.get(self.db, session_id)
        assert session is not None
        seq = events.reserve(self.db, 1)
        message = ShadowCommit(
            subject="Baseline",
            kind="baseline",
            time_ns=session.started_ns,
            session=session_id,
            agent=session.agent,
            worktree=self.worktree,
            seqs=(seq, seq),
            native=session.native_id,
            actor=session.actor,
            started_ns=session.started_ns,
            modes=self.plain,
            paths=self._odd(self.table),
        )
        commit = self._commit(message, self.tree, ())
        self.repo.create_ref(ref, commit)
        row = Baseline(
            seq=seq,
            ts_ns=session.started_ns,
            worktree=self.worktree,
            attribution=Attribution(
                actor=session.actor,
                session=session_id,
                agent=session.agent,
                confidence=Confidence.CERTAIN,
                reason="first snapshot of the session",
            ),
            commit=commit,
        )
        return self._at(ref, session_id, commit, seq), [row]

    def _at(self, ref: str, session: str, tip: Oid, seq: int) -> Chain:
        return Chain(
            ref=ref,
            session=session,
            worktree=self.worktree,
            tip=tip,
            tree=self.repo.commit(tip).tree,
            tip_seq=seq,
        )

    def _sync(self, chain: Chain, message: ShadowCommit) -> Chain:
        tree = self.tree
        if chain.tree == tree:
            return chain
        changed = {one.path: one for one in self.repo.diff(chain.tree, tree)}
        sync = ShadowCommit(
            subject="Sync",
            kind="sync",
            time_ns=message.time_ns,
            session=chain.session,
            agent=message.agent,
            worktree=self.worktree,
            paths=self._odd(changed),
        )
        return self._publish(chain, sync)

    def _publish(self, chain: Chain, message: ShadowCommit) -> Chain:
        tree = self.tree
        tip = self._commit(message, tree, (chain.tip,))
        self.repo.move_ref(chain.ref, chain.tip, tip)
        return replace(chain, tip=tip, tree=tree)

    def _commit(
        self, message: ShadowCommit, tree: Oid, parents: tuple[Oid, ...]
    ) -> Oid:
        new = NewCommit(
            tree=tree,
            parents=parents,
            author_name=b"a",
            author_email=b"a@b",
            author_time=message.time_ns // 10**9,
            committer_time=1,
            message=refs.format_message(message),
        )
        return self.repo.write_commit(new)

    # -- journalling -----------------------------------------------------------------------

    def _journal(
        self, wanted: Write, rows: Sequence[CommitEvent], chain: Chain
    ) -> None:
        events.insert(self.db, rows)
        sessions.put_chain(self.db, chain)
        states = {path: _state(version) for path, version in self.table.items()}
        state.clear(self.db, self.worktree)
        state.put_many(self.db, self.worktree, states)
        if wanted.kind == "write":
            mine = [row for row in rows if row.kind is not EventKind.BASELINE]
            known = self._assigned(wanted)
            grown = replace(
                known,
                started_ns=known.started_ns or mine[0].ts_ns,
                ended_ns=mine[0].ts_ns,
                first_seq=known.first_seq or mine[0].seq,
                last_seq=mine[-1].seq,
            )
            bursts.put(self.db, grown)
        if wanted.op is not None:
            ops.finish(self.db, wanted.op, OpStatus.DONE, commit=chain.tip, report="{}")

    def _open_turn(self, wanted: Write) -> None:
        assert wanted.turn is not None
        with self.db.write():
            if turns.get_turn(self.db, wanted.session, wanted.turn) is None:
                turn = Turn(
                    id=wanted.turn,
                    session=wanted.session,
                    ordinal=1 + len(turns.list_turns(self.db, wanted.session)),
                    started_ns=self._tick(),
                    prompt=f"prompt of {wanted.turn}",
                )
                turns.put_turn(self.db, turn)
            if wanted.call is None:
                return
            if turns.get_call(self.db, wanted.session, wanted.call) is None:
                call = Call(
                    id=wanted.call,
                    session=wanted.session,
                    turn=wanted.turn,
                    tool="Edit",
                    tool_class=ToolClass.WRITE,
                    opened_ns=self._tick(),
                    worktree=self.worktree,
                )
                turns.open_call(self.db, call)

    def plan_op(self, op: str, session: str) -> Op:
        """Write down an op that is about to be applied."""
        made = Op(
            id=op,
            kind=OpKind.OOPS,
            ts_ns=self._now_ns + 1000,
            worktree=self.worktree,
            session=session,
            target="newest burst",
            undoes=("b-1", "17"),
            status=OpStatus.APPLYING,
            token="t",
        )
        with self.db.write():
            ops.put(self.db, made)
        return made

    def _tick(self) -> int:
        self._now_ns += 1000
        return self._now_ns


def _state(version: FileVersion) -> FileState:
    return FileState(version, Digest(b"\0" * 32), StatKey(0, 0, 0, 0), 0)
