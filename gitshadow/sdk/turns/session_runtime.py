"""One opened session of an agent program: the part that both fronts share.

A turn or an undo of a session holds its lock. So a turn that is open in the journal while the lock
is free has lost its process. A submitted undo is in the journal as `submitted` until its engine
begins it, and until then the session has no new turn. Carrying an undo out needs the lock;
submitting one releases it.
"""

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gitshadow.errors import (
    LockedError,
    NotInitialisedError,
    UnsupportedError,
    UsageError,
)
from gitshadow.ipc.spool import stores_prompts
from gitshadow.sdk.turns import (
    evidence,
    json_values,
    notifications,
    outbox,
    probe,
    reversibility,
    rewind,
)
from gitshadow.sdk.turns.bench import Bench
from gitshadow.sdk.turns.call_records import held_row
from gitshadow.sdk.turns.commands import Invoke, Procedure, Save, demand, now
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.file_recording import FileRecorder, Tell
from gitshadow.sdk.turns.host import ContextCache, Host
from gitshadow.sdk.turns.journal_store import JournalStore
from gitshadow.sdk.turns.option_checks import (
    OptionCheck,
    check_fields,
    instance_of,
    optional,
    text,
)
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.protocols import CompensationEngine, SessionStore
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoKind, UndoReport
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_states import TurnStatus
from gitshadow.sdk.turns.turn_undo import Undoing, turn_of
from gitshadow.sdk.turns.undo_operation import Whole, report_of
from gitshadow.sdk.turns.undo_request import (
    RedoOptions,
    RewindOptions,
    UndoOptions,
    redo_token,
    request_of,
    rewind_request,
)
from gitshadow.sdk.turns.user_hooks import UserHooks
from gitshadow.sdk.turns.values import Release, UndoEntry
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import (
    SagaCall,
    SagaOp,
    SagaRow,
    SagaTurn,
)
from gitshadow.store.layout import Layout, discover
from gitshadow.undo.report import Reason, State

_SUBMITTED = "submitted"


@dataclass(frozen=True, slots=True)
class Opening:
    """What a session is opened with."""

    session: str
    tools: ToolRegistry
    agent: str | None = None
    policy: Policy = field(default_factory=Policy)
    host: Host = field(default_factory=Host)

    def __post_init__(self) -> None:
        check_fields(self, _OPENING)
        if not self.session.strip():
            raise UsageError(
                "cannot open a session without a name", hint="pass session='...'"
            )
        for option in ("session", "agent"):
            name = getattr(self, option)
            if name is not None and json_values.storable(name) != name:
                raise UsageError(f"{option} must be UTF-8, not {name!r}")

    def bench(self, path: str) -> Bench:
        """Return what an engine of the session is given, by the root of the working tree."""
        # Without the engine: the session that it opens carries undos out itself and must not
        # submit them again.
        host = replace(self.host, engine=None)

        def opened(session: str) -> SessionRuntime:
            return SessionRuntime.open(path, replace(self, session=session, host=host))

        return Bench(path, self.session, opened)


_OPENING: Mapping[str, OptionCheck] = {
    "session": text,
    "tools": instance_of(ToolRegistry, "a ToolRegistry"),
    "agent": optional(text),
    "policy": instance_of(Policy, "a Policy"),
    "host": instance_of(Host, "a Host"),
}


class SessionRuntime:
    """One session's store, lock and settings; `layout` is None away from a repository."""

    def __init__(
        self, store: SessionStore, opening: Opening, layout: Layout | None = None
    ) -> None:
        self._store = store
        self._pid = os.getpid()
        self._is_closed = False
        self._turn: TurnCore | None = None
        self.layout = layout
        self._opening = opening
        self.clock = opening.host.clock
        self.recorder = _recorder(layout, opening)
        self.setting = TurnSettings(
            store_id=store.store_id(),
            session=opening.session,
            agent=opening.agent,
            registry=opening.tools,
            policy=opening.policy,
            host=opening.host,
            # The process id shows a reader whether the owner still runs; the random part
            # distinguishes it from a later process with the same id.
            owner=f"{os.getpid()}-{os.urandom(4).hex()}",
            contexts=ContextCache(opening.host.contexts),
            root=layout.root if layout is not None else os.getcwd(),
            recorder=self.recorder,
            hooks=UserHooks(layout, opening.session, opening.host.environ)
            if layout is not None
            else None,
        )
        self._lock = store.lock(opening.session)
        self.engine = _bound(layout, opening)

    @classmethod
    def open(cls, path: str | os.PathLike[str], opening: Opening) -> "SessionRuntime":
        """Open the repository that holds a path.

        Raises:
            UnsupportedError: there is none.
            NotInitialisedError: it is not recorded.
            JournalError: the journal cannot be used.
        """
        layout = discover(os.fspath(path))
        if layout is None:
            raise UnsupportedError(
                f"cannot find a Git working tree at {path}", hint="git init"
            )
        if not layout.initialised:
            raise NotInitialisedError(
                f"nothing is recorded in {layout.root}",
                hint="git agent-undo init",
            )
        return cls(JournalStore(layout), opening, layout)

    def fork(self, before: str, session: str) -> "SessionRuntime":
        """Return another session that begins where this one was before an invocation.

        Raises:
            UsageError: that session exists, or there is nothing to begin with.
            SessionBusy: somebody is about to begin it.
            StoreError: an artifact's bytes are gone.
        """
        opening, store = replace(self._opening, session=session), self.store
        if isinstance(store, JournalStore):
            # Both sessions are closed separately, so each needs a connection of its own.
            store = JournalStore(store.layout)
        made = type(self)(store, opening, self.layout)
        try:
            made.take()
            rewind.plant(store, self.session, before, session, self.clock())
        except BaseException:
            made.close()
            raise
        made.release()
        return made

    @property
    def store(self) -> SessionStore:
        """Return where the session is kept.

        Raises:
            UsageError: the session is closed, or this is a child process of the one that opened it.
        """
        self._check_open()
        return self._store

    def _check_open(self) -> None:
        """Raise `UsageError` if it is closed, and in a child process, which has a copy of it."""
        if self._is_closed:
            raise UsageError(
                f"cannot use session {self.session}: it is closed",
                hint="open it again, or use it inside its block",
            )
        if os.getpid() != self._pid:
            raise UsageError(
                f"cannot use session {self.session} in a child process:"
                f" process {self._pid} opened it",
                hint="open the session in the process that uses it, after the fork",
            )

    def may_close(self) -> bool:
        """Return whether this process opened the session.

        Raises:
            UsageError: a turn is open; its end needs the store.
        """
        if os.getpid() != self._pid:
            return False
        if self._turn is not None:
            raise UsageError(
                f"cannot close session {self.session}: {self._turn.row.id} is open",
                hint="leave the block of the turn first",
            )
        return True

    def close(self) -> None:
        """Close the store and release the lock; do nothing in a child process.

        Raises:
            UsageError: a turn is open.
        """
        if not self.may_close():
            return
        if self.recorder is not None:
            self.recorder.close()
        self._store.close()
        self._lock.release()
        self._is_closed = True

    @property
    def session(self) -> str:
        """Return the session's id."""
        return self.setting.session

    def new_turn(self, label: str, policy: Policy | None = None) -> TurnCore:
        """Lock the session and return the next turn, not begun yet; None: the session's policy.

        Raises:
            SessionBusy: a turn or an undo of this session is at work, here or elsewhere.
        """
        self.take()
        try:
            self._after_losses()
            core = self.next_turn(label)
            core.setting = replace(core.setting, policy=policy or core.setting.policy)
            self._turn = core
            return core
        except BaseException:
            self.release()
            raise

    def next_turn(self, label: str, *, lease_ns: int | None = None) -> TurnCore:
        """Return a turn with the next number; to be called under the lock."""
        self.check_none_waits()
        last = self.store.last_turn(self.session)
        ordinal = last.ordinal + 1 if last is not None else 1
        # Programs give a turn the words of the user's, in which it begins.
        may_store = not self.layout or stores_prompts(
            self.layout, self.setting.host.environ
        )
        row = SagaTurn(
            session=self.session,
            id=f"t-{ordinal}",
            ordinal=ordinal,
            label=json_values.storable(label) if may_store else "",
            agent=self.setting.agent,
            status=TurnStatus.OPEN.value,
            started_ns=self.clock(),
            owner=self.setting.owner,
            lease_ns=lease_ns,
        )
        is_first = self.store.last_seq(self.session) < 0
        return TurnCore(self.setting, row, is_first=is_first)

    def hooked_turn(self) -> TurnCore | None:
        """Return the open turn that hooks report, as the journal has it; None without one."""
        row = self.store.last_turn(self.session)
        if row is None or row.status != TurnStatus.OPEN or row.lease_ns is None:
            return None
        found = self.store.calls(self.session, row.id)
        return TurnCore(
            self.setting,
            row,
            calls={call.id: call for call in found},
            entries=entries_of(found),
            started=len(found),
        )

    def interrupt_open(self) -> None:
        """Mark an open turn as interrupted; to be called under the lock."""
        # Who had a lease held the session's lock, which is ours now; so that process is gone.
        self.store.free_leases(self.session)
        last = self.store.last_turn(self.session)
        if last is None or last.status != TurnStatus.OPEN:
            return
        moment = self.clock()
        lost = replace(
            last, status=TurnStatus.INTERRUPTED.value, cause="lost", ended_ns=moment
        )
        note = evidence.note(last, "turn_interrupted", {"owner": last.owner}, moment)
        self.store.save([lost, note, *self._unsent(last, moment)])
        if self.recorder is not None:
            self.recorder.tell(Tell("turn_end", last.id))

    def _unsent(self, turn: SagaTurn, moment: int) -> Iterator[SagaRow]:
        """Return rows that drop what a turn holds that will never commit."""
        for call in self.store.calls(self.session, turn.id):
            if call.outcome == "held":
                held = replace(held_row(call), state="dropped")
                yield replace(call, outcome="dropped", undo="skipped")
                yield held
                yield evidence.note(call, "dropped", {"key": call.key}, moment)

    def take(self) -> None:
        """Lock the session.

        Raises:
            SessionBusy: somebody has it.
        """
        self._check_open()
        try:
            self._lock.take()
        except LockedError as error:
            raise _busy(self.session) from error

    def release(self) -> None:
        """Release the session's lock; a child process does not have it."""
        if os.getpid() == self._pid:
            self._turn = None
            self._lock.release()

    @contextmanager
    def locked(self, *, finishing: bool = False) -> Iterator[None]:
        """Lock the session for a block; turns that lost their process are marked before it.

        Args:
            finishing: Whether the block goes on with undos that wait for an engine.

        Raises:
            SessionBusy: somebody has it, or an undo is waiting for its engine.
        """
        self.take()
        try:
            self._after_losses()
            if not finishing:
                self.check_none_waits()
            yield
        finally:
            self.release()

    def calls(self, turn: str) -> list[SagaCall]:
        """Return the calls of a turn in the order in which they started.

        Raises:
            UsageError: there is no such turn.
        """
        return self.undoing.calls(turn)

    @property
    def undoing(self) -> Undoing:
        """Return what makes the undos of this session."""
        return Undoing(self.store, self.setting)

    def composed(self, op: SagaOp) -> Whole:
        """Return the undo of an op, new or begun before."""
        return self.undoing.of(op)

    def sessions_with_work(self) -> list[str]:
        """Return the sessions of the repository that have an undo without a report."""
        if not isinstance(self.store, JournalStore):
            return []
        return SagaTables(self.store.db).sessions_with_work()

    def plan(self, turn: str, options: UndoOptions) -> Procedure[UndoReport]:
        """Return what `undo` would do; call no inverse and change no file."""
        return self.undoing.undo(turn, request_of(options)).plan()

    def undo(self, turn: str, options: UndoOptions) -> Procedure[UndoReport]:
        """Undo a turn, or one call alone."""
        request = request_of(options)
        return (yield from self._run(lambda: self.undoing.undo(turn, request)))

    def redo(self, op: str, options: RedoOptions) -> Procedure[UndoReport]:
        """Reverse an undo."""
        token = redo_token(options)
        return (yield from self._run(lambda: self.undoing.redo(op, token)))

    def rewind(self, before: str, options: RewindOptions) -> Procedure[UndoReport]:
        """Return to before an invocation."""
        request = rewind_request(options)
        return (yield from self._run(lambda: self.undoing.rewind(before, request)))

    def undo_last(self, *, effects: bool) -> Procedure[UndoReport]:
        """Return to before the newest invocation in the conversation."""
        request = rewind_request({"effects": effects})

        def made() -> Whole:
            newest = rewind.last_live(self.store, self.session)
            return self.undoing.rewind(newest, request)

        return (yield from self._run(made))

    def resume(self, op: str) -> Procedure[UndoReport]:
        """Go on with an earlier undo."""
        return (yield from self._run(lambda: self.resumed(op), again=True))

    def send_due(self) -> Procedure[list[Release]]:
        """Send the held calls that are due, under the lock."""
        with self.locked():
            return (yield from outbox.release(self.setting))

    def recover(self) -> Procedure[list[UndoReport]]:
        """Ask the probes of calls in doubt, and end the undos that lost their process."""
        found = []
        with self.locked(finishing=True):
            yield from self._ask_probes()
            if self.engine is None:
                for op in self.unfinished():
                    report = yield from self.finish(op.id)
                    found.append(report)
                return found
            engine = self.engine
            taken = yield from demand(Invoke(engine.recover, blocking=True))
        for op_id in taken:
            report = yield from _awaited(engine, op_id)
            found.append(report)
        return found

    def resolve(self, turn: str, call: str, state: State, note: str) -> None:
        """Record what a person has found out about a call, or has done about it.

        It is a row of the log of its own, and what was recorded before stays.

        Raises:
            UsageError: there is no such call, or it has nothing left to resolve.
            SessionBusy: a turn or an undo of this session is at work.
        """
        with self.locked():
            calls = self.calls(turn)
            waiting = [
                one
                for one in self.store.waiting(self.session)
                if (one.turn, one.call) == (turn, call)
            ]
            names = {one.id for one in reversibility.mutating(calls)}
            names |= {one.call for one in waiting}
            found = next((one for one in calls if one.id == call), None)
            if found is None or call not in names or found.undo in ("done", "skipped"):
                raise UsageError(
                    f"cannot resolve {call}: it has nothing left to resolve"
                )
            body = {
                "as": state.value,
                "was": found.undo,
                "error": found.error,
                "note": note,
            }
            row = evidence.note(found, evidence.RESOLVED, body, self.clock())
            after = replace(found, undo=reversibility.RESOLVED_STATES[state])
            closed = [replace(one, state="resolved") for one in waiting]
            self.store.save([after, row, *closed])

    def _run(
        self, make: Callable[[], Whole], *, again: bool = False
    ) -> Procedure[UndoReport]:
        """Carry an undo out, in place under the lock or by the session's engine.

        Args:
            make: Returns what is to be done, as it is under the lock.
            again: Whether it has ended before.

        Raises:
            RefusedError: the token does not fit; nothing was done.
            UndoPending, EngineError: as `CompensationEngine.wait`.
        """
        with self.locked(finishing=again):
            work, engine = make(), self.engine
            if engine is None or not work.calls_handlers:
                return (yield from self._done(work))
            # Checked before the engine has the op: a refused undo must leave nothing behind.
            yield from work.admit()
            # The row is saved before the engine gets the op, because the engine reads everything
            # from it.
            op = replace(work.op, status=_SUBMITTED)
            yield Save((op,))
            # Engines block, for example on a database, so they get a thread of their own.
            hand = Invoke(engine.submit, (op,))
            hand = Invoke(engine.resume, (op.id,)) if again else hand
            yield from demand(hand._replace(blocking=True))
        # The engine's worker needs the lock, so waiting for it with the lock held would never end.
        return (yield from _awaited(engine, op.id))

    def _ask_probes(self) -> Procedure[None]:
        """Ask about every call whose effect is unknown, if its tool can answer."""
        left = {
            (turn_of(op), item.call_id)
            for op in self.store.ops(self.session)
            if (report := report_of(op)) is not None
            for item in report.items
            if item.reason is Reason.IN_DOUBT
        }
        for call in self.store.unsettled(self.session):
            if reversibility.is_doubtful(call):
                moment = yield from now()
                is_late = (call.turn, call.id) in left
                yield from probe.settled(call, self.setting, moment, is_late=is_late)

    def finish(self, op_id: str) -> Procedure[UndoReport]:
        """Carry an undo out in place, from wherever it stopped; under the lock."""
        return (yield from self._done(self.resumed(op_id)))

    def _done(self, work: Whole) -> Procedure[UndoReport]:
        """Run an undo here, and call its observers."""
        is_rewind = work.op.kind == UndoKind.REWIND
        run = notifications.rewind if is_rewind else notifications.undo
        return (yield from run(self.setting, work))

    def unfinished(self) -> list[SagaOp]:
        """Return the undos, rollbacks and rewinds without a report, oldest first."""
        ops = self.store.ops(self.session)
        return [op for op in ops if op.status != "done"]

    def check_none_waits(self) -> None:
        """Do nothing if no undo is waiting for its engine.

        Raises:
            SessionBusy: one does; nothing may come between.
        """
        for op in self.unfinished():
            if op.status == _SUBMITTED:
                raise SessionBusy(
                    f"cannot use session {op.session}: undo {op.id} is waiting for its engine",
                    hint="wait for it to end, or finish it here: git agent-undo program recover",
                )

    def resumed(self, op_id: str) -> Whole:
        """Return an earlier undo to go on with: what it did stays done.

        Raises:
            UsageError: this session has no such undo.
        """
        op = self.store.op(op_id)
        if op is None or op.session != self.session:
            raise UsageError(f"cannot find undo {op_id} in session {self.session}")
        return self.composed(replace(op, status="applying"))

    def _after_losses(self) -> None:
        """Mark what lost its process: claims, and an open turn.

        Raises:
            SessionBusy: hooks report the turn, and its lease has not run out.
        """
        last = self.store.last_turn(self.session)
        is_open = last is not None and last.status == TurnStatus.OPEN
        if is_open and last is not None and (last.lease_ns or 0) > self.clock():
            raise _busy(self.session)
        self.interrupt_open()


def entries_of(calls: Iterable[SagaCall]) -> list[UndoEntry]:
    """Return one entry per successful call, in order."""
    return [
        UndoEntry(call.id, call.tool, call.description)
        for call in calls
        if call.outcome == "success"
    ]


def chosen(entries: Iterable[UndoEntry], tool: str | None) -> list[UndoEntry]:
    """Return the entries of the tools that a pattern (`crm.*`) names; None names all."""
    return [
        entry
        for entry in entries
        if tool is None or fnmatch.fnmatchcase(entry.tool_name, tool)
    ]


def _bound(layout: Layout | None, opening: Opening) -> CompensationEngine | None:
    """Return the session's engine, None where undos are carried out in place."""
    provider = opening.host.engine
    if provider is None:
        return None
    if layout is None:
        raise UsageError("cannot use an engine without a repository's journal")
    return provider.bind(opening.bench(layout.root))


def _recorder(layout: Layout | None, opening: Opening) -> FileRecorder | None:
    if layout is None:
        return None
    # A linked worktree is recorded from its first use, so another one has a directory already.
    is_recorded = os.path.isdir(os.path.dirname(layout.wt_dir))
    wanted = is_recorded if opening.host.files is None else opening.host.files
    if not wanted:
        return None
    return FileRecorder(
        layout,
        opening.session,
        opening.agent,
        writes_below=opening.host.writes_below,
    )


def _awaited(engine: CompensationEngine, op_id: str) -> Procedure[UndoReport]:
    return (yield from demand(Invoke(engine.wait, (op_id, None), blocking=True)))


def _busy(session: str) -> SessionBusy:
    return SessionBusy(
        f"cannot use session {session}: a turn or an undo of it is running",
        hint="wait for it to end; a session has one turn at a time",
    )
