"""What both fronts share: opening a session, and reading a session and a turn.

Invariant: no method here runs user code.
"""

from os import PathLike
from typing import Any, Generic, Self, TypeVar

from gitshadow.errors import ShadowError, UsageError
from gitshadow.sdk.turns import rewind, state_rollback
from gitshadow.sdk.turns.driver import Base
from gitshadow.sdk.turns.events import Message, creation, live, messages
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.option_checks import (
    instance_of,
    keyed_by_texts,
    one_of,
    optional,
    text,
)
from gitshadow.sdk.turns.policy import Policy, Proposal
from gitshadow.sdk.turns.protocols import SessionStore
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.rewind import Difference
from gitshadow.sdk.turns.session_runtime import (
    Opening,
    SessionRuntime,
    chosen,
    entries_of,
)
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_end import Check
from gitshadow.sdk.turns.turn_states import TurnStatus
from gitshadow.sdk.turns.values import JsonObject, Release, UndoEntry
from gitshadow.store.journal.saga_rows import (
    Held,
    SagaCall,
    SagaLogRow,
    SagaTurn,
    SessionEvent,
)
from gitshadow.undo.report import State

_D = TypeVar("_D", bound=Base)


def stays_primary(error: BaseException | None, trouble: ShadowError) -> None:
    """Add a stopped rollback as a note to the error that ended the turn.

    Raises:
        ShadowError: no error had ended the turn, so `trouble` is raised.
    """
    if error is None:
        raise trouble
    error.add_note(
        f"the rollback stopped: {trouble}; to see what is left: git agent-undo program attention"
    )


class TurnFront(Generic[_D]):
    """Read a turn, cancel it, answer its questions.

    It is run under its own policy (None: the session's), and commits if its own check allows it.
    """

    def __init__(
        self,
        runtime: SessionRuntime,
        driver: _D,
        label: str,
        policy: Policy | None,
        check: Check | None,
    ) -> None:
        text("the label of a turn", label)
        optional(instance_of(Policy, "a Policy"))("policy", policy)
        self._runtime = runtime
        self._driver = driver
        self._label = label
        self._policy = policy
        self._check = check
        self._core: TurnCore | None = None

    @property
    def core(self) -> TurnCore:
        """Return the turn's state.

        Raises:
            UsageError: the block was not entered.
        """
        if self._core is None:
            raise UsageError(
                "cannot use a turn that has not begun",
                hint="enter it first: with au.turn(...) as turn",
            )
        return self._core

    @property
    def id(self) -> str:
        """Return the turn's id, unique in its session."""
        return self.core.row.id

    @property
    def status(self) -> TurnStatus:
        """Return the status of the turn."""
        return self.core.status

    @property
    def report(self) -> UndoReport | None:
        """Return the rollback's report; None for a turn that was not rolled back."""
        return self.core.report

    @property
    def released(self) -> tuple[Release, ...]:
        """Return the results of the held calls that were sent when this turn committed."""
        return tuple(self.core.released)

    @property
    def pending_confirmation(self) -> Proposal | None:
        """Return the call that waits for an answer, or None."""
        questions = self.core.questions
        return questions[0].proposal if questions else None

    def entries(self, tool: str | None = None) -> list[UndoEntry]:
        """Return one entry per successful call, in order; `tool` is a pattern like `crm.*`."""
        return chosen(self.core.entries, tool)

    def cancel(self) -> None:
        """End the turn before its next call; from any thread, or from within a tool.

        The running call finishes, then everything is rolled back and `TurnCancelled` is raised. A
        turn that has ended is not changed.
        """
        self.core.cancel()

    def answer(self, yes: bool) -> None:
        """Answer the pending confirmation, if there is one."""
        for question in self.core.questions[:1]:
            question.answer(yes)


_T = TypeVar("_T", bound=TurnFront[Any])


class Artifacts:
    """Read the artifacts of a session."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime

    def list(self) -> list[str]:
        """Return the names of the artifacts, sorted."""
        return sorted(self._runtime.store.artifacts(self._runtime.session))

    def load(self, name: str, version: int | None = None) -> bytes | None:
        """Return the bytes of a version (None: the current one), or None if there is none.

        Raises:
            StoreError: the version exists, but its bytes are gone.
        """
        found = self._runtime.store.versions(self._runtime.session, name)
        wanted = found[-1:] if version is None else found[version : version + 1]
        oid = wanted[0].oid if wanted else None
        return None if oid is None else self._runtime.store.read(oid)

    def versions(self, name: str) -> tuple[int, ...]:
        """Return the numbers of all versions, oldest first; restored ones are new versions."""
        found = self._runtime.store.versions(self._runtime.session, name)
        return tuple(version.number for version in found)


class SessionFront(Generic[_D, _T]):
    """Open a session, begin its turns, and read its turns, calls and log."""

    # Whether its functions are awaited; what runs its procedures; its turns.
    _awaits = False
    _driver_class: type[_D]
    _turn_class: type[_T]

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime
        self._driver = self._driver_class(runtime)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] = ".",
        *,
        session: str,
        tools: ToolRegistry,
        agent: str | None = None,
        policy: Policy | None = None,
        host: Host | None = None,
    ) -> Self:
        """Open a session.

        Args:
            path: Any directory of a Git working tree in which `git agent-undo init` was run.
            session: The program's own id; turns with the same id form one sequence.
            tools: The tools that its models may call.
            agent: A name for people.
            policy: The policy for calls.
            host: The program's own implementations.

        Raises:
            UsageError: an argument is of another type, or `AgentUndo` is given a tool whose
                `inverse` is a coroutine function.
            UnsupportedError: there is no Git working tree.
            NotInitialisedError: the working tree is not recorded.
            JournalError: the journal cannot be used.
        """
        opening = Opening(session, tools, agent, policy or Policy(), host or Host())
        tools.check_front(awaits=cls._awaits)
        return cls(SessionRuntime.open(path, opening))

    @classmethod
    def with_store(
        cls,
        store: SessionStore,
        *,
        session: str,
        tools: ToolRegistry,
        agent: str | None = None,
        policy: Policy | None = None,
        host: Host | None = None,
    ) -> Self:
        """Open a session in a store of the program's own, without any repository.

        Closing the session closes the store.
        """
        opening = Opening(session, tools, agent, policy or Policy(), host or Host())
        tools.check_front(awaits=cls._awaits)
        return cls(SessionRuntime(store, opening))

    def close(self) -> None:
        """Close the session store; in a process forked from the one that opened it, do nothing.

        Raises:
            UsageError: a turn is open; its end needs the store.
        """
        self._runtime.close()

    def _leave(self, error: BaseException | None) -> None:
        """Close the session at the end of its block."""
        try:
            self.close()
        except UsageError as trouble:
            if error is None:
                raise
            # The block of the turn is around this one: the turn is rolled back at its end.
            error.add_note(str(trouble))

    def turn(
        self,
        label: str,
        *,
        policy: Policy | None = None,
        validate: Check | None = None,
    ) -> _T:
        """Return a turn; its block (`with` or `async with`) begins it.

        Args:
            label: A description for people.
            policy: The policy for its calls, instead of the session's.
            validate: Called when the block ends without an exception: any result but True rolls
                the turn back and raises `ValidationFailed`.
        """
        # Programs declare tools after they have opened the session, too.
        self._runtime.setting.registry.check_front(awaits=self._awaits)
        return self._turn_class(self._runtime, self._driver, label, policy, validate)

    def turns(self) -> list[SagaTurn]:
        """Return the turns of the session, oldest first."""
        return self._runtime.store.turns(self._runtime.session)

    def calls(self, turn: str) -> list[SagaCall]:
        """Return the calls of a turn, with outcomes and inverses, in order of their start."""
        return self._runtime.calls(turn)

    def entries(self, turn: str, tool: str | None = None) -> list[UndoEntry]:
        """Return one entry per successful call of a turn; `tool` is a pattern like `crm.*`."""
        return chosen(entries_of(self._runtime.calls(turn)), tool)

    @property
    def runtime(self) -> SessionRuntime:
        """Return the opened session itself; for adapters built on it."""
        return self._runtime

    def log(self, turn: str | None = None) -> list[SagaLogRow]:
        """Return the log of the session or of one turn, oldest row first."""
        return list(self._runtime.store.log(self._runtime.session, turn))

    def create(self, state: JsonObject) -> None:
        """Begin the session with a state; otherwise it begins with an empty one.

        Raises:
            UsageError: the session already has a history, or it is no state.
            NotStorableError: a value is not JSON.
        """
        keyed_by_texts("a state", state)
        runtime = self._runtime
        # Under the lock, so that two programs cannot both find the session empty.
        with runtime.locked():
            if runtime.store.last_seq(runtime.session) >= 0:
                raise UsageError(f"could not create {runtime.session}: it exists")
            event = creation(runtime.session, state, runtime.clock())
            runtime.store.save([event])

    def fork(self, before: str, session: str) -> Self:
        """Open another session with the history of this one before an invocation.

        State, artifacts and conversation are those of that moment; files that its turns write are
        recorded on a shadow ref of its own. This session does not change. A fork undoes nothing:
        later effects and files stay as they are.

        Args:
            before: An invocation of this session.
            session: The id of the new session.

        Returns:
            The new session, opened as this one was; close it separately.

        Raises:
            SessionNotFound, InvocationNotFound: this session has no such invocation.
            UsageError: the new session already has a history.
            StoreError: an artifact's bytes are gone; the new session was not begun.
        """
        return type(self)(self._runtime.fork(before, session))

    @property
    def state(self) -> dict[str, object]:
        """Return the session's state, a copy."""
        seq = self._runtime.store.last_seq(self._runtime.session) + 1
        return self._state_before(seq)

    def state_at(self, invocation: str) -> dict[str, object]:
        """Return the state as it was before an invocation."""
        store, session = self._runtime.store, self._runtime.session
        return self._state_before(rewind.find(store, session, invocation))

    def _state_before(self, seq: int) -> dict[str, object]:
        store, session = self._runtime.store, self._runtime.session
        return state_rollback.values(store.state_before(session, seq))

    def diff(self, first: str, second: str | None = None) -> Difference:
        """Return the changes of state and artifacts between two invocations, before each.

        Args:
            first: An invocation.
            second: Another one, earlier or later; None means now.

        Raises:
            SessionNotFound, InvocationNotFound: there is none.
        """
        runtime = self._runtime
        return rewind.difference(runtime.store, runtime.session, first, second)

    def events(self) -> list[SessionEvent]:
        """Return the session's whole history with rewound events, oldest first."""
        return self._runtime.store.events(self._runtime.session)

    def live_events(self) -> list[SessionEvent]:
        """Return the events that no rewind has hidden, without markers."""
        markers = self._runtime.store.markers(self._runtime.session)
        return live(self.events(), markers)

    def messages(self) -> list[Message]:
        """Return the conversation as messages to a model."""
        return messages(self.live_events())

    @property
    def artifacts(self) -> "Artifacts":
        """Return the session's artifacts for reading; a turn saves them."""
        return Artifacts(self._runtime)

    def attention(self) -> list[SagaCall]:
        """Return the calls that need a person: in doubt, or not undone."""
        return self._runtime.store.unsettled(self._runtime.session)

    def held(self) -> list[Held]:
        """Return the calls that wait to be sent, or failed to be sent."""
        return self._runtime.store.waiting(self._runtime.session)

    def resolve(self, turn: str, call: str, outcome: str, *, note: str) -> None:
        """Record a person's decision about a call.

        The recorded outcome stays in the log and in the item's `error`.

        Args:
            turn: The turn of the call.
            call: The id of the call.
            outcome: `reversed` (its effect is undone), `compensated` (the note explains how),
                `not_reversed` (its effect stays), `no_effect` (it had none).
            note: The reason for the decision.

        Raises:
            UsageError: there is no such call, it is already resolved, or the outcome is unknown.
            SessionBusy: a turn or an undo of the session is running.
        """
        one_of(*State)("outcome", outcome)
        self._runtime.resolve(turn, call, State(outcome), note)

    def verify(self) -> int | None:
        """Return the first row of the log that was changed by hand, or None."""
        return self._runtime.store.broken_at()
