"""AN-28: after a rewind the model has forgotten an effect, and the world has not."""

from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.sdk.testing import sample_rows as saga_rows
from gitshadow.sdk.turns.authorization import begun
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Outcome, OutcomeKind
from gitshadow.store.journal import saga
from gitshadow.store.journal.db import Db
from tests.sdk.turns.front import Front, Session
from tests.sdk.turns.world import BoomError, Toys, World


async def charged_and_rewound(session: Session) -> None:
    """Charge the card in turn 1, then take the turn out of the conversation."""
    async with session.turn() as turn:
        assert (await turn.call("card.charge", amount=5)).ok
    await session.rewind("t-1")


async def once_more(session: Session, **args: object) -> Outcome:
    """Charge the card in a turn of its own."""
    async with session.turn() as turn:
        return await turn.call("card.charge", **(args or {"amount": 5}))


async def test_a_retried_charge_is_not_run_twice(front: Front, world: World) -> None:
    """AN-28: an outcome that says so; the turn goes on and commits."""
    session = front.session()
    await charged_and_rewound(session)
    async with session.turn() as turn:
        outcome = await turn.call("card.charge", amount=5)
        assert (await turn.call("draft.create", title="x")).ok
    assert outcome == Outcome.duplicate(
        "Duplicate: card.charge with these arguments was already made (t-1.1). It was"
        " removed from the conversation, but its effect was not undone. It was not"
        " run again."
    )
    assert world.state["charges"] == ["ch_1"]
    assert turn.inner.status == "committed"
    assert [one.tool_name for one in turn.inner.entries()] == ["draft.create"]
    assert session.au.calls("t-2")[0].outcome == "duplicate"


async def test_other_arguments_are_another_call(front: Front, world: World) -> None:
    """AN-28."""
    session = front.session()
    await charged_and_rewound(session)
    assert (await once_more(session, amount=6)).ok


async def test_what_was_not_rewound_is_no_duplicate(front: Front) -> None:
    """AN-28: a model may want the same twice, and knows that it has it once."""
    session = front.session()
    assert (await once_more(session)).ok
    assert (await once_more(session)).ok
    await session.rewind("t-2")
    assert not (await once_more(session)).ok


async def test_what_was_taken_back_is_no_duplicate(front: Front, world: World) -> None:
    """AN-28: by the rewind itself, by an undo, by a person."""
    session = front.session()
    assert (await once_more(session)).ok
    await session.rewind("t-1", effects=True)
    assert (await once_more(session)).ok
    await session.rewind("t-2")
    await session.undo("t-2")
    assert (await once_more(session)).ok
    await session.rewind("t-3")
    session.au.resolve("t-3", "t-3.1", "reversed", note="refunded by hand")
    assert (await once_more(session)).ok


async def test_a_rewind_that_was_undone_hides_nothing(front: Front) -> None:
    """AN-28, AN-10: one definition of what is hidden."""
    session = front.session()
    await charged_and_rewound(session)
    assert not (await once_more(session)).ok
    (marker,) = [one for one in session.au.events() if one.kind == "rewind"]
    await session.rewind(marker.invocation)
    assert (await once_more(session)).ok


async def test_a_call_that_did_nothing_is_no_duplicate(front: Front) -> None:
    """AN-28, UC-03: a failure, and an error of a tool that is sure, may be tried again."""
    post = Toys(front.world).slack_post
    front.tools.remove("slack.post")
    front.tools.add("slack.post", post, errors="nothing_done")
    errors: list[Exception] = [ToolFailure("no"), BoomError("x")]
    front.world.trouble["slack.post"] = errors
    session = await front.after("slack.post", text="x")
    with pytest.raises(BoomError):
        await session.called("slack.post", text="x")
    await session.rewind("t-1")
    async with session.turn() as turn:
        assert (await turn.call("slack.post", text="x")).ok


async def test_a_call_in_doubt_is_a_duplicate(front: Front) -> None:
    """AN-28: nobody knows whether it happened, so it is not simply done again."""
    session = front.session()

    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    front.world.before_call = interrupted
    with pytest.raises(KeyboardInterrupt):
        await session.called("card.charge", amount=5)
    front.world.before_call = lambda name: None
    await session.rewind("t-1")
    outcome = await once_more(session)
    assert outcome.kind is OutcomeKind.DUPLICATE
    assert "was started before, and it is unknown whether it happened" in outcome.text


async def test_a_duplicate_is_allowed_by_call_tool_or_policy(
    front: Front, world: World
) -> None:
    """AN-28."""
    session = front.session()
    await charged_and_rewound(session)
    async with session.turn() as turn:
        assert (await turn.again("card.charge", amount=5)).ok
    allowing = front.session(policy=Policy(duplicates="allow"))
    assert (await once_more(allowing)).ok
    tool = front.tools.find("card.charge")
    assert tool is not None
    tool.options["allow_duplicates"] = True
    assert (await once_more(session)).ok
    assert len(world.state["charges"]) == 4


async def test_reads_and_harmless_repeats_always_run(front: Front) -> None:
    """AN-28."""
    front.tools.tool("mark.seen", idempotent=True)(lambda id: None)
    front.tools.tool("file.write", files_only=True)(lambda path: None)
    session = front.session()
    for _ in range(2):
        async with session.turn() as turn:
            assert (await turn.call("notes.read", note="n")).ok
            assert (await turn.call("mark.seen", id=1)).ok
            assert (await turn.call("file.write", path="a")).ok
        await session.rewind(turn.inner.id)


async def test_a_duplicate_is_not_asked_about(front: Front) -> None:
    """AN-28: it does not run whatever the answer, so nobody is bothered."""
    asked: list[str] = []

    def confirm(proposal: object) -> bool:
        asked.append("?")
        return True

    session = front.session(policy=Policy(confirm=confirm))
    async with session.turn() as turn:
        assert (await turn.call("mail.send", to="x")).ok
    await session.rewind("t-1")
    async with session.turn() as turn:
        outcome = await turn.call("mail.send", to="x")
    assert (outcome.kind, asked) == (OutcomeKind.DUPLICATE, ["?"])


@pytest.mark.parametrize("tokens", [("tok-1234", "tok-5678"), ("abc", "xyz")])
async def test_secrets_are_in_no_digest(front: Front, tokens: tuple[str, str]) -> None:
    """AN-28, AN-15: calls that differ in what is secret alone are the same, however short it is."""
    front.tools.tool("api.post", secrets=("token",))(lambda token, body: None)
    session = front.session()
    async with session.turn() as turn:
        assert (await turn.call("api.post", token=tokens[0], body="x")).ok
    await session.rewind("t-1")
    async with session.turn() as turn:
        outcome = await turn.call("api.post", token=tokens[1], body="x")
    assert outcome.kind is OutcomeKind.DUPLICATE


def digest(arguments: Mapping[str, object]) -> str:
    """Return the digest of a call."""
    tools = ToolRegistry()
    tool = tools.add("x.do", lambda: None)
    (effect,) = begun(saga_rows.CALL, tool, arguments)
    return effect.digest


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON), st.randoms())
def test_a_digest_is_that_of_the_values(
    args: dict[str, object], random: object
) -> None:
    """AN-28: whatever the order in which arguments come."""
    assert digest(dict(reversed(args.items()))) == digest(args)
    assert digest({**args, "one more": 1}) != digest(args)


def test_values_that_are_no_json_count_as_well() -> None:
    """AN-28."""
    assert digest({"amount": Decimal(5)}) == digest({"amount": Decimal(5)})
    assert digest({"amount": Decimal(5)}) != digest({"amount": Decimal(6)})
    assert digest({"row": {1: "a", "b": 2}}) != digest({"row": {1: "a", "b": 3}})


def test_the_look_for_a_duplicate_scans_nothing(place: Path) -> None:
    """AN-28, LAW-08: whatever the session holds."""
    journal = place / ".git" / "agent-undo" / "journal.db"
    with closing(Db.open(str(journal), create=False)) as db:
        plan = db.rows(f"EXPLAIN QUERY PLAN {saga._STANDING}", ("s", "d", 0, 9))
    assert [str(row[3])[:8] for row in plan] == ["SEARCH e", "SEARCH c"]
