"""Histories on the engine in which agents speak through their hooks.

Who wrote what is known from the test's own acts alone (`Crew`), never from what was recorded.
"""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitshadow.attribution.delivery import HookDelivery
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.config import WatchBackend
from gitshadow.model import (
    Actor,
    Confidence,
    Event,
    FileVersion,
    Gap,
    PathChange,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.service import hook_intake
from gitshadow.store.journal import events, sessions
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from tests.support.context import desk_of, watched
from tests.support.engine import Engine
from tests.support.repo import Repo
from tests.undo.engine_ground import EngineGround
from tests.undo.histories import (
    AGENTS,
    WRITERS,
    Change,
    Entry,
    Tree,
    below,
    changed,
    tokens_in,
)
from tests.undo.trial import Outcome, Wanted

EARLY_S = 0.02
"""What the tests make of the time by which a tool may begin before its duration says so."""

_SURE = frozenset({Confidence.CERTAIN, Confidence.HIGH, Confidence.MEDIUM})

Writer = tuple[str, str | None]
"""A session as its agent names it, with the turn; people have no turn."""

Fact = tuple[bytes, str, object]
"""One thing that changed at a path: a token came or went, the mode, or the file itself."""


@dataclass(slots=True)
class Crew:
    """Remember who works here and what each of them really did.

    `deeds` has all that changed on the disk, `makers` who made the bytes with a token: nobody
    who only moved the file in from outside. The agents were started at the first of the `contexts`;
    `said` counts the rows of agents that name one, and those that name nobody for sure. `backend`
    is what watches.
    """

    natives: dict[str, str] = field(default_factory=dict)
    prompted: set[Writer] = field(default_factory=set)
    calls: int = 0
    deeds: dict[Fact, set[Writer]] = field(default_factory=dict)
    makers: dict[bytes, set[Writer]] = field(default_factory=dict)
    said: Counter[str] = field(default_factory=Counter)
    contexts: list[RecorderContext] = field(default_factory=list)
    backend: WatchBackend | None = None

    def native(self, who: str) -> str:
        """Return what an agent calls its session now."""
        return self.natives.get(who, who)

    def wrote(
        self, writer: Writer, before: Tree, after: Tree, *, is_made: bool = True
    ) -> None:
        """Remember what somebody did to a tree."""
        for path in {*before, *after}:
            for fact in _facts(path, before.get(path), after.get(path)):
                self.deeds.setdefault(fact, set()).add(writer)
                token = fact[2]
                if is_made and fact[1] == "+" and isinstance(token, bytes):
                    self.makers.setdefault(token, set()).add(writer)


def _facts(path: bytes, before: Entry | None, after: Entry | None) -> Iterator[Fact]:
    """Yield what changed at a path."""
    old = tokens_in(before[1]) if before else set()
    new = tokens_in(after[1]) if after else set()
    yield from ((path, "+", token) for token in new - old)
    yield from ((path, "-", token) for token in old - new)
    if (before is None) != (after is None):
        yield path, "is", after is not None
    if before and after and before[0] != after[0]:
        yield path, "mode", after[0]


def _nothing() -> None:
    """Do nothing at that moment."""


@contextmanager
def hooked_in(root: Path, crew: Crew) -> Iterator["HookedGround"]:
    """Open a worktree as the engine does, initialised where it is new."""
    with desk_of(Repo(root)) as context:
        crew.contexts.append(context)
        name = context.workspace.layout.worktree
        with watched(context, crew.backend):
            yield HookedGround(Engine(context), pin_name=name, crew=crew)


@dataclass
class HookedGround(EngineGround):
    """Run histories in one worktree; `told` are the rows as last seen."""

    crew: Crew = field(kw_only=True)
    told: dict[int, Event] = field(default_factory=dict)

    def play(
        self,
        who: str,
        turn: str | None,
        changes: Sequence[Change],
        meanwhile: Callable[[], None] = _nothing,
    ) -> Collection[PathChange]:
        """Make changes, an agent's in a call of one of its tools."""
        self.bring_near(changes)
        if turn is None:
            self._write((who, None), changes)
        else:
            call = Call(self, who, turn, changes)
            call.before()
            self._write(call.writer, changes)
            meanwhile()
            call.after()
        return self.settled()

    def git(
        self,
        verbs: Sequence[str],
        who: str,
        turn: str | None,
        changes: Sequence[Change] = (),
    ) -> Collection[PathChange]:
        """Run the git commands, an agent's in a call of its shell."""
        call = Call(self, who, turn, ()) if turn is not None else None
        if call is not None:
            call.before()
        writer = (who, None) if call is None else call.writer
        self._write(writer, changes)
        before = self.tree()
        self.command(verbs)
        is_made = set(verbs) != {"switch"}  # what is the branch's is nobody's work
        self.crew.wrote(writer, before, self.tree(), is_made=is_made)
        if call is not None:
            call.after()
        return self.settled()

    def wait(
        self, who: str, turn: str, theirs: Sequence[Change], mine: Sequence[Change]
    ) -> Collection[PathChange]:
        """Let a person write while a call waits for permission; without `mine` it is denied."""
        self.bring_near((*theirs, *mine))
        call = Call(self, who, turn, mine or theirs)
        call.before()
        before = self.tree()
        self._write(("human", None), theirs)
        if call.number % 2 or _meet(before, theirs, mine):
            self.engine.context.observer.settle()  # as a watcher has it recorded
        if not mine:
            call.after("PermissionDenied")
            return self.settled()
        time.sleep(1.5 * EARLY_S)
        call.began_ns = self.engine.context.workspace.clock.now_ns()
        self._write(call.writer, mine)
        call.after(late=call.number % 3 == 0)
        return self.settled()

    def unheard(
        self, who: str, turn: str, mine: Sequence[Change]
    ) -> Collection[PathChange]:
        """Let a call write whose first hook never comes."""
        self.bring_near(mine)
        call = Call(self, who, turn, mine)
        call.prompt()
        call.began_ns = self.engine.context.workspace.clock.now_ns()
        self._write(call.writer, mine)
        call.after(late=True)
        return self.settled()

    def die(
        self, who: str, turn: str, mine: Sequence[Change], theirs: Sequence[Change]
    ) -> Collection[PathChange]:
        """Let an agent die in a call, and a person write after that."""
        self.bring_near((*mine, *theirs))
        with subprocess.Popen(["sleep", "60"]) as child:
            started = process_start(child.pid)
            assert started is not None
            call = Call(self, who, turn, mine, ProcessId(child.pid, started))
            call.before()
            self._write(call.writer, mine)
            child.kill()
        self.engine.context.observer.settle()
        self._write(("human", None), theirs)
        # Another process is another session.
        self.crew.natives[who] = f"{who}-{call.number}"
        return self.settled()

    def settled(self) -> Collection[PathChange]:
        """Record everything; return the rows that are new or have another author."""
        hook_intake.drain_spool(self.engine.context)
        self.engine.context.observer.settle()
        wanted = EventFilter(worktree=self.engine.worktree)
        now = {one.seq: one for one in events.rows(self.engine.db, wanted)[::-1]}
        fresh = [one for seq, one in now.items() if self.told.get(seq) != one]
        self.told = now
        for row in fresh:
            assert not isinstance(row, Gap), row.note
        changes = events.path_changes(fresh)
        for row in changes:
            self._check_author(row)
        return changes

    def _check_author(self, row: PathChange) -> None:
        """Nobody is said to have written what somebody else wrote."""
        claim = writer_of(self.engine.db, row)
        if row.op is not None or row.switched:
            return
        mine = list(_facts_of(row, self.data))
        really = [self.crew.deeds.get(fact, set()) for fact in mine]
        if any(turn is not None for who in really for _, turn in who):
            self.crew.said["gap" if claim is None else "right"] += 1
        if claim is not None:
            wrong = [f for f, who in zip(mine, really, strict=True) if claim not in who]
            assert wrong == [], (claim, row)

    def undo(self, wanted: Wanted) -> Outcome:
        """Undo as the engine does."""
        db, who = self.engine.db, wanted.who
        if who in AGENTS:
            known = sessions.find_native(db, "claude-code", self.crew.native(who))
        elif who in WRITERS:
            known = sessions.newest_of(db, Actor.UNKNOWN)
        else:
            known = sessions.get(db, who)
        name = known.id if known is not None else "nobody"
        found = super().undo(replace(wanted, who=name))
        if wanted.verb == "event":  # asked for by its number, whoever it may be of
            return found
        return replace(found, taken=[row for row in found.taken if not _is_low(row)])

    def _write(self, writer: Writer, changes: Sequence[Change]) -> None:
        """Make changes one by one, and remember whose they really are.

        What is renamed is no new work, nor what comes from outside to a free name; but where
        the old name is used again, each of the two files is another one than before.
        """
        first = self.tree()
        at_the_end = changed(first, changes)
        for verb, path, what in changes:
            before = self.tree()
            self._change(verb, path, what)
            after = self.tree()
            assert after == changed(before, [(verb, path, what)])
            is_made = verb == "put" or path in before
            if verb == "move":
                is_made = below(at_the_end, path) != []
            self.crew.wrote(writer, before, after, is_made=is_made)
        self.crew.wrote(writer, first, at_the_end, is_made=False)


class Call:
    """Be one call of an agent's tool, told of by its hooks."""

    def __init__(
        self,
        ground: HookedGround,
        who: str,
        turn: str,
        changes: Sequence[Change],
        process: ProcessId | None = None,
    ) -> None:
        self._crew = ground.crew
        self._crew.calls += 1
        self.number = self._crew.calls
        self.writer = self._crew.native(who), turn
        self.began_ns: int | None = None
        self._process = process
        self._clock = ground.engine.context.workspace.clock
        self._tool = _tool_of(changes, ground.engine)
        elsewhere = self._tool["tool_name"] == "Write" and self.number % 2
        self._context = ground.crew.contexts[0] if elsewhere else ground.engine.context

    def before(self) -> None:
        """Send the hook before the call, in a new turn if it begins one."""
        self.prompt()
        self._tell("PreToolUse", {**self._tool, "tool_use_id": f"call-{self.number}"})

    def prompt(self) -> None:
        """Begin the turn, where nobody has."""
        if self.writer not in self._crew.prompted:
            self._crew.prompted.add(self.writer)
            self._tell("UserPromptSubmit", {"prompt": f"prompt {self.number}"})

    def after(self, event: str = "PostToolUse", *, late: bool = False) -> None:
        """Send the hook after the call, with the duration if the tool began later."""
        fields: dict[str, object] = {**self._tool, "tool_use_id": f"call-{self.number}"}
        at_ns = self._clock.now_ns()
        if self.began_ns is not None:
            fields["duration_ms"] = (at_ns - self.began_ns) / 1_000_000
        self._tell(event, fields, at_ns=at_ns if late else None)
        if self.number % 4 == 0:
            self._tell("Stop", {})

    def _tell(
        self, event: str, fields: Mapping[str, object], *, at_ns: int | None = None
    ) -> None:
        session, turn = self.writer
        payload = {
            "hook_event_name": event,
            "session_id": session,
            "prompt_id": turn,
            "cwd": self._context.workspace.layout.root,
            **fields,
        }
        delivery = HookDelivery(
            agent="claude-code",
            payload=json.dumps(payload).encode(),
            pids=(self._process,) if self._process is not None else (),
            own=self._process,
            at_ns=at_ns,
        )
        hook_intake.take(self._context, delivery)


def _tool_of(changes: Sequence[Change], engine: Engine) -> dict[str, object]:
    """Return the tool that makes some changes: that of files where it is one, else the shell."""
    targets = {what if verb == "move" else path for verb, path, what in changes}
    temporary = len(changes) == 2 and changes[1][0] == "move"
    if temporary and changes[0][:2] == ("put", changes[1][1]):
        targets = {changes[1][2]}
    if len(targets) == 1 and changes[0][0] == "put":
        (path,) = targets
        assert isinstance(path, bytes)
        name = os.fsdecode(engine.path(path))
        return {"tool_name": "Write", "tool_input": {"file_path": name, "content": ""}}
    return {"tool_name": "Bash", "tool_input": {"command": "make"}}


def writer_of(db: Db, row: PathChange) -> Writer | None:
    """Return which agent a row says it was, with some certainty."""
    who = row.attribution
    if who.actor is not Actor.AGENT or who.confidence not in _SURE:
        return None
    session = sessions.get(db, who.session)
    assert session is not None
    return session.native_id, who.turn


def _is_low(row: PathChange) -> bool:
    """Return whether an undo of a turn leaves a row out, as of an uncertain author."""
    return row.attribution.confidence is Confidence.LOW


def _facts_of(row: PathChange, data: Callable[[FileVersion], bytes]) -> Iterator[Fact]:
    """Yield what a row says that changed."""
    before, after = (
        None if one is None else (one.mode, data(one))
        for one in (row.before, row.after)
    )
    if row.old_path is None:
        yield from _facts(row.path, before, after)
    else:
        yield from _facts(row.old_path, before, None)
        yield from _facts(row.path, None, after)


def _meet(tree: Tree, theirs: Sequence[Change], mine: Sequence[Change]) -> bool:
    """Return whether only the order of observation tells two steps apart.

    So it is of a path that both write, be it with the same bytes, and of a removal, which
    leaves no time of its own.
    """
    between = changed(tree, theirs)
    after = changed(between, mine)
    first = {path for path in {*tree, *between} if tree.get(path) != between.get(path)}
    then = {path for path in {*between, *after} if between.get(path) != after.get(path)}
    then |= {path for _, path, _ in mine}
    return not first.isdisjoint(then) or any(verb == "drop" for verb, *_ in theirs)
