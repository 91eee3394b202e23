"""AN-29: one call taken back alone, with a warning of what may be built on it."""

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from tests.sdk.turns.front import Front
from tests.sdk.turns.world import BoomError, World


async def test_one_call_is_taken_back_alone(front: Front, world: World) -> None:
    """AN-29: the others are no items, and what came later and stands is named."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("draft.create", title="b")
        await turn.call("notes.read", note="n")
        await turn.call("card.charge", "toolu_1", amount=5)
        await turn.set_state(n=1)
    plan = await session.plan("t-1.2")
    assert (world.inverses, plan.status) == ([], "planned")
    report = await session.undo("t-1.2", token=plan.token)
    assert [(item.call_id, item.state) for item in report.items] == [
        ("t-1.2", "reversed")
    ]
    assert (report.target, report.status, report.exit_code) == ("t-1.2", "reversed", 0)
    assert report.notes == (
        "only this call was undone; later calls were kept and may depend on it:"
        " toolu_1 (card.charge)",
    )
    assert world.state["drafts"] == {"9": "a"}
    assert (session.au.state, world.state["refunds"]) == ({"n": 1}, [])


async def test_the_last_call_needs_no_warning(front: Front, world: World) -> None:
    """AN-29: what was taken back before it is no matter."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("draft.create", title="b")
    assert (await session.undo("t-1.2")).notes == ()
    assert (await session.undo("t-1.1")).notes == ()
    assert world.state["drafts"] == {}
    assert (await session.undo("t-1.1")).already_undone


async def test_a_call_waits_for_what_its_inverse_depends_on(front: Front) -> None:
    """AN-29, AN-07: it is not taken back past a dependency; together both are."""
    undone: list[str] = []
    front.tools.handler("toy.undo", idempotent=True)(lambda name: undone.append(name))
    front.tools.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse(
            "toy.undo", {"name": a["name"]}, depends_on=tuple(a["needs"])
        ),
        retry=Retry(attempts=1),
    )(lambda name, needs: None)
    session = front.session()
    async with session.turn() as turn:
        await turn.call("toy.do", "base", name="base", needs=["on top"])
        await turn.call("toy.do", "on top", name="on top", needs=[])
        await turn.call("toy.do", "else", name="else", needs=[])
    report = await session.undo("base")
    assert [(item.call_id, item.reason) for item in report.items] == [
        ("on top", "out_of_scope"),
        ("base", "failed"),
    ]
    assert undone == []
    await session.undo("on top")
    assert (await session.undo("base")).status == "reversed"
    assert undone == ["on top", "base"]


async def test_dependencies_that_nothing_can_honour_are_named(front: Front) -> None:
    """By the plan and by the report; an id may be of a call that was never made."""
    front.tools.handler("toy.undo", idempotent=True)(lambda name: None)
    front.tools.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse(
            "toy.undo", {"name": a["name"]}, depends_on=tuple(a["needs"])
        ),
    )(lambda name, needs: None)
    session = front.session()
    async with session.turn() as turn:
        await turn.call("toy.do", "first", name="a", needs=["frist", "second"])
        await turn.call("toy.do", "second", name="b", needs=["first"])
        await turn.call("toy.do", "third", name="c", needs=["third"])
    plan = await session.plan("t-1")
    report = await session.undo("t-1", token=plan.token)
    assert report.status == "reversed"
    assert report.notes == plan.notes
    assert report.notes == (
        "first depends on frist, which is no call of this undo; did you mean first?",
        "first depends on second, which depends on it in turn: first does not wait",
        "third depends on third, which depends on it in turn: third does not wait",
    )


async def test_it_can_be_gone_on_with(front: Front, world: World) -> None:
    """AN-29, ENG-06: resuming touches that call alone."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("card.charge", "charge:1", amount=5)
    world.trouble["undo:card"] = [BoomError("down")] * 3
    report = await session.undo("charge:1")
    assert [item.reason for item in report.items] == ["failed"]
    assert report.op_id is not None
    assert (await session.resume(report.op_id)).status == "compensated"
    assert (len(world.state["drafts"]), world.state["refunds"]) == (1, ["ch_1"])


async def test_a_call_that_is_nobodys_or_of_two_turns_is_refused(front: Front) -> None:
    """AN-29: a usage error, and nothing is written."""
    session = front.session()
    for _ in range(2):
        await session.called("draft.create", "same", title="a")
    rows = session.au.log()
    with pytest.raises(UsageError, match="cannot find turn nope"):
        await session.undo("nope")
    with pytest.raises(UsageError, match="t-1, t-2 have one"):
        await session.undo("same")
    assert session.au.log() == rows
