"""AN-40: one script through each framework leaves what it leaves in this process."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gitshadow.sdk.turns.async_session import AsyncTurn
from gitshadow.sdk.turns.base_session import SessionFront
from gitshadow.sdk.turns.errors import SessionBusy, TurnCancelled
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.values import Inverse, Json, Reversibility
from tests.sdk.integrations.frameworks import (
    MODULES,
    ONE_BY_ONE,
    SYNC,
    TOGETHER,
    Batches,
    Program,
)
from tests.sdk.integrations.toy import SCRIPT, Step, saga_rows
from tests.sdk.turns.front import FREE
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.world import BoomError, World, decorated, registry
from tests.support.places import recorded
from tests.support.repo import Repo
from tests.support.waiting import until

CREATE = Step("c1", "draft.create", {"title": "A"})
CHARGE = Step("c2", "card.charge", {"amount": 5})
BOOM = Step("c3", "toy.boom", {})


awaited = pytest.mark.parametrize("framework", sorted(MODULES), indirect=True)


@pytest.fixture(params=[*sorted(MODULES), SYNC])
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def program(framework: str, place: Path, tools: ToolRegistry) -> Iterator[Program]:
    made = Program(framework, place, tools)
    with closing(made.au):
        yield made


def steps_of(au: SessionFront[Any, Any]) -> list[tuple[str, str | None, object]]:
    """Return the session's log, step by step, with all that is in it but times and keys.

    No two stores share a key.
    """
    rows = [(note.kind, note.call, json.loads(note.body)) for note in au.log()]
    keys = [body.pop("key") for _, _, body in rows if "key" in body]
    assert len(set(keys)) == len(keys) > 0
    return list(rows)


def in_process(root: Path, batches: Batches) -> tuple[object, object]:
    """Run a script with `turn.call`; return what it leaves."""
    world = World.make(root / "reference")
    tools = registry(world)
    with AgentUndo.open(str(root), session="s", tools=tools, policy=FREE) as au:
        with au.turn("go") as turn:
            for step in (step for batch in batches for step in batch):
                turn.call(step.tool, step.arguments, call_id=step.call)
        return steps_of(au), saga_rows(au, "t-1")


async def test_the_log_is_that_of_this_process(
    program: Program, tmp_path: Path
) -> None:
    """AN-40, EN-01: intents, outcomes, inverses and the framework's own call ids."""
    await program.run_turn(ONE_BY_ONE)
    log, rows = in_process(recorded(tmp_path / "elsewhere"), ONE_BY_ONE)
    assert steps_of(program.au) == log
    assert saga_rows(program.au, "t-1") == rows


async def test_calls_asked_for_together_are_in_order(
    program: Program, tmp_path: Path
) -> None:
    """AN-08: what a model asks for in one message starts in that order."""
    await program.run_turn(TOGETHER)
    _, rows = in_process(recorded(tmp_path / "elsewhere"), TOGETHER)
    assert saga_rows(program.au, "t-1") == rows
    assert [call.id for call in program.au.calls("t-1")] == [
        step.call for step in SCRIPT
    ]


async def test_a_model_reads_what_did_not_work(program: Program) -> None:
    """OUT-01, OUT-04: a failure and a conflict are text, and the turn goes on."""
    failing = (
        (Step("c1", "toy.soft_fail", {}),),
        (Step("c2", "toy.stale", {}),),
        (Step("c3", "notes.read", {"note": "n1"}),),
    )
    heard = await program.run_turn(failing)
    assert heard == {
        "c1": "no such customer",
        "c2": "Conflict: M\nState delta: D",
        "c3": "text of n1",
    }
    outcomes = [call.outcome for call in program.au.calls("t-1")]
    assert outcomes == ["failed", "conflict", "success"]
    assert program.au.turns()[0].status == "committed"


async def test_a_denied_call_does_not_run(
    framework: str, place: Path, tools: ToolRegistry, world: World
) -> None:
    """OUT-02: the model reads why."""
    mail = ((Step("c1", "mail.send", {"to": "bob"}),),)
    program = Program(framework, place, tools, Policy(non_reversible="deny"))
    with closing(program.au):
        heard = await program.run_turn(mail)
        assert heard == {"c1": "mail.send cannot be undone"}
        assert [call.outcome for call in program.au.calls("t-1")] == ["denied"]
    assert world.calls == []


async def test_a_held_call_runs_when_the_run_has_ended(
    program: Program, tools: ToolRegistry
) -> None:
    """AN-19: the model reads that, and it is no error."""
    sent: list[str] = []
    tools.tool("mail.later", hold=True)(lambda to: sent.append(to))
    async with program.turn():
        heard = await program.run(((Step("c1", "mail.later", {"to": "bob"}),),))
        assert sent == []
    assert heard["c1"].startswith("Held: mail.later has not run yet.")
    assert sent == ["bob"]


async def test_a_tool_that_raises_rolls_the_run_back(
    program: Program, world: World
) -> None:
    """TX-07, TX-10, OUT-06: the tool's own error comes out, with the report."""
    before = world.text
    with pytest.raises(BoomError) as caught:
        await program.run_turn(((CREATE,), (CHARGE,), (BOOM,)))
    assert world.inverses == ["undo:card", "undo:draft"]
    assert world.state["drafts"] == {}
    assert world.state["refunds"] == ["ch_1"]
    assert world.text != before, "a charge and its refund stay"
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert report.counts["reversed"] == report.counts["compensated"] == 1
    assert program.au.turns()[0].status == "rolled_back"


async def test_files_that_tools_wrote_go_back_with_the_run(
    framework: str, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Effects first, then files, in one report."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    is_sync = framework == SYNC
    made = Recorded.make(repo, tmp_path / "world", "sync" if is_sync else "async")
    write = Step("c2", "file.write", {"path": str(repo.root / "notes"), "text": "x\n"})
    program = Program(framework, repo.root, made.front.tools)
    with closing(program.au), pytest.raises(BoomError) as caught:
        await program.run_turn(((CREATE,), (write,), (BOOM,)))
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert [(item.domain, item.state) for item in report.items] == [
        ("effects", "no_effect"),
        ("effects", "reversed"),
        ("files", "reversed"),
    ]
    assert made.text("notes") is None
    assert made.front.world.state["drafts"] == {}


async def test_an_error_outside_the_tools_rolls_the_run_back(
    program: Program, world: World
) -> None:
    """OUT-07."""
    before = world.text
    with pytest.raises(RuntimeError, match="out of stock"):
        async with program.turn():
            await program.run(((CREATE,),))
            raise RuntimeError("out of stock")
    assert world.text == before


async def test_a_cancelled_turn_starts_no_other_call(
    program: Program, tools: ToolRegistry, world: World
) -> None:
    """CAN-02, CAN-06."""
    before = world.text
    tools.tool("turn.cancel")(lambda: stopping[0].cancel())
    stopping: list[Turn | AsyncTurn] = []
    stop = Step("c4", "turn.cancel", {})
    with pytest.raises(TurnCancelled):
        async with program.turn() as turn:
            stopping.append(turn)
            await program.run(((CREATE,), (stop,), (CHARGE,)))
    assert world.names == ["draft.create", "undo:draft"]
    assert world.text == before


@awaited
async def test_a_cancelled_task_rolls_back_and_stays_cancelled(
    program: Program, tools: ToolRegistry, world: World
) -> None:
    """CAN-04, CAN-05, CAN-12: the call at work is interrupted, and in doubt."""
    before = world.text
    begun = asyncio.Event()

    @tools.tool("slow.wait", reversibility=Reversibility.READ_ONLY)
    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def agent() -> None:
        await program.run_turn(((CREATE,), (Step("c2", "slow.wait", {}),)))

    task = asyncio.create_task(agent())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.undo_report.status == "reversed"  # type: ignore[attr-defined]
    assert [call.outcome for call in program.au.calls("t-1")] == ["success", None]
    assert world.text == before


@awaited
async def test_an_undo_goes_by_the_start_of_calls_that_overlap(
    program: Program, tools: ToolRegistry
) -> None:
    """AN-08: the first to start ends last, and is taken back last all the same."""
    undone: list[str] = []
    other_is_done = asyncio.Event()

    @tools.tool("lane.slow", reversibility=Reversibility.REVERSIBLE, inverse=_lane)
    async def slow(lane: str) -> str:
        await other_is_done.wait()
        return lane

    @tools.tool("lane.fast", reversibility=Reversibility.REVERSIBLE, inverse=_lane)
    async def fast(lane: str) -> str:
        other_is_done.set()
        return lane

    @tools.handler("lane.back", idempotent=True)
    def back(lane: str) -> None:
        undone.append(lane)

    both = (
        Step("c1", "lane.slow", {"lane": "slow"}),
        Step("c2", "lane.fast", {"lane": "fast"}),
    )
    await program.run_turn((both,))
    report = await program.undo("t-1")
    assert report.ok
    assert undone == ["fast", "slow"]


@awaited
async def test_a_call_that_overlaps_a_failure_ends_before_the_rollback(
    program: Program, tools: ToolRegistry
) -> None:
    """TX-07: some frameworks cancel it, others leave it at work; nothing of it may stay."""
    done: list[str] = []
    undone: list[str] = []
    failing, ended = asyncio.Event(), asyncio.Event()

    @tools.tool("lane.slow", reversibility=Reversibility.REVERSIBLE, inverse=_lane)
    async def slow(lane: str) -> str:
        try:
            await failing.wait()
            for _ in range(100):  # let the failure go its way
                await asyncio.sleep(0)
            done.append(lane)
        finally:
            ended.set()
        return lane

    @tools.tool("lane.fail", reversibility=Reversibility.READ_ONLY)
    async def fail() -> None:
        failing.set()
        raise BoomError("boom")

    @tools.handler("lane.back", idempotent=True)
    def back(lane: str) -> None:
        undone.append(lane)

    both = (Step("c1", "lane.slow", {"lane": "slow"}), Step("c2", "lane.fail", {}))
    with pytest.raises(BoomError):
        await program.run_turn((both,))
    await ended.wait()
    assert undone == done
    outcome = program.au.calls("t-1")[0].outcome
    assert outcome == ("success" if done else None), "cancelled, it is in doubt"


def test_a_run_opens_no_connection_and_leaves_no_thread(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some frameworks send traces to their makers unless they are told otherwise."""
    before = set(threading.enumerate())

    def connect(self: socket.socket, address: object) -> None:
        raise AssertionError(f"a connection to {address}")

    async def agent() -> None:
        await program.run_turn(((CREATE,),))

    monkeypatch.setattr(socket.socket, "connect", connect)
    asyncio.run(agent())
    program.au.close()
    until(lambda: set(threading.enumerate()) <= before)


async def test_a_second_turn_at_once_is_refused(program: Program, world: World) -> None:
    """AN-13: the one at work goes on."""
    async with program.turn("one"):
        with pytest.raises(SessionBusy):
            async with program.turn("two"):
                raise AssertionError("the block must not run")
        await program.run(((CREATE,),))
    assert [(turn.label, turn.status) for turn in program.au.turns()] == [
        ("one", "committed")
    ]
    assert world.names == ["draft.create"]


@pytest.mark.parametrize(
    "framework", sorted({*MODULES, SYNC} - {"claude_agent_sdk"}), indirect=True
)
async def test_a_run_outside_a_turn_does_nothing(
    program: Program, world: World
) -> None:
    with pytest.raises(Exception, match="no turn is running"):
        await program.run(((CREATE,),))
    assert world.calls == []


def _lane(arguments: Mapping[str, object], captured: object, result: object) -> Inverse:
    return Inverse.tool("lane.back", lane=result)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("toy.count", {}),
        ("toy.count", {"amount": "many"}),
        ("toy.count", {"amount": "many", "why": 1}),
        ("toy.unchecked", {}),
        ("toy.unchecked", {"amount": "many", "why": 1}),
        ("toy.listed", {}),
        ("toy.listed", {"amount": 1, "why": "x"}),
        ("toy.loose", {}),
        ("toy.loose", {"amount": 1, "why": "x"}),
    ],
)
async def test_arguments_that_do_not_fit_are_for_the_model(
    program: Program,
    tools: ToolRegistry,
    world: World,
    tool: str,
    arguments: dict[str, object],
) -> None:
    """OUT-01: nothing runs, the model reads why, and the turn goes on."""
    counted: list[int] = []

    def count(amount: int) -> None:
        counted.append(amount)

    listed: dict[str, Json] = {"type": "object", "properties": {"amount": {}}}
    tools.add("toy.count", count)
    # LangChain checks no arguments against a schema that is JSON.
    tools.add("toy.unchecked", count, schema={"type": "object"})
    tools.add("toy.listed", count, schema=listed)
    tools.add("toy.loose", decorated(count), schema=listed)
    heard = await program.run_turn(((CREATE,), (Step("c2", tool, arguments),)))
    assert counted == []
    assert "c2" in heard
    assert world.state["drafts"] == {"9": "A"}
    assert program.au.turns()[0].status == "committed"
    assert [call.outcome for call in program.au.calls("t-1")][1:] in ([], ["failed"])
