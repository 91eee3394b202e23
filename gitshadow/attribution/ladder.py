"""The attribution ladder: from one observed write to its author.

Pure. A claim names a session only if a window, an open turn, a declared session or a living process
is evidence for it. A gap is acceptable, a wrong author is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from gitshadow.attribution.windows import (
    OUTCOME_FAILED,
    Evidence,
    OpenTurn,
    ProcessHint,
    Scene,
    Witnessed,
    is_around,
    possible,
)
from gitshadow.model import Actor, Attribution, Call, Confidence, PathChange

BY_TIME_ONLY = "by timing only"
"""Part of the reason of every claim that rests only on the time of the write."""

HEURISTICS = "process heuristics"
"""The beginning of the reason of every claim for an agent that no hook reported."""

WITNESSED = "the kernel reported the write"
"""The beginning of the reason of every claim that rests on the kernel's report."""

OFFLINE_REASON = "found at start, changed while nothing was recording"
_SEVERAL_WINDOWS = "tool calls of several sessions were open"
_SEVERAL_NAMES = "tool calls of several sessions name the path"
_TURN_REASON = "a turn was open, but no tool call"
_WEAK_REASON = (
    "a turn was open, but no tool call, which this agent reports for every write"
)
_EXCLUDED_REASON = (
    "an agent was at work, but its processes did not run or wrote fewer bytes"
)
_BY_TURN = (_TURN_REASON, _WEAK_REASON, _EXCLUDED_REASON)
_OTHERS_EXCLUDED_REASON = (
    "written during this tool call; processes of the other agents did not run or wrote"
    " fewer bytes"
)
_UNLISTED_REASON = (
    "a tool call was open, but its agent lists the changed files without this one"
)
_OTHERS_UNLISTED_REASON = (
    "written during this tool call; other agents list changed files without this one"
)
_ENDING_REASON = "the agent's process ended at about that time"
UNKNOWN_REASON = "no tool call, turn or process was active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who wrote, before it becomes an `Attribution`.

    `session` is None if nobody is named: the write then goes into the current session of its
    actor. `candidates` are session ids, sorted, filled only when ambiguous. `agent` is that of the
    session, if the scene knows it.
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

    @property
    def by_time_only(self) -> bool:
        """Return whether it rests on the time of the write alone."""
        return by_time_only(self.reason)


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
    if evidence.witnessed is not None:
        return _by_witness(evidence.witnessed, evidence, scene)
    if evidence.ending or evidence.lost:
        return _beside_an_end(evidence, scene)
    if evidence.unlisted:
        return _without_unlisted(evidence, scene)
    if evidence.excluded:
        return _without_excluded(evidence, scene)
    found = _windows_at(evidence, scene)
    if found.calls:
        named = tuple(call for call in found.calls if call.paths)
        if named:
            return _by_name(named, found.sure, evidence, scene)
        return _by_time(found, evidence, scene)
    # Before turns and processes: what is found at a start may have been written at any time since
    # the stop, and what runs now is no evidence for that.
    if evidence.offline:
        return _nobody(OFFLINE_REASON)
    claim = _without_window(evidence, scene)
    # Last, because a deletion is noticed late, and a window that ended before it is weaker than any
    # other evidence.
    if found.others and claim.confidence is Confidence.UNKNOWN:
        return _by_interval(found, scene)
    return claim


def _by_witness(seen: Witnessed, evidence: Evidence, scene: Scene) -> Claim:
    """Apply rung 0: the kernel reported which process wrote."""
    if seen.session is not None:
        how = (Confidence.CERTAIN, seen.reason)
        return _named(seen.session, scene, *how, turn=seen.turn, call=seen.call)
    if seen.candidates:
        return _ambiguous(seen.candidates, seen.reason)
    if evidence.editor or scene.human is not None:
        return _person(scene.human, seen.reason)
    return _nobody(seen.reason)


def _beside_an_end(evidence: Evidence, scene: Scene) -> Claim:
    """Name no agent by its windows that may have ended before the write."""
    without = replace(evidence, ending=frozenset(), lost=frozenset())
    claim = attribute(without, scene)
    if evidence.lost and claim.reason in (UNKNOWN_REASON, OFFLINE_REASON):
        return _ambiguous(evidence.lost, _ENDING_REASON)
    by_turn = claim.reason in _BY_TURN
    # A process that has the file open lives.
    by_call = claim.call is not None and evidence.holder is None
    if claim.session in evidence.ending and (by_call or by_turn):
        return _ambiguous((claim.session,), _ENDING_REASON)
    return claim


def _without_excluded(evidence: Evidence, scene: Scene) -> Claim:
    """Name a writer among those whose processes wrote enough bytes."""
    left = scene.without(evidence.excluded)
    claim = attribute(replace(evidence, excluded=frozenset()), left)
    # Nothing stores that a call which was open did not write; `outweighs` knows it by this reason.
    is_turns = claim.reason == _WEAK_REASON and left.windows != scene.windows
    if is_turns or claim.confidence is Confidence.UNKNOWN:
        return replace(claim, reason=_EXCLUDED_REASON)
    return _by_exclusion(claim, evidence.excluded, _OTHERS_EXCLUDED_REASON, scene)


def _without_unlisted(evidence: Evidence, scene: Scene) -> Claim:
    """Name a writer among those whose agents did not leave out the path."""
    left = scene.without(evidence.unlisted)
    claim = attribute(replace(evidence, unlisted=frozenset()), left)
    if claim.reason in (_WEAK_REASON, UNKNOWN_REASON):
        return replace(claim, reason=_UNLISTED_REASON)
    return _by_exclusion(claim, evidence.unlisted, _OTHERS_UNLISTED_REASON, scene)


def _by_exclusion(
    claim: Claim, ruled_out: frozenset[tuple[str, str]], reason: str, scene: Scene
) -> Claim:
    """Return a claim by time, with the reason that ruled out calls of other sessions."""
    rivals = {scene.root(session) for session, _ in ruled_out}
    if not claim.by_time_only or rivals <= {scene.root(claim.session or "")}:
        return claim
    return replace(claim, reason=reason)


def rests_on_time(claim: Claim) -> bool:
    """Return whether a claim names a window or turn for no better reason than its time."""
    # Only then are processes asked who holds the path open, and are bytes counted: it takes
    # milliseconds, and a claim by name would not change.
    several = (_SEVERAL_WINDOWS, _SEVERAL_NAMES)
    return claim.by_time_only or claim.reason in several


def is_doubtful(claim: Claim) -> bool:
    """Return whether a claim would change if some of its candidates cannot have written."""
    is_ambiguous = claim.confidence is Confidence.AMBIGUOUS
    by_turn = claim.reason in _BY_TURN
    return claim.by_time_only or is_ambiguous or by_turn


def rests_on_windows(who: Attribution) -> bool:
    """Return whether a stored claim says no more than which windows and turns were open."""
    # Such a claim is made again if a window turns out to have been open at another time. The
    # evidence of an editor, a process or the hooks of a commit is gone by then, so those claims
    # stay.
    reason = who.reason
    if who.confidence is Confidence.UNKNOWN:
        return reason in (UNKNOWN_REASON, _UNLISTED_REASON)
    if who.confidence is Confidence.AMBIGUOUS:
        return reason in (_SEVERAL_WINDOWS, _SEVERAL_NAMES)
    # The lists of agents are stored, so a later judgement reads them again.
    by_list = (_UNLISTED_REASON, _OTHERS_UNLISTED_REASON)
    return by_time_only(reason) or reason in (*_BY_TURN, *by_list)


def outweighs(claim: Claim, former: Attribution) -> bool:
    """Return whether a claim that was made again, by windows and names alone, is the better one.

    A claim by time is not where the processes of its candidates were seen not to write.
    """
    is_sure = claim.confidence is not Confidence.UNKNOWN and not is_doubtful(claim)
    return is_sure or former.reason != _EXCLUDED_REASON


def is_witnessed(who: Attribution) -> bool:
    """Return whether a stored claim rests on the kernel's report."""
    return who.reason.startswith(WITNESSED)


def may_follow_an_end(row: PathChange) -> bool:
    """Return whether a write may have come after its writer's process was last seen."""
    return row.attribution.reason == _ENDING_REASON


def by_time_only(reason: str) -> bool:
    """Return whether a claim with this reason rests on the time of the write alone."""
    return BY_TIME_ONLY in reason


def _windows_at(evidence: Evidence, scene: Scene) -> _Found:
    calls = possible(scene, evidence)
    end_ns, tolerance_ns = evidence.end_ns, scene.tolerance_ns
    met = tuple(c for c in calls if c.meets(evidence.begin_ns, end_ns, tolerance_ns))
    at = tuple(call for call in calls if call.contains(end_ns, tolerance_ns))
    sure = bool(at)
    if not at:
        at = tuple(c for c in calls if c.nearly_contains(end_ns, tolerance_ns))
    inner = tuple(call for call in at if not is_around(call, at, scene))
    mine = _sessions(inner)
    others = (c for c in met if c.session not in mine and not is_around(c, at, scene))
    if evidence.exact:
        # A window that was nested in an open one has ended before this write.
        others = (
            c for c in others if not any(is_around(o, (c,), scene) for o in inner)
        )
    return _Found(inner, () if evidence.exact and not inner else tuple(others), sure)


def _by_name(
    named: tuple[Call, ...], sure: bool, evidence: Evidence, scene: Scene
) -> Claim:
    """Apply rung 1: the hook of an open window names the path."""
    sessions = _sessions(named)
    if len(sessions) > 1:
        # Two sessions may edit one file at once. A descriptor that one of them has open is better
        # evidence than a guess by who came last.
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
    reason = "the hook of its tool call names the path"
    if newest.outcome == OUTCOME_FAILED:
        # It most likely wrote nothing, and a person who saves meanwhile leaves the same traces.
        reason += ", but its tool failed"
        return _claim(newest, scene, Confidence.MEDIUM, reason)
    return _claim(newest, scene, Confidence.CERTAIN, reason)


def _by_time(found: _Found, evidence: Evidence, scene: Scene) -> Claim:
    """Apply rungs 2 and 3: windows that name no path."""
    held = _held_by((*found.calls, *found.others), evidence)
    if held is not None:
        return _claim(held, scene, Confidence.HIGH, _holder_reason(evidence))
    # Time alone must not name an agent while something shows another writer: an undo would then
    # remove a person's work.
    against = _somebody_else(evidence)
    if against is not None:
        return _ambiguous(_with_holder(found.sessions, evidence), against)
    if len(found.sessions) > 1:
        return _ambiguous(found.sessions, _SEVERAL_WINDOWS)
    # A person who saves meanwhile leaves the same traces, so this is not sure.
    reason = _time_reason(found, scene)
    return _claim(_newest(found.calls), scene, Confidence.MEDIUM, reason)


def _by_interval(found: _Found, scene: Scene) -> Claim:
    """Name the only session with a window in the interval in which a path was deleted."""
    if len(found.sessions) > 1:
        return _ambiguous(found.sessions, _SEVERAL_WINDOWS)
    reason = f"deleted after its tool call began ({BY_TIME_ONLY})"
    # The path may as well have been deleted after the window: no better than low.
    return _claim(_newest(found.others), scene, Confidence.LOW, reason)


def _time_reason(found: _Found, scene: Scene) -> str:
    roots = {scene.root(session) for session in found.sessions}
    for hint in scene.background:
        if hint.session is not None and scene.root(hint.session) not in roots:
            return (
                f"written during this tool call while background process {hint.pid} of"
                f" another session ran ({BY_TIME_ONLY})"
            )
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
    # An agent whose hooks report every writing tool had no window open, so its turn is weak
    # evidence, left for `_weak`.
    open_ended = _by_root((t for t in scene.turns if not t.covers_all), scene)
    if scene.human is not None:
        # Both may write without a window, and nothing distinguishes them.
        if not open_ended:
            return _person(scene.human, "a person's session is open")
        agents = (turn.session for turn in open_ended.values())
        reason = "a person's session and an agent's turn are open"
        return _ambiguous((scene.human, *agents), reason)
    if open_ended:
        return _by_turn(open_ended, scene)
    return _weak(scene)


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
    # An agent without hooks leaves only its process. Any window shows that hooks report here, and
    # then the process is no evidence.
    if scene.alone is not None and not scene.windows:
        only = f"{HEURISTICS}: {scene.alone.name} (process {scene.alone.pid})"
        reason = (
            f"{only} is the only agent process here, and there is no other evidence"
        )
        return _by_process(scene.alone, reason, scene)
    return _nobody(UNKNOWN_REASON)


def _by_process(hint: ProcessHint, reason: str, scene: Scene) -> Claim:
    """Apply rung 5: a living process of a session."""
    turn = next((one for one in scene.turns if one.session == hint.session), None)
    # What an earlier turn has started writes for that one.
    if turn is not None and hint.turn in (None, turn.turn):
        confidence = Confidence.LOW if turn.covers_all else Confidence.MEDIUM
        return _turn_claim(turn, scene, confidence, reason)
    return _named(hint.session, scene, Confidence.LOW, reason, turn=hint.turn)


def _by_root(turns: Iterable[OpenTurn], scene: Scene) -> dict[str, OpenTurn]:
    """Return one open turn for each family of sessions.

    A session and its subagents are one party.
    """
    # Where hooks report all tools, the write came without one, and only the topmost turn is sure to
    # be open. Elsewhere the innermost one was declared inside the other, and is nearer to the
    # write.
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
    claim = _named(turn.session, scene, confidence, reason, turn=turn.turn)
    return replace(claim, agent=turn.agent)


def _claim(call: Call, scene: Scene, confidence: Confidence, reason: str) -> Claim:
    return _named(call.session, scene, confidence, reason, turn=call.turn, call=call)


def _named(
    session: str | None,
    scene: Scene,
    confidence: Confidence,
    reason: str,
    *,
    turn: str | None = None,
    call: Call | None = None,
) -> Claim:
    known = scene.session(session)
    return Claim(
        actor=Actor.AGENT if known is None else known.actor,
        session=session,
        agent=None if known is None else known.agent,
        turn=turn,
        call=None if call is None else call.id,
        tool=None if call is None else call.tool,
        confidence=confidence,
        reason=reason,
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
