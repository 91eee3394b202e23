"""AN-31: inverses are proven by how the world looks; each way of not being one has its name."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.testing import Finding, Proof, prove_rollback, prove_rollback_async
from gitshadow.sdk.testing.rollback import Script
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.inverse_kinds import Allowed
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from tests.sdk.turns.world import World, registry

ONE_TRY = Retry(attempts=1, timeout_s=None)
TOYS: Script = [
    ("notes.read", {"note": "a"}),
    ("crm.update", {"id": 7, "field": "name", "value": "A"}),
    ("draft.create", {"title": "x"}),
    ("cal.invite", {"who": "ann"}),
    ("card.charge", {"amount": 5}),
    ("mail.send", {"to": "ann"}),
]


class Shelf:
    """A world in memory: books by place, and a list of notices."""

    def __init__(self) -> None:
        self.books: dict[str, str] = {"a": "Emma"}
        self.notices: list[str] = []

    def look(self) -> object:
        return {"books": self.books, "notices": self.notices}

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]

    def put(self, place: str, title: str) -> None:
        self.books[place] = title

    def prior(self, arguments: Mapping[str, object]) -> str | None:
        return self.books.get(str(arguments["place"]))

    def restore(self, place: str, title: str | None) -> None:
        if title is None:
            self.books.pop(place, None)
        else:
            self.books[place] = title


def restoring(
    arguments: Mapping[str, object], captured: object, result: object
) -> Inverse:
    return Inverse.tool("shelf.restore", place=arguments["place"], title=captured)


def tools_of(
    shelf: Shelf,
    inverse: Callable[..., object] | None = None,
    *,
    idempotent: bool = True,
    **changed: object,
) -> ToolRegistry:
    """Return a registry with one tool; what is changed of it makes it lie."""
    tools = ToolRegistry()
    options: dict[str, object] = {
        "reversibility": Reversibility.REVERSIBLE,
        "capture": shelf.prior,
        "inverse": restoring,
        "retry": ONE_TRY,
        **changed,
    }
    tools.add("shelf.put", shelf.put, **ToolOptions(**options))  # type: ignore[typeddict-item]
    handler = inverse or shelf.restore
    tools.handler("shelf.restore", idempotent=idempotent)(handler)
    return tools


def proven(shelf: Shelf, tools: ToolRegistry, *places: str) -> Proof:
    """Prove that a book is put into each place, in this order."""
    script = [
        ("shelf.put", {"place": place, "title": f"book {number}"})
        for number, place in enumerate(places or ("b",))
    ]
    return prove_rollback(tools, script, shelf.look)


@pytest.mark.parametrize("front", ["sync", "async"])
def test_honest_tools_are_proven(tmp_path: Path, front: str) -> None:
    """Each as its class declares; the pauses between attempts are not waited for."""
    world = World.make(tmp_path / "w", coroutines=front == "async")
    tools, reset = registry(world), lambda: World.make(tmp_path / "w")
    if front == "sync":
        proof = prove_rollback(tools, TOYS, lambda: world.state, reset=reset)
    else:
        proving = prove_rollback_async(tools, TOYS, lambda: world.state, reset=reset)
        proof = asyncio.run(proving)
    assert proof.ok, proof
    assert proof.findings == [
        Finding.NO_EFFECT,
        Finding.REVERSED,
        Finding.REVERSED,
        Finding.COMPENSATED,
        Finding.COMPENSATED,
        Finding.STAYS,
    ]
    assert proof.notes == ()
    assert proof.render().splitlines()[4] == (
        "  step 4 cal.invite: compensated: the guest was sent a cancellation notice"
    )


def test_every_step_fails_before_and_after_it() -> None:
    """A script of two: the second is called, or fails, once per trial."""
    shelf = Shelf()
    began: list[object] = []

    def noted(arguments: Mapping[str, object]) -> object:
        began.append(arguments["place"])
        return shelf.prior(arguments)

    script = [("shelf.put", {"place": p, "title": p}) for p in "bc"]
    tools = tools_of(shelf, capture=noted)
    proof = prove_rollback(tools, script, shelf.look)
    assert proof.findings == [Finding.REVERSED, Finding.REVERSED]
    first, second, together, in_order, out_of_order = "bbb", "bccc", "bc", "bc", "bc"
    alone = first + second
    assert "".join(map(str, began)) == alone + together + in_order + out_of_order


def test_an_inverse_that_does_nothing_lies() -> None:
    """AN-31: it returns OK, and the world is as the call left it."""
    shelf = Shelf()
    proof = proven(shelf, tools_of(shelf, lambda place, title: None))
    assert (proof.ok, proof.findings) == (False, [Finding.LIES])
    assert str(proof) == (
        "rollback of 1 steps: 1 flawed\n"
        "  step 1 shelf.put: LIES\n"
        "    LIES, failed after it: it reports reversed, but the state is as the"
        " call left it: books.b is new: 'book 0'\n"
        "  not proven: all steps together: one of them is flawed by itself"
    )


def test_a_compensation_that_does_nothing_lies() -> None:
    shelf = Shelf()
    tools = tools_of(
        shelf, lambda place, title: None, reversibility=Reversibility.COMPENSABLE
    )
    assert proven(shelf, tools).findings == [Finding.LIES]


def test_a_tool_that_says_read_only_and_writes_lies() -> None:
    shelf = Shelf()
    proof = proven(shelf, tools_of(shelf, reversibility=Reversibility.READ_ONLY))
    assert proof.findings == [Finding.LIES]


def test_residue_that_is_not_declared_is_named() -> None:
    shelf = Shelf()

    def noisy(place: str, title: str | None) -> None:
        shelf.restore(place, title)
        shelf.notices.append(f"{place} was changed back")

    proof = proven(shelf, tools_of(shelf, noisy, idempotent=False))
    (flaw,) = proof.steps[0].flaws
    assert flaw.finding is Finding.RESIDUE
    assert flaw.detail == (
        "it reports reversed, but notices.0 is new: 'b was changed back'"
    )
    declared = tools_of(
        shelf,
        noisy,
        idempotent=False,
        reversibility=Reversibility.COMPENSABLE,
        residue="a notice",
    )
    proof = proven(shelf, declared)
    assert (proof.findings, proof.steps[0].said) == ([Finding.COMPENSATED], "a notice")


def test_an_inverse_that_does_more_when_repeated_is_named() -> None:
    """What is declared safe to repeat is repeated with its key."""
    shelf = Shelf()
    shelf.notices.append("lend b")

    def once_too_often(place: str, title: str | None, idempotency_key: str) -> None:
        if place not in shelf.books:
            shelf.notices.clear()
        shelf.restore(place, title)

    proof = proven(shelf, tools_of(shelf, once_too_often))
    (flaw,) = proof.steps[0].flaws
    assert (flaw.finding, flaw.when) == (
        Finding.NOT_IDEMPOTENT,
        "repeated with its key",
    )
    assert "notices.0 is missing: 'lend b'" in flaw.detail


def test_an_inverse_that_fails_when_repeated_is_named() -> None:
    shelf = Shelf()
    proof = proven(shelf, tools_of(shelf, lambda place, title: shelf.books.pop(place)))
    (flaw,) = proof.steps[0].flaws
    assert (flaw.finding, flaw.detail) == (
        Finding.NOT_IDEMPOTENT,
        "the second run failed",
    )


def test_what_is_never_repeated_need_not_be_repeatable() -> None:
    shelf = Shelf()
    tools = tools_of(
        shelf, lambda place, title: shelf.books.pop(place), idempotent=False
    )
    assert proven(shelf, tools).findings == [Finding.REVERSED]


def test_an_inverse_that_depends_on_the_order_is_named() -> None:
    """Taken back first, the first write brings back what the second then brings back again."""
    shelf = Shelf()
    proof = proven(shelf, tools_of(shelf), "b", "b")
    assert proof.findings == [Finding.ORDER, Finding.REVERSED]
    (flaw,) = proof.steps[0].flaws
    assert (flaw.when, flaw.detail) == (
        "undone before later steps",
        "books.b is new: 'book 0'",
    )


def test_a_tool_that_notices_drift_does_not_depend_on_the_order() -> None:
    shelf = Shelf()
    proof = proven(shelf, tools_of(shelf, fingerprint=shelf.prior), "b", "b")
    assert proof.findings == [Finding.REVERSED, Finding.REVERSED]


def test_an_inverse_that_refuses_out_of_order_is_honest() -> None:
    """What stays then is in the report; only a lie is a flaw."""
    shelf = Shelf()

    def last_first(place: str, title: str | None) -> None:
        if place == "b" and "c" in shelf.books:
            raise RuntimeError("c stands on it")
        shelf.restore(place, title)

    tools = tools_of(shelf, last_first, idempotent=False)
    script = [("shelf.put", {"place": p, "title": p}) for p in "bc"]
    proof = prove_rollback(tools, script, shelf.look, reset=shelf.reset)
    assert proof.ok, proof
    assert "b" in shelf.books


def test_a_finding_can_be_accepted() -> None:
    shelf = Shelf()
    proof = proven(shelf, tools_of(shelf), "b", "b").without(Finding.ORDER)
    assert (proof.ok, proof.findings) == (True, [Finding.REVERSED, Finding.REVERSED])


def test_inverses_that_stand_in_each_others_way_are_named() -> None:
    """Each is sound while the other step is committed, and not when both are taken back."""
    shelf = Shelf()
    taken_back: list[str] = []

    def jealous(place: str, title: str | None) -> None:
        if place == "b" and taken_back[-1:] == ["c"]:
            shelf.notices.append("c went first")
        shelf.restore(place, title)
        taken_back.append(place)

    tools = tools_of(shelf, jealous, idempotent=False)
    script = [("shelf.put", {"place": p, "title": p}) for p in "bc"]

    def reset() -> None:
        shelf.reset()
        taken_back.clear()

    proof = prove_rollback(tools, script, shelf.look, reset=reset)
    assert proof.findings == [Finding.ORDER, Finding.REVERSED]
    assert proof.steps[0].flaws[0].detail == (
        "sound by itself, but not here: notices.0 is new: 'c went first'"
    )


def test_a_capture_that_writes_is_named() -> None:
    shelf = Shelf()

    def greedy(arguments: Mapping[str, object]) -> object:
        shelf.notices.append("looked")
        return shelf.prior(arguments)

    proof = proven(shelf, tools_of(shelf, capture=greedy))
    assert proof.findings == [Finding.IMPURE]
    assert "notices.0 is new: 'looked'" in proof.steps[0].flaws[0].detail


def test_an_inverse_that_fails_is_not_proven() -> None:
    """It is tried as often as it says, and nobody waits in between."""
    shelf = Shelf()
    tried: list[str] = []

    def refuses(place: str, title: str | None) -> None:
        tried.append(place)
        raise ToolFailure("closed")

    patient = Retry(attempts=2, backoff_s=3600, max_backoff_s=3600, timeout_s=None)
    (step,) = proven(shelf, tools_of(shelf, refuses, retry=patient)).steps
    assert (step.finding, step.flaws[0].detail) == (
        Finding.FAILS,
        "failed: ToolFailure: closed",
    )
    assert tried == ["b", "b"]


def test_an_effect_that_is_not_seen_proves_nothing() -> None:
    """A proof that cannot fail is none."""
    shelf = Shelf()
    script = [("shelf.put", {"place": "b", "title": "x"})]
    proof = prove_rollback(tools_of(shelf), script, lambda: shelf.notices)
    assert proof.findings == [Finding.UNSEEN]


def test_the_order_beside_residue_takes_a_reset() -> None:
    shelf = Shelf()
    tools = tools_of(shelf, reversibility=Reversibility.COMPENSABLE, residue="dust")
    proof = proven(shelf, tools, "b", "c")
    assert proof.notes == ("steps undone out of order need reset=",)
    script = [("shelf.put", {"place": "b", "title": title}) for title in "xy"]
    proof = prove_rollback(tools, script, shelf.look, reset=shelf.reset)
    assert proof.findings == [Finding.ORDER, Finding.COMPENSATED]


def test_what_is_held_until_the_turn_commits_is_never_sent() -> None:
    """A turn that fails sends nothing; what a committed one has sent stays."""
    shelf = Shelf()
    tools = tools_of(shelf)
    tools.tool("shelf.notify", hold=True)(lambda text: shelf.notices.append(text))
    script: Script = [
        ("shelf.notify", {"text": "a"}),
        ("shelf.put", {"place": "b", "title": "x"}),
        ("shelf.notify", {"text": "b"}),
    ]
    proof = prove_rollback(tools, script, shelf.look, reset=shelf.reset)
    assert proof.ok, proof
    assert proof.findings == [Finding.REVERSED] * 3
    assert shelf.notices == ["a", "b"]


def test_arguments_may_come_from_results(tmp_path: Path) -> None:
    world = World.make(tmp_path / "w")
    tools = registry(world)

    @tools.tool(
        "draft.rename",
        reversibility=Reversibility.REVERSIBLE,
        capture=lambda a: world.state["drafts"][str(a["id"])],
        inverse=lambda a, c, r: Inverse.tool("draft.retitle", id=a["id"], title=c),
    )
    @tools.handler("draft.retitle", idempotent=True)
    def rename(id: object, title: str) -> None:
        state = world.state
        if str(id) in state["drafts"]:
            state["drafts"][str(id)] = title
        world.put(state)

    proof = prove_rollback(
        tools,
        [
            ("draft.create", {"title": "x"}),
            ("draft.rename", lambda results: {"id": number(results[0]), "title": "y"}),
        ],
        lambda: world.state,
    )
    assert proof.ok, proof


def number(result: object) -> object:
    assert isinstance(result, dict)
    return result["id"]


@pytest.mark.parametrize(
    ("argv", "finding"),
    [(["rm"], Finding.NOT_IDEMPOTENT), (["rm", "-f"], Finding.REVERSED)],
)
def test_a_command_is_proven_where_the_policy_allows_it(
    tmp_path: Path, argv: list[str], finding: Finding
) -> None:
    """It says that it may be repeated, so it is."""
    place, tools = tmp_path / "a file", ToolRegistry()
    tools.add(
        "file.make",
        place.touch,
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.command([*argv, str(place)]).repeatable(),
        retry=ONE_TRY,
    )
    proof = prove_rollback(
        tools,
        [("file.make", {})],
        place.exists,
        policy=Policy(inverses=Allowed(commands=("rm",))),
    )
    assert proof.findings == [finding]


@pytest.mark.parametrize(
    ("probe", "finding", "said"),
    [
        (True, Finding.REVERSED, None),
        (False, Finding.LIES, "it reports it did not happen, but changed the state"),
        (None, Finding.FAILS, "in_doubt"),
    ],
)
def test_a_step_that_ran_and_then_failed_is_settled_by_its_probe(
    probe: bool | None, finding: Finding, said: str | None
) -> None:
    """A lost answer: the probe has to see what the tool did before it raised."""
    shelf = Shelf()
    tools = tools_of(shelf, probe=lambda arguments: probe)
    script: Script = [("shelf.put", {"place": "b", "title": "x"})]
    proof = prove_rollback(tools, script, shelf.look, reset=shelf.reset)
    assert proof.findings == [finding]
    if said is not None:
        (flaw,) = proof.steps[0].flaws
        assert flaw.when == "ran, then failed"
        assert said in flaw.detail


def test_a_step_that_ran_and_then_failed_is_settled_in_the_async_front() -> None:
    shelf = Shelf()

    async def put(place: str, title: str) -> None:
        shelf.put(place, title)

    tools = tools_of(shelf)
    options = tools.find("shelf.put").options  # type: ignore[union-attr]
    tools.remove("shelf.put")
    tools.add("shelf.put", put, **{**options, "probe": lambda arguments: True})
    script: Script = [("shelf.put", {"place": "b", "title": "x"})]
    proof = asyncio.run(prove_rollback_async(tools, script, shelf.look))
    assert proof.findings == [Finding.REVERSED]


def test_a_script_that_does_not_succeed_is_refused() -> None:
    shelf = Shelf()
    with pytest.raises(UsageError, match=r"step 1 \(no.such\): it was unknown_tool"):
        prove_rollback(tools_of(shelf), [("no.such", {})], shelf.look)


def test_what_a_step_raises_goes_on() -> None:
    shelf = Shelf()
    tools = tools_of(shelf)
    tools.add("shelf.drop", {}.popitem, idempotent=True)
    with pytest.raises(KeyError):
        prove_rollback(tools, [("shelf.drop", {})], shelf.look)
    assert shelf.books == {"a": "Emma"}


def test_an_unsteady_view_of_the_world_is_refused() -> None:
    shelf, ticks = Shelf(), iter(range(100))
    with pytest.raises(UsageError, match="two answers for one state"):
        prove_rollback(
            tools_of(shelf),
            [("shelf.put", {"place": "b", "title": "x"})],
            lambda: next(ticks),
        )
