"""Who and what a chain's commits name besides rows: sessions, turns, calls, bursts, ops.

Invariant: what the journal knows already keeps what only the journal knows (ends, prompts, pids).
"""

from collections.abc import Sequence
from dataclasses import replace

from gitshadow.errors import StoreError
from gitshadow.model import (
    Actor,
    Attribution,
    Burst,
    Call,
    Confidence,
    Event,
    Oid,
    Op,
    OpStatus,
    Session,
    ToolClass,
    Turn,
)
from gitshadow.store.commit_rows import author_of
from gitshadow.store.journal import bursts, corrections, ops, sessions, turns
from gitshadow.store.journal.corrections import Correction
from gitshadow.store.journal.db import Db
from gitshadow.store.refs import ShadowCommit, parse_rows


class People:
    """Collect what replayed commits name; `store` writes what grew over several commits."""

    def __init__(self, db: Db, *, resumed: bool) -> None:
        """Begin with what the journal knows.

        Args:
            db: The journal.
            resumed: Whether it goes on from here, so that unknown turns and bursts stay open.
        """
        self._db = db
        self._resumed = resumed
        self._actors: dict[str, Actor] = {}
        self._turns: dict[tuple[str, str], Turn] = {}
        self._calls: set[tuple[str, str]] = set()
        self._bursts: dict[str, Burst] = {}
        self._ordinals: dict[tuple[str, str], int] = {}

    def actor(self, message: ShadowCommit) -> Actor:
        """Return the class of actor of a commit's session."""
        session = message.session or ""
        if session not in self._actors:
            known = sessions.get(self._db, session)
            self._actors[session] = known.actor if known else _actor(message)
        return self._actors[session]

    def take(self, message: ShadowCommit, rows: Sequence[Event]) -> None:
        """Take over what a commit with these rows names."""
        session = message.session
        if session is None or not rows:
            return
        if message.kind == "baseline":
            if sessions.get(self._db, session) is None:
                sessions.put(self._db, _session(message, session, self.actor(message)))
            return
        if message.turn is not None and message.turn_ordinal is not None:
            self._take_turn(message, session, message.turn)
        if message.call is not None and message.tool_class is not None:
            self._take_call(message, session, message.call)
        if message.burst is not None:
            seqs = rows[0].seq, rows[-1].seq
            self._take_burst(message, session, message.burst, seqs)

    def take_op(self, message: ShadowCommit, commit: Oid) -> None:
        """Store the op of a restore; one that is still being applied is finished elsewhere."""
        if message.op is None or message.op_kind is None or message.session is None:
            return
        if ops.get(self._db, message.op) is not None:
            return
        op = Op(
            id=message.op,
            kind=message.op_kind,
            ts_ns=message.time_ns,
            worktree=message.worktree,
            session=message.session,
            target=message.target or "",
            undoes=message.undoes,
            status=OpStatus.DONE,
            token=message.token or "",
            commit=commit,
        )
        ops.put(self._db, op)

    def correct(self, message: ShadowCommit) -> int:
        """Change the authors of rows as a correction says; return its own number.

        Raises:
            StoreError: it names no author, or no rows.
        """
        runs = parse_rows(message.corrects)
        if (
            message.session is None
            or message.owner is None
            or not (runs and message.seqs)
        ):
            raise StoreError("cannot replay a correction: it names no rows")
        who = _owner(message, sessions.get(self._db, message.owner))
        theirs = replace(message, session=message.owner)
        if message.turn is not None and message.turn_ordinal is not None:
            self._take_turn(theirs, message.owner, message.turn)
        if message.call is not None and message.tool_class is not None:
            self._take_call(theirs, message.owner, message.call)
        if message.burst is not None:
            seqs = runs[0][0], runs[-1][1]
            self._take_burst(theirs, message.owner, message.burst, seqs)
        self.store()
        self._bursts.clear()
        self._ordinals.clear()
        correction = Correction(message.session, runs, who, message.burst)
        corrections.apply(self._db, correction)
        return message.seqs[1]

    def restore(self, message: ShadowCommit, seqs: Sequence[int]) -> None:
        """Give rows the author of their commit, whose later correction may be lost."""
        session, burst = message.session or "", message.burst
        if burst is not None and bursts.get(self._db, burst) is None:
            key = (session, message.worktree)
            self._ordinals[key] = bursts.next_ordinal(self._db, *key, seqs[0])
            self._take_burst(message, session, burst, (seqs[0], seqs[-1]))
            self.store()
            self._bursts.clear()
            self._ordinals.clear()
        who = author_of(message, self.actor(message))
        corrections.restore(self._db, seqs, who, burst)

    def store(self) -> None:
        """Write turns and bursts; call it inside `db.write()`."""
        for turn in self._turns.values():
            turns.put_turn(self._db, turn)
        for burst in self._bursts.values():
            bursts.put(self._db, burst)

    def _take_turn(self, message: ShadowCommit, session: str, turn: str) -> None:
        key = (session, turn)
        known = self._turns.get(key) or turns.get_turn(self._db, session, turn)
        if known is None:
            known = Turn(
                id=turn,
                session=session,
                ordinal=message.turn_ordinal or 0,
                started_ns=message.turn_started_ns or message.time_ns,
            )
        if known.prompt is None and message.prompt is not None:
            known = replace(known, prompt=message.prompt)
        if not self._resumed:
            ended = max(known.ended_ns or known.started_ns, message.time_ns)
            known = replace(known, ended_ns=ended)
        self._turns[key] = known

    def _take_call(self, message: ShadowCommit, session: str, call: str) -> None:
        key = (session, call)
        if key in self._calls:
            return
        self._calls.add(key)
        if turns.get_call(self._db, session, call) is not None:
            return
        opened = message.call_opened_ns or message.time_ns
        fresh = Call(
            id=call,
            session=session,
            turn=message.turn,
            tool=message.tool or "",
            tool_class=message.tool_class or ToolClass.OTHER,
            opened_ns=opened,
            closed_ns=max(opened, message.time_ns),
            worktree=message.worktree,
        )
        turns.open_call(self._db, fresh)

    def _take_burst(
        self,
        message: ShadowCommit,
        session: str,
        burst: str,
        seqs: tuple[int, int],
    ) -> None:
        (first, last), time_ns = seqs, message.time_ns
        known = self._bursts.get(burst) or bursts.get(self._db, burst)
        if known is None:
            known = Burst(
                id=burst,
                session=session,
                worktree=message.worktree,
                turn=message.turn,
                ordinal=self._next_ordinal(session, message.worktree),
                started_ns=time_ns,
                ended_ns=time_ns,
                first_seq=first,
                last_seq=last,
                open=self._resumed,
            )
        self._bursts[burst] = replace(
            known,
            started_ns=min(known.started_ns, time_ns),
            ended_ns=max(known.ended_ns, time_ns),
            first_seq=min(known.first_seq, first),
            last_seq=max(known.last_seq, last),
        )

    def _next_ordinal(self, session: str, worktree: str) -> int:
        key = (session, worktree)
        if key not in self._ordinals:
            self._ordinals[key] = bursts.next_ordinal(self._db, session, worktree)
        ordinal = self._ordinals[key]
        self._ordinals[key] += 1
        return ordinal


def _actor(message: ShadowCommit) -> Actor:
    """Return the actor as a baseline says; else what can be told without one."""
    if message.actor is not None:
        return message.actor
    return Actor.UNKNOWN if message.agent is None else Actor.AGENT


def _owner(message: ShadowCommit, session: Session | None) -> Attribution:
    """Return the author that a correction names."""
    return Attribution(
        actor=message.actor or Actor.UNKNOWN,
        session=message.owner or "",
        agent=session.agent if session is not None else None,
        turn=message.turn,
        call=message.call,
        tool=message.tool,
        confidence=message.confidence or Confidence.UNKNOWN,
        reason=message.reason or "",
        candidates=message.candidates,
    )


def _session(message: ShadowCommit, session: str, actor: Actor) -> Session:
    return Session(
        id=session,
        native_id=message.native or "",
        actor=actor,
        agent=message.agent,
        parent=message.parent,
        started_ns=message.started_ns or message.time_ns,
    )
