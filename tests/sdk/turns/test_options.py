"""Options are checked where they are passed: an unknown word never counts as a known one."""

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_type_hints

import pytest

from gitshadow.errors import RefusedError, UsageError
from gitshadow.sdk.turns import registry, undo_request
from gitshadow.sdk.turns.errors import InvocationNotFound
from gitshadow.sdk.turns.host import Context, Host, Program
from gitshadow.sdk.turns.inverse_kinds import Allowed
from gitshadow.sdk.turns.policy import Limits, Policy, Proposal, Verdict, VerdictKind
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.undo_request import UndoOptions, request_of
from gitshadow.sdk.turns.values import Inverse, Retry
from gitshadow.undo.reverse import OnConflict
from tests.sdk.turns.front import Front
from tests.sdk.turns.world import World


def generates(*args: object) -> Iterator[int]:
    yield 1


async def waits(*args: object) -> bool:
    return True


def given(
    kind: Callable[..., object], *args: object, **options: object
) -> Callable[[], object]:
    """Return what makes a value of options that type checkers do not look at."""
    return lambda: kind(*args, **options)


@pytest.mark.parametrize(
    ("make", "said", "hint"),
    [
        (given(Policy, non_reversible="Deny"), "ask, deny or allow", "deny?"),
        (given(Policy, non_reversible="never"), "ask, deny or allow", None),
        (given(Policy, non_reversible=False), "not False", None),
        (given(Policy, non_reversible=None), "not None", None),
        (given(Policy, duplicates="alow"), "refuse or allow", "allow?"),
        (given(Policy, confirm="promt"), "'prompt' or a function", "prompt?"),
        (given(Policy, confirm=True), "confirm must be a function", None),
        (given(Policy, confirm=generates), "not be a generator function", "list"),
        (given(Policy, min_reversibility="compensabel"), "compensable", "mean comp"),
        (given(Policy, guards=print), "a tuple of functions", None),
        (given(Policy, guards=(generates,)), "not be a generator function", None),
        (given(Policy, guards=(True,)), "guards must be a function", None),
        (given(Policy, confirm_timeout_s=-1), "a number of seconds", None),
        (given(Policy, confirm_timeout_s=math.nan), "a number of seconds", None),
        (given(Policy, limits=5), "limits must be a Limits", None),
        (given(Policy, inverses=("rm",)), "inverses must be an Allowed", None),
        (given(Verdict, "deny"), "kind must be a VerdictKind", None),
        (given(Verdict.deny, None), "text must be a text", None),
        (given(Limits, tool_calls=True), "a whole number of at least 0", None),
        (given(Limits, round_trips=-1), "a whole number of at least 0", None),
        (given(Limits, seconds=math.inf), "a number of seconds", None),
        (given(Retry, attempts=0), "a whole number of at least 1", None),
        (given(Retry, attempts=True), "a whole number of at least 1", None),
        (given(Retry, backoff_s=-1), "backoff_s must be a number", None),
        (given(Retry, timeout_s=0), "more than 0 seconds, or None", None),
        (given(Retry, timeout_s="9"), "timeout_s must be a number", None),
        (given(Retry, non_retryable=OSError), "a tuple of exception", None),
        (given(Inverse, "a.b", depends_on="t-1.2"), "a tuple of names", "('t-1.2',)"),
        (given(Inverse.command, "rm note"), "argv must be a list", "['rm', 'note']"),
        (given(Inverse.command, ["rm"], secrets="T"), "a tuple of names", "('T',)"),
        (given(Inverse, "a.b", [1]), "a mapping of arguments", None),
        (given(Inverse, "a.b", critical="no"), "True or False", None),
        (given(Inverse, "a.b", idempotent=1), "True or False", None),
        (given(Host, secrets=waits), "not be a coroutine function", None),
        (given(Host, clock=waits), "not be a coroutine function", None),
        (given(Host, secrets="TOKEN"), "secrets must be a mapping or", None),
        (given(Host, files="no"), "files must be True or False", None),
        (given(Host, writes_below=None), "True or False", None),
        (given(Host, pre_undo=True), "pre_undo must be a function", None),
        (given(Host, post_undo=generates), "not be a generator function", None),
        (given(Host, undo=object()), "the method begin_transaction", None),
        (given(Host, mcp=print), "the method call", None),
        (given(Host, contexts=(1,)), "a tuple of Context", None),
        (given(Context, "a", object()), "the method summary", None),
        (given(Allowed, urls="https://x.org"), "a tuple of names", None),
        (given(Allowed, commands="rm --"), "a tuple of names", "('rm --',)"),
        (given(Allowed, commands=(" ",)), "beginnings of command lines", None),
        (given(Allowed, commands=("a 'b",)), "beginnings of command lines", None),
        (given(Allowed, urls=("x.org/v1",)), "addresses", "start with https"),
        (given(Allowed, urls=("https://u:p@x.org",)), "addresses", "credentials"),
        (given(Allowed, urls=("https://x.org?a",)), "without a query", None),
        (given(Allowed, urls=("https://x.org/v1/..",)), "addresses", "/../"),
        (given(Allowed, mcp="crm"), "a tuple of names", None),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(
    make: Callable[[], object], said: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert said in str(caught.value)
    assert hint is None or hint in str(caught.value.hint)


def test_every_tool_option_has_a_check() -> None:
    assert registry._OPTIONS.keys() == ToolOptions.__annotations__.keys()


def test_words_of_files_are_those_of_an_undo() -> None:
    for word in OnConflict:
        assert request_of({"on_conflict": word.value}).on_conflict == word.value


def test_every_word_of_a_policy_is_accepted() -> None:
    hints = get_type_hints(Policy)
    for name in ("non_reversible", "duplicates"):
        for word in get_args(hints[name]):
            Policy(**{name: word})
    assert hints["duplicates"] == Literal["refuse", "allow"]


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"dry_run": True}, "no option dry_run", "use plan(...)"),
        ({"scopes": {"files"}}, "no option scopes", "did you mean scope?"),
        ({"yes": True}, "no option yes", "use one of token, only"),
        ({"only": "t-1.1"}, "only must be a tuple of names", "('t-1.1',)"),
        ({"only": [1]}, "only must be a tuple of names", None),
        ({"token": 5}, "token must be a text", None),
        ({"on_drift": "zap"}, "skip or overwrite", None),
        ({"on_drift": "overwite"}, "skip or overwrite", "did you mean overwrite?"),
        ({"on_conflict": "zap"}, "skip, overwrite or markers", None),
        ({"scope": "files"}, "scope must be a tuple of names", "('files',)"),
        ({"scope": ["file"]}, "no scope file", "did you mean files?"),
        ({"atomic": "no"}, "atomic must be True or False", None),
    ],
)
@pytest.mark.parametrize("verb", ["undo", "plan", "turn.undo"])
async def test_an_option_that_an_undo_does_not_have_is_refused(
    front: Front,
    world: World,
    verb: str,
    options: dict[str, object],
    said: str,
    hint: str | None,
) -> None:
    """An option that is passed over undoes more than was asked for."""
    session = front.session()
    turn = await session.called("draft.create", title="a")
    with pytest.raises(UsageError) as caught:
        if verb == "plan":
            await session.plan("t-1", **options)
        elif verb == "undo":
            await session.undo("t-1", **options)
        else:
            await turn.undo(**options)
    assert said in str(caught.value)
    assert str(caught.value).startswith("cannot undo: ")
    assert hint is None or hint in str(caught.value.hint)
    assert world.state["drafts"] == {"9": "a"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"effect": True}, "cannot rewind: there is no option effect"),
        ({"dry_run": True}, "cannot rewind: there is no option dry_run"),
        ({"effects": "no"}, "effects must be True or False"),
        ({"scope": "files"}, "scope must be a tuple of names"),
        ({"token": 1}, "token must be a text"),
    ],
)
async def test_an_option_that_a_rewind_does_not_have_is_refused(
    front: Front, world: World, options: dict[str, object], said: str
) -> None:
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.set_state(n=1)
    with pytest.raises(UsageError, match=said):
        await session.rewind("t-1", **options)
    assert world.state["drafts"] == {"9": "a"}
    assert session.au.state == {"n": 1}


async def test_a_target_that_is_no_text_undoes_nothing(front: Front) -> None:
    """A name that was never set does not mean the newest turn."""
    session = front.session()
    async with session.turn() as turn:
        await turn.set_state(n=1)
    for work in (session.plan, session.undo, session.rewind):
        with pytest.raises((UsageError, InvocationNotFound)):
            await work(None)  # type: ignore[arg-type]
    assert session.au.state == {"n": 1}


async def test_an_option_that_a_redo_does_not_have_is_refused(front: Front) -> None:
    session = front.session()
    async with session.turn() as turn:
        await turn.set_state(n=1)
    undone = await session.undo("t-1")
    with pytest.raises(UsageError, match="cannot redo: there is no option tokens"):
        await session.redo(undone.op_id or "", tokens="x")
    assert session.au.state == {}


@pytest.mark.parametrize("value", [False, True, "deny", 0, VerdictKind.ALLOW])
async def test_a_guard_that_returns_no_verdict_denies(
    front: Front, world: World, value: object
) -> None:
    guards = (lambda proposal: value,)
    policy = Policy(non_reversible="allow", guards=guards)  # type: ignore[arg-type]
    async with front.session(policy=policy).turn() as turn:
        outcome = await turn.call("draft.create", title="a")
    assert outcome.kind == "denied"
    assert outcome.text.startswith("a guard must return a Verdict or None")
    assert world.calls == []


@pytest.mark.parametrize("value", ["yes", 1, Verdict.allow()])
async def test_an_answer_that_is_no_bool_is_a_no_that_says_so(
    front: Front, world: World, value: object
) -> None:
    def ask(proposal: Proposal) -> bool:
        return value  # type: ignore[return-value]

    async with front.session(policy=Policy(confirm=ask)).turn() as turn:
        outcome = await turn.call("mail.send", to="x")
    assert outcome.kind == "denied"
    assert "declined: confirm must return True or False" in outcome.text
    assert world.calls == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (False, "pre_undo must return a Verdict or None, not a value of bool"),
        (Verdict.deny("not now"), "pre_undo refused it: not now"),
        (Verdict.confirm("sure?"), "pre_undo refused it: sure"),
    ],
)
async def test_what_pre_undo_returns_can_refuse_an_undo(
    front: Front, world: World, value: object, said: str
) -> None:
    session = front.session(host=Host(pre_undo=lambda plan: value))
    await session.called("draft.create", title="a")
    with pytest.raises(RefusedError, match=said):
        await session.undo("t-1")
    assert world.state["drafts"] == {"9": "a"}


async def test_pre_undo_may_return_a_verdict_that_allows(front: Front) -> None:
    def allow(plan: UndoReport) -> Verdict:
        return Verdict.allow()

    session = front.session(host=Host(pre_undo=allow))
    await session.called("draft.create", title="a")
    assert (await session.undo("t-1")).status == "reversed"


async def test_a_denied_held_call_is_not_told_what_is_allowed_already(
    front: Front,
) -> None:
    front.tools.tool("mail.later", hold=True)(lambda: None)
    policy = Policy(non_reversible="allow", min_reversibility="compensable")  # type: ignore[arg-type]
    async with front.session(policy=policy).turn() as turn:
        outcome = await turn.call("mail.later")
    assert outcome.text == (
        "mail.later is non_reversible: tools here must be at least compensable"
    )


async def test_a_policy_of_a_turn_that_is_none_is_refused(front: Front) -> None:
    """Else its first call would fail, in the middle of the turn."""
    words: Any = {"non_reversible": "deny"}
    with pytest.raises(UsageError, match="policy must be a Policy"):
        front.session().turn(policy=words)
    with pytest.raises(UsageError, match="policy must be a Policy"):
        Program(front.tools, policy=words)


def test_undo_options_are_those_that_are_checked() -> None:
    assert undo_request._UNDO.keys() == UndoOptions.__annotations__.keys()
