"""A call whose row cannot be read is named with the reason, and stops no other one."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gitshadow.messages.programs import AttentionRow
from gitshadow.sdk.turns import json_values, queries
from gitshadow.service import in_process
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import SagaEntry
from tests.sdk.turns.front import Front, Session
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.test_pivot import told

DAMAGES: Mapping[str, Mapping[str, str]] = {
    "intent": {"intent": '{"arguments":{"amount":[redacted]5}}'},
    "no object": {"intent": "[]"},
    "too deep": {"intent": "[" * 100_000},
    "cut inverse": {"inverse": '{"handler":"crm.undo","args":{"id"'},
    "no inverse": {"inverse": "{}"},
}


def journal(session: Session) -> Db:
    store = session.au.runtime.store
    assert isinstance(store, SagaTables)
    return store.db


def damage(session: Session, call_id: str, **columns: str | None) -> None:
    """Change columns of a call; the log has the same, as if it had been written so."""
    (call,) = [one for one in session.au.calls("t-1") if one.id == call_id]
    after = replace(call, **columns)  # type: ignore[arg-type]
    note = SagaEntry(
        session="s",
        turn="t-1",
        call=call_id,
        kind="outcome",
        ts_ns=1,
        body=json_values.canonical({"inverse": after.inverse}),
    )
    session.au.runtime.store.save([after, note])


async def updated(front: Front) -> Session:
    """Return a session with a turn of three calls."""
    session = front.session()
    async with session.turn() as turn:
        for number, value in enumerate("ABC", 1):
            await turn.call("crm.update", f"c{number}", id=7, field="name", value=value)
    return session


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_damaged_call_is_named_and_the_others_are_undone(
    front: Front, what: str
) -> None:
    session = await updated(front)
    damage(session, "c2", **DAMAGES[what])
    plan, report = await session.plan("t-1"), await session.undo("t-1")
    for one in (plan, report):
        assert told(one) == {"c3": "reversed", "c2": "declined", "c1": "reversed"}
        assert "row in the journal is damaged" in str(one.items[1].detail)
    assert front.world.state["crm"]["7"]["name"] == "Y"


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_damaged_call_needs_attention_until_it_is_settled(
    front: Front, what: str
) -> None:
    session = await updated(front)
    damage(session, "c2", **DAMAGES[what])
    assert [one.id for one in session.au.attention()] == ["c2"]
    (row,) = queries.attention_rows(journal(session), "s")
    assert isinstance(row, AttentionRow)
    assert (row.call, "is damaged" in str(row.text)) == ("c2", True)
    session.au.resolve("t-1", "c2", "not_reversed", note="looked")
    assert (session.au.attention(), told(await session.plan("t-1"))["c2"]) == (
        [],
        "declined",
    )


async def test_a_call_can_be_undone_alone_beside_a_damaged_one(front: Front) -> None:
    session = await updated(front)
    damage(session, "c1", **DAMAGES["intent"])
    assert told(await session.undo("c3")) == {"c3": "reversed"}
    report = await session.undo("c1")
    assert told(report) == {"c1": "declined"}


async def test_a_rewind_goes_past_a_damaged_call(front: Front) -> None:
    session = await updated(front)
    damage(session, "c2", **DAMAGES["cut inverse"])
    report = await session.rewind("t-1", effects=True)
    assert told(report)["c3"] == told(report)["c1"] == "reversed"
    damage(session, "c3", **DAMAGES["intent"])
    assert (await session.rewind("t-1")).status != "refused"


async def test_a_damaged_doubt_is_not_asked_about(front: Front) -> None:
    """Its probe would be asked about other arguments; the other doubt is settled."""
    asked: list[object] = []

    def fail(value: str) -> None:
        raise RuntimeError

    def probe(arguments: Mapping[str, object]) -> bool:
        asked.append(arguments["value"])
        return False

    front.tools.add("box.put", fail, probe=probe)
    session = front.session()
    for value in "ab":
        with pytest.raises(RuntimeError):
            await session.called("box.put", "c", value=value)
    rows = [session.au.calls(turn)[0] for turn in ("t-1", "t-2")]
    open_again = [replace(one, undo="none", error=None) for one in rows]
    session.au.runtime.store.save(open_again)
    damage(session, "c", intent="{")
    asked.clear()
    await session.recover()
    assert asked == ["b"]
    assert told(await session.undo("t-1")) == {"c": "declined"}


async def test_a_damaged_held_call_fails_and_the_next_one_is_sent(front: Front) -> None:
    sent: list[str] = []

    def send(to: str) -> None:
        sent.append(to)

    front.tools.add("mail.later", send, hold=True, delay_s=3600)
    session = front.session()
    async with session.turn() as turn:
        for to in "ab":
            await turn.call("mail.later", to, to=to)
    damage(session, "a", **DAMAGES["intent"])
    store = session.au.runtime.store
    store.save([replace(one, due_ns=1) for one in session.au.held()])
    async with session.turn():
        pass
    (failed,) = session.au.held()
    assert (sent, failed.call, failed.state) == (["b"], "a", "failed")
    assert "row in the journal is damaged" in str(failed.error)


async def test_a_damaged_call_survives_a_reindex(recorded: Recorded) -> None:
    """Else its effect would be forgotten; a reindex cannot repair it."""
    session = await updated(recorded.front)
    damage(session, "c2", **DAMAGES["intent"])
    in_process.run(recorded.layout, "reindex", {})
    again = recorded.front.session()
    assert [one.id for one in again.au.attention()] == ["c2"]


async def test_rows_that_cannot_be_read_are_listed(front: Front) -> None:
    session = await updated(front)
    damage(session, "c2", intent="{", inverse="{", content="{")
    db = journal(session)
    log = {"session": "s", "turn": "t-1", "call": "c3", "kind": "outcome"}
    session.au.runtime.store.save([SagaEntry(**log, ts_ns=1, body="{")])
    bodies = [row.body for row in queries.log_rows(db, "s", "t-1", None)]
    shown = list(queries.call_rows(db, "s", "t-1"))
    assert ["damaged" in body for body in bodies][-2:] == [False, True]
    assert ["damaged" in row.intent for row in shown] == [False, True, False]
    # The log no longer has the inverse of the third one.
    reasons = {"c3": "declined", "c2": "declined", "c1": "reversed"}
    assert told(await session.plan("t-1")) == reasons
