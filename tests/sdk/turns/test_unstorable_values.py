"""Values that the journal cannot hold as they are: named, never changed in silence."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import pytest

from gitshadow.errors import JournalError, UsageError
from gitshadow.sdk.testing.memory_store import MemoryStore
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.json_values import NotStorableError
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from gitshadow.sdk.turns.values import Conflict, Inverse, Outcome, Reversibility
from gitshadow.store.journal.saga_rows import SagaRow, SagaTurn
from tests.sdk.turns.front import FREE, Front
from tests.sdk.turns.test_pivot import told
from tests.sdk.turns.world import AT_ONCE, World, registry, undone_by

HUGE = 10**5_000  # Python writes at most 4,300 digits
AS_HUGE = pytest.param(HUGE, id="huge")
WRONG: dict[str, tuple[str, Callable[[Turn], object]]] = {
    "tool": ("the name of a tool must be a text, not 5", lambda t: t.call(5)),  # type: ignore[arg-type]
    "arguments": (
        "the arguments of notes.read must be a mapping, not str",
        lambda t: t.call("notes.read", "secret"),  # type: ignore[arg-type]
    ),
    "artifact": (
        "the artifact a must be bytes, not str",
        lambda t: t.save_artifact("a", "text"),  # type: ignore[arg-type]
    ),
    "state": (
        "a change of the state must be a mapping, not list",
        lambda t: t.set_state(["a"]),  # type: ignore[arg-type]
    ),
    "key": (
        "a key of a change of the state must be a text, not 1",
        lambda t: t.set_state({1: 1}),  # type: ignore[dict-item]
    ),
    "author": ("author must be a text, not 5", lambda t: t.say(5, "x")),  # type: ignore[arg-type]
}
HALF = "half \ud83d an emoji"


class Mute:
    """A value that cannot say what it is."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Proxy:
    """A value that stands for another one, and there is none."""

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("outside of a request")


def deep(levels: int) -> object:
    """Return a list in a list in a list."""
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


def circular() -> object:
    value: list[object] = []
    value.append(value)
    return value


def keeping(front: Front, value: object) -> list[object]:
    """Register `box.put`, whose inverse is to get a value; return what it got."""
    got: list[object] = []

    def put_back(value: object) -> None:
        got.append(value)

    front.tools.handler("box.undo", idempotent=True)(put_back)
    front.tools.tool(
        "box.put",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse("box.undo", {"value": value}),
        retry=AT_ONCE,
    )(lambda value=None: None)
    return got


@pytest.mark.parametrize("value", [{"a": [1, None, "x", 1.5]}, HALF, {HALF: [HALF]}])
def test_a_value_comes_back_as_it_was(value: object) -> None:
    text = json_values.faithful(value)
    text.encode()
    assert json_values.loads(text) == value


@pytest.mark.parametrize(
    "value",
    [{1: 2}, (1, 2), [(1,)], {"a": {1: 2}}, {True: 1}, "\ud83d\ude00", float("nan")],
)
def test_a_value_that_would_come_back_changed_is_refused(value: object) -> None:
    with pytest.raises(NotStorableError):
        json_values.faithful(value)


@pytest.mark.parametrize("value", [deep(5_000), circular()])
def test_a_value_without_an_end_is_named(value: object) -> None:
    with pytest.raises(NotStorableError):
        json_values.canonical(value)
    assert "<" in json_values.lenient(value)
    assert "<list>" in Outcome.success(value).text


@pytest.mark.parametrize("value", [{1: 2}, (1, 2), deep(5_000), circular(), AS_HUGE])
async def test_an_inverse_that_would_get_another_value_is_none(
    front: Front, value: object
) -> None:
    """It is named when the call runs, and never run."""
    got = keeping(front, value)
    session = front.session()
    async with session.turn() as turn:
        assert (await turn.call("box.put", "c")).ok
    report = await session.undo("t-1")
    assert (told(report), got) == ({"c": "no_inverse"}, [])
    assert "the inverse was not stored" in str(report.items[0].error)


@pytest.mark.parametrize(
    "value",
    [
        *(HALF, deep(5_000), circular(), {1: 2}, AS_HUGE, [HUGE], {HUGE: HUGE}, Mute()),
        pytest.param(Proxy(), id="proxy"),
    ],
)
async def test_an_odd_argument_does_not_end_the_turn(
    front: Front, value: object
) -> None:
    got = keeping(front, "plain")
    session = front.session()
    async with session.turn() as turn:
        assert (await turn.call("box.put", f"c{HALF}", value=value)).ok
    (item,) = (await session.undo("t-1")).items
    assert (item.state, got) == ("reversed", ["plain"])


@pytest.mark.parametrize("value", [AS_HUGE, Mute()])
async def test_an_odd_value_of_a_tools_option_does_not_end_the_turn(
    front: Front, value: object
) -> None:
    front.tools.handler("box.undo", idempotent=True)(lambda: None)
    front.tools.tool(
        "box.put",
        **undone_by("box.undo"),
        capture=lambda a: value,
        describe=lambda a: value,  # type: ignore[arg-type, return-value]
        residue="a note",
    )(lambda: Outcome.conflict(Conflict("no", expected=HUGE)))
    session = front.session()
    async with session.turn() as turn:
        assert (await turn.call("box.put", "c")).kind == "conflict"


class Closed(dict[str, object]):
    """What a program gave after it had closed what it reads from."""

    def items(self) -> NoReturn:
        raise RuntimeError("closed: hunter22")

    __iter__ = values = items


async def test_a_value_that_raises_while_it_is_read_does_not_end_the_turn(
    front: Front,
) -> None:
    got = keeping(front, Closed(a=1))
    front.tools.tool("box.see", capture=lambda a: Closed(a=1))(lambda: None)
    session = front.session()
    async with session.turn() as turn:
        assert (await turn.call("box.put", "c", value=[Closed(a=1)])).ok
        refused = await turn.call("box.see")
    assert (refused.kind, got) == ("failed", [])
    (item,) = (await session.undo("t-1")).items
    why = "the inverse was not stored: not JSON: reading it raised RuntimeError"
    assert (item.reason, item.error) == ("no_inverse", why)
    assert Outcome.success(Closed(a=1)).text == "<Closed>"


async def test_a_secret_argument_that_cannot_be_read_refuses_the_call(
    front: Front,
) -> None:
    """What cannot be read cannot be hidden in what is stored."""
    ran: list[object] = []
    front.tools.tool("web.login", secrets=("key",))(lambda key: ran.append(key))
    async with front.session().turn() as turn:
        with pytest.raises(UsageError, match=r"secret argument raised RuntimeError$"):
            await turn.call("web.login", key=Closed(a=1))
    assert ran == []


@pytest.mark.parametrize("why", WRONG)
def test_what_is_no_call_or_state_is_named(tmp_path: Path, why: str) -> None:
    """The error has no value that may be a secret, and the turn can go on."""
    said, use = WRONG[why]
    tools = registry(World.make(tmp_path / "world"))
    au = AgentUndo.with_store(MemoryStore(), session="s", tools=tools, policy=FREE)
    with au.turn("x") as turn:
        with pytest.raises(UsageError) as caught:
            use(turn)
        assert turn.call("notes.read", note="n").ok
    assert str(caught.value) == said


@pytest.mark.parametrize("option", ["session", "agent"])
def test_a_name_that_no_journal_can_hold_opens_no_session(
    place: Path, option: str
) -> None:
    session, agent = (HALF, "a") if option == "session" else ("s", HALF)
    with pytest.raises(UsageError, match=f"^{option} must be UTF-8"):
        AgentUndo.open(place, session=session, agent=agent, tools=ToolRegistry())


def test_a_first_state_is_kept_as_it_was_given() -> None:
    """As `set_state`: in the same order, and what would change is refused by its key."""
    au = AgentUndo.with_store(MemoryStore(), session="s", tools=ToolRegistry())
    with pytest.raises(NotStorableError, match=r"^not JSON: tuple at size\['a'\]$"):
        au.create({"size": {"a": (1, 2)}})
    au.create({"cfg": {"b": 1, "a": 2}})
    assert json_values.faithful(au.state) == '{"cfg":{"b":1,"a":2}}'


async def test_half_a_surrogate_pair_gets_to_the_inverse(front: Front) -> None:
    got = keeping(front, {"name": HALF})
    session = front.session()
    async with session.turn(HALF) as turn:
        await turn.call("box.put")
    await session.undo("t-1")
    assert got == [{"name": HALF}]


async def test_half_a_surrogate_pair_in_what_is_said_or_set(front: Front) -> None:
    session = front.session()
    async with session.turn() as turn:
        await turn.say("assistant", HALF, kind="assistant", data=HALF)
        await turn.set_state(mood=HALF)
        turn.inner.core.conclude("assistant", HALF)
    assert turn.inner.status == "committed"
    assert session.au.state["mood"] == HALF
    texts = [one.text for one in session.au.events() if one.author == "assistant"]
    assert texts == ["half \\ud83d an emoji"] * 2


@pytest.mark.parametrize("value", [{1: 2}, (1, 2), circular(), deep(5_000), AS_HUGE])
async def test_state_and_events_refuse_what_would_change(
    front: Front, value: object
) -> None:
    async with front.session().turn() as turn:
        with pytest.raises(NotStorableError, match=r" at value|nested too deeply"):
            await turn.set_state(value=value)
        with pytest.raises(NotStorableError):
            await turn.say("system", "x", value=value)


async def test_a_held_call_refuses_arguments_that_would_change(front: Front) -> None:
    """It would be sent with others than the model gave."""
    front.tools.tool("mail.later", hold=True)(lambda to: None)
    session = front.session()
    async with session.turn() as turn:
        outcome = await turn.call("mail.later", to=("a", "b"))
        huge = await turn.call("mail.later", to=HUGE)
    assert (outcome.kind, huge.kind, session.au.held()) == ("failed", "failed", [])


async def test_a_secret_is_found_in_json_too(front: Front) -> None:
    """A quote in it is written in another way there."""
    secret = 'pass"word\\n'
    front.tools.tool(
        "web.login", secrets=("key",), capture=lambda a: {"was": a["key"]}
    )(lambda key: None)
    session = await front.after("web.login", key=secret)
    (call,) = session.au.calls("t-1")
    assert "word" not in call.intent


class Full(MemoryStore):
    """A store whose disk is full when a turn is to commit."""

    def save(self, rows: Iterable[SagaRow]) -> None:
        found = tuple(rows)
        if any(isinstance(r, SagaTurn) and r.status == "committed" for r in found):
            raise JournalError("disk full")
        super().save(found)


def test_a_turn_whose_commit_cannot_be_written_is_rolled_back(tmp_path: Path) -> None:
    """It has not committed, so its effects do not stay, and the report says so."""
    world = World.make(tmp_path / "world")
    au = AgentUndo.with_store(Full(), session="s", tools=registry(world), policy=FREE)
    with pytest.raises(JournalError) as caught, au.turn("x") as turn:
        turn.call("draft.create", title="x")
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert [item.state for item in report.items] == ["reversed"]
    assert turn.status == "rolled_back"
    assert world.state["drafts"] == {}
