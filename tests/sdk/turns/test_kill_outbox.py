"""AN-19 under kill -9: before every command of a turn that holds calls, and of an undo of one."""

import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from gitshadow.sdk.integrations.hooks import HookedTurns
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.turns.fused import killed_at
from tests.sdk.turns.test_kill import copies, opened
from tests.sdk.turns.world import World, registry

FREE = Policy(non_reversible="allow")
FAR_NS = 100 * 365 * 24 * 3600 * 1_000_000_000


def send(world: World, name: str, to: str) -> None:
    """Send, and write it down."""
    world.called(name, None, to=to)
    state = world.state
    state["sent"].append(to)
    world.put(state)


def declared(tools: ToolRegistry, world: World, *, delay_s: float = 0) -> None:
    """Declare a tool that does its work once per key, and one that is not safe to repeat."""

    def keyed(to: str, *, idempotency_key: str) -> None:
        if world.once(idempotency_key):
            send(world, "mail.keyed", to)

    tools.add("mail.keyed", keyed, hold=True, delay_s=delay_s)
    plain = partial(send, world, "mail.plain")
    tools.add("mail.plain", plain, hold=True, delay_s=delay_s)


def again(root: Path, *, now_ns: int | None = None) -> AgentUndo:
    """Open the session in the next process, with the tools that are held."""
    world = World(root / "world")
    tools = registry(world)
    declared(tools, world)
    host = Host() if now_ns is None else Host(clock=lambda: now_ns)
    return AgentUndo.open(str(root), session="s", tools=tools, policy=FREE, host=host)


def holding(root: Path, delay_s: float = 0) -> Callable[[AgentUndo], None]:
    """Return an action: a turn that holds two calls beside one that runs at once."""

    def act(au: AgentUndo) -> None:
        world = World(Path(au.runtime.setting.root) / "world")
        declared(au.runtime.setting.registry, world, delay_s=delay_s)
        with au.turn("go") as turn:
            turn.call("mail.keyed", to="keyed")
            turn.call("draft.create", title="a")
            turn.call("mail.plain", to="plain")

    return act


@pytest.fixture
def world(place: Path) -> World:
    """Return a world beside the journal, so that both are copied together."""
    return World.make(place / "world")


@pytest.mark.timeout(180)
def test_a_kill_between_commit_and_send_sends_once(place: Path, world: World) -> None:
    """AN-19: what committed is sent by the next process, what did not never is."""
    places = copies(place, holding(place))
    committed = doubts = resent = 0
    for copy in places:
        there = World(copy / "world")
        with closing(again(copy)) as au:
            before = there.state["sent"]
            assert au.recover() == []
            first = au.release()
            assert au.release() == []
            status = au.turns()[0].status if au.turns() else None
            sent = there.state["sent"]
            doubtful = [held.call for held in au.held()]
            assert sent.count("keyed") == (status == "committed")
            assert sent.count("plain") <= (status == "committed")
            if status == "committed":
                assert ("plain" in sent) or doubtful == ["t-1.3"]
                assert {one.state for one in first} <= {"sent", "in_doubt"}
                committed += 1
                doubts += bool(doubtful)
                resent += "keyed" not in before
            else:
                assert au.held() == []
            if status is not None:
                report = au.undo("t-1")
                assert status != "committed" or there.state["drafts"] == {}
                held = [item for item in report.items if item.tool != "draft.create"]
                for item in held:
                    assert (item.domain == "outbox") == (status != "committed")
            assert au.verify() is None
    assert committed > 8
    assert doubts >= 2
    assert resent >= 3


@pytest.mark.timeout(180)
def test_a_kill_in_an_undo_of_what_is_held_sends_nothing(
    place: Path, world: World
) -> None:
    """AN-19: once it was taken back it is never sent, whoever finishes the undo."""
    with closing(opened(place)) as au:
        holding(place, delay_s=60)(au)
    places = copies(place, lambda au: au.undo("t-1"))
    assert len(places) > 8
    for copy in places:
        there = World(copy / "world")
        with closing(again(copy)) as au:
            reports = au.recover() or [au.undo("t-1")]
            assert reports[-1].status in ("reversed", "nothing_to_do")
            states = {item.call_id: item.state for item in reports[-1].items}
            assert set(states.values()) == {"reversed"}
            assert len(states) == 3
            assert au.held() == []
        with closing(again(copy, now_ns=FAR_NS)) as later:
            assert later.release() == []
        assert there.state["sent"] == []


def failing(au: AgentUndo) -> None:
    """Hold two calls in a turn that is rolled back."""
    world = World(Path(au.runtime.setting.root) / "world")
    declared(au.runtime.setting.registry, world)
    with au.turn("go") as turn:
        turn.call("mail.keyed", to="keyed")
        turn.call("mail.plain", to="plain")
        turn.cancel()


@pytest.mark.timeout(180)
def test_a_kill_in_a_rollback_never_makes_anything_due(
    place: Path, world: World
) -> None:
    """AN-19: a turn that failed sends nothing, whoever finishes its end."""
    for copy in copies(place, failing):
        with closing(again(copy)) as au:
            assert au.release() == []
            au.recover()
            assert au.release() == []
            assert au.held() == []
        assert World(copy / "world").state["sent"] == []


def unsent(place: Path) -> Path:
    """Return a place in which a turn has committed and nothing was sent."""
    for copy in copies(place, holding(place)):
        with closing(opened(copy)) as au:
            committed = [row.status for row in au.turns()] == ["committed"]
        if committed and World(copy / "world").state["sent"] == []:
            return copy
    raise AssertionError("no kill fell between commit and send")


@pytest.mark.timeout(180)
def test_two_processes_send_once(place: Path, world: World) -> None:
    """AN-19: at the same time; the session may be busy for one, then the other sends."""
    copy = unsent(place)
    pids = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            try:
                again(copy).release()
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    with closing(again(copy)) as au:
        au.release()
        assert au.held() == []
    assert sorted(World(copy / "world").state["sent"]) == ["keyed", "plain"]


@pytest.mark.timeout(180)
def test_a_kill_while_sending_is_settled_by_a_probe(place: Path, world: World) -> None:
    """AN-01, AN-19: a tool that can tell what happened is never in doubt."""
    for copy in copies(place, holding(place)):
        there = World(copy / "world")
        with closing(again(copy)) as au:
            tools = au.runtime.setting.registry
            tools.remove("mail.plain")
            tools.add(
                "mail.plain",
                partial(send, there, "mail.plain"),
                hold=True,
                probe=lambda a, there=there: a["to"] in there.state["sent"],
            )
            au.recover()
            au.release()
            committed = bool(au.turns()) and au.turns()[0].status == "committed"
            assert there.state["sent"].count("plain") == committed
            assert au.held() == []


def test_hooks_hold_a_call_until_the_stop(place: Path, world: World) -> None:
    """AN-19, TX-15: the agent is told not to run it, and the stop's own process sends it."""
    with closing(again(place)) as au:
        HookedTurns(au).begin("go")
    with closing(again(place)) as au:
        outcome = HookedTurns(au).before("mail.plain", {"to": "x"}, call_id="c1")
        assert outcome is not None
        assert outcome.kind == "held"
    with closing(again(place)) as au:
        HookedTurns(au).end()
        assert au.held() == []
    assert world.state["sent"] == ["x"]


def test_a_kill_after_the_turn_is_none(place: Path, world: World) -> None:
    """A test that cannot fail is a defect: without a kill both are sent at once."""
    assert not killed_at(partial(opened, place), holding(place), 10_000)
    assert sorted(world.state["sent"]) == ["keyed", "plain"]
