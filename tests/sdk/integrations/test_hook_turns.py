"""TX-15: a loop that runs elsewhere tells of itself by hooks, each in a process of its own."""

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.hooks import HookedTurns
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Outcome
from gitshadow.store.journal.saga_rows import SagaCall
from tests.sdk.turns.test_transaction import Spy
from tests.sdk.turns.world import Toys, World, registry

FREE = Policy(non_reversible="allow")
MINUTE_NS = 60_000_000_000


def opened(root: Path, *, session: str = "s", policy: Policy = FREE) -> AgentUndo:
    tools = registry(World(root / "world"))
    return AgentUndo.open(str(root), session=session, tools=tools, policy=policy)


def in_a_process(root: Path, hook: Callable[[HookedTurns], object]) -> None:
    """Take one hook in a process of its own."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with closing(opened(root)) as au:
                hook(HookedTurns(au))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def plain(call: SagaCall) -> SagaCall:
    """Return a call without what differs from run to run."""
    return replace(call, session="", started_ns=0, ended_ns=0, key="")


def test_hooks_of_several_processes_are_one_turn(place: Path, world: World) -> None:
    """TX-15: the same entries and inverses as in one process, opened before the first tool."""
    title, amount = {"title": "x"}, {"amount": 5}
    with closing(opened(place, session="whole")) as au, au.turn("go") as turn:
        turn.call("draft.create", title, call_id="c1")
        turn.call("toy.soft_fail", call_id="c2")
        turn.call("card.charge", amount, call_id="c3")
    toys = Toys(World.make(place / "world"))
    for hook in (
        lambda hooks: hooks.begin("go"),
        lambda hooks: hooks.before("draft.create", title, call_id="c1"),
        lambda hooks: hooks.after("c1", toys.draft_create("x", idempotency_key="k")),
        lambda hooks: hooks.before("toy.soft_fail", {}, call_id="c2"),
        lambda hooks: hooks.after("c2", Outcome.failed("no such customer")),
        lambda hooks: hooks.before("card.charge", amount, call_id="c3"),
        lambda hooks: hooks.after("c3", toys.card_charge(5, idempotency_key="k")),
        lambda hooks: hooks.end(),
    ):
        in_a_process(place, hook)
    with closing(opened(place)) as au, closing(opened(place, session="whole")) as one:
        assert [(row.label, row.status) for row in au.turns()] == [("go", "committed")]
        assert list(map(plain, au.calls("t-1"))) == list(map(plain, one.calls("t-1")))
        assert au.entries("t-1") == one.entries("t-1")
        assert [row.kind for row in au.log()][:2] == ["turn_begun", "intent"]
        report = au.undo("t-1")
        assert report.counts["reversed"] == report.counts["compensated"] == 1


def test_a_tool_before_any_prompt_opens_a_turn(place: Path, world: World) -> None:
    """TX-15."""
    with closing(opened(place)) as au:
        HookedTurns(au).before("notes.read", {"note": "n"}, call_id="c1")
        assert [row.status for row in au.turns()] == ["open"]
        assert [row.kind for row in au.log()] == ["turn_begun", "intent"]


def test_a_call_that_is_denied_is_told_and_recorded(place: Path, world: World) -> None:
    with closing(opened(place, policy=Policy(non_reversible="deny"))) as au:
        hooks = HookedTurns(au)
        outcome = hooks.before("mail.send", {"to": "x"}, call_id="c1")
        assert outcome == Outcome.denied("mail.send cannot be undone")
        assert au.calls("t-1")[0].outcome == "denied"
        with pytest.raises(UsageError):
            hooks.after("c1", "sent")


def test_a_tool_may_have_raised(place: Path, world: World) -> None:
    """OUT-06: nothing is undone by itself, and nobody knows what it did before."""
    with closing(opened(place)) as au:
        hooks = HookedTurns(au)
        hooks.before("card.charge", {"amount": 5}, call_id="c1")
        hooks.after("c1", TimeoutError("no answer"))
        hooks.end()
        assert au.calls("t-1")[0].error == "TimeoutError: no answer"
        report = au.undo("t-1")
    assert [(one.call_id, one.reason) for one in report.items] == [("c1", "in_doubt")]


def test_a_prompt_after_an_interruption_undoes_nothing(
    place: Path, world: World
) -> None:
    """No stop came; the turn is marked, its work stays, a person may undo it."""
    toys = Toys(world)
    with closing(opened(place)) as au:
        hooks = HookedTurns(au)
        hooks.begin("one")
        hooks.before("draft.create", {"title": "x"}, call_id="c1")
        hooks.after("c1", toys.draft_create("x", idempotency_key="k"))
        hooks.before("draft.create", {"title": "y"}, call_id="c2")
        assert hooks.begin("two") == "t-2"
        assert [row.status for row in au.turns()] == ["interrupted", "open"]
        assert world.state["drafts"] == {"9": "x"}
        hooks.end()
        report = au.undo("t-1")
    assert [item.reason for item in report.items] == ["in_doubt", None]
    assert world.state["drafts"] == {}


def test_a_silent_turn_is_believed_alive_for_its_lease(
    place: Path, world: World
) -> None:
    time_ns = [MINUTE_NS]
    host = Host(clock=lambda: time_ns[0])
    with closing(
        AgentUndo.open(str(place), session="s", tools=registry(world), host=host)
    ) as au:
        hooks = HookedTurns(au, lease_s=60)
        hooks.begin("go")
        time_ns[0] += MINUTE_NS // 2
        hooks.before("notes.read", {"note": "n"}, call_id="c1")
        time_ns[0] += MINUTE_NS - 1
        with pytest.raises(SessionBusy):
            au.undo("t-1")
        with pytest.raises(SessionBusy), au.turn("mine"):
            raise AssertionError("the block must not run")
        time_ns[0] += 1
        with au.turn("mine"):
            pass
        assert [row.status for row in au.turns()] == ["interrupted", "committed"]


def test_a_stop_without_a_turn_is_nothing(place: Path, world: World) -> None:
    with closing(opened(place)) as au:
        HookedTurns(au).end()
        assert au.turns() == []


def test_a_transaction_of_the_host_cannot_be_hooked(place: Path, world: World) -> None:
    tools = registry(world)
    host = Host(undo=Spy())
    with (
        closing(AgentUndo.open(str(place), session="s", tools=tools, host=host)) as au,
        pytest.raises(UsageError),
    ):
        HookedTurns(au)
