"""Which calls can be undone, and why the others cannot: a list of rules. Pure.

The first rule that returns an item decides; a call without an item has an inverse to run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gitshadow.errors import JournalError
from gitshadow.sdk.turns import (
    call_outcome,
    external_inverses,
    inverse_kinds,
    json_values,
    path_images,
)
from gitshadow.sdk.turns.call_outcome import CallKnowledge
from gitshadow.sdk.turns.evidence import Resolution
from gitshadow.sdk.turns.json_values import StoredInverse
from gitshadow.sdk.turns.report import Domain, UndoItem
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import Reversibility
from gitshadow.store.journal.saga_rows import SagaCall, SagaOp
from gitshadow.undo.report import Action, Reason, State
from gitshadow.words import did_you_mean

_HOPELESS: Mapping[str, Reason] = {
    "undeclared": Reason.UNDECLARED,
    Reversibility.NON_REVERSIBLE.value: Reason.NON_REVERSIBLE,
}
RESOLVED_STATES: Mapping[State, str] = {
    State.REVERSED: "resolved",
    State.COMPENSATED: "resolved",
    State.NOT_REVERSED: "kept",
    State.NO_EFFECT: "skipped",
}
"""What a call's `undo` becomes by a person's word."""
_WITHOUT_WORDS: Mapping[str, Resolution] = {
    "resolved": Resolution(State.REVERSED, "its log is missing", ""),
    "kept": Resolution(State.NOT_REVERSED, "its log is missing", ""),
}
_DOUBT = "it was started, and it is unknown whether it happened"
_RAISED = "it failed, and it is unknown whether it happened before that"
_FOLLOW_UP = "nothing was sent to compensate for it: a person must decide what to do"


@dataclass(slots=True, kw_only=True)
class JudgedCalls:
    """What the rules look at.

    `altered` are calls whose row cannot be used, with the reasons; `resolutions` is what people
    found out about some; `stuck` are calls of this undo that were not undone.
    """

    setting: TurnSettings
    op: SagaOp
    request: UndoRequest
    now_ns: int
    altered: Mapping[str, str] = field(default_factory=dict)
    resolutions: Mapping[str, Resolution] = field(default_factory=dict)
    stuck: dict[str, SagaCall] = field(default_factory=dict)

    def handler(self, inverse: StoredInverse) -> Tool | None:
        """Return what an inverse calls."""
        if inverse_kinds.is_external(inverse.handler):
            return external_inverses.handler(self.setting, inverse)
        return self.setting.registry.find_handler(inverse.handler)


def mutating(calls: Iterable[SagaCall]) -> list[SagaCall]:
    """Return the calls that did something, or may have: those an undo reports on."""
    return [
        call
        for call in calls
        if is_held(call) or call_outcome.from_row(call) is not CallKnowledge.NOT_DONE
    ]


def in_undo_order(calls: Sequence[SagaCall]) -> list[SagaCall]:
    """Return what is held first, then calls newest start first, each after what it depends on."""
    by_id = {call.id: call for call in calls}
    ordered: dict[str, SagaCall] = {}
    visiting: set[str] = set()

    def visit(call: SagaCall) -> None:
        # Dependencies that form a circle cannot be satisfied; it is cut where it was entered.
        if call.id in visiting:
            return
        visiting.add(call.id)
        for name in needed(call):
            if name in by_id:
                visit(by_id[name])
        ordered[call.id] = call

    newest_first = sorted(calls, key=lambda call: call.ordinal, reverse=True)
    for call in sorted(newest_first, key=lambda call: not is_held(call)):
        visit(call)
    return list(ordered.values())


def is_doubtful(call: SagaCall) -> bool:
    """Return whether nobody knows how a call ended, and nobody has settled it."""
    return call_outcome.from_row(call) is CallKnowledge.UNKNOWN and call.undo == "none"


def doubt(call: SagaCall) -> str:
    """Return in words why nobody knows how a call ended."""
    return _RAISED if call.outcome == call_outcome.RAISED else _DOUBT


def is_held(call: SagaCall) -> bool:
    """Return whether a call waits to be sent, or was dropped instead."""
    return call.outcome in ("held", "dropped")


def after_files(calls: Sequence[SagaCall]) -> frozenset[str]:
    """Return the ids of the calls, given in undo order, that are undone after the files.

    A call that depends on one of those is among them, and so is one that was cut short and changes
    only files: they show then whether it left anything.
    """
    found: set[str] = set()
    for call in calls:
        inverse = json_values.stored_inverse(call.inverse) if call.inverse else None
        late = inverse is not None and inverse.after_files
        late = late or (is_doubtful(call) and is_files_only(call))
        if late or not found.isdisjoint(needed(call)):
            found.add(call.id)
    return frozenset(found)


def judge(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    """Return what becomes of a call without running anything; None: its inverse runs."""
    for rule in _RULES:
        item = rule(call, scene)
        if item is not None:
            return item
    return None


def blank(call: SagaCall) -> UndoItem:
    """Return a call's item, not reversed until proven otherwise."""
    return UndoItem(
        call_id=call.id,
        tool=call.tool,
        klass=call.klass,
        session=call.session,
        state=State.NOT_REVERSED,
        attempts=call.attempts,
        error=call.error,
    )


def taken_back(call: SagaCall, *, already: bool = False) -> UndoItem:
    """Return the item of a call whose inverse ran to its end."""
    inverse = json_values.stored_inverse(call.inverse) if call.inverse else None
    residue = inverse.residue if inverse is not None else None
    # A compensation adds a second effect and does not erase the first, so the report never says
    # that nothing remains.
    if call.klass == Reversibility.COMPENSABLE and residue is None:
        made_up = inverse.handler if inverse is not None else "the compensation"
        residue = f"the effect of {call.tool} stays on record along with {made_up}"
    return replace(
        blank(call),
        state=State.REVERSED if residue is None else State.COMPENSATED,
        action=Action.COMPENSATE,
        residue=residue,
        error=None,
        already=already,
    )


def found_undone(call: SagaCall) -> UndoItem:
    """Return the item of a call that an attempt had undone although it failed."""
    said = "an earlier attempt had undone it: all is as it was before the call"
    return replace(taken_back(call, already=True), detail=said)


def promised(call: SagaCall) -> UndoItem:
    """Return the item of a call that would be undone; outside effects are spelled out."""
    inverse = json_values.stored_inverse(call.inverse or "")
    item = taken_back(call)
    if not inverse_kinds.is_external(inverse.handler):
        return item
    return replace(item, detail=inverse_kinds.described(inverse.handler, inverse.args))


def left(call: SagaCall, reason: Reason, detail: str | None = None) -> UndoItem:
    """Return the item of a call that was not undone."""
    return replace(blank(call), reason=reason, detail=detail)


def _read_only(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if call.klass != Reversibility.READ_ONLY:
        return None
    return replace(blank(call), state=State.NO_EFFECT)


def is_files_only(call: SagaCall) -> bool:
    """Return whether a call changed only files, which are undone with its turn."""
    return json_values.readable(call.intent).get("files_only") is True


def _files_cut_short(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    """Nobody recorded the end of a call that died, so what it wrote may be in no item."""
    if not (is_doubtful(call) and is_files_only(call)) or not _is_meant(call, scene):
        return None
    files = path_images.named(call)
    said = f"it may have changed {files}" if files else "it may have changed files"
    return left(call, Reason.IN_DOUBT, f"{_DOUBT}; {said}")


def _files_only(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if not is_files_only(call):
        return None
    said = f"it changes only files: {path_images.named(call)}".rstrip(": ")
    return replace(blank(call), state=State.NO_EFFECT, detail=said, error=None)


def _never_sent(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if not is_held(call) or (call.outcome == "held" and not _is_meant(call, scene)):
        return None
    return replace(
        blank(call),
        domain=Domain.OUTBOX,
        state=State.REVERSED,
        detail="it was held and never sent",
        error=None,
        already=call.outcome == "dropped" and call.op != scene.op.id,
    )


def _did_not_happen(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if call.undo != "skipped":
        return None
    return replace(blank(call), state=State.NO_EFFECT, detail=call.error, error=None)


def _resolved(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    """A person's decision does not replace what was found automatically: that stays in `error`."""
    found = scene.resolutions.get(call.id) or _WITHOUT_WORDS.get(call.undo)
    if found is None or call.undo not in RESOLVED_STATES.values():
        return None
    said = f"settled by a person: {found.note}"
    item = replace(blank(call), state=found.state, detail=said)
    if found.state is State.NOT_REVERSED:
        return replace(item, reason=_reason_of(call, found))
    residue = found.note if found.state is State.COMPENSATED else None
    return replace(item, residue=residue, already=True)


def _reason_of(call: SagaCall, found: Resolution) -> Reason:
    """Return why a call that a person left as it is was not undone automatically."""
    if call_outcome.from_row(call) is CallKnowledge.UNKNOWN or found.was in (
        "in_doubt",
        "running",
    ):
        return Reason.IN_DOUBT
    if found.was == "failed":
        return Reason.FAILED
    return _HOPELESS.get(call.klass, Reason.DECLINED)


def _already(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    return taken_back(call, already=True) if call.undo == "done" else None


def _out_of_scope(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if _is_meant(call, scene):
        return None
    return left(call, Reason.OUT_OF_SCOPE)


def _is_meant(call: SagaCall, scene: JudgedCalls) -> bool:
    only = scene.request.only
    return only is None or call.id in only


def _unfinished(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if call_outcome.from_row(call) is not CallKnowledge.UNKNOWN:
        return None
    return left(call, Reason.IN_DOUBT, doubt(call))


def _no_way_back(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    reason = _HOPELESS.get(call.klass)
    if reason is None:
        return None
    follow_up = json_values.parse(call.intent).get("follow_up") or _FOLLOW_UP
    return replace(left(call, reason), follow_up=str(follow_up))


def _altered(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    why = scene.altered.get(call.id)
    return None if why is None else left(call, Reason.DECLINED, why)


def _no_inverse(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    return left(call, Reason.NO_INVERSE) if call.inverse is None else None


def _before_pivot(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if call.id not in scene.request.declined:
        return None
    said = "it came before a point of no return: undo its turn instead"
    return left(call, Reason.DECLINED, said)


def _expired(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    if call.expires_ns is None or call.expires_ns >= scene.now_ns:
        return None
    return left(call, Reason.EXPIRED, "its undo window is over")


def _handler_missing(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    inverse = json_values.stored_inverse(call.inverse or "")
    handler = scene.handler(inverse)
    misfit = None
    if handler is not None and handler.serves(inverse.version):
        misfit = None if handler.foreign else handler.misfit(inverse.args)
        if misfit is None:
            return None
    said = f"nothing is registered as {inverse.handler}"
    if inverse_kinds.is_external(inverse.handler):
        said = (
            f"{inverse.args.get('server')} cannot be reached: Host(mcp=...) is missing"
        )
    elif misfit is not None:
        said = f"{inverse.handler} does not take the stored arguments: {misfit}"
    elif handler is not None:
        said = (
            f"it was recorded for version {inverse.version or 'none'} of"
            f" {handler.name}, which is now {handler.version or 'none'}"
        )
    return left(call, Reason.HANDLER_MISSING, said)


def _not_allowed(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    inverse = json_values.stored_inverse(call.inverse or "")
    if not inverse_kinds.is_external(inverse.handler):
        return None
    no = external_inverses.refusal(scene.setting.policy, inverse)
    return None if no is None else left(call, Reason.DECLINED, no)


def _half_undone(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    """A second attempt is for handlers alone that say that it does no harm."""
    handler = scene.handler(json_values.stored_inverse(call.inverse or ""))
    if call.undo not in ("in_doubt", "running") or handler is None:
        return None
    if handler.repeatable:
        return None
    said = f"{handler.name} was tried and is not declared safe to repeat"
    return left(call, Reason.IN_DOUBT, said)


def _blocked(call: SagaCall, scene: JudgedCalls) -> UndoItem | None:
    # An inverse may rely on those of later calls, so it does not run after one of them has
    # failed.
    waits_for = set(needed(call))
    for other in scene.stuck.values():
        if other.id in waits_for or _holds_up(other, call):
            return left(call, Reason.FAILED, f"it is waiting for {other.id}")
    return None


def _holds_up(other: SagaCall, call: SagaCall) -> bool:
    """Return whether a critical inverse that did not run stops the undo of an earlier call."""
    if other.inverse is None or other.ordinal < call.ordinal:
        return False
    return json_values.stored_inverse(other.inverse).critical


def unmet(calls: Sequence[SagaCall]) -> Iterator[str]:
    """Yield in words the dependencies that an undo of these calls cannot honour.

    An id may be that of a call that was never made, so no inverse waits for it.
    """
    needs = {call.id: names for call in calls if (names := needed(call))}
    ordered = in_undo_order(calls) if needs else ()
    order = {call.id: number for number, call in enumerate(ordered)}
    for call in calls:
        for name in needs.get(call.id, ()):
            said = f"{call.id} depends on {name}, which"
            if name not in order:
                near = did_you_mean(name, order)
                said += " is no call of this undo"
                yield f"{said}; {near}" if near else said
            elif order[name] >= order[call.id]:
                yield f"{said} depends on it in turn: {call.id} does not wait"


def needed(call: SagaCall) -> tuple[str, ...]:
    """Return the ids of calls whose inverses must have succeeded before this one's runs."""
    if call.inverse is None:
        return ()
    try:
        return json_values.stored_inverse(call.inverse).depends_on
    except JournalError:
        # The call itself is reported as damaged.
        return ()


# The first rule that returns an item decides, so their order matters: first what is known to have
# happened, then what was asked for, then why it cannot be undone.
_RULES: tuple[Callable[[SagaCall, JudgedCalls], UndoItem | None], ...] = (
    _read_only,
    _files_cut_short,
    _files_only,
    _resolved,
    _never_sent,
    _did_not_happen,
    _already,
    _out_of_scope,
    _altered,
    _unfinished,
    _no_way_back,
    _no_inverse,
    _before_pivot,
    _expired,
    _handler_missing,
    _not_allowed,
    _half_undone,
    _blocked,
)
