"""AN-19: what is held is sent when its turn has committed, once, or never was."""

from dataclasses import replace

import pytest

from gitshadow.sdk.turns.errors import RegistrationError, TimeLimitExceeded, ToolFailure
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import (
    Inverse,
    Outcome,
    OutcomeKind,
    Release,
    Retry,
    Reversibility,
)
from tests.sdk.turns.front import FREE, Front, Session, fails
from tests.sdk.turns.test_transaction import FullDisk, Spy
from tests.sdk.turns.world import BoomError, World

SECOND_NS = 1_000_000_000


def later(front: Front, **options: object) -> None:
    """Register `mail.later`, which is held, does its work once per key, and can go wrong."""
    world = front.world

    def send(to: str, *, idempotency_key: str) -> str:
        world.called("mail.later", idempotency_key, to=to)
        if world.once(idempotency_key):
            state = world.state
            state["sent"].append(to)
            world.put(state)
        return f"sent to {to}"

    async def waited(to: str, *, idempotency_key: str) -> str:
        return send(to, idempotency_key=idempotency_key)

    declared: ToolOptions = {"hold": True, **options}  # type: ignore[typeddict-item]
    function = waited if front.name == "async" else send
    front.tools.add("mail.later", function, **declared)


def once(front: Front, **options: object) -> None:
    """Register `mail.once`, which is held and not safe to repeat."""
    world = front.world

    def send(to: str) -> None:
        world.called("mail.once", None, to=to)
        state = world.state
        state["sent"].append(to)
        world.put(state)

    declared: ToolOptions = {"hold": True, **options}  # type: ignore[typeddict-item]
    front.tools.add("mail.once", send, **declared)


def told(report: UndoReport) -> list[tuple[str, str, str]]:
    """Return domain, call and state of each item."""
    return [(one.domain.value, one.call_id, one.state.value) for one in report.items]


async def test_a_held_call_runs_when_its_turn_has_committed(
    front: Front, world: World
) -> None:
    """AN-19: the model is told so; after it, it is an entry like any other."""
    later(front)
    session = front.session()
    async with session.turn() as turn:
        outcome = await turn.call("mail.later", to="x")
        await turn.call("draft.create", title="y")
        assert world.state["sent"] == []
        assert turn.inner.entries("mail.*") == []
    assert outcome == Outcome.held(
        "Held: mail.later has not run yet. It runs when this turn has committed."
    )
    assert not outcome.ok
    assert world.state["sent"] == ["x"]
    assert turn.inner.released == (Release("t-1", "t-1.1", "mail.later", "sent"),)
    assert [one.tool_name for one in turn.inner.entries()] == [
        *("draft.create", "mail.later")
    ]
    call = session.au.calls("t-1")[0]
    assert (call.outcome, call.klass) == ("success", "undeclared")
    assert session.au.held() == []


async def test_a_turn_that_fails_sends_nothing(front: Front, world: World) -> None:
    """AN-19: truly reversed, in the domain `outbox`, before any effect is taken back."""
    later(front)
    session = front.session()
    with pytest.raises(BoomError) as caught:
        async with session.turn() as turn:
            await turn.call("mail.later", to="x")
            await turn.call("draft.create", title="y")
            raise BoomError("x")
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert told(report) == [
        ("outbox", "t-1.1", "reversed"),
        ("effects", "t-1.2", "reversed"),
    ]
    assert report.status == "reversed"
    assert world.state["sent"] == []
    assert turn.inner.status == "rolled_back"
    assert await released(session) == []
    async with session.turn():
        pass
    assert world.state["sent"] == []
    assert (await session.undo("t-1")).already_undone


async def test_a_savepoint_drops_its_own(front: Front, world: World) -> None:
    """AN-19, AN-30."""
    later(front)
    session = front.session()
    async with session.turn() as turn:
        await turn.call("mail.later", to="outer")
        async with fails(turn.savepoint("risky")):
            await turn.call("mail.later", to="inner")
    assert world.state["sent"] == ["outer"]


async def test_an_undo_before_the_release_cancels_it(
    front: Front, world: World
) -> None:
    """AN-19: also of a tool that nothing takes back once it has run."""
    time_ns = [SECOND_NS]
    later(front, delay_s=30, reversibility=Reversibility.NON_REVERSIBLE)
    session = front.session(host=Host(clock=lambda: time_ns[0]))
    async with session.turn() as turn:
        outcome = await turn.call("mail.later", to="x")
    assert outcome.text.endswith("when this turn has committed, 30 s later.")
    assert turn.inner.released == ()
    (held,) = session.au.held()
    assert (held.call, held.state, held.due_ns) == ("t-1.1", "due", 31 * SECOND_NS)
    plan = await session.plan("t-1")
    assert told(plan) == [("outbox", "t-1.1", "reversed")]
    assert session.au.held() == [held]
    report = await session.undo("t-1", token=plan.token)
    assert (told(report), report.status) == (told(plan), "reversed")
    assert session.au.held() == []
    time_ns[0] += 60 * SECOND_NS
    assert await released(session) == []
    assert world.state["sent"] == []
    again = await session.undo("t-1")
    assert (again.status, again.already_undone) == ("nothing_to_do", True)


async def released(session: Session) -> list[Release]:
    """Send what is due."""
    found = session.au.release()
    return found if isinstance(found, list) else await found


async def test_an_undo_after_the_release_is_an_ordinary_one(front: Front) -> None:
    """AN-19: what was sent is sent."""
    later(front, reversibility=Reversibility.NON_REVERSIBLE)
    session = await front.after("mail.later", to="x")
    report = await session.undo("t-1")
    assert [(one.domain, one.state, one.reason) for one in report.items] == [
        ("effects", "not_reversed", "non_reversible")
    ]


async def test_a_held_call_has_an_inverse_of_when_it_ran(
    front: Front, world: World
) -> None:
    """AN-19, INV-06: prior values are read when it is sent, not when it was asked for."""

    def put(name: str) -> None:
        world.crm_set(7, "name", name)

    front.tools.tool(
        "crm.put",
        reversibility=Reversibility.REVERSIBLE,
        hold=True,
        capture=lambda a: world.crm_get({"id": 7, "field": "name"}),
        inverse=lambda a, prior, r: Inverse.tool(
            "crm.restore", id=7, field="name", value=prior
        ),
    )(put)
    session = front.session()
    async with session.turn() as turn:
        await turn.call("crm.put", name="Z")
        await turn.call("crm.update", id=7, field="name", value="A")
    assert world.state["crm"]["7"]["name"] == "Z"
    await session.undo("t-1", only=frozenset({"t-1.1"}))
    assert world.state["crm"]["7"]["name"] == "A"


async def test_a_delay_is_kept_by_the_next_turn(front: Front, world: World) -> None:
    """AN-19: what is due by then is sent before it begins, in the order in which it was held."""
    time_ns = [SECOND_NS]
    later(front, delay_s=30)
    session = front.session(host=Host(clock=lambda: time_ns[0]))
    async with session.turn() as turn:
        await turn.call("mail.later", to="a")
        await turn.call("mail.later", to="b")
    async with session.turn():
        assert world.state["sent"] == []
    time_ns[0] += 30 * SECOND_NS
    async with session.turn():
        assert world.state["sent"] == ["a", "b"]
    assert session.au.calls("t-1")[0].outcome == "success"


async def test_the_host_is_committed_before_anything_is_sent(
    front: Front, world: World
) -> None:
    """AN-19: a host that cannot commit sends nothing."""
    later(front)
    with pytest.raises(OSError, match="disk full"):
        await front.session(host=Host(undo=FullDisk())).called("mail.later", to="x")
    assert world.state["sent"] == []
    spy = Spy()
    world.before_call = spy.log.append
    async with front.session(host=Host(undo=spy)).turn("go") as turn:
        await turn.call("mail.later", to="x")
    assert spy.log == ["begin go", "commit", "mail.later"]


async def test_a_held_call_passes_the_same_gates(front: Front, world: World) -> None:
    """AN-18, AN-28: when it is asked for, and not again."""
    later(front, reversibility=Reversibility.NON_REVERSIBLE)
    session = front.session(policy=Policy(non_reversible="deny"))
    async with session.turn() as turn:
        assert (await turn.call("mail.later", to="x")).kind is OutcomeKind.DENIED
    assert world.state["sent"] == []


async def test_a_held_call_that_was_rewound_is_a_duplicate(front: Front) -> None:
    """AN-28: it will be sent, so it is not held once more."""
    later(front, delay_s=30)
    session = await front.after("mail.later", to="x")
    report = await session.rewind("t-1")
    assert [(one.what, one.why) for one in report.not_covered] == [
        (
            "mail.later t-1.1",
            "held: a plain rewind does not stop it from being sent",
        )
    ]
    async with session.turn() as turn:
        outcome = await turn.call("mail.later", to="x")
    assert outcome == Outcome.duplicate(
        "Duplicate: mail.later with these arguments is already waiting to be sent"
        " (t-1.1); a rewind does not stop that. It was not held again."
    )


async def test_a_rewind_with_effects_drops_what_is_held(front: Front) -> None:
    """AN-19, AN-26."""
    later(front, delay_s=30)
    session = await front.after("mail.later", to="x")
    report = await session.rewind("t-1", effects=True)
    assert ("outbox", "t-1.1", "reversed") in told(report)
    assert session.au.held() == []


async def test_an_attempt_that_raised_is_made_again_where_that_is_safe(
    front: Front, world: World
) -> None:
    """AN-19: with the same key; the turn has committed and stays so."""
    time_ns = [SECOND_NS]
    later(front, retry=Retry(attempts=3, backoff_s=2))
    world.trouble["mail.later"] = [OSError("down")]
    session = front.session(host=Host(clock=lambda: time_ns[0]))
    turn = await session.called("mail.later", to="x")
    assert turn.inner.status == "committed"
    assert turn.inner.released == (
        Release("t-1", "t-1.1", "mail.later", "due", "OSError: down"),
    )
    assert await released(session) == []
    time_ns[0] += 2 * SECOND_NS
    assert [one.state for one in await released(session)] == ["sent"]
    keys = [key for name, key in world.calls if name == "mail.later"]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert world.state["sent"] == ["x"]


async def test_a_send_is_tried_only_so_often(front: Front, world: World) -> None:
    """AN-19: then a person has to look; any of the attempts may have had its effect."""
    later(front, retry=Retry(attempts=2, backoff_s=0))
    world.trouble["mail.later"] = [OSError("down")] * 5
    session = await front.after("mail.later", to="x")
    assert [one.state for one in await released(session)] == ["in_doubt"]
    assert await released(session) == []
    (held,) = session.au.held()
    assert (held.state, held.attempts, held.error) == ("in_doubt", 2, "OSError: down")
    session.au.resolve("t-1", "t-1.1", "reversed", note="sent by hand")
    assert session.au.held() == []


async def test_an_attempt_that_raised_is_in_doubt_where_it_is_not(
    front: Front, world: World
) -> None:
    """AN-19: never sent twice on a guess; an undo says so too."""
    once(front)
    world.trouble["mail.once"] = [OSError("down")]
    session = front.session()
    turn = await session.called("mail.once", to="x")
    assert [one.state for one in turn.inner.released] == ["in_doubt"]
    assert await released(session) == []
    assert [held.state for held in session.au.held()] == ["in_doubt"]
    assert world.names == ["mail.once"]
    report = await session.undo("t-1")
    assert [one.reason for one in report.items] == ["in_doubt"]


async def test_a_tool_that_says_no_is_done_with(front: Front, world: World) -> None:
    """AN-19: it said that it did nothing; a person may want to know."""
    later(front)
    world.trouble["mail.later"] = [ToolFailure("no such address")]
    session = front.session()
    async with session.turn() as turn:
        await turn.call("mail.later", to="x")
        await turn.call("mail.later", to="y")
    assert [(one.state, one.error) for one in turn.inner.released] == [
        ("failed", "no such address"),
        ("sent", None),
    ]
    assert world.state["sent"] == ["y"]
    assert session.au.calls("t-1")[0].outcome == "failed"


async def test_a_tool_that_is_gone_waits(front: Front) -> None:
    """AN-19, AN-33: another process with that tool may send it."""
    later(front, delay_s=1)
    time_ns = [SECOND_NS]
    host = Host(clock=lambda: time_ns[0])
    session = front.session(host=host)
    await session.called("mail.later", to="x")
    time_ns[0] += 2 * SECOND_NS
    front.tools.remove("mail.later")
    (one,) = await released(session)
    assert (one.state, one.error) == ("due", "nothing is registered as mail.later")
    later(front)
    assert [one.state for one in await released(session)] == ["sent"]


async def test_the_clock_of_a_turn_ends_with_it(front: Front, world: World) -> None:
    """AN-16: a slow send does not undo a turn that has committed."""
    time_ns = [SECOND_NS]

    def slow(name: str) -> None:
        time_ns[0] += 60 * SECOND_NS

    later(front)
    policy = replace(FREE, limits=Limits(seconds=10))
    session = front.session(policy=policy, host=Host(clock=lambda: time_ns[0]))
    world.before_call = slow
    turn = await session.called("mail.later", to="x")
    assert turn.inner.status == "committed"
    with pytest.raises(TimeLimitExceeded):
        async with session.turn() as turn:
            await turn.call("draft.create", title="x")
            await turn.call("draft.create", title="y")


async def test_arguments_that_are_no_json_cannot_be_held(front: Front) -> None:
    """AN-19: it could not be sent by another process; the model reads why."""
    later(front)
    async with front.session().turn() as turn:
        outcome = await turn.call("mail.later", to=object())
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.text.startswith("cannot hold mail.later: its arguments are not")


def test_a_tool_with_secrets_cannot_be_held() -> None:
    """AN-15, AN-19: they would be written down."""
    tools = ToolRegistry()
    with pytest.raises(RegistrationError, match="stored with its arguments"):
        tools.add("api.post", lambda token: None, hold=True, secrets=("token",))


async def test_a_turn_that_was_lost_sends_nothing(front: Front, world: World) -> None:
    """AN-19: it never committed, so what it held is dropped when that is noticed."""
    later(front)
    session = front.session()
    turn = session.turn()
    await turn.__aenter__()
    await turn.call("mail.later", to="x")
    session.au.runtime.release()  # as if its process had died
    async with session.turn():
        pass
    assert [row.status for row in session.au.turns()] == ["interrupted", "committed"]
    assert session.au.calls("t-1")[0].outcome == "dropped"
    assert session.au.held() == []
    assert world.state["sent"] == []
    report = await session.undo("t-1")
    assert told(report) == [("outbox", "t-1.1", "reversed")]
