"""ENG rows: inverses in order, once, and again only where that does no harm."""

from collections.abc import Callable

import pytest

from gitshadow.errors import RefusedError, UsageError
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.json_values import parse
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility, Secret
from tests.sdk.turns.front import Front, Session
from tests.sdk.turns.world import AT_ONCE, BoomError, World, undone_by

DAY_NS = 86_400_000_000_000


async def drafts(session: Session, titles: str) -> None:
    """Run one turn that makes a draft per letter."""
    async with session.turn() as turn:
        for title in titles:
            await turn.call("draft.create", title=title)


def states(report: UndoReport) -> list[tuple[str, str | None]]:
    """Return state and reason of each item, in the order of the undo."""
    return [(item.state, item.reason) for item in report.items]


async def test_inverses_run_in_reverse_order(front: Front, world: World) -> None:
    """ENG-01."""
    session = front.session()
    await drafts(session, "abcd")
    await session.undo("t-1")
    assert [args["id"] for args in world.args("undo:draft")] == [12, 11, 10, 9]


async def test_a_dependant_goes_first(front: Front) -> None:
    """ENG-02: a folder that is not empty cannot be deleted."""
    disk: set[str] = set()
    attempts: list[str] = []

    def delete(path: str) -> None:
        attempts.append(path)
        if any(other.startswith(path + "/") for other in disk):
            raise OSError("not empty")
        disk.discard(path)

    front.tools.handler("disk.delete", idempotent=True)(delete)
    front.tools.tool("disk.make", **undone_by("disk.delete", "path"))(
        lambda path: disk.add(path)
    )
    session = front.session()
    async with session.turn() as turn:
        await turn.call("disk.make", path="d")
        await turn.call("disk.make", path="d/f")
    report = await session.undo("t-1")
    assert (disk, attempts) == (set(), ["d/f", "d"])
    assert [item.attempts for item in report.items] == [1, 1]


async def test_undoing_twice_is_undoing_once(front: Front, world: World) -> None:
    """ENG-03: the second report says so, exit 0."""
    session = front.session()
    await drafts(session, "ab")
    first = await session.undo("t-1")
    second = await session.undo("t-1")
    assert (first.status, second.status) == ("reversed", "nothing_to_do")
    assert second.already_undone
    assert second.exit_code == 0
    assert len(world.inverses) == 2


async def test_every_attempt_has_the_same_key(front: Front, world: World) -> None:
    """ENG-04: fail, retry, restart, retry."""
    session = front.session()
    await drafts(session, "ab")
    world.trouble["undo:draft"] = [BoomError("once")] * 4
    await session.undo("t-1")
    again = front.session()
    await again.undo("t-1")
    keys = [key for name, key in world.calls if name == "undo:draft"]
    calls = {call.id: call.key for call in session.au.calls("t-1")}
    assert keys == [calls["t-1.2"]] * 3 + [calls["t-1.1"]] * 2 + [calls["t-1.2"]]
    assert len(set(keys)) == 2


async def test_a_failed_attempt_is_repeated(front: Front, world: World) -> None:
    """ENG-05: fails twice, then works."""
    session = front.session()
    await drafts(session, "a")
    world.trouble["undo:draft"] = [BoomError("1"), BoomError("2")]
    report = await session.undo("t-1")
    assert states(report) == [("reversed", None)]
    assert report.items[0].attempts == 3


async def test_a_lasting_failure_is_loud_and_alone(front: Front, world: World) -> None:
    """ENG-06: the second of three always fails; resuming touches only it."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("card.charge", amount=5)
        await turn.call("draft.create", title="b")
    world.trouble["undo:card"] = [BoomError("down")] * 3
    report = await session.undo("t-1")
    assert states(report) == [
        ("reversed", None),
        ("not_reversed", "failed"),
        ("reversed", None),
    ]
    assert report.items[1].error == "BoomError: down"
    assert (report.status, report.exit_code) == ("partial", 4)
    assert [call.id for call in session.au.attention()] == ["t-1.2"]
    before = len(world.calls)
    assert report.op_id is not None
    resumed = await session.resume(report.op_id)
    assert world.names[before:] == ["undo:card"]
    assert (resumed.status, resumed.op_id) == ("compensated", report.op_id)
    assert session.au.attention() == []


async def test_an_error_that_no_retry_mends_is_tried_once(front: Front) -> None:
    """AN-06."""
    attempts: list[int] = []

    def fails() -> None:
        attempts.append(1)
        raise PermissionError("never")

    front.tools.handler("toy.undo", idempotent=True)(fails)
    front.tools.tool(
        "toy.do",
        **undone_by("toy.undo"),
        retry=Retry(attempts=5, backoff_s=0, non_retryable=(OSError,)),
    )(lambda: None)
    session = await front.after("toy.do")
    assert states(await session.undo("t-1")) == [("not_reversed", "failed")]
    assert attempts == [1]


@pytest.mark.parametrize("rule", ["key", "idempotent", "neither"])
async def test_each_handler_keeps_its_own_rule(front: Front, rule: str) -> None:
    """ENG-09: who is neither is refused a blind retry, then and later."""
    attempts: list[str | None] = []

    def with_key(*, idempotency_key: str) -> None:
        without()

    def without() -> None:
        attempts.append(rule)
        if len(attempts) == 1:
            raise BoomError("perhaps it worked")

    handler = with_key if rule == "key" else without
    front.tools.handler("toy.undo", idempotent=rule == "idempotent")(handler)
    front.tools.tool("toy.do", **undone_by("toy.undo"), retry=AT_ONCE)(lambda: None)
    session = await front.after("toy.do")
    report = await session.undo("t-1")
    if rule != "neither":
        assert states(report) == [("reversed", None)]
        return
    assert states(report) == [("not_reversed", "in_doubt")]
    assert states(await session.undo("t-1")) == [("not_reversed", "in_doubt")]
    assert attempts == ["neither"]
    assert [call.id for call in session.au.attention()] == ["t-1.1"]
    session.au.resolve("t-1", "t-1.1", "reversed", note="looked: it is gone")
    after = await session.undo("t-1")
    assert states(after) == [("reversed", None)]
    assert after.items[0].detail == "settled by a person: looked: it is gone"
    assert session.au.attention() == []
    kinds = [row.kind for row in session.au.log("t-1")]
    assert kinds[-3:] == ["undo_attempt", "undo_in_doubt", "resolved"]


async def test_compensations_are_logged_too(front: Front) -> None:
    """ENG-10: nothing is overwritten."""
    session = front.session()
    await drafts(session, "a")
    forward = session.au.log()
    await session.undo("t-1")
    after = session.au.log()
    assert after[: len(forward)] == forward
    assert [row.kind for row in after[len(forward) :]] == [
        *("undo_begun", "undo_phase", "undo_attempt", "undo_done", "undo_phase"),
        *("undo_phase", "undo_phase", "undo_ended"),
    ]
    assert session.au.verify() is None


async def test_another_process_undoes_from_the_log_alone(
    front: Front, world: World
) -> None:
    """ENG-08, in the same process: nothing but the journal and the registry is shared."""
    before = world.text
    first = front.session()
    await drafts(first, "ab")
    first.au.close()
    report = await front.session().undo("t-1")
    assert states(report) == [("reversed", None)] * 2
    assert world.text == before


async def test_dependants_of_a_failure_are_blocked(front: Front) -> None:
    """AN-07: the others go on."""
    undone: list[str] = []

    def undo(name: str) -> None:
        if name == "b":
            raise BoomError("stuck")
        undone.append(name)

    front.tools.handler("toy.undo", idempotent=True)(undo)
    front.tools.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse(
            "toy.undo", {"name": a["name"]}, depends_on=tuple(a["after"])
        ),
        retry=Retry(attempts=1),
    )(lambda name, after: None)
    session = front.session()
    async with session.turn() as turn:
        await turn.call("toy.do", "c1", name="a", after=["c2"])
        await turn.call("toy.do", "c2", name="b", after=[])
        await turn.call("toy.do", "c3", name="c", after=[])
        await turn.call("toy.do", "c4", name="d", after=["c3"])
    report = await session.undo("t-1")
    assert [(item.call_id, item.reason) for item in report.items] == [
        ("c3", None),
        ("c4", None),
        ("c2", "failed"),
        ("c1", "failed"),
    ]
    assert report.items[3].detail == "it is waiting for c2"
    assert undone == ["c", "d"]


async def test_a_critical_failure_blocks_what_came_before(front: Front) -> None:
    """AN-07."""
    undone: list[str] = []

    def undo(name: str) -> None:
        if name == "b":
            raise BoomError("stuck")
        undone.append(name)

    front.tools.handler("toy.undo", idempotent=True)(undo)
    front.tools.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse("toy.undo", {"name": a["name"]}, critical=True),
        retry=Retry(attempts=1),
    )(lambda name: None)
    session = front.session()
    async with session.turn() as turn:
        for name in "abc":
            await turn.call("toy.do", name=name)
    assert [one.reason for one in (await session.undo("t-1")).items] == [
        *(None, "failed", "failed")
    ]
    assert undone == ["c"]


async def test_a_plan_calls_nothing_and_comes_true(front: Front, world: World) -> None:
    """AN-04."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("mail.send", to="x")
        await turn.call("card.charge", amount=5)
    calls, rows = world.names, session.au.log()
    plan = await session.plan("t-1")
    assert (world.names, session.au.log()) == (calls, rows)
    assert (plan.status, plan.op_id) == ("planned", None)
    report = await session.undo("t-1", token=plan.token)
    assert states(report) == states(plan)
    assert report.token == plan.token


async def test_a_plan_that_changed_is_refused(front: Front, world: World) -> None:
    """AN-04: nothing was done."""
    session = front.session()
    await drafts(session, "ab")
    plan = await session.plan("t-1")
    front.tools.remove("draft.delete")
    with pytest.raises(RefusedError):
        await session.undo("t-1", token=plan.token)
    assert world.inverses == []


async def test_a_handler_that_is_gone_is_named(front: Front) -> None:
    """AN-33: that item only, no crash."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("card.charge", amount=5)
    front.tools.remove("card.refund")
    assert states(await session.undo("t-1")) == [
        ("not_reversed", "handler_missing"),
        ("reversed", None),
    ]


@pytest.mark.parametrize(
    "window", [{"undo_for": 60.0}, {"undo_for": "60s"}, {"undo_for": "1m"}]
)
@pytest.mark.parametrize(
    ("later_ns", "state"),
    [(60_000_000_000, "reversed"), (60_000_000_001, "not_reversed")],
)
async def test_an_undo_window_closes(
    front: Front, window: ToolOptions, later_ns: int, state: str
) -> None:
    """AN-21: until its last nanosecond, and no call after it."""
    time_ns = [DAY_NS]
    options: ToolOptions = {
        "reversibility": Reversibility.REVERSIBLE,
        "inverse": lambda a, c, r: Inverse.tool("draft.delete", id=9),
        **window,
    }
    front.tools.tool("toy.do", **options)(lambda: None)
    session = front.session(host=Host(clock=lambda: time_ns[0]))
    await session.called("toy.do")
    time_ns[0] += later_ns
    (item,) = (await session.undo("t-1")).items
    expired = state == "not_reversed"
    assert (item.state, item.reason) == (state, "expired" if expired else None)
    assert len(front.world.inverses) == (not expired)


@pytest.mark.parametrize(
    "options", [{"undo_for": "soon"}, {"undo_for": "1d", "undo_for_s": 1.0}]
)
def test_a_window_that_is_no_time_is_refused(options: ToolOptions) -> None:
    """AN-21: when the tool is declared, not when it is to be taken back."""
    with pytest.raises(RegistrationError):
        ToolRegistry().tool("a.b", **options)(len)


async def test_calls_out_of_scope_are_left_and_named(
    front: Front, world: World
) -> None:
    """AN-29."""
    session = front.session()
    await drafts(session, "ab")
    report = await session.undo("t-1", only=frozenset({"t-1.1"}))
    assert states(report) == [("not_reversed", "out_of_scope"), ("reversed", None)]
    assert world.state["drafts"] == {"10": "b"}


async def test_a_secret_is_looked_up_when_it_is_needed(front: Front) -> None:
    """AN-15: stored by name, never by value."""
    seen: list[str] = []
    front.tools.handler("api.delete", idempotent=True)(lambda token: seen.append(token))
    front.tools.tool(
        "api.put",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("api.delete", token=Secret("API_TOKEN")),
        retry=AT_ONCE,
    )(lambda: None)
    session = front.session(host=Host(secrets={"API_TOKEN": "tok-4711"}))
    await session.called("api.put")
    (call,) = session.au.calls("t-1")
    assert parse(call.inverse)["args"] == {"token": {"$secret": "API_TOKEN"}}
    without = front.session()
    assert states(await without.undo("t-1")) == [("not_reversed", "failed")]
    assert states(await session.undo("t-1")) == [("reversed", None)]
    assert seen == ["tok-4711"]


def sealed(name: str) -> str:
    """Fail as a vault does that cannot be reached; the text has a secret."""
    raise RuntimeError("cannot open the vault with tok-4711")


@pytest.mark.parametrize("look_up", [sealed, {"OTHER": "x"}.get])
async def test_a_secret_that_cannot_be_looked_up_stops_one_inverse(
    front: Front, world: World, look_up: Callable[[str], str]
) -> None:
    """The rollback goes on, its report lists the call, and a later undo tries again."""
    seen: list[str] = []
    front.tools.handler("api.delete")(lambda token: seen.append(token))
    front.tools.tool(
        "api.put",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("api.delete", token=Secret("API_TOKEN")),
        retry=AT_ONCE,
    )(lambda: None)
    with pytest.raises(BoomError) as raised:
        async with front.session(host=Host(secrets=look_up)).turn() as turn:
            await turn.call("draft.create", title="a")
            await turn.call("api.put")
            raise BoomError("x")
    report = UndoReport.of(raised.value)
    assert report is not None
    assert states(report) == [("not_reversed", "failed"), ("reversed", None)]
    assert "tok-4711" not in report.render()
    assert (seen, world.state["drafts"]) == ([], {})
    able = front.session(host=Host(secrets={"API_TOKEN": "tok-4711"}))
    assert (await able.undo("t-1")).ok
    assert seen == ["tok-4711"]


async def test_a_probe_settles_what_is_in_doubt(front: Front, world: World) -> None:
    """AN-01: asked at undo time; None leaves the doubt, False is no effect, a result undoes."""
    answers: list[object] = [None, False]

    def gone(title: str) -> None:
        world.called("toy.gone", None)
        raise KeyboardInterrupt

    front.tools.tool(
        "toy.gone",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("draft.delete", id=9),
        probe=lambda arguments: answers.pop(0),
    )(gone)
    session = front.session()
    with pytest.raises(KeyboardInterrupt):
        async with session.turn() as turn:
            await turn.call("toy.gone", title="x")
    report = turn.report
    assert states(report) == [("not_reversed", "in_doubt")]
    assert states(await session.undo("t-1")) == [("no_effect", None)]
    assert world.inverses == []


async def test_an_unknown_turn_is_a_usage_error(front: Front) -> None:
    session = front.session()
    with pytest.raises(UsageError, match="cannot find turn t-9"):
        await session.undo("t-9")
    with pytest.raises(UsageError, match="cannot find undo op-9"):
        await session.resume("op-9")


async def test_an_inverse_that_hangs_is_cut_off(front: Front) -> None:
    """Bad input: it counts as failed, and is tried again only where that does no harm."""
    import asyncio
    import threading

    never = threading.Event()

    async def hangs() -> None:
        await asyncio.Event().wait()

    def blocks() -> None:
        never.wait(30)

    handler = hangs if front.name == "async" else blocks
    front.tools.handler("toy.undo")(handler)
    front.tools.tool(
        "toy.do",
        **undone_by("toy.undo"),
        retry=Retry(attempts=3, backoff_s=0, timeout_s=0.05),
    )(lambda: None)
    session = await front.after("toy.do")
    report = await session.undo("t-1")
    never.set()
    assert states(report) == [("not_reversed", "in_doubt")]
    assert report.items[0].error == "no answer after 0.05 s"
