"""The attribution ladder: from one observed write to whoever wrote it.

Invariant: pure, and a claim names a session only where a window, an open turn, a declared
session or a living process speaks for it. A gap is acceptable, a wrong author is not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from gitshadow.attribution.windows import (
    Evidence,
    OpenTurn,
    ProcessHint,
    Scene,
    contains,
    is_around,
    meets,
    nearly_contains,
    possible,
)
from gitshadow.model import Actor, Attribution, Call, Confidence

BY_TIME_ONLY = "by timing only"
"""Part of the reason of every claim that rests only on the time of the write."""

HEURISTICS = "process heuristics"
"""The beginning of the reason of every claim for an agent that no hook reported."""

OFFLINE_REASON = "found at start, changed while nothing was recording"
_SEVERAL_WINDOWS = "tool calls of several sessions were open"
_SEVERAL_NAMES = "tool calls of several sessions name the path"
_TURN_REASON = "a turn was open, but no tool call"
_WEAK_REASON = (
    "a turn was open, but no tool call, which this agent reports for every write"
)
_WAITING_REASON = "a tool call was open, but no process of its agent ran at that time"
UNKNOWN_REASON = "no tool call, turn or process was active"
_FORMER_BY_TIME_ONLY = "by time only"
_FORMER_REASONS: Mapping[str, str] = {
    "windows of several sessions were open": _SEVERAL_WINDOWS,
    "calls of several sessions name the path": _SEVERAL_NAMES,
    "open turn, no open window": _TURN_REASON,
    "open turn, but every writing tool of this agent opens a window": _WEAK_REASON,
    "no window, turn or process speaks for anybody": UNKNOWN_REASON,
}
"""Reasons as version 0.1.0 stored them, with those that it would store now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Store who wrote; the engine turns it into an `Attribution`.

    `session` is None where nobody is named: the engine puts the write into the rotating session
    of its actor. `candidates` are session ids, sorted, filled only when ambiguous. `agent` is
    that of the session, where the scene knows it.
    """

    actor: Actor
    confidence: Confidence
    reason: str
    session: str | None = None
    agent: str | None = None
    turn: str | None = None
    call: str | None = None
    tool: str | None = None
    candidates: tuple[str, ...] = ()
    by_time_only: bool = False


class _Found(NamedTuple):
    """Store the windows open at the write, and how surely they were.

    `sure` is False when only the tolerance of the clock puts the write into them. `others` are
    windows of other sessions that meet the interval; where none is open at its end, only for a
    write without an exact time.
    """

    calls: tuple[Call, ...]
    others: tuple[Call, ...]
    sure: bool

    @property
    def sessions(self) -> tuple[str, ...]:
        return _sessions((*self.calls, *self.others))


def attribute(evidence: Evidence, scene: Scene) -> Claim:
    """Return who wrote what the evidence shows.

    Args:
        evidence: One write of one path, with the interval in which it happened.
        scene: Windows, turns, sessions and processes of that interval.

    Returns:
        A claim; its reason is one sentence and never empty.
    """
    found = _windows_at(evidence, scene)
    if found.calls:
        named = tuple(call for call in found.calls if call.paths)
        if named:
            return _by_name(named, found.sure, evidence, scene)
        return _by_time(found, evidence, scene)
    if evidence.offline:
        return _nobody(OFFLINE_REASON)
    claim = _without_window(evidence, scene)
    if found.others and claim.confidence is Confidence.UNKNOWN:
        return _by_interval(found, scene)
    if evidence.waiting and claim.reason in (_WEAK_REASON, UNKNOWN_REASON):
        return replace(claim, reason=_WAITING_REASON)
    return claim


def rests_on_time(claim: Claim) -> bool:
    """Return whether a claim names a window, or several, for no better reason than its time.

    Whoever holds the path open decides then.
    """
    return claim.by_time_only or claim.reason in (_SEVERAL_WINDOWS, _SEVERAL_NAMES)


def rests_on_windows(who: Attribution) -> bool:
    """Return whether a stored claim says no more than which windows and turns were open.

    It is another one where a window turns out to have been open at another time. What an editor,
    a process or the hooks of a commit spoke for stays.
    """
    reason = _FORMER_REASONS.get(who.reason, who.reason)
    if who.confidence is Confidence.UNKNOWN:
        return reason == UNKNOWN_REASON
    if who.confidence is Confidence.AMBIGUOUS:
        return reason in (_SEVERAL_WINDOWS, _SEVERAL_NAMES)
    return by_time_only(reason) or reason in (_TURN_REASON, _WEAK_REASON)


def by_time_only(reason: str) -> bool:
    """Tell from a stored reason whether the claim rests on the time of the write alone."""
    return BY_TIME_ONLY in reason or _FORMER_BY_TIME_ONLY in reason


def _windows_at(evidence: Evidence, scene: Scene) -> _Found:
    calls = possible(scene, evidence)
    end_ns, tolerance_ns = evidence.end_ns, scene.tolerance_ns
    met = tuple(c for c in calls if meets(c, evidence.begin_ns, end_ns, tolerance_ns))
    at = tuple(call for call in calls if contains(call, end_ns, tolerance_ns))
    sure = bool(at)
    if not at:
        at = tuple(c for c in calls if nearly_contains(c, end_ns, tolerance_ns))
    inner = tuple(call for call in at if not is_around(call, at, scene))
    mine = _sessions(inner)
    others = (c for c in met if c.session not in mine and not is_around(c, at, scene))
    if evidence.exact:  # what was nested in a window of now is over
        others = (c for c in others if not _is_nested(c, inner, scene))
    return _Found(inner, () if evidence.exact and not inner else tuple(others), sure)


def _is_nested(call: Call, calls: Iterable[Call], scene: Scene) -> bool:
    """Return whether one of some windows is open around another window."""
    return any(is_around(one, (call,), scene) for one in calls)


def _by_name(
    named: tuple[Call, ...], sure: bool, evidence: Evidence, scene: Scene
) -> Claim:
    """Apply rung 1: the hook of an open window names the path."""
    sessions = _sessions(named)
    if len(sessions) > 1:
        held = _held_by(named, evidence)
        if held is None:
            return _ambiguous(sessions, _SEVERAL_NAMES)
        return _claim(held, scene, Confidence.HIGH, _holder_reason(evidence))
    newest = _newest(named)
    if not sure:
        reason = "its tool call names the path and was open at about that time"
        return _claim(newest, scene, Confidence.HIGH, reason)
    if len(named) > 1:
        reason = f"{len(named)} open tool calls of the session name the path, this is the newest"
        return _claim(newest, scene, Confidence.HIGH, reason)
    return _claim(
        newest, scene, Confidence.CERTAIN, "the hook of its tool call names the path"
    )


def _by_time(found: _Found, evidence: Evidence, scene: Scene) -> Claim:
    """Apply rungs 2 and 3: windows that name no path."""
    held = _held_by((*found.calls, *found.others), evidence)
    if held is not None:
        return _claim(held, scene, Confidence.HIGH, _holder_reason(evidence))
    against = _somebody_else(evidence)
    if against is not None:
        return _ambiguous(_with_holder(found.sessions, evidence), against)
    if len(found.sessions) > 1:
        return _ambiguous(found.sessions, _SEVERAL_WINDOWS)
    newest = _newest(found.calls)
    confidence = Confidence.HIGH if found.sure else Confidence.MEDIUM
    return _claim(newest, scene, confidence, _time_reason(found), by_time=True)


def _by_interval(found: _Found, scene: Scene) -> Claim:
    """Name the only session with a window in the interval of a deletion that outlasts it.

    The path may as well have been deleted after the window: no better than `low`.
    """
    if len(found.sessions) > 1:
        return _ambiguous(found.sessions, _SEVERAL_WINDOWS)
    reason = f"deleted after its tool call began ({BY_TIME_ONLY})"
    newest = _newest(found.others)
    return _claim(newest, scene, Confidence.LOW, reason, by_time=True)


def _time_reason(found: _Found) -> str:
    if len(found.calls) > 1:
        return (
            f"{len(found.calls)} tool calls of only this session were open, this is"
            f" the newest ({BY_TIME_ONLY})"
        )
    if not found.sure:
        return (
            f"its tool call was the only one open at about that time ({BY_TIME_ONLY})"
        )
    return f"written during this tool call, the only one open ({BY_TIME_ONLY})"


def _somebody_else(evidence: Evidence) -> str | None:
    """Return the evidence for a writer without an open call, None if there is none."""
    if evidence.editor:
        return "an editor had the file open while a tool call was open"
    holder = evidence.holder
    if holder is None:
        return None
    if holder.session is None:
        return f"process {holder.pid} outside the session has the file open"
    return f"process {holder.pid} of another session has the file open"


def _with_holder(sessions: tuple[str, ...], evidence: Evidence) -> tuple[str, ...]:
    holder = evidence.holder
    if holder is None or holder.session is None:
        return sessions
    return (*sessions, holder.session)


def _held_by(calls: Iterable[Call], evidence: Evidence) -> Call | None:
    """Return the window of the session whose living process holds the path."""
    holder = evidence.holder
    if holder is None or holder.session is None:
        return None
    fitting = tuple(call for call in calls if call.session == holder.session)
    return _newest(fitting) if fitting else None


def _holder_reason(evidence: Evidence) -> str:
    pid = 0 if evidence.holder is None else evidence.holder.pid
    return f"process {pid} of the session has the file open"


def _without_window(evidence: Evidence, scene: Scene) -> Claim:
    """Apply rungs 4 to 6: no window was open at the time."""
    holder = evidence.holder
    if holder is not None:
        if holder.session is None:
            return _nobody(
                f"process {holder.pid} outside any session has the file open"
            )
        return _by_process(holder, _holder_reason(evidence), scene)
    if evidence.editor:
        return _person(scene.human, "an editor saved the file")
    open_ended = _by_root((t for t in scene.turns if not t.covers_all), scene)
    if scene.human is not None:
        return _beside_a_person(scene.human, open_ended)
    if open_ended:
        return _by_turn(open_ended, scene)
    return _weak(scene)


def _beside_a_person(human: str, turns: dict[str, OpenTurn]) -> Claim:
    if not turns:
        return _person(human, "a person's session is open")
    agents = tuple(turn.session for turn in turns.values())
    return _ambiguous(
        (human, *agents), "a person's session and an agent's turn are open"
    )


def _by_turn(turns: dict[str, OpenTurn], scene: Scene) -> Claim:
    """Apply rung 4 for agents whose hooks do not cover all their tools."""
    if len(turns) > 1:
        agents = tuple(turn.session for turn in turns.values())
        return _ambiguous(
            agents, "turns of several sessions were open, but no tool call"
        )
    (turn,) = turns.values()
    return _turn_claim(turn, scene, Confidence.MEDIUM, _TURN_REASON)


def _weak(scene: Scene) -> Claim:
    """Apply what is left of rungs 4 and 5: nothing here is better than `low`."""
    turns = _by_root((turn for turn in scene.turns if turn.covers_all), scene)
    behind = {scene.root(p.session): p for p in scene.background if p.session}
    if len(turns.keys() | behind.keys()) > 1:
        sessions = (t.session for t in turns.values())
        others = (p.session for p in behind.values() if p.session is not None)
        return _ambiguous(
            (*sessions, *others), "several sessions were active, but no tool call"
        )
    for hint in behind.values():
        reason = f"its background process {hint.pid} outlived the tool call and is still running"
        return _by_process(hint, reason, scene)
    for turn in turns.values():
        return _turn_claim(turn, scene, Confidence.LOW, _WEAK_REASON)
    if scene.alone is not None and not scene.windows:
        return _by_process(scene.alone, _alone_reason(scene.alone), scene)
    return _nobody(UNKNOWN_REASON)


def _alone_reason(hint: ProcessHint) -> str:
    return (
        f"{HEURISTICS}: {hint.name} (process {hint.pid}) is the only agent process"
        f" here, and there is no other evidence"
    )


def _by_process(hint: ProcessHint, reason: str, scene: Scene) -> Claim:
    """Apply rung 5: a living process of a session."""
    turn = next((one for one in scene.turns if one.session == hint.session), None)
    if turn is not None:
        confidence = Confidence.LOW if turn.covers_all else Confidence.MEDIUM
        return _turn_claim(turn, scene, confidence, reason)
    known = scene.session(hint.session)
    return Claim(
        actor=Actor.AGENT if known is None else known.actor,
        session=hint.session,
        agent=None if known is None else known.agent,
        turn=hint.turn,
        confidence=Confidence.LOW,
        reason=reason,
    )


def _by_root(turns: Iterable[OpenTurn], scene: Scene) -> dict[str, OpenTurn]:
    """Return one open turn for each family of sessions.

    A session and its subagents are one party. Where hooks cover all tools the topmost speaks for
    all; elsewhere the innermost, which somebody declared inside the other.
    """
    found: dict[str, OpenTurn] = {}
    for turn in turns:
        root = scene.root(turn.session)
        other = found.get(root)
        if other is None or _speaks_before(turn, other, scene):
            found[root] = turn
    return found


def _speaks_before(turn: OpenTurn, other: OpenTurn, scene: Scene) -> bool:
    deeper = len(scene.ancestors(turn.session)) - len(scene.ancestors(other.session))
    if deeper == 0:
        return turn.started_ns > other.started_ns
    return deeper < 0 if turn.covers_all else deeper > 0


def _turn_claim(
    turn: OpenTurn, scene: Scene, confidence: Confidence, reason: str
) -> Claim:
    known = scene.session(turn.session)
    return Claim(
        actor=Actor.AGENT if known is None else known.actor,
        session=turn.session,
        agent=turn.agent,
        turn=turn.turn,
        confidence=confidence,
        reason=reason,
    )


def _claim(
    call: Call,
    scene: Scene,
    confidence: Confidence,
    reason: str,
    *,
    by_time: bool = False,
) -> Claim:
    known = scene.session(call.session)
    return Claim(
        actor=Actor.AGENT if known is None else known.actor,
        session=call.session,
        agent=None if known is None else known.agent,
        turn=call.turn,
        call=call.id,
        tool=call.tool,
        confidence=confidence,
        reason=reason,
        by_time_only=by_time,
    )


def _person(session: str | None, reason: str) -> Claim:
    return Claim(
        actor=Actor.HUMAN, session=session, confidence=Confidence.MEDIUM, reason=reason
    )


def _nobody(reason: str) -> Claim:
    return Claim(actor=Actor.UNKNOWN, confidence=Confidence.UNKNOWN, reason=reason)


def _ambiguous(sessions: Iterable[str], reason: str) -> Claim:
    return Claim(
        actor=Actor.UNKNOWN,
        confidence=Confidence.AMBIGUOUS,
        reason=reason,
        candidates=tuple(sorted(set(sessions))),
    )


def _sessions(calls: Iterable[Call]) -> tuple[str, ...]:
    return tuple(sorted({call.session for call in calls}))


def _newest(calls: tuple[Call, ...]) -> Call:
    return max(calls, key=lambda call: (call.opened_ns, call.id))
