"""RW and EVT rows, and of the UC rows what needs no model: going back without deleting anything."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import UsageError
from gitshadow.model import Oid
from gitshadow.sdk.turns import events
from gitshadow.sdk.turns.errors import (
    InvocationNotFound,
    NothingToUndo,
    SessionBusy,
    SessionNotFound,
)
from gitshadow.sdk.turns.host import Context, Host
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import UndoEntry
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import MARKER, Marker, NewEvent
from tests.sdk.turns.front import Front, Session, journal_of
from tests.sdk.turns.world import BoomError, World

FIRST = {"tenant": "t1", "k1": "v1"}
INVOCATIONS: list[list[dict[str, object]]] = [
    [{"k1": "v1"}],
    [{"k1": "v2", "k2": {"n": 1}}, {"k2": {"n": 2}}],
    [{"k1": None, "k3": 3}],
]


async def told(session: Session) -> Session:
    """Run the three invocations of `INVOCATIONS`: t-1, t-2 and t-3."""
    session.au.create({"tenant": "t1"})
    for steps in INVOCATIONS:
        async with session.turn() as turn:
            await turn.say("user", "go", kind="user")
            for changes in steps:
                await turn.set_state(**changes)
            await turn.say("model", f"done {turn.inner.id}", kind="assistant")
    return session


def texts(session: Session) -> list[str]:
    """Return what a model reads."""
    return [message.text for message in session.au.messages()]


async def test_the_state_is_as_it_was(front: Front) -> None:
    """RW-01, RW-02, RW-03, RW-04: also what followed the target; absent is absent."""
    session = await told(front.session())
    report = await session.rewind("t-2")
    assert session.au.state == FIRST
    assert report.state_delta == {"k1": "v1", "k2": None, "k3": None}
    assert report.hidden_invocations == ("t-2", "t-3")
    assert report.status == "reversed"


async def test_a_key_that_was_deleted_later_comes_back(front: Front) -> None:
    """RW-05, RW-07: and a rewind to the middle takes only what followed."""
    session = await told(front.session())
    await session.rewind("t-3")
    assert session.au.state == {"tenant": "t1", "k1": "v2", "k2": {"n": 2}}


async def test_a_key_deleted_before_stays_deleted(front: Front) -> None:
    """RW-06."""
    session = front.session()
    session.au.create({"x": 1})
    async with session.turn() as turn:
        await turn.set_state(x=None)
    async with session.turn() as turn:
        await turn.set_state(y=2)
    await session.rewind("t-2")
    assert session.au.state == {}


async def test_the_state_of_the_creation_comes_back(front: Front) -> None:
    """RW-08, AN-11."""
    session = await told(front.session())
    await session.rewind("t-1")
    assert session.au.state == {"tenant": "t1"}


async def test_values_come_back_by_value(front: Front) -> None:
    """RW-09: changing what was given or returned changes no history."""
    session = front.session()
    nested = {"n": [1]}
    async with session.turn() as turn:
        await turn.set_state(k=nested)
    nested["n"].append(2)
    got = session.au.state["k"]
    assert isinstance(got, dict)
    got["n"].append(3)
    async with session.turn() as turn:
        await turn.set_state(k={"n": [9]})
    await session.rewind("t-2")
    assert session.au.state == {"k": {"n": [1]}}


async def test_an_unknown_invocation_changes_nothing(front: Front) -> None:
    """RW-10."""
    session = await told(front.session())
    before = (session.au.events(), session.au.state)
    with pytest.raises(InvocationNotFound, match="invocation nope") as caught:
        await session.rewind("nope")
    assert caught.value.exit_code == 2
    assert (session.au.events(), session.au.state) == before


async def test_an_unknown_session_is_named(front: Front) -> None:
    """RW-11."""
    with pytest.raises(SessionNotFound):
        await front.session("other").rewind("t-1")


async def test_a_running_turn_is_not_rewound(front: Front) -> None:
    """RW-12."""
    session = await told(front.session())
    async with session.turn():
        before = len(session.au.events())
        with pytest.raises(SessionBusy):
            await session.rewind("t-2")
        assert len(session.au.events()) == before


async def test_outside_effects_are_named_as_outstanding(
    front: Front, world: World
) -> None:
    """RW-13."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("card.charge", "c", amount=5)
        await turn.call("notes.read", note="n")
    report = await session.rewind("t-1")
    assert world.state["refunds"] == []
    assert [(one.what, one.why) for one in report.not_covered] == [
        (
            "card.charge c",
            "outstanding: a plain rewind does not undo outside effects",
        )
    ]


async def test_effects_are_taken_back_when_asked_for(
    front: Front, world: World
) -> None:
    """AN-26: newest turn first, newest call first, in the same report."""
    session = await told(front.session())
    for titles in ("ab", "c"):
        async with session.turn() as turn:
            for title in titles:
                await turn.call("draft.create", title=title)
    report = await session.rewind("t-3", effects=True)
    effects = [item for item in report.items if item.domain == "effects"]
    assert [item.call_id for item in effects] == ["t-5.1", "t-4.2", "t-4.1"]
    assert world.state["drafts"] == {}
    assert report.not_covered == ()
    assert session.au.state == {"tenant": "t1", "k1": "v2", "k2": {"n": 2}}


async def test_nothing_else_is_called(front: Front) -> None:
    """RW-14: a memory that is attached hears nothing of a rewind."""

    class Memory:
        def __init__(self) -> None:
            self.calls = 0

        def summary(self) -> str:
            self.calls += 1
            return ""

        def begin_transaction(self, label: str) -> "Memory":
            self.calls += 1
            return self

        def add_entry(self, entry: UndoEntry) -> None: ...
        def commit(self) -> None: ...
        def rollback(self) -> None: ...

    await told(front.session())
    memory = Memory()
    host = Host(undo=memory, contexts=(Context("memory", memory),))
    await front.session(host=host).rewind("t-2")
    assert memory.calls == 0


async def test_a_session_goes_on_after_a_rewind(front: Front) -> None:
    """RW-15, RW-16: also in another process, which reads the same journal."""
    await (await told(front.session())).rewind("t-2")
    session = front.session()
    assert session.au.state == FIRST
    assert texts(session) == ["go", "done t-1"]
    async with session.turn() as turn:
        assert session.au.state == FIRST
        await turn.set_state(k4=4)
        await turn.say("user", "again", kind="user")
    assert turn.inner.id == "t-4"
    assert session.au.state == {**FIRST, "k4": 4}
    assert texts(session) == ["go", "done t-1", "again"]


async def test_rewinding_twice_leaves_both_markers(front: Front) -> None:
    """RW-17."""
    session = await told(front.session())
    await session.rewind("t-3")
    async with session.turn() as turn:
        await turn.set_state(k9=9)
    await session.rewind("t-2")
    assert session.au.state == FIRST
    kinds = [event.kind for event in session.au.events()]
    assert kinds.count(MARKER) == 2


async def test_deltas_are_returned(front: Front) -> None:
    """RW-18."""
    report = await (await told(front.session())).rewind("t-3")
    assert (report.state_delta, report.artifact_delta) == (
        {"k1": "v2", "k3": None},
        {},
    )


async def test_keys_of_other_scopes_stay(front: Front) -> None:
    """AN-25."""
    session = front.session()
    async with session.turn() as turn:
        await turn.set_state(**{"user:x": 1, "app:y": 1, "temp:z": 1, "own": 1})
    await session.rewind("t-1")
    assert session.au.state == {"user:x": 1, "app:y": 1, "temp:z": 1}


async def test_a_look_back_changes_nothing(front: Front) -> None:
    """AN-38."""
    session = await told(front.session())
    before = session.au.events()
    assert session.au.state_at("t-2") == FIRST
    assert session.au.events() == before


async def test_no_event_is_deleted(front: Front) -> None:
    """EVT-01, RW-19: what was there is byte-identical, and one is added."""
    session = await told(front.session())
    before = session.au.events()
    await session.rewind("t-2")
    after = session.au.events()
    assert after[:-1] == before
    assert len(after) == len(before) + 1


async def test_the_marker_says_what_was_done(front: Front) -> None:
    """EVT-02."""
    session = await told(front.session())
    report = await session.rewind("t-2")
    marker = session.au.events()[-1]
    assert (marker.author, marker.text) == ("system", "Session rewound")
    assert marker.invocation not in ("t-1", "t-2", "t-3")
    assert marker.seq == report.marker_event
    body = json.loads(marker.body)
    assert body["rewind_before_invocation_id"] == "t-2"
    assert body["state_delta"] == {"k1": "v1", "k2": None, "k3": None}
    assert body["artifact_delta"] == {}


async def test_what_lies_from_the_target_to_the_marker_is_out(front: Front) -> None:
    """EVT-03 to EVT-07: all events of the target, the marker too; what comes after is in."""
    session = await told(front.session())
    early = [event for event in session.au.events() if event.seq <= 4]
    assert {event.invocation for event in early} == {"created", "t-1"}
    await session.rewind("t-2")
    assert session.au.live_events() == early
    async with session.turn("after") as turn:
        await turn.say("user", "new", kind="user")
    assert [event.text for event in session.au.live_events()[len(early) :]] == [
        "after",
        "new",
    ]
    assert len(session.au.events()) > len(session.au.live_events())


async def test_a_call_without_its_result_is_not_shown(front: Front) -> None:
    """EVT-09: also where a turn ended between the two."""
    session = front.session()
    async with session.turn() as turn:
        await turn.say("model", "", kind="call", call_id="a", tool="x.y")
        await turn.say("x.y", "ok", kind="result", call_id="a", tool="x.y")
        await turn.say("model", "", kind="call", call_id="b", tool="x.y")
    shown = [(one.role, one.call_id) for one in session.au.messages()]
    assert shown == [("call", "a"), ("result", "a")]


async def test_rewinding_before_a_rewind_undoes_it(front: Front) -> None:
    """AN-23: state and live events are those of before it."""
    session = await told(front.session())
    state, shown = session.au.state, session.au.live_events()
    report = await session.rewind("t-2")
    marker = session.au.events()[-1].invocation
    assert report.marker_event is not None
    await session.rewind(marker)
    assert (session.au.state, session.au.live_events()) == (state, shown)


async def test_the_last_invocation_is_taken_back_step_by_step(front: Front) -> None:
    """UC-01, UC-02, AN-10: rewound ones are not found again."""
    session = await told(front.session())
    found = [(await session.undo_last()).target for _ in range(3)]
    assert found == ["t-3", "t-2", "t-1"]
    assert session.au.state == {"tenant": "t1"}
    with pytest.raises(NothingToUndo):
        await session.undo_last()


async def test_an_empty_session_has_nothing_to_undo(front: Front) -> None:
    """UC-02."""
    with pytest.raises(NothingToUndo):
        await front.session().undo_last()


async def test_a_failed_turn_gives_the_state_back_and_keeps_the_words(
    front: Front,
) -> None:
    """TX-12: conversation is not transactional; state is."""
    session = await told(front.session())
    before = session.au.state
    with pytest.raises(BoomError):
        async with session.turn() as turn:
            await turn.say("user", "please", kind="user")
            await turn.set_state(tenant="t2", k7=7)
            await turn.call("toy.boom")
    assert session.au.state == before
    assert texts(session)[-1] == "please"


async def test_a_session_is_created_once(front: Front) -> None:
    session = await told(front.session())
    with pytest.raises(UsageError):
        session.au.create({})


def statements_of_a_rewind(place: Path, before: int) -> int:
    """Return how many statements SQLite runs to go back over 100 events of a long session."""
    with closing(
        AgentUndo.open(str(place), session=f"s{before}", tools=ToolRegistry())
    ) as au:
        rows = [
            NewEvent(
                session=f"s{before}",
                invocation=f"i-{number // 10}",
                author="user",
                kind="user",
                ts_ns=number,
                text="x" * 100,
                delta={f"k{number % 50}": str(number)},
            )
            for number in range(before + 100)
        ]
        au.runtime.store.save(rows)
        ran: list[str] = []
        journal_of(au).db._connection.set_trace_callback(ran.append)
        report = au.rewind(f"i-{before // 10}")
        assert len(report.state_delta) == 50
        return len(ran)


def statements_of_artifacts(place: Path, others: int) -> int:
    """Return how many statements a rewind over one artifact runs beside so many others."""
    session = f"a{others}"
    with closing(
        AgentUndo.open(str(place), session=session, tools=ToolRegistry())
    ) as au:
        for first, names in (("i-0", range(others)), ("i-1", range(1))):
            blobs = {f"file{number}": Oid(f"{number:040d}") for number in names}
            event = NewEvent(
                session=session,
                invocation=first,
                author="agent",
                kind="artifact",
                ts_ns=0,
                artifacts=blobs if first == "i-0" else {"file0": Oid("f" * 40)},
            )
            au.runtime.store.save([event])
        before = NewEvent(
            session=session, invocation="i-2", author="user", kind="user", ts_ns=0
        )
        au.runtime.store.save([before])
        ran: list[str] = []
        journal_of(au).db._connection.set_trace_callback(ran.append)
        report = au.rewind("i-1")
        assert [item.path for item in report.items] == ["file0"]
        return len(ran)


def test_a_rewind_looks_at_no_artifact_that_stayed(place: Path) -> None:
    """UC-05: as much beside 500 artifacts as beside 5."""
    assert statements_of_artifacts(place, 500) == statements_of_artifacts(place, 5)


def test_a_rewind_costs_what_changed_since(place: Path) -> None:
    """UC-05: as much after 9,900 events as after 500."""
    assert statements_of_a_rewind(place, 9_900) == statements_of_a_rewind(place, 500)


MARKS = st.lists(st.integers(0, 30), max_size=8)


@given(MARKS)
def test_what_is_hidden_never_overlaps(firsts: list[int]) -> None:
    """EVT-03 to EVT-08, AN-10: whatever is rewound to whatever earlier point."""
    marks, seq = [], 0
    for first in firsts:
        seq += 5
        marks.append(Marker(seq, min(first, seq - 1)))
    gaps = events.hidden(reversed(marks))
    flat = [number for gap in gaps for number in (gap.first, gap.last)]
    assert flat == sorted(flat)
    shown = [number for number in range(seq + 6) if events.is_live(number, gaps)]
    assert seq + 5 in shown
    assert seq not in shown or not marks
    assert shown == by_walking_back(seq + 5, marks)


def by_walking_back(last: int, marks: list[Marker]) -> list[int]:
    """Say it as the rule has it: from the newest, jump from each marker to its target."""
    jumps = {mark.seq: mark.first for mark in marks}
    found = []
    while last >= 0:
        if last in jumps:
            last = jumps[last] - 1
            continue
        found.append(last)
        last -= 1
    return found[::-1]


CHANGES = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3)), max_size=8
)


@given(CHANGES, st.data())
def test_a_delta_brings_back_exactly_what_was(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[Mapping[str, int | None]],
    data: st.DataObject,
) -> None:
    """RW-01 to RW-09: for any history and any target, fold(all + delta) = fold(before)."""
    path = tmp_path_factory.mktemp("db") / "journal.db"
    with closing(Db.open(str(path), create=True)) as db:
        states: list[dict[str, str]] = []
        state: dict[str, str] = {}
        for number, step in enumerate(steps):
            states.append(dict(state))
            delta = {key: None if v is None else str(v) for key, v in step.items()}
            event = NewEvent(
                session="s",
                invocation=f"i{number}",
                author="x",
                kind="state",
                ts_ns=0,
                delta=delta,
            )
            SagaTables(db).save([event])
            for key, value in delta.items():
                state.pop(key, None)
                if value is not None:
                    state[key] = value
        target = data.draw(st.integers(0, len(steps)))
        expected = states[target] if target < len(steps) else state
        assert SagaTables(db).state_before("s", target) == expected
        found = SagaTables(db).state_delta("s", target)
        now = {**SagaTables(db).state_before("s", len(steps)), **found}
        assert {k: v for k, v in now.items() if v is not None} == expected
        assert all(found[key] != state.get(key) for key in found)
