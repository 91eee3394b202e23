"""One face for both fronts, so that one suite runs through both.

`Front` opens a session with the sync or the async front; what it gives is awaited either way.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pytest

from gitshadow.sdk.testing.memory_store import MemoryStore
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.journal_store import JournalStore
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoItem, UndoReport
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.session_runtime import Opening, SessionRuntime
from gitshadow.sdk.turns.turn_end import Check
from gitshadow.sdk.turns.values import Outcome
from tests.sdk.turns.world import BoomError, World, registry

T = TypeVar("T")
FREE = Policy(non_reversible="allow")
# For tests that look at the journal itself, at refs, or from another process.
in_journal = pytest.mark.parametrize("front", ["sync", "async"], indirect=True)


class AnyTurn:
    """A turn of either front."""

    def __init__(self, inner: Turn | AsyncTurn) -> None:
        self.inner = inner

    async def __aenter__(self) -> "AnyTurn":
        if isinstance(self.inner, Turn):
            self.inner.__enter__()
        else:
            await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(self.inner, Turn):
            self.inner.__exit__(kind, error, trace)
        else:
            await self.inner.__aexit__(kind, error, trace)

    @property
    def report(self) -> UndoReport:
        """Return the report of its rollback."""
        assert self.inner.report is not None
        return self.inner.report

    async def call(
        self, tool: str, call_id: str | None = None, /, **args: object
    ) -> Outcome:
        if isinstance(self.inner, Turn):
            return self.inner.call(tool, args, call_id=call_id)
        return await self.inner.call(tool, args, call_id=call_id)

    async def again(self, tool: str, /, **args: object) -> Outcome:
        if isinstance(self.inner, Turn):
            return self.inner.call(tool, args, again=True)
        return await self.inner.call(tool, args, again=True)

    async def through(
        self, function: Callable[..., object], tool: str, **args: object
    ) -> Outcome:
        return await settled(self.inner.call_through(function, tool, args))

    async def undo(self, **more: object) -> UndoReport:
        return await settled(self.inner.undo(**more))  # type: ignore[arg-type]

    async def say(
        self, author: str, text: str, kind: str = "note", **data: object
    ) -> None:
        await settled(self.inner.say(author, text, kind=kind, **data))

    async def save(self, name: str, data: bytes) -> int:
        return await settled(self.inner.save_artifact(name, data))

    async def set_state(self, **changes: object) -> None:
        await settled(self.inner.set_state(changes))

    @asynccontextmanager
    async def savepoint(self, name: str) -> AsyncIterator[None]:
        if isinstance(self.inner, Turn):
            with self.inner.savepoint(name):
                yield
        else:
            async with self.inner.savepoint(name):
                yield


@dataclass(slots=True)
class Session:
    """A session of either front."""

    au: AgentUndo | AsyncAgentUndo

    def turn(
        self,
        label: str = "a turn",
        *,
        policy: Policy | None = None,
        validate: Check | None = None,
    ) -> AnyTurn:
        return AnyTurn(self.au.turn(label, policy=policy, validate=validate))

    async def called(
        self, tool: str, call_id: str | None = None, /, **args: object
    ) -> AnyTurn:
        """Run a turn of this one call."""
        async with self.turn() as turn:
            await turn.call(tool, call_id, **args)
        return turn

    async def run_turn(
        self,
        work: Callable[[AnyTurn], Awaitable[T]],
        *,
        validate: Check | None = None,
        retries: int = 0,
    ) -> T:
        if isinstance(self.au, AgentUndo):
            return self.au.run_turn(
                "a turn",
                lambda turn: at_once(work(AnyTurn(turn))),
                validate=validate,
                retries=retries,
            )
        return await self.au.run_turn(
            "a turn",
            lambda turn: work(AnyTurn(turn)),
            validate=validate,
            retries=retries,
        )

    async def undo(self, turn: str, **more: object) -> UndoReport:
        return await settled(self.au.undo(turn, **more))  # type: ignore[arg-type]

    async def plan(self, turn: str, **more: object) -> UndoReport:
        return await settled(self.au.plan(turn, **more))  # type: ignore[arg-type]

    async def resume(self, op: str) -> UndoReport:
        return await settled(self.au.resume(op))

    async def rewind(self, before: str, **more: object) -> UndoReport:
        return await settled(self.au.rewind(before, **more))  # type: ignore[arg-type]

    async def redo(self, op: str, **more: object) -> UndoReport:
        return await settled(self.au.redo(op, **more))  # type: ignore[arg-type]

    async def undo_last(self) -> UndoReport:
        return await settled(self.au.undo_last())

    async def recover(self) -> list[UndoReport]:
        return await settled(self.au.recover())


@dataclass(slots=True)
class Front:
    """Open sessions with one of the fronts, on one world and one journal.

    The one called `memory` is the sync front on a store in memory.
    """

    name: str
    root: Path
    world: World
    tools: ToolRegistry
    store: MemoryStore = field(default_factory=MemoryStore)
    opened: list[Session] = field(default_factory=list)

    @classmethod
    def make(cls, name: str, root: Path) -> "Front":
        world = World.make(root / "world", coroutines=name == "async")
        return cls(name, root, world, registry(world))

    def session(
        self, name: str = "s", *, policy: Policy = FREE, host: Host | None = None
    ) -> Session:
        opening = Opening(name, self.tools, None, policy, host or Host())
        in_memory = self.name == "memory"
        runtime = (
            SessionRuntime(self.store, opening)
            if in_memory
            else SessionRuntime.open(str(self.root), opening)
        )
        made = AsyncAgentUndo(runtime) if self.name == "async" else AgentUndo(runtime)
        self.opened.append(Session(made))
        return self.opened[-1]

    async def after(
        self, tool: str, call_id: str | None = None, /, **args: object
    ) -> Session:
        """Return a session whose first turn was this one call."""
        session = self.session()
        await session.called(tool, call_id, **args)
        return session

    def close(self) -> None:
        for one in self.opened:
            one.au.close()


@asynccontextmanager
async def fails(
    block: AbstractAsyncContextManager[T, bool | None],
) -> AsyncIterator[T]:
    """Enter a turn or a savepoint that fails at the end of the block."""
    with pytest.raises(BoomError):
        async with block as entered:
            yield entered
            raise BoomError("x")


def only(report: UndoReport) -> UndoItem:
    """Return the one item of a report."""
    (item,) = report.items
    return item


def journal_of(au: AgentUndo | AsyncAgentUndo) -> JournalStore:
    """Return the store of a session that is kept in the journal."""
    assert isinstance(au.runtime.store, JournalStore)
    return au.runtime.store


def at_once(work: Awaitable[T]) -> T:
    """Run a coroutine that waits for nothing, as all do that use the sync front."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("it waits")


async def settled(value: T | Awaitable[T]) -> T:
    return await value if isinstance(value, Awaitable) else value
