"""A world that cannot be looked at is not undone over: that counts as drift."""

from collections.abc import Callable, Mapping

import pytest

from gitshadow.sdk.turns.report import UndoItem
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from tests.sdk.turns.front import Front, Session


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

    def declare(self, front: Front) -> None:
        front.tools.compensator("field.undo", idempotent=True)(self.put_back)
        front.tools.tool(
            "field.put",
            reversibility=Reversibility.REVERSIBLE,
            inverse=lambda a, c, r: Inverse.tool("field.undo"),
            observe=self.observe,
            retry=Retry(attempts=1, timeout_s=None),
        )(self.put)


async def after_a_call(front: Front, field: Field) -> Session:
    """Run one call; t-1 of the session."""
    field.declare(front)
    session = front.session()
    async with session.turn() as turn:
        await turn.call("field.put", value="after")
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
        front.tools.compensator("account.refund", idempotent=True)(self.refund)
        front.tools.tool(
            "account.pay",
            reversibility=Reversibility.REVERSIBLE,
            inverse=lambda a, c, r: Inverse.tool("account.refund"),
            observe=self.observe,
            secrets=("token",),
        )(self.pay)

    async def paid(self, front: Front) -> Session:
        self.declare(front)
        session = front.session()
        async with session.turn() as turn:
            await turn.call("account.pay", name="ada", token=TOKEN)
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
        "it could not be observed: SecretNotKeptError: "
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
