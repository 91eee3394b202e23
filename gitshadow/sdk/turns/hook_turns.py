"""Turns of a loop that runs elsewhere and reports itself by hooks, each a process of its own.

Two hooks share only the journal. Nothing is undone automatically here: people interrupt agents
without any hook, and the agent's work must not vanish for that. A turn is open before its first
call is recorded, and a lease limits how long a silent turn counts as alive.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import calls, outbox
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import Procedure, Save
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.session_runtime import SessionRuntime
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_end import finish
from gitshadow.sdk.turns.values import JsonObject, Outcome

T = TypeVar("T")

_NS_PER_S = 1_000_000_000
_LEASE_S = 3600.0


class HookedTurns:
    """Apply the hooks of one session; any number of processes may apply one each.

    Args:
        au: The session. `Host.undo` cannot be used: its transaction would end with the process.
        lease_s: How long a turn that is silent is believed to be at work.

    Raises:
        UsageError: the session has a `Host.undo`.
    """

    def __init__(self, au: AgentUndo, *, lease_s: float = _LEASE_S) -> None:
        if au.runtime.setting.host.undo is not None:
            raise UsageError("cannot take hooks: Host.undo lives in one process")
        self._au = au
        self._lease_ns = int(lease_s * _NS_PER_S)

    def begin(self, label: str) -> str:
        """A prompt was given: open a turn and return its id.

        One that is open still was interrupted without a hook: it is marked so, and not undone.

        Raises:
            SessionBusy: a turn or an undo of this session is at work in a process.
        """
        with self._locked() as runtime:
            runtime.interrupt_open()
            self._au.drive(outbox.release(runtime.setting))
            return self._opened(runtime, label).row.id

    def before(
        self, tool: str, arguments: JsonObject, *, call_id: str
    ) -> Outcome | None:
        """A tool is about to run: write its intent down.

        Returns:
            None to let it run; an outcome for the model (denied, unknown) where it must not.
        """
        request = CallRequest(tool, arguments, call_id)
        return self._in_turn(lambda turn: calls.announce(turn, request))

    def after(
        self,
        call_id: str,
        result: object = None,
        *,
        arguments: JsonObject | None = None,
    ) -> None:
        """A tool has run: write down how that ended, and its inverse.

        Args:
            call_id: As `before` was given it.
            result: The tool's result; an `Outcome` for a failure or a conflict; or what it raised,
                whose work before that nobody knows.
            arguments: Needed where some are secret: those are not in the journal.

        Raises:
            UsageError: no such call is running.
        """
        ended: Outcome | Exception = Outcome.success(result)
        if isinstance(result, Outcome | Exception):
            ended = result
        self._in_turn(lambda turn: concluded(turn, call_id, ended, arguments))

    def end(self) -> None:
        """The agent has stopped: commit the turn, if one is open."""
        with self._locked() as runtime:
            turn = runtime.hooked_turn()
            if turn is not None:
                self._au.drive(finish(turn, None))

    def interrupt(self) -> None:
        """The agent goes on without having stopped: mark the turn interrupted, if one is open.

        Nothing is undone; what the turn held is dropped.
        """
        with self._locked() as runtime:
            runtime.interrupt_open()

    def _in_turn(self, procedure: Callable[[TurnCore], Procedure[T]]) -> T:
        """Run a procedure on the open turn; if no prompt was reported, one is opened."""
        with self._locked() as runtime:
            turn = runtime.hooked_turn() or self._opened(runtime, "")
            found = self._au.drive(procedure(turn))
            self._au.drive(_kept_alive(turn, runtime.clock() + self._lease_ns))
            return found

    def _opened(self, runtime: SessionRuntime, label: str) -> TurnCore:
        turn = runtime.next_turn(label, lease_ns=runtime.clock() + self._lease_ns)
        self._au.drive(turn.begin())
        return turn

    @contextmanager
    def _locked(self) -> Iterator[SessionRuntime]:
        runtime = self._au.runtime
        runtime.take()
        try:
            yield runtime
        finally:
            runtime.release()


def concluded(
    turn: TurnCore,
    call_id: str,
    ended: Outcome | Exception,
    arguments: JsonObject | None = None,
) -> Procedure[None]:
    """Write down how an announced call ended.

    Raises:
        UsageError: no such call is running.
    """
    row = turn.calls.get(call_id)
    if row is None or row.outcome is not None:
        raise UsageError(f"cannot conclude {call_id}: no such call is running")
    yield from calls.conclude(turn, row, ended, arguments)


def _kept_alive(turn: TurnCore, lease_ns: int) -> Procedure[None]:
    # Each hook is a process of its own. Between two hooks, only the lease shows that the agent is
    # believed to be alive.
    turn.row = replace(turn.row, lease_ns=lease_ns)
    yield Save((turn.row,))
