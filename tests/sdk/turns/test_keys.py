"""Idempotency keys: one per call and store, the same in every attempt."""

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Inverse, Reversibility
from gitshadow.service import in_process
from tests.sdk.turns.front import Front
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.world import AT_ONCE


def former(direction: str) -> str:
    """Return the key of call `c` of `t-1` in session `s`, as versions before stores did."""
    text = "\0".join(("s", "t-1", "c", direction))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def keyed() -> tuple[ToolRegistry, list[tuple[str, str]]]:
    """Return a tool whose functions all take the key, and the keys that they got."""
    tools, got = ToolRegistry(), []

    def undo(idempotency_key: str) -> None:
        got.append(("undo", idempotency_key))

    def look(arguments: object, *, idempotency_key: str) -> str:
        got.append(("look", idempotency_key))
        return "x"

    def put(idempotency_key: str) -> None:
        got.append(("do", idempotency_key))

    tools.handler("box.undo")(undo)
    tools.add(
        "box.put",
        put,
        reversibility=Reversibility.COMPENSABLE,
        fingerprint=look,
        inverse=lambda a, c, r: Inverse("box.undo", {}),
        residue="a line",
        retry=AT_ONCE,
    )
    return tools, got


async def test_two_stores_share_no_key(front: Front, tmp_path: Path) -> None:
    """Sessions of one name in two repositories would take each other's work for done."""
    tools, got = keyed()
    front.tools = tools
    other = Front("memory", tmp_path, front.world, tools)
    for one in (front, other):
        session = one.session()
        await session.called("box.put", "c")
        await session.undo("t-1")
    # The function and `observe` get the key of the call.
    assert len(set(got)) == 2 * 3
    assert len({key for _, key in got}) == 2 * 2


async def test_keys_are_the_same_after_a_reindex(recorded: Recorded) -> None:
    """Of old calls and of new ones, whether the old journal is set aside or not."""
    front = recorded.front
    session = await front.after("crm.update", "c", id=7, field="name", value="A")
    name = session.au.runtime.setting.store_id
    (before,) = session.au.calls("t-1")
    in_process.run(recorded.layout, "reindex", {})
    again = front.session()
    assert again.au.runtime.setting.store_id == name
    await again.undo("t-1")
    (after,) = again.au.calls("t-1")
    assert (after.key, front.world.calls[-1][1]) == (before.key, before.key)


async def test_a_name_is_made_once_by_two_openings(place: Path) -> None:
    tools, _ = keyed()
    with (
        AgentUndo.open(str(place), session="a", tools=tools) as one,
        AgentUndo.open(str(place), session="b", tools=tools) as two,
    ):
        names = {au.runtime.store.store_id() for au in (one, two)}
    assert (len(names), len(names.pop())) == (1, 32)


async def test_calls_of_an_earlier_version_keep_their_keys(front: Front) -> None:
    tools, got = keyed()
    front.tools = tools
    session = await front.after("box.put", "c")
    (call,) = session.au.calls("t-1")
    assert former("undo") != call.key
    session.au.runtime.store.save([replace(call, key=former("undo"))])
    got.clear()
    await session.undo("t-1")
    assert dict(got) == {"look": former("do"), "undo": former("undo")}
