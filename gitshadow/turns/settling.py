"""What is in doubt, settled: by a tool that can tell, or by a person.

Invariant: what the machine knew stays; a person's word is a row of the log beside it.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from gitshadow.errors import UsageError
from gitshadow.store.journal.saga_rows import Note
from gitshadow.turns import evidence, judging, probing, records
from gitshadow.turns.steps import Procedure, now
from gitshadow.undo.report import State

if TYPE_CHECKING:
    from gitshadow.turns.desk import Desk


def resolve(desk: "Desk", turn: str, call: str, state: State, note: str) -> None:
    """Record what a person has found out about a call, or has done about it.

    Raises:
        UsageError: there is no such call, or it has nothing left to resolve.
        SessionBusy: a turn or an undo of this session is at work.
    """
    with desk.locked():
        calls = desk.calls(turn)
        waiting = [
            one
            for one in desk.store.waiting(desk.session)
            if (one.turn, one.call) == (turn, call)
        ]
        names = {one.id for one in judging.mutating(calls)}
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
        row = Note(
            session=desk.session,
            turn=turn,
            call=call,
            kind=evidence.RESOLVED,
            ts_ns=desk.clock(),
            body=records.lenient(body),
        )
        after = replace(found, undo=judging.RESOLVED_STATES[state])
        closed = [replace(one, state="resolved") for one in waiting]
        desk.store.save([after, row, *closed])


def ask_probes(desk: "Desk") -> Procedure[None]:
    """Ask about every call whose effect is unknown, where its tool can tell."""
    setting = desk.setting
    for call in desk.store.unsettled(desk.session):
        if judging.is_doubtful(call):
            moment = yield from now()
            yield from probing.settled(call, setting.sources, moment)
