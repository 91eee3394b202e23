"""AN-13, AN-16, AN-17 and AN-18: what a turn and a call must pass before anything runs."""

from dataclasses import replace

import pytest

from gitshadow.sdk.turns.errors import SessionBusy
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Limits, Policy, Proposal, Verdict
from gitshadow.sdk.turns.values import Outcome, OutcomeKind, Reversibility
from tests.sdk.turns.front import FREE, Front
from tests.sdk.turns.test_transaction import Spy
from tests.sdk.turns.world import World

COMPENSABLE = Policy(
    non_reversible="allow", min_reversibility=Reversibility.COMPENSABLE
)
CALLS: dict[str, dict[str, object]] = {
    "slack.post": {"text": "x"},
    "mail.send": {"to": "x"},
    "card.charge": {"amount": 5},
    "draft.create": {"title": "x"},
    "notes.read": {"note": "n"},
}


@pytest.mark.parametrize(
    ("floor", "allowed"),
    [
        (None, 5),
        (Reversibility.NON_REVERSIBLE, 5),
        (Reversibility.COMPENSABLE, 3),
        (Reversibility.REVERSIBLE, 2),
        (Reversibility.READ_ONLY, 1),
    ],
)
async def test_a_floor_lets_only_better_classes_in(
    front: Front, world: World, floor: Reversibility | None, allowed: int
) -> None:
    """AN-18: the others are denied before they run, and the turn goes on."""
    policy = Policy(non_reversible="allow", min_reversibility=floor)
    async with front.session(policy=policy).turn() as turn:
        kinds = [(await turn.call(tool, **args)).kind for tool, args in CALLS.items()]
    denied = len(CALLS) - allowed
    assert kinds == [OutcomeKind.DENIED] * denied + [OutcomeKind.SUCCESS] * allowed
    assert world.names == list(CALLS)[denied:]
    assert turn.inner.status == "committed"


async def test_a_denied_call_says_what_the_floor_is(front: Front, world: World) -> None:
    """AN-18."""
    async with front.session(policy=COMPENSABLE).turn() as turn:
        outcome = await turn.call("mail.send", to="x")
    assert outcome == Outcome.denied(
        "mail.send is non_reversible: tools here must be at least compensable"
    )
    assert world.state["sent"] == []
    assert turn.inner.entries() == []


async def test_a_floor_is_not_asked_about(front: Front) -> None:
    """AN-18, AN-17: it is a deny, so nobody is asked."""
    asked: list[Proposal] = []

    def confirm(proposal: Proposal) -> bool:
        asked.append(proposal)
        return True

    policy = replace(COMPENSABLE, non_reversible="ask", confirm=confirm)
    async with front.session(policy=policy).turn() as turn:
        assert (await turn.call("mail.send", to="x")).kind is OutcomeKind.DENIED
    assert asked == []


async def test_a_turn_may_have_a_policy_of_its_own(front: Front, world: World) -> None:
    """AN-18: for that turn alone."""
    session = front.session(policy=FREE)
    async with session.turn(policy=COMPENSABLE) as turn:
        assert (await turn.call("mail.send", to="a")).kind is OutcomeKind.DENIED
    async with session.turn() as turn:
        assert (await turn.call("mail.send", to="b")).ok
    assert world.state["sent"] == ["b"]


async def test_a_guards_deny_wins_from_any_position(front: Front) -> None:
    """AN-17: before or after a question, and whatever the policy allows."""
    for guards in (
        (lambda p: Verdict.deny("never"), lambda p: Verdict.confirm("sure?")),
        (lambda p: Verdict.confirm("sure?"), lambda p: Verdict.deny("never")),
        (lambda p: Verdict.allow(), lambda p: None, lambda p: Verdict.deny("never")),
    ):
        policy = Policy(guards=guards, confirm=lambda p: True)
        async with front.session(policy=policy).turn() as turn:
            assert await turn.call("draft.create", title="x") == Outcome.denied("never")


def test_the_limits_are_those_that_are_documented() -> None:
    """AN-16: docs/sdk.md names them."""
    assert Limits() == Limits(tool_calls=100, round_trips=50, seconds=None)
    assert Policy().confirm_timeout_s == 45.0


async def test_a_busy_session_changes_nothing(front: Front) -> None:
    """AN-13: no transaction of the host, no turn, no event, no row of the log."""
    spy = Spy()
    session, other = front.session(host=Host(undo=spy)), front.session()
    async with other.turn("first"):
        seen = (other.au.turns(), other.au.events(), other.au.log())
        with pytest.raises(SessionBusy):
            async with session.turn("second"):
                raise AssertionError("the block must not run")
        assert (other.au.turns(), other.au.events(), other.au.log()) == seen
    assert spy.log == []
