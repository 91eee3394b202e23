"""One script for every adapter: what a turn of the toy world leaves in the log (AN-40).

An adapter runs `SCRIPT` in its own way, in one turn, on the registry of
`tests.sdk.turns.world`; what `saga_rows` then gives must be what `in_process` gives.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.base_session import SessionFront
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.store.journal.saga_rows import SagaCall
from tests.sdk.turns.front import FREE
from tests.sdk.turns.world import World, registry


class Step(NamedTuple):
    """One call of the script."""

    call: str
    tool: str
    arguments: Mapping[str, object]


class SagaRow(NamedTuple):
    """What the log must say of a call, whoever ran it."""

    tool: str
    klass: str
    description: str
    arguments: object
    outcome: str | None
    handler: str | None
    inverse: object
    residue: str | None
    undo: str


SCRIPT = (
    Step("c1", "notes.read", {"note": "n1"}),
    Step("c2", "crm.update", {"id": 7, "field": "name", "value": "Z"}),
    Step("c3", "draft.create", {"title": "A"}),
    Step("c4", "toy.soft_fail", {}),
    Step("c5", "cal.invite", {"who": "ann"}),
    Step("c6", "card.charge", {"amount": 5}),
    Step("c7", "mail.send", {"to": "bob"}),
    Step("c8", "slack.post", {"text": "hello"}),
)


def in_process(root: Path) -> list[SagaRow]:
    """Run the script with `turn.call` and return its rows."""
    world = World.make(root / "in-process")
    au = AgentUndo.open(
        str(root), session="in-process", tools=registry(world), policy=FREE
    )
    with au:
        with au.turn("the script") as turn:
            for step in SCRIPT:
                turn.call(step.tool, step.arguments, call_id=step.call)
        return saga_rows(au, turn.id)


def saga_rows(au: SessionFront[Any, Any], turn: str) -> list[SagaRow]:
    """Return what the log says of a turn's calls, in their order, without ids and times."""
    return [row_of(call) for call in au.calls(turn)]


def row_of(call: SagaCall) -> SagaRow:
    """Return what the log says of one call."""
    stored = json_values.stored_inverse(call.inverse) if call.inverse else None
    return SagaRow(
        tool=call.tool,
        klass=call.klass,
        description=call.description,
        arguments=json_values.parse(call.intent).get("arguments"),
        outcome=call.outcome,
        handler=stored.handler if stored else None,
        inverse=dict(stored.args) if stored else None,
        residue=stored.residue if stored else None,
        undo=call.undo,
    )
