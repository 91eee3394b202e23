"""Law: after any turn of parallel branches, the world is what the journal says it is.

A turn is a tree of blocks: steps one after the other, branches side by side, savepoints, some of
which fail. Only what belongs to blocks that were kept is left, and nobody needs to look at it.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.sdk.testing.memory_store import MemoryStore
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.values import Inverse, Reversibility
from tests.sdk.turns.test_savepoints import HostUndo
from tests.sdk.turns.world import BoomError


@dataclass(frozen=True)
class Step:
    """One call, one key of the state and one artifact, each of a name of its own."""


@dataclass(frozen=True)
class Block:
    """Parts one after the other, or side by side; a savepoint or not, which may fail.

    A hasty one that has parts side by side does not wait for the others once one has failed.
    """

    parts: tuple["Part", ...]
    is_parallel: bool
    is_hasty: bool
    is_savepoint: bool
    fails: bool


Part: TypeAlias = Step | Block
DONE = ("reversed", "nothing_to_do")
ORPHANS: list["asyncio.Task[None]"] = []
THREADS: list[threading.Thread] = []

steps = st.builds(Step)
blocks = st.recursive(
    st.builds(
        Block,
        st.lists(steps, min_size=1, max_size=2).map(tuple),
        *[st.booleans()] * 4,
    ),
    lambda inner: st.builds(
        Block,
        st.lists(inner | steps, min_size=1, max_size=3).map(tuple),
        *[st.booleans()] * 4,
    ),
    max_leaves=5,
)


def name_of(path: tuple[int, ...]) -> str:
    return ".".join(map(str, path)) or "root"


def expected(block: Block, path: tuple[int, ...] = ()) -> tuple[set[str], bool]:
    """Return the steps whose effects are left, and whether the block lets an error out.

    One after the other, an error that leaves a part ends its block; side by side, the others go on
    to their end first.
    """
    left: set[str] = set()
    out = False
    for number, part in enumerate(block.parts):
        inner = (*path, number)
        if isinstance(part, Step):
            left.add(name_of(inner))
            continue
        more, is_out = expected(part, inner)
        left |= more
        out = out or is_out
        if out and not block.is_parallel:
            break
    out = out or block.fails
    if block.is_savepoint:
        return (set() if out else left), False
    return left, out


def world_tools(world: set[str], *, coroutines: bool) -> ToolRegistry:
    tools = ToolRegistry()

    def take(n: str) -> None:
        world.add(n)

    async def take_later(n: str) -> None:
        await asyncio.sleep(0)
        world.add(n)

    tools.handler("n.give", idempotent=True)(lambda n: world.discard(n))
    tools.tool(
        "n.take",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("n.give", n=a["n"]),
    )(take_later if coroutines else take)
    return tools


async def run_async(turn: AsyncTurn, part: Part, path: tuple[int, ...]) -> None:
    name = name_of(path)
    if isinstance(part, Step):
        await turn.call("n.take", {"n": name}, call_id=name)
        await turn.set_state({name: 1, "last": name})
        await turn.save_artifact(name, b"x")
        return
    if part.is_savepoint:
        try:
            async with turn.savepoint(name):
                await run_parts_async(turn, part, path)
        except BoomError:
            return
    else:
        await run_parts_async(turn, part, path)


async def run_parts_async(turn: AsyncTurn, block: Block, path: tuple[int, ...]) -> None:
    works = [
        partial(run_async, turn, part, (*path, number))
        for number, part in enumerate(block.parts)
    ]
    if block.is_parallel:
        tasks = [asyncio.ensure_future(work()) for work in works]
        ORPHANS.extend(tasks)
        hasty = block.is_hasty
        raise_first(await asyncio.gather(*tasks, return_exceptions=not hasty))
    else:
        for work in works:
            await work()
    if block.fails:
        raise BoomError("x")


def run_sync(turn: Turn, part: Part, path: tuple[int, ...]) -> None:
    name = name_of(path)
    if isinstance(part, Step):
        turn.call("n.take", {"n": name}, call_id=name)
        turn.set_state({name: 1, "last": name})
        turn.save_artifact(name, b"x")
        return
    if part.is_savepoint:
        try:
            with turn.savepoint(name):
                run_parts_sync(turn, part, path)
        except BoomError:
            return
    else:
        run_parts_sync(turn, part, path)


def run_parts_sync(turn: Turn, block: Block, path: tuple[int, ...]) -> None:
    works = [
        partial(run_sync, turn, part, (*path, number))
        for number, part in enumerate(block.parts)
    ]
    if block.is_parallel:
        raise_first(in_threads(works, hasty=block.is_hasty))
    else:
        for work in works:
            work()
    if block.fails:
        raise BoomError("x")


def in_threads(
    works: list[partial[None]], *, hasty: bool
) -> list[BaseException | None]:
    """Run functions in threads with copied contexts; return what each raised."""
    found: list[BaseException | None] = [None] * len(works)

    def run(number: int, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again below
            found[number] = error

    threads = [
        threading.Thread(target=partial(copy_context().run, run, number, work))
        for number, work in enumerate(works)
    ]
    for thread in threads:
        thread.start()
    THREADS.extend(threads)
    for thread in threads:
        thread.join()
        if hasty and any(found):
            break
    return list(found)


def raise_first(ended: "list[BaseException | None]") -> None:
    for one in ended:
        if one is not None:
            raise one


def check(
    au: AgentUndo | AsyncAgentUndo,
    root: Block,
    world: set[str],
    host: HostUndo,
    raised: BaseException | None,
) -> None:
    """Compare world, session and host's document with what is to be left."""
    left, is_out = expected(root)
    left = set() if is_out else left
    assert (world, raised is not None) == (left, is_out)
    turn = au.turns()[-1]
    assert turn.status == ("rolled_back" if is_out else "committed")
    keys = set(au.state) - {"last"}
    assert (keys, set(au.artifacts.list())) == (left, left)
    # A key that all write has the value of a step that was kept, whoever was the last.
    assert au.state.get("last", "none") in (left or {"none"})
    assert au.attention() == []
    calls = au.calls(turn.id)
    standing = {one.id for one in calls if one.undo == "planned"}
    assert (standing, {one.undo for one in calls} - {"planned", "done"}) == (
        left,
        set(),
    )
    told = host.calls[:-1]
    assert host.calls[-1] == ("rollback" if is_out else "commit")
    assert is_out or (set(told), len(told)) == (left, len(left))
    reports = [one for one in au.runtime.store.ops("s") if one.report is None]
    assert reports == []


@pytest.mark.parametrize("front", ["async", "threads"])
@settings(
    max_examples=60,
    deadline=None,
)
@given(root=blocks)
def test_what_is_left_of_a_turn_is_what_was_kept(front: str, root: Block) -> None:
    """AN-30: whatever runs side by side, an undo takes back what belongs to it alone."""
    world, host = set[str](), HostUndo()
    tools = world_tools(world, coroutines=front == "async")
    raised: BaseException | None = None
    if front == "async":

        async def run() -> None:
            nonlocal raised
            async with AsyncAgentUndo.with_store(
                MemoryStore(), session="s", tools=tools, host=Host(undo=host)
            ) as au:
                try:
                    async with au.turn("go") as turn:
                        await run_async(turn, root, ())
                except BoomError as error:
                    raised = error
                await asyncio.gather(*ORPHANS, return_exceptions=True)
                ORPHANS.clear()
                check(au, root, world, host, raised)
                left = au.turns()[-1].status == "committed"
                assert not left or (await au.undo("t-1")).status in DONE
                assert (world, au.state, au.artifacts.list()) == (set(), {}, [])

        asyncio.run(run())
        return
    with AgentUndo.with_store(
        MemoryStore(), session="s", tools=tools, host=Host(undo=host)
    ) as au:
        try:
            with au.turn("go") as turn:
                run_sync(turn, root, ())
        except BoomError as error:
            raised = error
        for thread in THREADS:
            thread.join()
        THREADS.clear()
        check(au, root, world, host, raised)
        left = au.turns()[-1].status == "committed"
        assert not left or au.undo("t-1").status in DONE
        assert (world, au.state, au.artifacts.list()) == (set(), {}, [])
