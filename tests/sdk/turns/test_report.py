"""REP rows: the report tells the truth, to people and to programs."""

import inspect
import json
from typing import Any

import pytest

from gitshadow.errors import JournalBusyError, RefusedError
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.report import PartialUndo, UndoReport, from_json
from gitshadow.store.journal.saga_rows import CallName
from tests.sdk.turns.front import Front, Session, in_journal, journal_of
from tests.sdk.turns.world import BoomError


async def twelve_calls(session: Session) -> str:
    """Run the turn of twelve: three non-reversible, two compensable, seven reversible."""
    async with session.turn() as turn:
        for number in range(4):
            await turn.call("draft.create", f"d{number}", title="x")
        await turn.call("mail.send", "m1", to="a")
        await turn.call("mail.send", "m2", to="b")
        await turn.call("slack.post", "p1", text="x")
        await turn.call("cal.invite", "i1", who="ann")
        await turn.call("card.charge", "ch1", amount=5)
        for number in range(3):
            await turn.call("crm.update", f"u{number}", id=7, field="name", value="A")
    return turn.inner.id


async def test_twelve_calls(front: Front) -> None:
    """REP-01: counts 7 / 2 / 3, each of the twelve by its id."""
    session = front.session()
    report = await session.undo(await twelve_calls(session))
    assert report.counts == {
        "reversed": 7,
        "compensated": 2,
        "not_reversed": 3,
        "no_effect": 0,
    }
    assert report.status == "partial"
    assert [item.call_id for item in report.items] == [
        *("u2", "u1", "u0", "ch1", "i1", "p1", "m2", "m1", "d3", "d2", "d1", "d0")
    ]


async def test_a_partial_undo_is_not_called_undone(front: Front) -> None:
    """REP-02, REP-05."""
    session = front.session()
    report = await session.undo(await twelve_calls(session))
    text = report.render()
    headline = text.splitlines()[0]
    assert headline == "t-1: 7 reversed, 2 compensated, 3 not reversed"
    assert "undone" not in text
    assert "success" not in text
    assert (
        "compensated  cal.invite i1: remains: the guest was sent a cancellation notice"
        in text
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code"),
    [
        ("draft.create", {"title": "x"}, "reversed", 0),
        ("card.charge", {"amount": 5}, "compensated", 3),
        ("mail.send", {"to": "x"}, "partial", 4),
        ("notes.read", {"note": "n"}, "nothing_to_do", 0),
    ],
)
async def test_the_exit_code_tells_the_truth(
    front: Front, tool: str, arguments: dict[str, object], status: str, code: int
) -> None:
    """REP-03."""
    session = await front.after(tool, **arguments)
    report = await session.undo("t-1")
    assert (report.status, report.exit_code) == (status, code)


async def test_human_and_json_forms_agree(front: Front) -> None:
    """REP-06: the same items, states and reasons; the stored report is the same value."""
    session = front.session()
    report = await session.undo(await twelve_calls(session))
    row = json.loads(json.dumps(report.to_json()))
    lines = report.render().splitlines()[1:]
    items = row["items"]
    assert isinstance(items, list)
    assert len(lines) == len(items) == 12
    for line, item in zip(lines, items, strict=True):
        assert item["call_id"] in line
        assert item["state"].replace("_", " ") in line
        assert (item["reason"] or "").replace("_", " ") in line
    assert from_json(row) == report


async def test_a_report_can_raise(front: Front) -> None:
    """REP-07."""
    session = front.session()
    turn = await session.called("mail.send", to="x")
    report = await turn.undo()
    assert not report.ok
    with pytest.raises(PartialUndo) as caught:
        report.raise_for_partial()
    assert caught.value.report is report


async def test_a_rollback_reports_too(front: Front) -> None:
    """REP-08."""
    with pytest.raises(BoomError) as caught:
        async with front.session().turn() as turn:
            await turn.call("mail.send", "m", to="x")
            await turn.call("toy.boom")
    report = getattr(caught.value, "undo_report", None)
    assert isinstance(report, UndoReport)
    assert report is turn.inner.report
    assert [(one.call_id, one.reason) for one in report.items] == [
        ("m", "non_reversible")
    ]
    assert turn.inner.status == "partially_rolled_back"


async def test_what_a_raising_tool_did_is_in_doubt(front: Front) -> None:
    def half() -> None:
        raise BoomError("half way")

    front.tools.tool("toy.half")(half)
    with pytest.raises(BoomError):
        async with front.session().turn() as turn:
            await turn.call("toy.half", "h")
    report = turn.report
    assert report.status == "partial"
    assert [(one.call_id, one.reason, one.error) for one in report.items] == [
        ("h", "in_doubt", "BoomError: half way")
    ]


async def test_what_a_terminal_could_obey_is_escaped(front: Front) -> None:
    """Ids come from models: a newline would fake a line of the report."""
    session = await front.after(
        "draft.create", "c\n  reversed mail.send\x1b[2K", title="x"
    )
    text = (await session.undo("t-1")).render()
    assert text.splitlines()[1:] == [
        r"  reversed     draft.create c\n  reversed mail.send\x1b[2K"
    ]


async def test_a_plan_does_not_fit_after_one_of_its_calls_was_undone(
    front: Front,
) -> None:
    """Its token stands for what would be done, and that is less now."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", "a", title="x")
        await turn.call("draft.create", "b", title="y")
    plan = await session.plan("t-1")
    await session.undo("b")
    with pytest.raises(RefusedError, match="the plan has changed"):
        await session.undo("t-1", token=plan.token)
    assert (await session.undo("t-1")).ok


async def test_a_tool_may_have_arguments_named_as_those_of_call(front: Front) -> None:
    got: list[object] = []
    front.tools.tool("x.note", idempotent=True)(
        lambda tool, arguments: got.extend((tool, arguments))
    )
    session = front.session()
    async with session.turn() as turn:
        inner = turn.inner.call("x.note", tool="T", arguments=[1])
        if inspect.isawaitable(inner):
            await inner
    assert got == ["T", [1]]


async def test_a_held_tool_that_is_denied_says_what_it_needs(front: Front) -> None:
    front.tools.tool("mail.later", hold=True)(lambda: None)
    async with front.session(policy=Policy()).turn() as turn:
        outcome = await turn.call("mail.later")
    assert outcome.kind == "denied"
    assert "holding it needs Policy(non_reversible='allow')" in outcome.text


@in_journal
@pytest.mark.parametrize("locked_for", [1, 2])
async def test_what_was_undone_is_reported_while_the_journal_is_locked(
    front: Front, monkeypatch: pytest.MonkeyPatch, locked_for: int
) -> None:
    """REP-04: the end of the first inverse is written when the journal can be written again."""
    session = front.session()
    async with session.turn() as turn:
        for number in range(4):
            await turn.call("draft.create", f"c{number}", title=str(number))
    store, claims = journal_of(session.au), list[str]()
    claim = store.claim

    def refused(call: CallName, *args: Any, **more: Any) -> bool:
        claims.append(call.id)
        if 1 < len(claims) <= 1 + locked_for:
            raise JournalBusyError("could not write: the journal is locked")
        return claim(call, *args, **more)

    monkeypatch.setattr(store, "claim", refused)
    report = await session.undo("t-1")
    assert claims == ["c3", "c2", "c1", "c0"]
    failed = ["c2", "c1"][:locked_for]
    told = {item.call_id: item.reason for item in report.items}
    assert told == {one: "failed" if one in failed else None for one in claims}
    assert len(front.world.state["drafts"]) == locked_for
    undone = {call.id: call.undo for call in session.au.calls("t-1")}
    assert undone == {one: "planned" if one in failed else "done" for one in claims}
    assert (await session.resume(str(report.op_id))).ok
    assert front.world.state["drafts"] == {}
