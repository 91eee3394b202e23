"""What an inverse is built from is a value from before the call, whatever changes afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from threading import Lock
from typing import cast

import pytest

from gitshadow.sdk.integrations.hooks import HookedTurns
from gitshadow.sdk.testing import sample_rows
from gitshadow.sdk.turns import calls, json_values
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.file_recording import FileRecorder, Tell
from gitshadow.sdk.turns.kept_secrets import (
    ArgumentNotKeptError,
    PartialArguments,
    completed,
    copies_of,
)
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoItem
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.values import Inverse, Outcome, Reversibility
from tests.sdk.turns.front import Front
from tests.sdk.turns.test_core import SETTING, driven
from tests.sdk.turns.world import AT_ONCE


class Color(StrEnum):
    """A text with a type of its own."""

    RED = "red"


class Shop:
    """A record in memory, as a program has it, and what its inverse was given."""

    def __init__(self, record: object = None) -> None:
        self.record = record
        self.given: list[object] = []

    def put(self, value: object) -> None:
        self.given.append(value)
        self.record = value

    def declare(
        self, front: Front, work: Callable[..., object], **options: object
    ) -> None:
        front.tools.handler("shop.put", idempotent=True)(self.put)
        known = {"reversibility": Reversibility.REVERSIBLE, "retry": AT_ONCE}
        front.tools.add("shop.do", work, **cast(ToolOptions, {**known, **options}))


async def undone(front: Front, **arguments: object) -> UndoItem:
    """Run one call and undo its turn."""
    session = front.session()
    async with session.turn() as turn:
        assert (await turn.call("shop.do", "c", **arguments)).ok
    (item,) = (await session.undo("t-1")).items
    return item


def of_argument(name: str) -> Callable[..., Inverse]:
    """Return what builds an inverse of one argument."""
    return lambda a, c, r: Inverse.tool("shop.put", value=a[name])


def captured(a: object, c: object, r: object) -> Inverse:
    """Build an inverse of what was captured."""
    return Inverse.tool("shop.put", value=c)


async def test_a_captured_object_that_the_tool_changes_is_restored(
    front: Front,
) -> None:
    shop = Shop({"name": "Ann", "tags": [1]})
    live = cast(dict[str, object], shop.record)

    def work(name: str) -> None:
        live.update(name=name)
        cast(list[int], live["tags"]).append(2)

    shop.declare(front, work, capture=lambda a: shop.record, inverse=captured)
    assert (await undone(front, name="Bob")).state == "reversed"
    assert shop.record == {"name": "Ann", "tags": [1]}


@pytest.mark.parametrize("extra", [None, b"no JSON", {1: 2}])
async def test_arguments_that_the_tool_changes_are_as_they_were(
    front: Front, extra: object
) -> None:
    shop = Shop()
    row = {"id": 7, "extra": extra}
    shop.declare(
        front,
        lambda row: row.clear(),
        inverse=lambda a, c, r: Inverse.tool("shop.put", value=a["row"]["id"]),
    )
    assert (await undone(front, row=row)).state == "reversed"
    assert (shop.given, row) == ([7], {})


async def test_arguments_that_observe_and_describe_change_are_as_they_were(
    front: Front,
) -> None:
    shop = Shop()
    asked = 0

    def take(arguments: Mapping[str, object]) -> str:
        nonlocal asked
        asked += 1
        if asked > 1:
            cast(dict[str, object], arguments).clear()
        return "same"

    shop.declare(
        front,
        lambda rows: None,
        fingerprint=take,
        describe=take,
        inverse=of_argument("rows"),
    )
    assert (await undone(front, rows=[1])).state == "reversed"
    assert (shop.given, asked > 2) == ([[1]], True)


async def test_an_argument_that_cannot_be_copied_makes_no_inverse_of_it(
    front: Front,
) -> None:
    shop = Shop()
    shop.declare(front, lambda lock, id: None, inverse=of_argument("lock"))
    item = await undone(front, lock=Lock(), id=7)
    assert (item.state, item.reason) == ("not_reversed", "no_inverse")
    assert str(item.error).startswith(
        "the inverse was not made: the argument lock could not be copied: TypeError"
    )


async def test_an_argument_that_cannot_be_copied_stops_no_other_inverse(
    front: Front,
) -> None:
    shop = Shop()
    lock = Lock()
    got: list[object] = []
    shop.declare(front, lambda lock, id: got.append(lock), inverse=of_argument("id"))
    assert (await undone(front, lock=lock, id=7)).state == "reversed"
    assert (shop.given, got) == ([7], [lock])


async def test_a_capture_that_cannot_be_copied_refuses_the_call(front: Front) -> None:
    """It would be read after the tool has changed it; nothing has run yet."""
    shop = Shop()
    ran: list[int] = []
    shop.declare(
        front, lambda: ran.append(1), capture=lambda a: Lock(), inverse=captured
    )
    async with front.session().turn() as turn:
        outcome = await turn.call("shop.do")
    assert (outcome.kind, ran) == ("failed", [])
    assert "what was captured could not be copied" in outcome.text


async def test_a_secret_that_the_tool_changes_is_as_it_was(front: Front) -> None:
    """An undo in the same process asks `observe` with what the call was given."""
    shop = Shop()
    seen: list[object] = []

    def observe(arguments: Mapping[str, object]) -> str:
        seen.append(repr(arguments["card"]))
        return "same"

    shop.declare(
        front,
        lambda card: card.clear(),
        fingerprint=observe,
        secrets=("card",),
        inverse=lambda a, c, r: Inverse.tool("shop.put", value=1),
    )
    assert (await undone(front, card={"number": "4111222233334444"})).state == (
        "reversed"
    )
    assert set(seen) == {"{'number': '4111222233334444'}"}


async def test_the_order_of_keys_is_kept(front: Front) -> None:
    """A document that is put back is the same text, in another process too."""
    shop = Shop({"zip": 1, "name": {"last": "L", "first": "F"}})
    got: list[str] = []

    def verify(arguments: object, capture: object) -> bool:
        got.append(repr(capture))
        return True

    def work() -> None:
        shop.record = None

    shop.declare(
        front,
        work,
        capture=lambda a: shop.record,
        inverse=captured,
        verify=verify,
    )
    await front.after("shop.do")
    assert (await front.session().undo("t-1")).status == "reversed"
    text = "{'zip': 1, 'name': {'last': 'L', 'first': 'F'}}"
    assert (repr(shop.record), got) == (text, [text])


class Heard(FileRecorder):
    """A recorder that keeps the paths of the events it gets."""

    def __init__(self) -> None:
        self.paths: list[tuple[str, ...]] = []

    def tell(self, told: Tell) -> str | None:
        self.paths.append(told.paths)
        return None


async def test_a_member_of_an_enum_is_no_text(front: Front) -> None:
    """It would come back as a plain one."""
    shop = Shop()
    shop.declare(front, lambda color: None, inverse=of_argument("color"))
    item = await undone(front, color=Color.RED)
    assert (item.reason, shop.given) == ("no_inverse", [])
    assert item.error == "the inverse was not stored: not JSON: Color at value"


def test_the_paths_of_a_call_are_told_as_they_were_before_it() -> None:
    """The tool may empty the list that names its files."""
    tools = ToolRegistry()
    tools.add("file.write", lambda paths: paths.clear(), paths=("paths",))
    recorder = Heard()
    setting = replace(SETTING, registry=tools, recorder=recorder)
    turn = TurnCore(setting, replace(sample_rows.TURN, status="open"))
    request = CallRequest("file.write", {"paths": ["a", "b"]})
    driven(calls.run(turn, request))
    assert recorder.paths == [("a", "b"), ("a", "b")]


@pytest.mark.parametrize("front", ["sync"], indirect=True)
def test_a_hook_after_the_call_changes_no_argument(front: Front) -> None:
    """What it reports was read after the tool; only secrets are taken from it."""
    shop = Shop()
    shop.declare(
        front,
        lambda **given: None,
        secrets=("token",),
        inverse=lambda a, c, r: Inverse.tool(
            "shop.put", value=[a["row"], len(a["token"])]
        ),
    )
    au = front.session().au
    assert isinstance(au, AgentUndo)
    HookedTurns(au).before("shop.do", {"row": [1], "token": "abcdef"}, call_id="c")
    au.close()
    au = front.session().au
    assert isinstance(au, AgentUndo)
    hooked = HookedTurns(au)
    hooked.after("c", "ok", arguments={"row": [], "token": "abcdef"})
    hooked.end()
    assert au.undo("t-1").status == "reversed"
    assert shop.given == [[[1], 6]]


def test_missing_arguments_are_filled_from_others() -> None:
    partial = PartialArguments({"a": 1}, {"b": "is gone", "c": "is gone"})
    filled = completed(partial, {"a": 9, "b": 2})
    assert (filled["a"], filled["b"], len(filled)) == (1, 2, 3)
    with pytest.raises(ArgumentNotKeptError, match="the argument c is gone"):
        filled.get("c")
    assert dict(completed(partial, {"b": 2, "c": 3})) == {"a": 1, "b": 2, "c": 3}


def test_copies_share_nothing() -> None:
    given = {"rows": [(1, [2])], "odd": {3: [4]}}
    found = cast(dict[str, list[object]], copies_of(given))
    assert found == given
    assert found["rows"] is not given["rows"]
    assert found["rows"][0] == (1, [2])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {3, 1}}, '{"a":[1,3],"b":1}'),
        ({1: (Color.RED, 1.5)}, '{"1":["red",1.5]}'),
        (frozenset({(1, 2), (1,)}), "[[1,2],[1]]"),
        (range(3), "[0,1,2]"),
    ],
)
def test_an_observation_has_one_text(value: object, text: str) -> None:
    assert json_values.observation_text(value) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "not JSON: float"),
        ({"a": [b"x"]}, "not JSON: bytes at a[0]"),
        ([{"a": 1j}], "not JSON: complex at [0]['a']"),
        ({(1, 2): 3}, "not JSON: a key of type tuple"),
        ({1: 2, "1": 3}, "not JSON: a key of type str"),
        (Outcome.success(1), "not JSON: Outcome"),
        ({"n": [10**5000]}, "not JSON: a number that is too long at n[0]"),
    ],
)
def test_an_observation_that_is_no_json_is_named(value: object, words: str) -> None:
    with pytest.raises(json_values.NotStorableError) as caught:
        json_values.observation_text(value)
    assert str(caught.value) == words
