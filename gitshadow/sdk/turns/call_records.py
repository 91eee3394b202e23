"""A call before it runs: the request, its row, its key, the paths among its arguments.

Pure. The key of a call, and that of its inverse, are the same in every attempt.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.option_checks import mapping, optional, text
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.digests import digest
from gitshadow.store.journal.saga_rows import Held, SagaCall, SagaTurn


@dataclass(frozen=True, slots=True)
class CallRequest:
    """The call that a model asked for; without an id it gets a generated one.

    `again` runs it although a rewind hid the same call, which was not undone.
    `function` does the tool's work instead of the registered one: a framework has its own way.
    `origin` is what a framework gives again where it replays the same call in another turn.
    """

    tool: str
    arguments: JsonObject
    call_id: str | None = None
    again: bool = False
    function: Callable[..., object] | None = None
    origin: str | None = None


def requested(
    registry: ToolRegistry,
    tool: str,
    arguments: JsonObject | None,
    named: JsonObject,
    *,
    call_id: str | None,
    again: bool,
) -> CallRequest:
    """Return what a program asked for, with arguments as a mapping, as keywords or as both.

    Raises:
        UsageError: a keyword of ours was given, and the tool has an argument of the same name; or
            the tool is no name, or its arguments are no mapping.
    """
    text("the name of a tool", tool)
    optional(mapping)(f"the arguments of {tool}", arguments)
    request = CallRequest(tool, {**(arguments or {}), **named}, call_id, again)
    known = registry.find(tool)
    ours = [] if call_id is None else ["call_id"]
    ours += ["again"] if again is not False else []
    # Arguments that are given as a mapping cannot clash with our own keywords.
    own = known.parameters if known is not None and arguments is None else None
    clashing = [name for name in ours if name in (own or ())]
    strange = call_id is not None and not isinstance(call_id, str)
    if clashing or strange or not isinstance(again, bool):
        raise UsageError(
            f"cannot call {tool}: {' and '.join(clashing or ours)} would not reach the tool",
            hint="pass its arguments as a mapping: turn.call(tool, {...})",
        )
    return request


def key_of(call: SagaCall, direction: str) -> str:
    """Return the idempotency key of a call (`do`) or of its inverse (`undo`).

    It is the same in every attempt, and no call of another store has it.
    """
    if direction == "undo":
        return call.key
    # Servers know the calls of earlier versions, which knew of no stores, by other keys.
    name = (call.session, call.turn, call.id)
    parts = name if call.key == _digest(*name, "undo") else (call.key,)
    return _digest(*parts, direction)


def _digest(*parts: str) -> str:
    return digest("\0".join(parts))


def row_of(
    turn: SagaTurn,
    request: CallRequest,
    ordinal: int,
    tool: Tool | None,
    moment: int,
    store: str,
) -> SagaCall:
    """Return the row of a call about which nothing is known but what was asked for."""
    known = tool.reversibility if tool is not None else None
    row = SagaCall(
        session=turn.session,
        turn=turn.id,
        id=json_values.storable(request.call_id or f"{turn.id}.{ordinal}"),
        ordinal=ordinal,
        tool=json_values.storable(request.tool),
        klass="undeclared" if known is None else known.value,
        description=json_values.storable(f"Executed {request.tool}"),
        intent="{}",
        started_ns=moment,
        key="",
    )
    return replace(row, key=_digest(store, row.session, row.turn, row.id, "undo"))


def paths_of(arguments: JsonObject, names: Iterable[str]) -> Iterator[str]:
    """Yield the paths among the arguments of these names: one each, or a list of them."""
    for name in names:
        value = arguments.get(name)
        found = value if isinstance(value, list | tuple) else (value,)
        yield from (
            os.fsdecode(one)
            for one in found
            if isinstance(one, str | bytes | os.PathLike)
        )


def arguments_of(call: SagaCall) -> JsonObject:
    """Return the arguments that a call was written down with; secret ones are not there.

    Raises:
        JournalError: its row cannot be read.
    """
    found = json_values.intent(call.intent)["arguments"]
    return found if isinstance(found, Mapping) else {}


def held_row(call: SagaCall, *, committed_ns: int | None = None) -> Held:
    """Return the row of a held call: held still, or due since its turn has committed."""
    held = Held(session=call.session, turn=call.turn, call=call.id, state="held")
    if committed_ns is None:
        return held
    delay_ns = json_values.readable(call.intent).get("delay_ns")
    wait_ns = delay_ns if isinstance(delay_ns, int) else 0
    # The delay begins with the commit; a turn may run for long after the call.
    return replace(held, state="due", due_ns=committed_ns + wait_ns)
