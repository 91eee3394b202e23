"""A world that cannot be looked at is not undone over: that counts as drift."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import cycle
from typing import Unpack

import pytest

from gitshadow.sdk.turns.report import UndoItem
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from tests.sdk.turns.front import Front, Session
from tests.sdk.turns.world import AT_ONCE, undone_by


class Field:
    """A value in a world that now and then cannot be read."""

    def __init__(self) -> None:
        self.value = "before"
        self.reads = 0
        self.fails: Callable[[int], bool] = lambda reads: False
        self.troubles = 0

    def put(self, value: str) -> None:
        self.value = value

    def put_back(self) -> None:
        if self.troubles:
            self.troubles -= 1
            raise OSError("no route")
        self.value = "before"

    def observe(self, arguments: Mapping[str, object]) -> str:
        self.reads += 1
        if self.fails(self.reads):
            raise OSError("no answer")
        return self.value

    def declare(self, front: Front, **more: Unpack[ToolOptions]) -> None:
        front.tools.handler("field.undo", idempotent=True)(self.put_back)
        options: ToolOptions = {
            "reversibility": Reversibility.REVERSIBLE,
            "inverse": lambda a, c, r: Inverse.tool("field.undo"),
            "fingerprint": self.observe,
            "retry": Retry(attempts=1, timeout_s=None),
        }
        front.tools.tool("field.put", **(options | more))(self.put)


async def after_a_call(
    front: Front, field: Field, **more: Unpack[ToolOptions]
) -> Session:
    """Run one call; t-1 of the session."""
    field.declare(front, **more)
    session = await front.after("field.put", value="after")
    return session


async def undone(session: Session, **options: object) -> UndoItem:
    """Undo t-1 and return its one item."""
    (item,) = (await session.undo("t-1", **options)).items
    return item


async def test_a_world_that_cannot_be_read_at_the_undo_has_drifted(
    front: Front,
) -> None:
    """A person may have changed it; nothing is overwritten unseen."""
    field = Field()
    session = await after_a_call(front, field)
    field.value, field.fails = "a person's", lambda reads: True
    item = await undone(session)
    assert (item.state, item.reason) == ("not_reversed", "drifted")
    assert item.detail == "it could not be observed: OSError: no answer"
    assert field.value == "a person's"


async def test_a_plan_says_what_cannot_be_read(front: Front) -> None:
    field = Field()
    session = await after_a_call(front, field)
    field.fails = lambda reads: True
    (item,) = (await session.plan("t-1")).items
    assert item.reason == "drifted"


async def test_a_world_that_could_not_be_read_after_the_call_has_drifted(
    front: Front,
) -> None:
    """What the call left is not known, so nothing can be compared with it."""
    field = Field()
    field.fails = lambda reads: reads == 2
    session = await after_a_call(front, field)
    field.value = "a person's"
    item = await undone(session)
    assert item.reason == "drifted"
    assert item.detail == (
        "the result of the call could not be observed: OSError: no answer"
    )
    assert (await undone(session, on_drift="overwrite")).state == "reversed"
    assert field.value == "before"


async def test_a_world_that_cannot_be_read_at_a_retry_has_drifted(
    front: Front,
) -> None:
    field = Field()
    session = await after_a_call(front, field)
    field.troubles = 1
    assert (await undone(session)).reason == "failed"
    field.fails = lambda reads: True
    assert (await undone(session)).reason == "drifted"
    field.fails = lambda reads: False
    assert (await undone(session)).state == "reversed"


@pytest.mark.parametrize("value", ["before", "after"])
async def test_a_world_as_it_was_or_as_the_call_left_it_has_not_drifted(
    front: Front, value: str
) -> None:
    field = Field()
    session = await after_a_call(front, field)
    field.value = value
    assert (await undone(session)).state == "reversed"


class Account:
    """A balance that only its token reads; a person may change it."""

    def __init__(self) -> None:
        self.balance = 10
        self.tokens: list[object] = []
        self.shows_token = False

    def observe(self, arguments: Mapping[str, object]) -> object:
        self.tokens.append(arguments["token"])
        if self.shows_token:
            return [self.balance, arguments["token"]]
        return self.balance

    def pay(self, name: str, token: str) -> None:
        self.balance -= 1

    def refund(self) -> None:
        self.balance += 1

    def declare(self, front: Front) -> None:
        front.tools.handler("account.refund", idempotent=True)(self.refund)
        front.tools.tool(
            "account.pay",
            **undone_by("account.refund"),
            fingerprint=self.observe,
            secrets=("token",),
        )(self.pay)

    async def paid(self, front: Front) -> Session:
        self.declare(front)
        session = await front.after("account.pay", name="ada", token=TOKEN)
        self.tokens.clear()
        return session


TOKEN = "tok-4711-secret"


@pytest.mark.parametrize("shows_token", [False, True])
async def test_observe_gets_the_secret_when_the_process_still_has_it(
    front: Front, shows_token: bool
) -> None:
    account = Account()
    account.shows_token = shows_token
    session = await account.paid(front)
    item = await undone(session)
    assert item.state == "reversed"
    assert account.balance == 10
    assert set(account.tokens) == {TOKEN}


async def test_a_persons_value_is_kept_when_a_secret_reads_it(front: Front) -> None:
    account = Account()
    account.shows_token = True
    session = await account.paid(front)
    account.balance = 3
    item = await undone(session)
    assert (item.state, item.reason) == ("not_reversed", "drifted")
    assert TOKEN not in str(item.detail)
    assert account.balance == 3


async def test_an_undo_elsewhere_cannot_look_when_observe_needs_a_secret(
    front: Front,
) -> None:
    """The journal has no secrets: in another process nobody has them."""
    account = Account()
    await account.paid(front)
    account.balance = 3
    other = front.session()
    item = await undone(other)
    assert (item.state, item.reason) == ("not_reversed", "drifted")
    assert item.detail == (
        "it could not be observed: ArgumentNotKeptError: "
        "the argument token was secret and is not kept"
    )
    assert (account.balance, account.tokens) == (3, [])


async def test_an_undo_elsewhere_looks_when_observe_needs_no_secret(
    front: Front,
) -> None:
    account = Account()
    account.observe = lambda arguments: account.balance  # type: ignore[method-assign]
    await account.paid(front)
    item = await undone(front.session())
    assert item.state == "reversed"


async def test_a_stored_secret_is_not_compared_when_it_is_not_known(
    front: Front,
) -> None:
    account = Account()
    account.shows_token = True
    await account.paid(front)
    account.observe = lambda arguments: [account.balance, TOKEN]  # type: ignore[method-assign]
    item = await undone(front.session())
    assert (item.state, item.reason) == ("not_reversed", "drifted")
    assert item.detail == "what it left cannot be compared: it held a secret"


def renamed(front: Front, field: Field) -> str:
    """Give the tool another name; return why it cannot look under the old one."""
    found = front.tools.find("field.put")
    assert found is not None
    front.tools.remove("field.put")
    front.tools.add("field.set", field.put, **found.options)
    return "field.put is not registered"


def without_observe(front: Front, field: Field) -> str:
    """Register the tool again without a way to look."""
    front.tools.remove("field.put")
    front.tools.add("field.put", field.put, **undone_by("field.undo"))
    return "field.put has no fingerprint"


@pytest.mark.parametrize("change", [renamed, without_observe])
async def test_what_was_observed_and_cannot_be_any_more_has_drifted(
    front: Front, change: Callable[[Front, Field], str]
) -> None:
    """What the journal holds decides what is compared, not what is registered today."""
    field = Field()
    session = await after_a_call(front, field)
    field.value = "a person's"
    why = change(front, field)
    (planned,) = (await session.plan("t-1")).items
    item = await undone(session)
    assert (item.reason, item.detail) == (planned.reason, planned.detail)
    assert (item.reason, item.detail) == ("drifted", f"it could not be observed: {why}")
    assert field.value == "a person's"
    assert (await undone(session, on_drift="overwrite")).state == "reversed"


async def test_what_was_never_observed_is_undone_as_before(front: Front) -> None:
    field = Field()
    without_observe_at_all(front, field)
    session = await front.after("field.put", value="after")
    renamed(front, field)
    assert (await undone(session)).state == "reversed"


def without_observe_at_all(front: Front, field: Field) -> None:
    """Declare the tool without `fingerprint` from the beginning."""
    front.tools.handler("field.undo", idempotent=True)(field.put_back)
    without_observe(front, field)


@dataclass
class Price:
    """A value that is no JSON."""

    amount: int


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Decimal("10.5"), "Decimal"),
        (MOMENT, "datetime"),
        (b"x", "bytes"),
        (Price(3), "Price"),
        ({"price": [Decimal(1)]}, "Decimal at price[0]"),
    ],
)
async def test_an_observation_that_is_no_json_has_drifted(
    front: Front, value: object, words: str
) -> None:
    """It would be its type alone, which is the same whatever a person wrote."""
    field = Field()
    session = await after_a_call(front, field, fingerprint=lambda arguments: value)
    field.value = "a person's"
    (planned,) = (await session.plan("t-1")).items
    item = await undone(session)
    assert item.detail == planned.detail
    assert (item.reason, item.detail) == (
        "drifted",
        "the result of the call could not be observed:"
        f" what fingerprint returned is not JSON: {words}",
    )
    assert field.value == "a person's"


async def test_an_observation_that_runs_into_an_error_has_drifted(front: Front) -> None:
    """A lazy sequence reads the world when it is written down."""

    class Rows(list[int]):
        def __iter__(self) -> Iterator[int]:
            raise OSError("no route")

    session = await after_a_call(
        front, Field(), fingerprint=lambda arguments: Rows([1])
    )
    item = await undone(session)
    assert item.detail == (
        "the result of the call could not be observed: OSError: no route"
    )


async def test_a_set_has_no_order(front: Front) -> None:
    """Another process orders it differently, which is no drift."""

    class Shuffled(frozenset[str]):
        def __iter__(self) -> Iterator[str]:
            return iter(next(orders))

    orders = cycle([["a", "b"], ["b", "a"]])
    session = await after_a_call(
        front, Field(), fingerprint=lambda arguments: Shuffled(("a", "b"))
    )
    assert (await undone(session)).state == "reversed"


async def failed_once(front: Front, field: Field) -> Session:
    """Run one call whose first undo fails; t-1 of the session."""
    session = await after_a_call(front, field)
    field.troubles = 1
    assert (await undone(session)).reason == "failed"
    return session


@pytest.mark.parametrize(
    ("value", "state", "left"),
    [
        ("a person's", "not_reversed", "a person's"),
        ("before", "reversed", "before"),
        ("after", "reversed", "before"),
    ],
)
async def test_a_second_attempt_overwrites_no_repair(
    front: Front, value: str, state: str, left: str
) -> None:
    """A person may have repaired by hand what could not be undone."""
    field = Field()
    session = await failed_once(front, field)
    field.value = value
    field.troubles = 1 if value == "before" else 0
    (planned,) = (await session.plan("t-1")).items
    item = await undone(session)
    assert (item.state, field.value) == (state, left)
    assert (planned.state, planned.detail) == (item.state, item.detail)
    assert item.already is (value == "before")


async def test_what_a_second_attempt_finds_is_said(front: Front) -> None:
    field = Field()
    session = await failed_once(front, field)
    field.value = "a person's"
    assert (await undone(session)).detail == (
        'it left "after" and an undo of it failed, but now there is "a person\'s"'
    )
    field.value = "before"
    item = await undone(session)
    assert item.detail == (
        "an earlier attempt had undone it: all is as it was before the call"
    )
    assert [call.undo for call in session.au.calls("t-1")] == ["done"]


async def test_half_of_an_undo_is_completed_when_that_is_asked_for(
    front: Front,
) -> None:
    field = Field()
    session = await failed_once(front, field)
    field.value = "half"
    assert (await undone(session)).reason == "drifted"
    assert (await undone(session, on_drift="overwrite")).state == "reversed"


async def test_a_verify_that_still_sees_the_effect_runs_the_inverse_again(
    front: Front,
) -> None:
    """What is observed may be less than what the inverse restores."""
    field, more = Field(), ["rest"]

    def put_back() -> None:
        field.value = "before"
        if field.troubles:
            field.troubles -= 1
            raise OSError("no route")
        more.clear()

    field.put_back = put_back  # type: ignore[method-assign]
    session = await after_a_call(front, field, verify=lambda a, c: not more)
    field.troubles = 1
    assert (await undone(session)).reason == "failed"
    item = await undone(session)
    assert (item.state, more) == ("reversed", [])


@pytest.mark.parametrize("writes", ["half", "a person's"])
async def test_between_two_attempts_only_their_own_work_is_overwritten(
    front: Front, writes: str
) -> None:
    """An inverse that failed half way is completed, unless somebody has written since."""
    field, seen = Field(), [0]

    def put_back() -> None:
        if field.value == "after":
            field.value = "half"
            seen[0] = field.reads
            raise OSError("no route")
        field.value = "before"

    def observe(arguments: Mapping[str, object]) -> str:
        # The first look after the attempt is at what the attempt left.
        if seen[0] and field.reads == seen[0] + 1:
            field.value = writes
        field.reads += 1
        return field.value

    field.put_back, field.observe = put_back, observe  # type: ignore[method-assign]
    session = await after_a_call(front, field, retry=AT_ONCE)
    item = await undone(session)
    expected = ("reversed", "before") if writes == "half" else ("not_reversed", writes)
    assert (item.state, field.value) == expected


def _set_rows(
    front: Front, world: dict[str, str], by: Callable[[Mapping[str, str]], str]
) -> None:
    """Register a tool that sets one record; its fingerprint finds it by its id."""

    def put(id: str, value: str) -> None:
        world[id] = value

    front.tools.handler("row.put", idempotent=True)(put)
    front.tools.tool(
        "row.set",
        reversibility=Reversibility.REVERSIBLE,
        capture=lambda a: world[by(a)],
        fingerprint=lambda a: world[by(a)],
        inverse=lambda a, c, r: Inverse.tool("row.put", id=a["id"], value=c),
    )(put)


async def test_a_plan_tells_two_records_of_one_value_apart(front: Front) -> None:
    """What a newer call left is no word about another record."""
    world = {"1": "a", "2": "c"}
    _set_rows(front, world, lambda a: a["id"])
    session = front.session()
    async with session.turn() as turn:
        await turn.call("row.set", id="2", value="b")
        await turn.call("row.set", id="1", value="b")
        await turn.call("row.set", id="1", value="d")
    planned = [item.state for item in (await session.plan("t-1")).items]
    assert planned == ["reversed"] * 3
    assert (await session.undo("t-1")).status == "reversed"
    assert world == {"1": "a", "2": "c"}


@pytest.mark.parametrize("by", [lambda a: a["id"], lambda a: a.get("id")])
async def test_a_plan_says_what_the_run_does_where_two_calls_left_one_value(
    front: Front, by: Callable[[Mapping[str, str]], str]
) -> None:
    """A person wrote into one record what a call had left in another."""
    world = {"1": "a", "2": "b"}
    _set_rows(front, world, by)
    session = front.session()
    async with session.turn() as turn:
        await turn.call("row.set", id="1", value="b")
        await turn.call("row.set", id="2", value="c")
    world["1"] = "c"
    planned = (await session.plan("t-1")).items
    report = await session.undo("t-1")
    states = [(item.call_id, item.state, item.reason) for item in report.items]
    assert states == [
        ("t-1.2", "reversed", None),
        ("t-1.1", "not_reversed", "drifted"),
    ]
    assert [(one.call_id, one.state, one.reason) for one in planned] == states
    assert world == {"1": "c", "2": "b"}
