"""AN-01, AN-22: what is in doubt is asked about, by a probe or by a person, and never guessed."""

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.report import UndoItem
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Outcome, Reversibility
from tests.sdk.turns.front import Front, Session
from tests.sdk.turns.world import BoomError, World


class Lost(BaseException):
    """Ends a turn in the middle of a call, as a kill would, and leaves its process alive."""


async def failed(front: Front) -> Session:
    """Run and undo a turn whose one inverse fails."""
    session = await front.after("card.charge", amount=5)
    front.world.trouble["undo:card"] = [BoomError("down")] * 3
    await session.undo("t-1")
    return session


async def item_of(session: Session) -> UndoItem:
    """Undo the turn again, and return its one item."""
    (item,) = (await session.undo("t-1")).items
    return item


@pytest.mark.parametrize(
    ("outcome", "reason", "residue", "settled"),
    [
        ("reversed", None, None, True),
        ("compensated", None, "a voucher", True),
        ("not_reversed", "failed", None, False),
        ("no_effect", None, None, True),
    ],
)
async def test_a_person_settles_what_the_machine_could_not(
    front: Front, outcome: str, reason: str | None, residue: str | None, settled: bool
) -> None:
    """AN-22: both records are kept, the inverse is not tried again, nothing is left to look at."""
    session = await failed(front)
    tried = len(front.world.inverses)
    session.au.resolve("t-1", "t-1.1", outcome, note="a voucher")
    item = await item_of(session)
    assert (item.state, item.reason, item.residue) == (outcome, reason, residue)
    assert (item.detail, item.error) == (
        "settled by a person: a voucher",
        "BoomError: down",
    )
    assert len(front.world.inverses) == tried
    assert session.au.attention() == []
    (note,) = [row for row in session.au.log() if row.kind == "resolved"]
    assert '"was":"failed"' in note.body
    barred = await duplicate(session)
    assert barred is not settled


async def duplicate(session: Session) -> bool:
    """Tell whether the same charge is barred after a rewind, since it stands."""
    await session.rewind("t-1")
    async with session.turn() as turn:
        return (await turn.call("card.charge", amount=5)).kind == "duplicate"


async def test_the_last_word_of_a_person_counts(front: Front) -> None:
    """AN-22: and all of them stay in the log."""
    session = await failed(front)
    session.au.resolve("t-1", "t-1.1", "reversed", note="I thought")
    session.au.resolve("t-1", "t-1.1", "not_reversed", note="it stands")
    item = await item_of(session)
    assert (item.state, item.reason) == ("not_reversed", "failed")
    assert item.detail == "settled by a person: it stands"
    kinds = [row.kind for row in session.au.log() if row.kind == "resolved"]
    assert kinds == ["resolved", "resolved"]


async def test_what_is_done_or_unknown_is_not_settled(front: Front) -> None:
    """AN-22."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        with pytest.raises(SessionBusy):
            front.session().au.resolve("t-1", "t-1.1", "reversed", note="x")
    await session.undo("t-1")
    for call, outcome in (("t-1.1", "reversed"), ("t-1.9", "reversed"), ("t-1.1", "x")):
        with pytest.raises(UsageError):
            session.au.resolve("t-1", call, outcome, note="x")


async def test_a_mail_that_was_made_up_for_is_compensated(front: Front) -> None:
    """AN-22: a person can do what no inverse can."""
    session = await front.after("mail.send", to="ann")
    session.au.resolve("t-1", "t-1.1", "compensated", note="called Ann")
    item = await item_of(session)
    assert (item.state, item.residue) == ("compensated", "called Ann")


@pytest.mark.parametrize("answer", [None, False, True])
async def test_recover_asks_the_probe(
    front: Front, world: World, answer: bool | None
) -> None:
    """AN-01: it settles itself where the tool can tell, and waits for a person where not."""
    options: ToolOptions = {
        "reversibility": Reversibility.REVERSIBLE,
        "inverse": lambda a, c, r: Inverse.tool("draft.delete", id=r),
        "probe": lambda arguments: Outcome.success(9) if answer else answer,
    }

    def gone() -> None:
        raise Lost

    front.tools.tool("toy.gone", **options)(gone)
    session = front.session()
    turn = session.turn()
    await turn.__aenter__()
    with pytest.raises(Lost):
        await turn.call("toy.gone")
    turn.inner._runtime.release()
    found = {None: ["t-1.1"], False: [], True: []}[answer]
    assert await session.recover() == []
    assert [call.id for call in session.au.attention()] == found
    assert world.inverses == []
    report = await session.undo("t-1")
    states = {None: "not_reversed", False: "no_effect", True: "reversed"}
    assert [item.state for item in report.items] == [states[answer]]
    assert world.args("undo:draft") == ([{"id": 9}] if answer else [])
