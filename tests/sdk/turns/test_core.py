"""The core without drivers: its states, its order, its judgement, on values alone."""

from dataclasses import replace
from itertools import permutations
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.sdk.testing import sample_rows as saga_rows
from gitshadow.sdk.turns import calls, json_values
from gitshadow.sdk.turns.call_records import CallRequest
from gitshadow.sdk.turns.commands import (
    ClaimCompensation,
    Command,
    Invoke,
    Now,
    Procedure,
    Raised,
    Returned,
    Save,
    in_the_open,
)
from gitshadow.sdk.turns.errors import TurnClosed
from gitshadow.sdk.turns.host import ContextCache, Host
from gitshadow.sdk.turns.policy import Policy, Verdict, VerdictKind, strictest
from gitshadow.sdk.turns.redaction import NO_SECRETS
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoKind
from gitshadow.sdk.turns.reversibility import JudgedCalls, in_undo_order
from gitshadow.sdk.turns.saga import Unwind, effects, new_op
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.turn import TurnCore
from gitshadow.sdk.turns.turn_states import TurnEvent, TurnStatus, advance
from gitshadow.sdk.turns.undo_operation import Whole
from gitshadow.sdk.turns.undo_request import UndoRequest
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from gitshadow.store.journal.saga_rows import SagaCall
from gitshadow.undo.report import State

T = TypeVar("T")
SETTING = TurnSettings(
    store_id="store",
    root=".",
    session="s",
    agent=None,
    registry=ToolRegistry(),
    policy=Policy(non_reversible="allow"),
    host=Host(),
    owner="me",
    contexts=ContextCache(()),
)
KINDS = ("reversible", "compensable", "non_reversible", "undeclared", "read_only")


def answered(command: Command) -> object:
    """Answer a command without a journal."""
    if isinstance(command, Now):
        return 1
    if isinstance(command, ClaimCompensation):
        return True
    if isinstance(command, Invoke):
        try:
            return Returned(command.function(*command.args, **command.kwargs))
        except ValueError as error:
            return Raised(error)
    return None


def driven(procedure: Procedure[T]) -> tuple[T, list[Command]]:
    """Run a procedure without a journal; return its value and what it asked for."""
    commands: list[Command] = []
    procedure = in_the_open(procedure)
    event: object = None
    while True:
        try:
            command = procedure.send(event)
        except StopIteration as stop:
            value: T = stop.value
            return value, commands
        commands.append(command)
        event = answered(command)


def call_row(ordinal: int, kind: str = "reversible", *needs: int) -> SagaCall:
    """Return a call that succeeded."""
    inverse = Inverse("x.undo", {"n": ordinal}, None, tuple(f"c{n}" for n in needs))
    text = json_values.inverse_text(
        inverse, Retry(attempts=1), NO_SECRETS, after_files=False
    )
    undoable = kind in ("reversible", "compensable")
    return SagaCall(
        session="s",
        turn="t-1",
        id=f"c{ordinal}",
        ordinal=ordinal,
        tool="x.do",
        klass=kind,
        description="",
        intent="{}",
        started_ns=1,
        outcome="success",
        inverse=text if undoable else None,
        key=f"k{ordinal}",
        undo="planned" if undoable else "none",
    )


def unwind(rows: tuple[SagaCall, ...], failing: frozenset[int]) -> Whole:
    """Return an undo whose handler fails for some calls."""
    tools = ToolRegistry()

    def undo(n: int) -> None:
        if n in failing:
            raise ValueError("no")

    tools.handler("x.undo", idempotent=True)(undo)
    op = new_op("s", UndoKind.UNDO, "t-1", 1)
    request = UndoRequest()
    setting = replace(SETTING, registry=tools)
    scene = JudgedCalls(setting=setting, op=op, request=request, now_ns=1)
    phase = effects([Unwind(rows, scene)], late=False)
    return Whole(op=op, phases=(phase,), request=request)


@given(st.lists(st.sampled_from(list(TurnEvent))))
def test_a_turn_ends_once(events: list[TurnEvent]) -> None:
    """Whatever happens in whatever order, an end is left only by what comes after one."""
    status = TurnStatus.OPEN
    for event in events:
        try:
            after = advance(status, event)
        except TurnClosed:
            continue
        is_open = status in (TurnStatus.OPEN, TurnStatus.ROLLING_BACK)
        is_rest = (status, event) == (
            TurnStatus.PARTIALLY_ROLLED_BACK,
            TurnEvent.UNWOUND,
        )
        assert is_open or is_rest or event in (TurnEvent.UNDO, TurnEvent.REDO)
        assert after is not TurnStatus.OPEN
        status = after


@given(st.lists(st.sampled_from(KINDS), max_size=12), st.sets(st.integers(0, 11)))
def test_states_are_disjoint_and_exhaustive(
    kinds: list[str], failing: set[int]
) -> None:
    """REP-04: one item per call, in one state; counts sum to the calls."""
    rows = tuple(call_row(number, kind) for number, kind in enumerate(kinds))
    report, _ = driven(unwind(rows, frozenset(failing)).run())
    assert sorted(item.call_id for item in report.items) == sorted(
        row.id for row in rows
    )
    assert sum(report.counts.values()) == len(rows)
    for item, row in zip(report.items, reversed(rows), strict=True):
        assert (item.reason is None) == (item.state is not State.NOT_REVERSED)
        assert (item.state is State.NO_EFFECT) == (row.klass == "read_only")
    undone = [item for item in report.items if item.state == "reversed"]
    assert len(undone) == sum(
        kind == "reversible" and number not in failing
        for number, kind in enumerate(kinds)
    )


@given(st.lists(st.sampled_from(KINDS), max_size=8), st.data())
def test_a_dropped_undo_is_finished_by_the_next(
    kinds: list[str], data: st.DataObject
) -> None:
    """A crash is a generator that is not sent to any more: what was saved decides the rest."""
    rows = tuple(call_row(number, kind) for number, kind in enumerate(kinds))
    whole, commands = driven(unwind(rows, frozenset()).run())
    at = data.draw(st.integers(0, len(commands)))
    first = unwind(rows, frozenset())
    procedure, event = in_the_open(first.run()), None
    kept = {row.id: row for row in rows}
    for _ in range(at):
        try:
            command = procedure.send(event)
        except StopIteration:
            break
        event = answered(command)
        saved = command.rows if isinstance(command, Save) else ()
        kept |= {row.id: row for row in saved if isinstance(row, SagaCall)}
    after, _ = driven(unwind(tuple(kept.values()), frozenset()).run())
    assert [(one.call_id, one.state) for one in after.items] == [
        (one.call_id, one.state) for one in whole.items
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_an_undo_is_that_of_the_starts(order: tuple[int, ...]) -> None:
    """AN-08, ENG-01: whatever order rows come in."""
    rows = [call_row(number) for number in order]
    assert [row.ordinal for row in in_undo_order(rows)] == [2, 1, 0]


def test_a_circle_of_dependencies_ends() -> None:
    """Bad input: two calls that wait for each other are still taken back or named."""
    rows = (call_row(1, "reversible", 2), call_row(2, "reversible", 1))
    assert sorted(row.ordinal for row in in_undo_order(rows)) == [1, 2]
    report, _ = driven(unwind(rows, frozenset()).run())
    assert [item.state for item in report.items] == ["reversed", "reversed"]


def test_the_intent_is_written_before_the_tool_runs() -> None:
    """AN-01: intent, tool, outcome with inverse: in this order and in one row each."""
    tools = ToolRegistry()
    tools.tool(
        "x.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("x.do", n=r),
    )(lambda n: n + 1)
    row = replace_turn(tools)
    procedure = calls.run(row, CallRequest("x.do", {"n": 1}, "c"))
    event: object = None
    seen: list[str] = []
    while True:
        try:
            command = procedure.send(event)
        except StopIteration:
            break
        event = answered(command)
        if isinstance(command, Save):
            (saved,) = [one for one in command.rows if isinstance(one, SagaCall)]
            seen.append(f"saved {saved.outcome} {saved.undo}")
        elif isinstance(command, Invoke):
            seen.append("invoked")
    assert seen == ["saved None none", "invoked", "invoked", "saved success planned"]


def replace_turn(tools: ToolRegistry) -> TurnCore:
    """Return an open turn with these tools."""
    return TurnCore(replace(SETTING, registry=tools), saga_rows.TURN)


@given(st.lists(st.sampled_from(list(VerdictKind))))
def test_a_deny_wins_and_the_first_question_is_asked(kinds: list[VerdictKind]) -> None:
    """AN-17."""
    found = strictest(Verdict(kind, str(at)) for at, kind in enumerate(kinds))
    for kind in (VerdictKind.DENY, VerdictKind.CONFIRM):
        if kind in kinds:
            assert found == Verdict(kind, str(kinds.index(kind)))
            return
    assert found.kind is VerdictKind.ALLOW


@given(st.integers(1, 60))
def test_pauses_grow_up_to_their_bound(attempt: int) -> None:
    """AN-06."""
    retry = Retry(backoff_s=0.5, max_backoff_s=8)
    assert retry.pause_s(attempt) == min(0.5 * 2 ** (attempt - 1), 8)
