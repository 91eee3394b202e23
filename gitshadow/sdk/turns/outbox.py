"""Held calls: recorded when the model makes them, sent when their turn has committed.

A call is claimed by compare-and-set before its tool runs, with the same key in every attempt. After
a crash between claim and end it is sent again if that is safe; otherwise it is in doubt. A call
that was not claimed yet can be dropped, and then nothing has happened.
"""

from dataclasses import dataclass, replace
from functools import partial

from gitshadow.sdk.turns import call_outcome, calls, evidence, json_values, probe
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.commands import Procedure, Raised, Save, now
from gitshadow.sdk.turns.protocols import Means, in_store
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.values import Outcome, Release
from gitshadow.store.journal.saga_rows import CallName, Held, SagaCall, SagaTurn

_NS_PER_S = 1_000_000_000
_LEASE_NS = 120 * _NS_PER_S


def release(
    setting: TurnSettings, live: TurnCore | None = None
) -> Procedure[list[Release]]:
    """Send what a session has to send by now, first held first; one that fails stops no other.

    Args:
        setting: Of the session, whose lock is held.
        live: A turn that has just committed, to be given its calls.
    """
    found: list[Release] = []
    for row, held, call in (yield from in_store(partial(_due, setting.session))):
        is_live = live is not None and row.id == live.row.id
        turn = live if live is not None and is_live else TurnCore(setting, row)
        one = yield from _Sending(turn, held, call).run()
        found += [one] if one is not None else []
    return found


def _due(session: str, means: Means) -> list[tuple[SagaTurn, Held, SagaCall]]:
    """Return what is to be sent, in order, each with its turn and its call."""
    store, found = means.store, []
    for held in store.due(session, means.clock()):
        turn, calls = store.turn(session, held.turn), store.calls(session, held.turn)
        call = next((one for one in calls if one.id == held.call), None)
        if turn is not None and call is not None:
            found.append((turn, held, call))
    return found


@dataclass(slots=True)
class _Sending:
    turn: TurnCore
    held: Held
    call: SagaCall

    def run(self) -> Procedure[Release | None]:
        """Send it once, if that is safe; None where somebody else has it."""
        tool = self.turn.setting.registry.find(self.call.tool)
        if tool is None:
            said = f"nothing is registered as {self.call.tool}"
            return self._told("due", said)
        damage = evidence.unreadable(self.call)
        was_begun = self.call.outcome != "held"
        moment = yield from now()
        name = CallName(self.call.session, self.call.turn, self.call.id)
        owner, until = self.turn.setting.owner, moment + _LEASE_NS
        is_ours = yield from in_store(
            lambda means: means.store.take_out(name, owner, moment, until)
        )
        if not is_ours:
            return None
        self.held = replace(self.held, attempts=self.held.attempts + 1)
        if damage is not None:
            state = "in_doubt" if was_begun else "failed"
            outcome = self.call.outcome if was_begun else "failed"
            failed = replace(self.call, outcome=outcome, error=damage)
            return (yield from self._end(state, damage, failed))
        if was_begun:
            settled = yield from self._settled(tool)
            if settled is not None:
                return settled
        return (yield from self._send(tool))

    def _settled(self, tool: Tool) -> Procedure[Release | None]:
        """Settle an attempt whose process died; None: it did nothing, so send it."""
        setting, end = self.turn.setting, call_outcome.from_row(self.call)
        if end is CallKnowledge.DONE:
            return (yield from self._end("sent", None))
        if end is CallKnowledge.NOT_DONE:
            return (yield from self._end("failed", self.call.error))
        # Sending it again with the same key does no harm, so its probe need not be asked.
        if tool.repeatable:
            return None
        found = yield from probe.asked(self.call, tool, setting.given)
        if found is False:
            return None
        if found is not None:
            moment = yield from now()
            yield from probe.happened(self.call, setting, found, moment, {})
            return (yield from self._end("sent", None))
        said = "it was being sent, and it is unknown whether it was"
        return (yield from self._end("in_doubt", said))

    def _send(self, tool: Tool) -> Procedure[Release]:
        ended = yield from calls.run_held(self.turn, self.call, tool)
        if isinstance(ended, Outcome):
            error = None if ended.ok else ended.text
            return (yield from self._end("sent" if ended.ok else "failed", error))
        said = json_values.in_words(ended)
        did_nothing = (
            call_outcome.from_event(Raised(ended), tool) is CallKnowledge.NOT_DONE
        )
        attempts = self.held.attempts
        is_last = attempts >= tool.retry.attempts
        if did_nothing and is_last:
            return (yield from self._end("failed", said))
        # It may have been sent, and sending it twice could do harm. A person or the probe has to
        # settle it.
        if is_last or not (tool.repeatable or did_nothing):
            doubtful = replace(self.call, outcome=call_outcome.RAISED, error=said)
            return (yield from self._end("in_doubt", said, doubtful))
        # The call is held again, so an undo before the next attempt can still drop it.
        again = replace(self.call, outcome="held", error=said)
        pause_ns = int(tool.retry.pause_s(attempts) * _NS_PER_S)
        return (yield from self._end("due", said, again, pause_ns=pause_ns))

    def _end(
        self,
        state: str,
        error: str | None,
        call: SagaCall | None = None,
        *,
        pause_ns: int = 0,
    ) -> Procedure[Release]:
        """Write down how the attempt ended."""
        moment = yield from now()
        held: Held = replace(
            self.held,
            state=state,
            error=error,
            owner=None,
            lease_ns=None,
            due_ns=moment + pause_ns,
        )
        body = {"state": state, "error": error, "attempt": held.attempts}
        note = self.turn.note("release", body, moment, held.call)
        rows = () if call is None else (call,)
        if call is not None:
            self.turn.calls[call.id] = call
        yield Save((held, note, *rows))
        return self._told(state, error)

    def _told(self, state: str, error: str | None) -> Release:
        return Release(self.call.turn, self.call.id, self.call.tool, state, error)
