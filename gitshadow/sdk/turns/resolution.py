"""Calls in doubt, settled by their tool's probe or by a person.

A person's decision is a row of the log of its own, and what was recorded before stays.
"""

from dataclasses import replace

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import evidence, json_values, probe, reversibility
from gitshadow.sdk.turns.commands import Procedure, now
from gitshadow.sdk.turns.report import from_json
from gitshadow.sdk.turns.session_runtime import SessionRuntime
from gitshadow.sdk.turns.turn_undo import turn_of
from gitshadow.undo.report import Reason, State


def resolve(
    runtime: SessionRuntime, turn: str, call: str, state: State, note: str
) -> None:
    """Record what a person has found out about a call, or has done about it.

    Raises:
        UsageError: there is no such call, or it has nothing left to resolve.
        SessionBusy: a turn or an undo of this session is at work.
    """
    with runtime.locked():
        calls = runtime.calls(turn)
        waiting = [
            one
            for one in runtime.store.waiting(runtime.session)
            if (one.turn, one.call) == (turn, call)
        ]
        names = {one.id for one in reversibility.mutating(calls)}
        names |= {one.call for one in waiting}
        found = next((one for one in calls if one.id == call), None)
        if found is None or call not in names or found.undo in ("done", "skipped"):
            raise UsageError(f"cannot resolve {call}: it has nothing left to resolve")
        body = {
            "as": state.value,
            "was": found.undo,
            "error": found.error,
            "note": note,
        }
        row = evidence.note(found, evidence.RESOLVED, body, runtime.clock())
        after = replace(found, undo=reversibility.RESOLVED_STATES[state])
        closed = [replace(one, state="resolved") for one in waiting]
        runtime.store.save([after, row, *closed])


def ask_probes(runtime: SessionRuntime) -> Procedure[None]:
    """Ask about every call whose effect is unknown, if its tool can answer."""
    setting = runtime.setting
    left = {
        (turn_of(op), item.call_id)
        for op in runtime.store.ops(runtime.session)
        if op.report is not None
        for item in from_json(json_values.parse(op.report)).items
        if item.reason is Reason.IN_DOUBT
    }
    for call in runtime.store.unsettled(runtime.session):
        if reversibility.is_doubtful(call):
            moment = yield from now()
            is_late = (call.turn, call.id) in left
            yield from probe.settled(call, setting, moment, is_late=is_late)
