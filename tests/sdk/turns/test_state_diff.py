"""AN-38: looking at what changed, without touching it."""

import pytest

from gitshadow.sdk.turns.errors import InvocationNotFound
from tests.sdk.turns.front import Front, Session


async def worked(front: Front) -> Session:
    """Run three turns that change state and artifacts."""
    session = front.session()
    session.au.create({"tenant": "t1"})
    async with session.turn() as turn:
        await turn.set_state(k=1, gone=True)
        await turn.save("notes", b"one")
    async with session.turn() as turn:
        await turn.set_state(k=2, gone=None, deep={"n": [1]})
        await turn.save("notes", b"two")
        await turn.save("extra", b"x")
    async with session.turn() as turn:
        await turn.set_state(k=1)
        await turn.save("notes", b"one")
    return session


async def test_two_moments_are_compared(front: Front) -> None:
    """AN-38: values and versions before and after, None for what is absent."""
    session = await worked(front)
    found = session.au.diff("t-2", "t-3")
    assert found.state == {
        "k": (1, 2),
        "gone": (True, None),
        "deep": (None, {"n": [1]}),
    }
    assert found.artifacts == {"extra": (None, 0), "notes": (0, 1)}
    assert session.au.diff("t-3", "t-2").state["k"] == (2, 1)


async def test_what_came_back_is_no_difference(front: Front) -> None:
    """AN-38: compared by value and by content, up to now."""
    session = await worked(front)
    found = session.au.diff("t-2")
    assert set(found.state) == {"gone", "deep"}
    assert found.artifacts == {"extra": (None, 0)}


async def test_looking_changes_nothing(front: Front) -> None:
    """AN-38: read-only, also where there is nothing to find."""
    session = await worked(front)
    events, state = session.au.events(), session.au.state
    with pytest.raises(InvocationNotFound):
        session.au.diff("t-1", "nope")
    found = session.au.diff("t-1")
    assert isinstance(found.state["deep"][1], dict)
    found.state["deep"][1]["n"] = "mine"
    assert (session.au.events(), session.au.state) == (events, state)
