"""Turns of a loop that runs elsewhere and reports itself by hooks, each a process of its own.

Two hooks share only the journal. Nothing is undone automatically here: people interrupt agents
without any hook, and the agent's work must not vanish for that. A turn is open before its first
call is recorded, and a lease limits how long a silent turn counts as alive.

A hook program of Claude Code hands over what came on its standard input and prints what it gets.
Tools are named as in `claude_agent_sdk`: the agent's own `claude.<name>`, those of MCP servers
`<server>.<name>`. "Hooks reference" of Claude Code, snapshot of 2026-08-22.
Invariant: a tool that the program has not declared is the agent's own business.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from gitshadow.adapters import claude_code
from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase
from gitshadow.adapters.payload import Payload
from gitshadow.errors import UsageError
from gitshadow.sdk.turns import calls, outbox
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.session_runtime import SessionRuntime
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_end import finish
from gitshadow.sdk.turns.values import JsonObject, Outcome

T = TypeVar("T")

_NS_PER_S = 1_000_000_000
_LEASE_S = 3600.0
_LABEL_CHARS = 120
_PATIENCE_S = 5.0
_PAUSE_S = 0.02


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
        self._in_turn(lambda turn: calls.conclude(turn, call_id, ended, arguments))

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
            # Each hook is a process of its own. Between two hooks, only the lease shows that the
            # agent is believed to be alive.
            lease_ns = runtime.clock() + self._lease_ns
            runtime.store.save([replace(turn.row, lease_ns=lease_ns)])
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


def take_hook(payload: bytes, opened: Callable[[str], AgentUndo]) -> bytes:
    """Apply one hook of Claude Code; return what its program is to print.

    Args:
        payload: What came on standard input.
        opened: Opens the session of an id; it is closed again here.

    Returns:
        Nothing, or, for a tool that must not run now (denied, a duplicate, held), the answer that
        says so and why.

    Raises:
        UsageError: the payload cannot be read, or ends a call that is not under way.
        SessionBusy: somebody else had the session for five seconds.
        JournalError: the journal cannot be used. Let the program exit with 1: the agent goes on.
    """
    fields = _decoded(payload)
    event = claude_code.parse(fields, {})
    if isinstance(event, BadPayload):
        raise UsageError(f"cannot read the hook: {event.reason}")
    if event is None:
        return b""
    with opened(event.parent_session or event.native_session) as au:
        return _patiently(_Hook(au, event, fields).take)


def _decoded(payload: bytes) -> Payload:
    try:
        # A tool's output may contain control characters, or bytes that are not UTF-8.
        found = json.loads(payload.decode("utf-8", "surrogateescape"), strict=False)
    except (ValueError, RecursionError) as error:
        raise UsageError("cannot read the hook: it is not JSON") from error
    if not isinstance(found, dict):
        raise UsageError("cannot read the hook: it is not a JSON object")
    return Payload(found)


def _patiently(take: Callable[[], T]) -> T:
    """Wait for a session that another hook has: an agent runs several tools at once."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return take()
        except SessionBusy:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_S)


class _Hook:
    def __init__(self, au: AgentUndo, event: HookEvent, payload: Payload) -> None:
        self._au = au
        self._turns = HookedTurns(au)
        self._event = event
        self._payload = payload

    def take(self) -> bytes:
        """Do what the event's phase asks for."""
        phase = self._event.phase
        if phase is HookPhase.PROMPT:
            first = (self._event.prompt or "").strip().partition("\n")[0]
            self._turns.begin(first[:_LABEL_CHARS])
        elif phase is HookPhase.TURN_END and self._event.raw_event == "Stop":
            self._turns.end()
        elif phase in (HookPhase.TURN_END, HookPhase.SESSION_END):
            self._turns.interrupt()
        elif phase in (HookPhase.BEFORE, HookPhase.AFTER, HookPhase.FAILED):
            return self._of_a_tool(phase)
        return b""

    def _of_a_tool(self, phase: HookPhase) -> bytes:
        tool, call_id = registered(self._event.tool or ""), self._event.call_id
        if call_id is None or self._au.runtime.setting.registry.find(tool) is None:
            return b""
        found = self._payload.value("tool_input")
        arguments = found if isinstance(found, Mapping) else {}
        if phase is HookPhase.BEFORE:
            outcome = self._turns.before(tool, arguments, call_id=call_id)
            return b"" if outcome is None else _denial(outcome.text)
        if phase is HookPhase.AFTER:
            result = _value(self._payload.value("tool_response"))
            self._turns.after(call_id, result, arguments=arguments)
        elif self._payload.value("is_interrupt") is not True:
            # Of an interrupted tool nobody knows what it did, so its call stays in doubt.
            failed = Outcome.failed(str(self._payload.fields.get("error", "")))
            self._turns.after(call_id, failed, arguments=arguments)
        return b""


def registered(name: str) -> str:
    """Return the registered name of a tool that the agent runs: `claude.Bash`, `shop.pay`."""
    if not name.startswith("mcp__"):
        return f"claude.{name}"
    return ".".join(name.removeprefix("mcp__").split("__", 1))


def _value(response: object) -> object:
    """Return what a tool gave: of an MCP server's blocks the text, as JSON if it is JSON."""
    blocks = response.get("content") if isinstance(response, Mapping) else response
    if not isinstance(blocks, list) or not blocks:
        return response
    texts = [one.get("text") for one in blocks if isinstance(one, Mapping)]
    if len(texts) != len(blocks) or not all(isinstance(one, str) for one in texts):
        return response
    text = "\n".join(map(str, texts))
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found


def _denial(reason: str) -> bytes:
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }
    return json.dumps({"hookSpecificOutput": output}).encode() + b"\n"
