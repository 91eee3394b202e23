"""Law: after any turns, reports, `attention()`, the log and the journal are true of the world.

A turn is a tree of blocks: steps one after the other or in parallel, savepoints, some of which
fail. The tools hand out live objects and change them and their arguments, raise after their
effect, end after their turn, and repeat their secrets. Processes die at any command, inverses fail,
a person writes, a tool gets another name. The world knows of every effect whether it is left.
"""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent import futures
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.errors import UsageError
from gitshadow.sdk.testing import MemoryStore
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.errors import TurnClosed
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoItem, UndoReport, from_json
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from gitshadow.store.journal.saga_rows import SagaCall
from tests.sdk.turns.front import FREE, AnyTurn, Session, at_once
from tests.sdk.turns.test_savepoints import HostUndo
from tests.sdk.turns.test_secrets import found, texts
from tests.sdk.turns.world import BoomError
from tests.support.places import recorded

POLICY = replace(FREE, duplicates="allow", limits=Limits(rollback_wait_s=0.01))


class DiedError(BaseException):
    """The process dies."""


@dataclass(frozen=True)
class Step:
    """One call, then a key of the state and an artifact of its name.

    Args:
        cell: What is written; a step in parallel writes a cell of its own.
        value: What is written to it.
        in_place: Whether the object in the cell is changed, if that is possible.
        ends: How its tool ends: `raises` after its effect, or `late`, after its turn.
        once: Whether it has no probe, no `observe` and an inverse that must not be repeated.
        secret: A secret argument, which the tool repeats.
        leaks: Whether its inverse would store the secret.
    """

    cell: str
    value: object
    in_place: bool
    ends: str
    once: bool
    secret: object
    leaks: bool


@dataclass(frozen=True)
class Block:
    """Parts one after the other, or in parallel; a savepoint or not, which may fail.

    A hasty one that has parts in parallel does not wait for the others once one has failed.
    """

    parts: tuple["Part", ...]
    is_parallel: bool
    is_hasty: bool
    is_savepoint: bool
    fails: bool


Part: TypeAlias = Step | Block
CELLS = ("a", "b")
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from("xy"))
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from("pqr"), inner, max_size=3)
    ),
    max_leaves=4,
)
# An inverse cannot store these, and what observes them may not be able to say what it saw.
ODD = st.one_of(
    st.decimals(0, 3, places=1),
    st.binary(max_size=1),
    st.tuples(SCALARS, SCALARS),
    st.dictionaries(st.integers(0, 2), SCALARS, min_size=1, max_size=1),
    st.sets(st.sampled_from("xyz"), max_size=3),
)
# What can be changed in place comes most often.
SHAPES = (
    st.dictionaries(st.sampled_from("pqr"), JSON, max_size=2),
    st.lists(JSON, max_size=2),
)
VALUES = st.integers(0, 7).flatmap(lambda n: ODD if n == 7 else (*SHAPES, JSON)[n % 3])
MAYBE = st.sampled_from([False, False, True])
# Texts that no digest contains by chance, and numbers that stand alone in JSON.
LEAVES = st.sampled_from(["zq-4711", 'q"u\\o-4711', "пароль-ß", 739, 47.1189, None])
SECRETS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["pin", "tok-4711"]), inner, max_size=2)
    ),
    max_leaves=3,
)
steps = st.builds(
    Step,
    st.sampled_from(CELLS),
    VALUES,
    st.booleans(),
    st.sampled_from(["", "", "", "", "", "", "raises", "late"]),
    MAYBE,
    st.none() | SECRETS,
    MAYBE,
)
blocks = st.recursive(
    st.builds(
        Block,
        st.lists(steps, min_size=1, max_size=2).map(tuple),
        *[MAYBE, st.booleans(), st.booleans(), MAYBE],
    ),
    lambda inner: st.builds(
        Block,
        st.lists(inner | steps, min_size=1, max_size=3).map(tuple),
        *[MAYBE, st.booleans(), st.booleans(), MAYBE],
    ),
    max_leaves=5,
)
PICKS = st.integers(0, 2)
# The number of commands after which the process dies; mostly it lives.
LIVES = st.sampled_from([False, False, True]).flatmap(
    lambda dies: st.integers(1, 40) if dies else st.just(0)
)
BROKEN = st.sampled_from(["", "", "put", "after", "observe"])
# Turns that are kept, so that there is something to undo.
kept = st.builds(Block, st.lists(steps, max_size=2).map(tuple), *[st.just(False)] * 4)
TURNS = st.tuples(st.just("turn"), kept | blocks, LIVES)
ACTIONS = st.one_of(
    TURNS,
    st.tuples(st.just("person"), st.sampled_from(CELLS), VALUES),
    st.tuples(st.just("rename")),
    st.tuples(st.just("undo"), PICKS, BROKEN, LIVES),
    # A person repairs by hand what an undo could not restore, and then it is tried again.
    st.tuples(st.just("repair"), PICKS, st.sampled_from(CELLS), VALUES),
    st.tuples(st.just("fork"), PICKS),
)


@dataclass(slots=True)
class Effect:
    """What a call found and left, how its tool ended, and how often it was undone."""

    step: Step
    cell: str
    before: object
    after: object
    undone: int = 0
    failed: bool = False

    @property
    def stands(self) -> bool:
        return self.undone == 0


@dataclass(slots=True)
class LiveWorld:
    """Values in memory, and all that happened to them, by names of calls.

    `gone` are the beginnings of the names of what is to be undone; `by_person` the cells that a
    person has written since the last tool or inverse.
    """

    front: str
    root: str | None
    store: MemoryStore = field(default_factory=MemoryStore)
    values: dict[str, object] = field(
        default_factory=lambda: {"a": {"p": 1, "q": [2]}, "b": [1]}
    )
    effects: dict[str, Effect] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    gone: list[str] = field(default_factory=list)
    turn_ids: list[str] = field(default_factory=list)
    by_person: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    name: str = "box.set"
    broken: str = ""
    forks: list[str] = field(default_factory=list)
    dead: bool = False
    begun: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    working: list[Any] = field(default_factory=list)
    pool: futures.ThreadPoolExecutor = field(
        default_factory=lambda: futures.ThreadPoolExecutor(16)
    )

    @contextmanager
    def opened(self, host: HostUndo | None = None) -> Iterator[Session]:
        """Open the session as another process would."""
        tools, is_async = ToolRegistry(), self.front == "async"
        tools.handler("box.put", idempotent=True)(self.put_back)
        tools.handler("box.put_once")(self.put_back)
        known: dict[str, object] = {
            "reversibility": Reversibility.REVERSIBLE,
            "capture": self.look,
            "secrets": ("secret",),
            "describe": lambda a: f"set {a['secret']}",
            "inverse": self.inverse,
            "retry": Retry(attempts=2, backoff_s=0),
        }
        seen = {
            "fingerprint": self.observe,
            "probe": lambda a: a["name"] in self.effects,
        }
        work = self.set_later if is_async else self.set
        for name, more in ((self.name, seen), ("box.once", {})):
            tools.add(name, work, **cast(ToolOptions, {**known, **more}))
        opens = AsyncAgentUndo if is_async else AgentUndo
        host_of = Host(undo=host) if host is not None else Host()
        au: AgentUndo | AsyncAgentUndo
        if self.root is None:
            au = opens.with_store(
                self.store, session="s", tools=tools, policy=POLICY, host=host_of
            )
        else:
            au = opens.open(
                self.root, session="s", tools=tools, policy=POLICY, host=host_of
            )
        with closing(au):
            yield Session(au)

    def look(self, arguments: Mapping[str, Any]) -> object:
        """Return a value itself, not a copy."""
        return self.values.get(arguments["holder"]["cell"])

    def observe(self, arguments: Mapping[str, Any]) -> object:
        if self.broken == "observe":
            raise OSError(f"no answer: {arguments['secret']}")
        return self.look(arguments)

    def inverse(
        self, arguments: Mapping[str, Any], captured: object, result: object
    ) -> Inverse:
        step = self.steps[arguments["name"]]
        args = {"name": arguments["name"], "cell": arguments["holder"]["cell"]}
        if step.leaks:
            args["secret"] = arguments["secret"]
        handler = "box.put_once" if step.once else "box.put"
        return Inverse(handler, {**args, "value": captured})

    def set(
        self, name: str, value: object, secret: object, holder: dict[str, str]
    ) -> str:
        """Set a value, in the object that is there if that is possible; spoil the arguments."""
        step, cell = self.steps[name], holder["cell"]
        if step.ends == "late":
            self.begun.set()
            self.over.wait(10)
        if self.dead:
            raise DiedError
        assert name not in self.effects, "a call is made once"
        current = self.values.get(cell)
        before = deepcopy(current)
        if step.in_place and isinstance(current, dict) and isinstance(value, dict):
            current.clear()
            current.update(value)
        elif step.in_place and isinstance(current, list) and isinstance(value, list):
            current[:] = value
        else:
            self.values[cell] = value
        after = deepcopy(self.values[cell])
        self.effects[name] = Effect(step, cell, before, after)
        self.by_person.discard(cell)
        holder.clear()
        if step.ends == "raises":
            raise BoomError(f"no answer: {secret!r} {json.dumps(secret)}")
        return f"done with {secret!r}"

    async def set_later(self, name: str, **given: Any) -> str:
        while self.steps[name].ends == "late" and not self.over.is_set():
            self.begun.set()
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        return self.set(name, **given)

    def put_back(
        self, name: str, cell: str, value: object, secret: object = None
    ) -> None:
        """Set a value as an inverse does."""
        effect = self.effects[name]
        if not self.is_gone(name):
            self.wrong.append(name)
        if self.broken == "put":
            effect.failed = True
            raise OSError("no route")
        # What cannot be observed is not compared.
        if cell in self.by_person and not effect.step.once:
            self.overwritten.append(cell)
        self.by_person.discard(cell)
        self.values[cell] = value
        effect.undone += 1
        if self.broken == "after":
            effect.failed = True
            raise OSError("the answer was lost")

    def is_gone(self, name: str) -> bool:
        """Return whether a call is to be undone."""
        return any(name.startswith(one) for one in self.gone)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        """Start a task or, with the sync front, a thread that is inside of what this is."""
        run = copy_context().run
        one = (
            asyncio.ensure_future(work())
            if self.front == "async"
            else self.pool.submit(lambda: run(at_once, work()))
        )
        self.working.append(one)
        return one

    async def ended(self, works: list[Any], *, hasty: bool) -> None:
        """Wait until all have ended or, if hasty, one has raised."""
        when = futures.FIRST_EXCEPTION if hasty else futures.ALL_COMPLETED
        if self.front == "async":
            await asyncio.wait(works, return_when=when)
        else:
            futures.wait(works, return_when=when)

    async def run(self, turn: AnyTurn, part: Part, name: str, *, alone: bool) -> None:
        """Run a part of a turn; `alone`: nothing runs beside it."""
        if isinstance(part, Step):
            await self.step(turn, part, name, alone=alone)
        elif part.is_savepoint:
            with suppress(BoomError):
                async with turn.savepoint(name):
                    try:
                        await self.parts(turn, part, name, alone=alone)
                    except BoomError:
                        self.gone.append(f"{name}.")
                        raise
        else:
            await self.parts(turn, part, name, alone=alone)

    async def parts(
        self, turn: AnyTurn, block: Block, name: str, *, alone: bool
    ) -> None:
        works = [
            partial(
                self.run,
                turn,
                part,
                f"{name}.{number}",
                alone=alone and not block.is_parallel,
            )
            for number, part in enumerate(block.parts)
        ]
        if block.is_parallel:
            branches = [self.start(work) for work in works]
            await self.ended(branches, hasty=block.is_hasty)
            for one in branches:
                if one.done():
                    one.result()
        else:
            for work in works:
                await work()
        if block.fails:
            raise BoomError("x")

    async def step(self, turn: AnyTurn, step: Step, name: str, *, alone: bool) -> None:
        self.steps[f"{name}."] = step
        name = f"{name}."
        cell = step.cell if alone and step.ends != "late" else name
        arguments = {
            "name": name,
            "value": deepcopy(step.value),
            "secret": deepcopy(step.secret),
            "holder": {"cell": cell},
        }
        tool = "box.once" if step.once else self.name
        if not alone:
            # So that branches run in turns.
            await self.pause()
        if step.ends == "late":
            # It runs beside a branch that fails, and its turn does not wait for it.
            self.begun.clear()
            call = self.start(lambda: self.call(turn, tool, name, arguments))
            while not (self.begun.is_set() or call.done()):
                await self.pause()
            raise BoomError("late")
        await self.call(turn, tool, name, arguments)
        await turn.set_state(**{name: 1, "last": name})
        await turn.save(name, b"x")
        self.said.add(name)

    async def call(
        self, turn: AnyTurn, tool: str, name: str, arguments: Mapping[str, object]
    ) -> None:
        with suppress(TurnClosed):
            await turn.call(tool, name, **arguments)

    async def pause(self) -> None:
        if self.front == "async":
            await asyncio.sleep(0.001)
        else:
            time.sleep(0.001)

    def limit(self, session: Session, lives: int) -> None:
        """Have the process die at one of the next commands, and do nothing from then on."""
        if not lives:
            return
        driver: Any = session.au._driver
        perform, left = driver.perform, [lives]

        def die() -> None:
            left[0] -= 1
            if left[0] <= 0:
                self.dead = True
                raise DiedError

        async def later(command: object) -> object:
            die()
            return await perform(command)

        def now(command: object) -> object:
            die()
            return perform(command)

        driver.perform = later if self.front == "async" else now

    async def turn(self, root: Block, lives: int) -> None:
        """Run a turn; its process may die in it."""
        number, host = len(self.turn_ids), HostUndo()
        self.over.clear()
        with self.opened(host) as session:
            self.turn_ids.append(f"t-{len(session.au.turns()) + 1}")
            self.limit(session, lives)
            report, before = None, {}
            try:
                async with session.turn("go") as turn:
                    self.child_writes_nothing(session)
                    try:
                        await self.run(turn, root, f"{number}", alone=True)
                    except BoomError:
                        self.gone.append(f"{number}.")
                        before = deepcopy(self.values)
                        raise
            except BoomError as error:
                report = cast(UndoReport, error.undo_report)  # type: ignore[attr-defined]
                self.check_report(report, before)
            except DiedError:
                pass
            self.over.set()
            if self.working:
                await self.ended(self.working, hasty=False)
                # Nobody waits for a branch that a hasty block has left.
                while self.working:
                    self.working.pop().exception()
            if self.dead:
                session.au.runtime.release()
            else:
                is_kept = report is None
                assert host.calls[-1] == ("commit" if is_kept else "rollback")
                told, mine = host.calls[:-1], f"{number}."
                left = {name for name in self.said if name.startswith(mine)}
                left = {name for name in left if not self.is_gone(name)}
                stands = {name for name, one in self.effects.items() if one.stands}
                assert not is_kept or left <= set(told) <= stands
                assert len(told) == len(set(told))
        if self.dead:
            self.dead = False
            await self.mend(self.turn_ids[-1], number)

    async def mend(self, turn: str, number: int) -> None:
        """Do in another process what is to be done after one has died in a turn."""
        with self.opened() as session:
            await session.recover()
            status = {one.id: one.status for one in session.au.turns()}.get(turn)
            if status is None:
                self.turn_ids.pop()
            elif status != "committed":
                self.gone.append(f"{number}.")
                before = deepcopy(self.values)
                self.check_report(await session.undo(turn), before)

    def child_writes_nothing(self, session: Session) -> None:
        """In a process that was forked from this one, nothing can be used."""
        with patch("os.getpid", return_value=1), pytest.raises(UsageError):
            session.au.turns()

    async def person(self, cell: str, value: object) -> None:
        """Write a value by hand."""
        self.values[cell] = deepcopy(value)
        self.by_person.add(cell)

    async def rename(self) -> None:
        """Register the tool under another name."""
        self.name = "box.set" if self.name == "box.put_in" else "box.put_in"

    async def repair(self, pick: int, cell: str, value: object) -> None:
        """Let an undo fail, write what it did not restore by hand, and undo again."""
        await self.undo(pick, "put", 0)
        failed = [one.cell for one in self.effects.values() if one.failed]
        await self.person(next((one for one in failed if one in CELLS), cell), value)
        await self.undo(pick, "", 0)

    async def undo(self, pick: int, broken: str, lives: int) -> None:
        """Undo one turn, while something may be broken, in a process that may die."""
        if not self.turn_ids:
            return
        number = pick % len(self.turn_ids)
        turn, self.broken = self.turn_ids[number], broken
        self.gone.append(f"{number}.")
        before = deepcopy(self.values)
        with self.opened() as session:
            planned = await session.plan(turn)
            assert self.values == before
            self.limit(session, lives)
            try:
                report = await session.undo(turn)
                self.check_report(report, before)
                if broken not in ("put", "after"):
                    self.compare(planned, report)
            except DiedError:
                session.au.runtime.release()
        self.broken = ""
        if self.dead:
            self.dead = False
            with self.opened() as session:
                await session.recover()
                await session.undo(turn)

    async def fork(self, pick: int) -> None:
        """Begin another session with a part of this one's history."""
        if not self.turn_ids:
            return
        turn = self.turn_ids[pick % len(self.turn_ids)]
        with self.opened() as session:
            rows, before = len(session.au.log()), deepcopy(self.values)
            other = f"f{len(self.forks)}"
            self.forks.append(other)
            with closing(session.au.fork(turn, other)) as forked:
                assert forked.state == session.au.state_at(turn)
                assert (forked.turns(), forked.attention()) == ([], [])
            assert (len(session.au.log()), self.values) == (rows, before)

    def check_report(self, report: UndoReport, before: dict[str, object]) -> None:
        """Check the values of what a report says; `before` is what was there before the undo."""
        # A person may have written the very value that a call left or found: no conflict.
        for cell in self.overwritten:
            known = [one for one in self.effects.values() if one.cell == cell]
            shown = [repr(each) for one in known for each in (one.before, one.after)]
            assert repr(before[cell]) in shown
        self.overwritten.clear()
        # Nobody knows what an inverse has done that failed.
        unknown = {
            self.effects[item.call_id].cell
            for item in report.items
            if item.reason in ("in_doubt", "failed") and item.call_id in self.effects
        }
        oldest: dict[str, Effect] = {}
        for item in reversed(report.items):
            # What an attempt of this undo had done although it failed is told as done already.
            is_new = not item.already or item.detail is not None
            if item.state == "reversed" and is_new and item.path is None:
                effect = self.effects[item.call_id]
                oldest.setdefault(effect.cell, effect)
        for cell, effect in oldest.items():
            assert cell in unknown or self.values[cell] == effect.before
        for cell in {*CELLS} - oldest.keys() - unknown:
            assert self.values[cell] == before[cell]

    def compare(self, planned: UndoReport, report: UndoReport) -> None:
        """Check that a plan has promised what was done.

        It knows neither what a probe will say, nor what calls without `observe` have changed, nor
        which of two calls has left what both leave.
        """
        told = {item.call_id: item.state for item in planned.items}
        mine = [one for name, one in self.effects.items() if name in told]
        unseen = any(one.step.once and one.cell in CELLS for one in mine)
        unseen = unseen or len({repr(one.after) for one in mine}) < len(mine)
        if unseen or any(item.reason == "in_doubt" for item in planned.items):
            return
        assert told == {item.call_id: item.state for item in report.items}

    def check(self) -> None:
        """Compare the world with all that is told of it."""
        with self.opened() as session:
            au = session.au
            assert (au.verify(), self.wrong) == (None, [])
            rows = {one.id: one for turn in au.turns() for one in au.calls(turn.id)}
            log = Counter((row.call, row.kind) for row in au.log())
            items: dict[str, UndoItem] = {}
            for op in au.runtime.store.ops("s"):
                report = from_json(json.loads(op.report or ""))
                items |= {one.call_id: one for one in report.items if one.call_id}
            attention = {call.id for call in au.attention()}
            for name in attention:
                is_unknown = rows[name].outcome in (None, "raised")
                assert is_unknown or self.is_gone(name)
            for name, effect in self.effects.items():
                assert log[name, "intent"] == 1
                assert effect.undone <= log[name, "undo_attempt"]
                assert effect.undone <= 1 or not effect.step.once
                row, item = rows[name], items.get(name)
                self.check_call(name, effect, row, item, name in attention)
            left = {name for name in self.said if not self.is_gone(name)}
            assert set(au.state) - {"last"} == left
            assert set(au.artifacts.list()) == left
            statuses = {turn.status for turn in au.turns()}
            assert statuses.isdisjoint(["open", "rolling_back"])

    def check_call(
        self,
        name: str,
        effect: Effect,
        row: SagaCall,
        item: UndoItem | None,
        is_named: bool,
    ) -> None:
        """Check what is told of one call: what is left is named, and for a reason."""
        is_unknown = row.outcome in (None, "raised")
        if not self.is_gone(name):
            assert (effect.undone, item) == (0, None)
            assert is_named == is_unknown
            return
        if item is None or item.state != "not_reversed":
            is_by_hand = item is not None and item.already and effect.failed
            assert not effect.stands or is_named or is_by_hand
            assert item is None or item.state == "reversed"
            return
        assert effect.stands or effect.failed or effect.step.once
        is_late = (row.undo, row.attempts) == ("failed", 0)
        causes = {
            "in_doubt": is_unknown or effect.step.once or is_late,
            "failed": effect.failed or is_late,
            "no_inverse": is_odd(effect.before) or effect.step.leaks,
            "drifted": not effect.step.once,
        }
        assert causes[str(item.reason)]
        if item.reason in ("in_doubt", "failed"):
            assert is_named

    def check_bytes(self) -> None:
        """Check that no secret is in the journal."""
        secrets = {one for step in self.steps.values() for one in texts(step.secret)}
        if self.root is None:
            data = self.store.db._connection.serialize()
        else:
            files = (Path(self.root) / ".git" / "agent-undo").rglob("*")
            data = b"\n".join(one.read_bytes() for one in files if one.is_file())
        assert found((*(secrets - {"pin"}),), data.decode("latin-1")) == []

    def act(self, name: str, *args: object) -> None:
        """Do something, and check what is told afterwards."""
        work = getattr(self, name)(*args)
        if self.front == "async":
            asyncio.run(work)
        else:
            at_once(work)
        self.check()


def is_odd(value: object) -> bool:
    """Return whether JSON would change a value."""
    try:
        return bool(json.loads(json.dumps(value)) != value)
    except TypeError:
        return True


# A file of SQLite takes its time, so the journal has fewer examples.
@pytest.mark.parametrize("front", ["sync", "async"])
@pytest.mark.parametrize(("store", "examples"), [("memory", 60), ("journal", 8)])
def test_what_is_told_of_turns_is_true(
    front: str, store: str, examples: int, tmp_path: Path
) -> None:
    """AN-30 and others: what is reversed is as before, what is left is named, no person loses."""
    numbers = count()

    @settings(max_examples=examples)
    @given(TURNS, st.lists(ACTIONS, max_size=5))
    def law(first: tuple[str, Block, int], more: list[tuple[Any, ...]]) -> None:
        root = tmp_path / str(next(numbers))
        world = LiveWorld(front, str(recorded(root)) if store == "journal" else None)
        for name, *args in (first, *more):
            world.act(name, *args)
        for number in reversed(range(len(world.turn_ids))):
            world.act("undo", number, "", 0)
        world.check_bytes()
        world.pool.shutdown()

    law()
