"""What both fronts have that waits for nothing: looking at a session and at a turn.

Invariant: no method here runs user code.
"""

from collections.abc import Mapping
from typing import Self

from gitshadow.errors import ShadowError, UsageError
from gitshadow.sdk.turns import comparison, resolution
from gitshadow.sdk.turns.comparison import Difference
from gitshadow.sdk.turns.events import Message, messages
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session_runtime import SessionRuntime, chosen, entries_of
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_end import Terms
from gitshadow.sdk.turns.turn_states import TurnStatus
from gitshadow.sdk.turns.values import Release, UndoEntry
from gitshadow.store.journal.saga_rows import (
    Held,
    SagaCall,
    SagaLogRow,
    SagaTurn,
    SessionEvent,
)
from gitshadow.undo.report import State


def stays_primary(error: BaseException | None, trouble: ShadowError) -> None:
    """Let what ended a turn go on although its rollback stopped, and say so in a note.

    Raises:
        ShadowError: nothing else had ended the turn, so the trouble itself does.
    """
    if error is None:
        raise trouble
    error.add_note(
        f"the rollback stopped: {trouble}; to see what is left: git agent-undo attention"
    )


class TurnFront:
    """Look at a turn, cancel it, answer its questions."""

    def __init__(self, runtime: SessionRuntime, label: str, terms: Terms) -> None:
        self._runtime = runtime
        self._label = label
        self._terms = terms
        self._core: TurnCore | None = None

    @property
    def core(self) -> TurnCore:
        """Return the turn's state.

        Raises:
            UsageError: the block was not entered, so there is none.
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
        """Return how far the turn got."""
        return self.core.status

    @property
    def report(self) -> UndoReport | None:
        """Return the rollback's report; None for a turn that was not rolled back."""
        return self.core.report

    @property
    def released(self) -> tuple[Release, ...]:
        """Return what became of the held calls that were sent when this turn committed."""
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
        """Have the turn end before its next call; from any thread, or from within a tool.

        The call at work finishes, then everything is rolled back and `TurnCancelled` raised. A
        turn that has ended is not touched.
        """
        self.core.cancel()

    def answer(self, yes: bool) -> None:
        """Answer the pending confirmation, if there is one."""
        for question in self.core.questions[:1]:
            question.answer(yes)


class Artifacts:
    """Look at the artifacts of a session."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime

    def list(self) -> list[str]:
        """Return the names of what there is, sorted."""
        return sorted(self._runtime.store.artifacts(self._runtime.session))

    def load(self, name: str, version: int | None = None) -> bytes | None:
        """Return the bytes of a version (None: the current one), or None where there is none.

        Raises:
            StoreError: there is one, and its bytes are gone.
        """
        found = self._runtime.store.versions(self._runtime.session, name)
        wanted = found[-1:] if version is None else found[version : version + 1]
        oid = wanted[0].oid if wanted else None
        return None if oid is None else self._runtime.store.read(oid)

    def versions(self, name: str) -> tuple[int, ...]:
        """Return the numbers of all versions, oldest first; restored ones are new versions."""
        found = self._runtime.store.versions(self._runtime.session, name)
        return tuple(version.number for version in found)


class SessionFront:
    """Look at a session's turns, calls and log."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime

    def close(self) -> None:
        """Close the session store."""
        self._runtime.close()

    def turns(self) -> list[SagaTurn]:
        """Return the turns of the session, oldest first."""
        return self._runtime.turns()

    def calls(self, turn: str) -> list[SagaCall]:
        """Return the calls of a turn, with outcomes and inverses, in order of their start."""
        return self._runtime.calls(turn)

    def entries(self, turn: str, tool: str | None = None) -> list[UndoEntry]:
        """Return one entry per successful call of a turn; `tool` is a pattern like `crm.*`."""
        return chosen(entries_of(self._runtime.calls(turn)), tool)

    @property
    def runtime(self) -> SessionRuntime:
        """Return what the session works on; for adapters built on it."""
        return self._runtime

    def log(self, turn: str | None = None) -> list[SagaLogRow]:
        """Return what happened in the session (in one turn), step by step, oldest first."""
        return list(self._runtime.store.log(self._runtime.session, turn))

    def create(self, state: Mapping[str, object]) -> None:
        """Begin the session with a state; without it, it begins with an empty one.

        Raises:
            UsageError: the session has a history already.
        """
        self._runtime.past.create(state)

    def fork(self, before: str, session: str) -> Self:
        """Open another session that begins where this one was before an invocation.

        State, artifacts and conversation are those of that moment, whatever followed; files that
        its turns write are recorded on a shadow ref of its own. This session is not touched.
        Effects and files of what followed stand as they are: forking takes nothing back.

        Args:
            before: An invocation of this session.
            session: The id of the new one.

        Returns:
            The new session, opened as this one was; it is closed by itself.

        Raises:
            SessionNotFound, InvocationNotFound: there is nothing to begin with.
            UsageError: the new session has a history already.
            StoreError: an artifact's bytes are gone; nothing was begun.
        """
        return type(self)(self._runtime.fork(before, session))

    @property
    def state(self) -> dict[str, object]:
        """Return the session's state, a copy."""
        return self._runtime.past.state()

    def state_at(self, invocation: str) -> dict[str, object]:
        """Return the state as it was before an invocation."""
        return self._runtime.past.state(invocation)

    def diff(self, first: str, second: str | None = None) -> Difference:
        """Return what changed in state and artifacts from before one invocation to before another.

        Args:
            first: An invocation.
            second: Another one, earlier or later; None means now.

        Raises:
            SessionNotFound, InvocationNotFound: there is none.
        """
        runtime = self._runtime
        return comparison.between(runtime.store, runtime.session, first, second)

    def events(self) -> list[SessionEvent]:
        """Return the session's whole history, what was rewound included, oldest first."""
        return self._runtime.past.events()

    def live_events(self) -> list[SessionEvent]:
        """Return the events that count: what no rewind has taken out, and no marker."""
        return self._runtime.past.live_events()

    def messages(self) -> list[Message]:
        """Return the conversation as a model gets it."""
        return messages(self._runtime.past.live_events())

    @property
    def artifacts(self) -> "Artifacts":
        """Return the session's artifacts, to look at; a turn saves them."""
        return Artifacts(self._runtime)

    def attention(self) -> list[SagaCall]:
        """Return the calls that a person should look at: in doubt, or not taken back."""
        return self._runtime.store.unsettled(self._runtime.session)

    def held(self) -> list[Held]:
        """Return the calls that wait to be sent, or could not be."""
        return self._runtime.store.waiting(self._runtime.session)

    def resolve(self, turn: str, call: str, outcome: str, *, note: str) -> None:
        """Record what a person has found out about a call, or has done about it.

        What the machine knew stays in the log and in the item's `error`.

        Args:
            turn: Its turn.
            call: Its id.
            outcome: `reversed` (it is taken back), `compensated` (made up for, the note says how),
                `not_reversed` (it stays), `no_effect` (it never happened).
            note: How that is known.

        Raises:
            UsageError: there is no such call, it has nothing left to resolve, or the
                outcome is none.
            SessionBusy: a turn or an undo of this session is at work.
        """
        if outcome not in list(State):
            raise UsageError(f"cannot resolve {call}: {outcome} is not an outcome")
        resolution.resolve(self._runtime, turn, call, State(outcome), note)

    def verify(self) -> int | None:
        """Return the first row of the log that was changed by hand, or None."""
        return self._runtime.store.broken_at()
