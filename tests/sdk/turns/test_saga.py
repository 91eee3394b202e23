"""CLS and INV rows: what is declared, and what is written down to take it back."""

import json
from collections.abc import Mapping

import pytest

from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.json_values import parse
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Inverse, Reversibility
from gitshadow.store.journal.saga_rows import SagaCall
from tests.sdk.turns.front import FREE, Front, Session, in_journal, only
from tests.sdk.turns.world import World, registry, undone_by


async def done(
    session: Session, *steps: tuple[str, Mapping[str, object]]
) -> UndoReport:
    """Run one turn of these calls and undo it."""
    async with session.turn() as turn:
        for tool, arguments in steps:
            await turn.call(tool, **arguments)
    return await session.undo(turn.inner.id)


def inverse_of(call: SagaCall) -> Mapping[str, object]:
    """Return the handler and arguments that the journal holds for a call."""
    row = parse(call.inverse)
    return {name: row[name] for name in ("handler", "args")}


async def test_classes_are_declared(front: Front) -> None:
    """CLS-01."""
    assert {tool.name: tool.reversibility for tool in front.tools} == {
        "cal.invite": "compensable",
        "card.charge": "compensable",
        "crm.update": "reversible",
        "draft.create": "reversible",
        "mail.send": "non_reversible",
        "notes.read": "read_only",
        "slack.post": None,
        "toy.boom": "read_only",
        "toy.soft_fail": "read_only",
        "toy.stale": "read_only",
    }


async def test_what_a_tool_claims_is_not_asked(front: Front) -> None:
    """CLS-02: `mail.send` answers "reversible: true"; CLS-08: nothing is pretended."""
    report = await done(front.session(), ("mail.send", {"to": "x"}))
    item = only(report)
    assert (item.state, item.reason) == ("not_reversed", "non_reversible")
    assert item.follow_up == "write to the reader and say what was wrong"
    assert front.world.names == ["mail.send"]


async def test_an_undeclared_tool_is_not_reversible(front: Front) -> None:
    """CLS-03."""
    item = only(await done(front.session(), ("slack.post", {"text": "x"})))
    assert (item.state, item.reason) == ("not_reversed", "undeclared")
    assert front.world.names == ["slack.post"]


@pytest.mark.parametrize(
    "reversibility", [Reversibility.REVERSIBLE, Reversibility.COMPENSABLE]
)
def test_reversible_without_an_inverse_is_refused(reversibility: Reversibility) -> None:
    """CLS-04."""
    with pytest.raises(RegistrationError, match=r"cannot register a\.b"):
        ToolRegistry().tool("a.b", reversibility=reversibility)(lambda: None)


async def test_the_class_at_the_time_counts(front: Front) -> None:
    """CLS-05: and the report says that it is another now."""
    session = await front.after("draft.create", title="x")
    front.tools.remove("draft.create")
    front.tools.tool("draft.create", reversibility=Reversibility.NON_REVERSIBLE)(len)
    report = await session.undo("t-1")
    assert only(report).state == "reversed"
    assert report.notes == (
        "draft.create was reversible when t-1.1 ran and is now non_reversible:"
        " the former applies",
    )


async def test_reversible_is_fully_erased(front: Front, world: World) -> None:
    """CLS-06, INV-05: the inverse takes the id that the call returned."""
    before = world.text
    report = await done(front.session(), ("draft.create", {"title": "x"}))
    assert world.text == before
    assert world.args("undo:draft") == [{"id": 9}]
    assert report.status == "reversed"


async def test_compensable_leaves_residue(front: Front, world: World) -> None:
    """CLS-07: charge and refund both stand."""
    report = await done(front.session(), ("card.charge", {"amount": 5}))
    assert (world.state["charges"], world.state["refunds"]) == (["ch_1"], ["ch_1"])
    item = only(report)
    assert item.state == "compensated"
    assert (
        item.residue
        == "the effect of card.charge stays on record along with card.refund"
    )


async def test_a_read_has_no_effect(front: Front) -> None:
    """CLS-09."""
    report = await done(front.session(), ("notes.read", {"note": "n"}))
    assert only(report).state == "no_effect"
    assert report.status == "nothing_to_do"
    assert (report.counts["reversed"], report.counts["not_reversed"]) == (0, 0)


@in_journal
async def test_forward_and_inverse_are_there_while_the_turn_is_open(
    front: Front,
) -> None:
    """INV-01: another connection sees both after one call."""
    async with front.session().turn() as turn:
        await turn.call("draft.create", title="x")
        with AgentUndo.open(
            str(front.root), session="s", tools=ToolRegistry()
        ) as other:
            (call,) = other.calls("t-1")
            kinds = [row.kind for row in other.log("t-1")]
    assert (call.outcome, call.undo) == ("success", "planned")
    assert inverse_of(call) == {"handler": "draft.delete", "args": {"id": 9}}
    assert kinds == ["turn_begun", "intent", "outcome"]


async def test_an_inverse_is_data(front: Front) -> None:
    """INV-02: handler name, arguments and key, as JSON."""
    session = await front.after("crm.update", id=7, field="name", value="A")
    (call,) = session.au.calls("t-1")
    assert inverse_of(call) == {
        "handler": "crm.restore",
        "args": {"id": 7, "field": "name", "value": "Y"},
    }
    assert json.loads(call.inverse or "")
    assert len(call.key) == 32


async def test_the_prior_value_comes_back(front: Front, world: World) -> None:
    """INV-03: Y→A by the agent, →Z by a human, no probe: the inverse writes Y."""
    session = await front.after("crm.update", id=7, field="name", value="A")
    world.crm_set(7, "name", "Z")
    await session.undo("t-1")
    assert world.args("undo:crm") == [{"field": "name", "value": "Y"}]
    assert world.state["crm"]["7"]["name"] == "Y"


async def test_nothing_is_captured_at_undo_time(front: Front, world: World) -> None:
    """INV-04, INV-06: captured once, before the call."""
    arguments = {"id": 7, "field": "name", "value": "A"}
    await done(front.session(), ("crm.update", arguments))
    assert world.captures == ["crm.update"]
    assert world.state["crm"]["7"]["name"] == "Y"


def unreadable(arguments: Mapping[str, object]) -> object:
    """Fail as a capture."""
    raise OSError("the CRM is down")


async def test_a_failed_capture_refuses_the_call(front: Front) -> None:
    """INV-07."""
    ran: list[int] = []
    front.tools.tool("toy.write", **undone_by("toy.write"), capture=unreadable)(
        lambda: ran.append(1)
    )
    async with front.session().turn() as turn:
        outcome = await turn.call("toy.write")
    assert outcome.text == "cannot prepare to undo toy.write: OSError: the CRM is down"
    assert (outcome.kind, ran, turn.inner.entries()) == ("failed", [], [])


async def test_a_failed_capture_is_recorded_where_the_tool_says_so(
    front: Front,
) -> None:
    """INV-07: never as reversible."""
    front.tools.tool(
        "toy.write",
        **undone_by("toy.write"),
        capture=unreadable,
        on_capture_failure="record",
    )(lambda: None)
    item = only(await done(front.session(), ("toy.write", {})))
    assert (item.state, item.reason) == ("not_reversed", "no_inverse")
    assert item.error == "OSError: the CRM is down"


@pytest.mark.parametrize(
    ("built", "error"),
    [
        (lambda a, c, r: Inverse.tool("x.y", value=object()), "the inverse was not"),
        (
            lambda a, c, r: Inverse.tool("x.y", value=float("nan")),
            "the inverse was not",
        ),
        (lambda a, c, r: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda a, c, r: "x.y", "no inverse"),
    ],
    ids=["no JSON", "not a number", "raises", "no inverse"],
)
async def test_an_inverse_that_cannot_be_stored_is_named(
    front: Front, built: object, error: str
) -> None:
    """Bad input: the effect stands, and the report says why."""
    assert callable(built)
    front.tools.tool(
        "toy.write", reversibility=Reversibility.REVERSIBLE, inverse=built
    )(lambda: None)
    item = only(await done(front.session(), ("toy.write", {})))
    assert (item.state, item.reason) == ("not_reversed", "no_inverse")
    assert (item.error or "").startswith(error)


async def test_a_field_written_twice_goes_back_in_steps(
    front: Front, world: World
) -> None:
    """INV-08: also where the tool looks for drift."""
    front.tools = registry(world, fingerprint=True)
    steps = [
        ("crm.update", {"id": 7, "field": "name", "value": value}) for value in "AB"
    ]
    session = front.session()
    async with session.turn() as turn:
        for tool, arguments in steps:
            await turn.call(tool, **arguments)
    planned = await session.plan("t-1")
    assert [item.state for item in planned.items] == ["reversed", "reversed"]
    report = await session.undo("t-1", token=planned.token)
    assert [args["value"] for args in world.args("undo:crm")] == ["A", "Y"]
    assert world.state["crm"]["7"]["name"] == "Y"
    assert report.status == "reversed"


async def test_each_call_keeps_its_own_prior_value(front: Front, world: World) -> None:
    """INV-09."""
    before = world.text
    await done(
        front.session(),
        ("crm.update", {"id": 7, "field": "name", "value": "A"}),
        ("crm.update", {"id": 8, "field": "name", "value": "B"}),
    )
    assert [args["value"] for args in world.args("undo:crm")] == ["Q", "Y"]
    assert world.text == before


async def test_drift_is_left_and_named(front: Front, world: World) -> None:
    """AN-03: Y→A by the agent, →Z by a human: Z stays unless overwriting is asked for."""
    front.tools = registry(world, fingerprint=True)
    session = front.session(policy=FREE)
    await session.called("crm.update", id=7, field="name", value="A")
    world.crm_set(7, "name", "Z")
    item = only(await session.undo("t-1"))
    assert (item.state, item.reason) == ("not_reversed", "drifted")
    assert item.detail == 'it left "A", but now there is "Z"'
    assert world.state["crm"]["7"]["name"] == "Z"
    item = only(await session.undo("t-1", on_drift="overwrite"))
    assert item.state == "reversed"
    assert world.state["crm"]["7"]["name"] == "Y"
