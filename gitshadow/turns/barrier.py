"""The barrier before an effect that a rewind has hidden: the model forgot it, the world did not.

Two calls are the same when tool and arguments are; what is secret of them does not count, so that
no digest tells anything of it.
Invariant: where nothing was rewound no call is ever a duplicate.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b

from gitshadow.store.journal.saga_rows import Effect, SagaCall
from gitshadow.turns import known, records
from gitshadow.turns.known import Known
from gitshadow.turns.registry import Tool
from gitshadow.turns.steps import Procedure, Standing, standing
from gitshadow.turns.turn import TurnCore
from gitshadow.turns.values import Reversibility

_DIGEST_BYTES = 16


def repeats(
    turn: TurnCore, tool: Tool, arguments: Mapping[str, object]
) -> Procedure[str | None]:
    """Return what a model is told of a call that still has its effect, or None."""
    if turn.setting.policy.duplicates == "allow" or not _counts(tool):
        return None
    if tool.options.get("allow_duplicates", False):
        return None
    digest = _digest(tool, arguments)
    found = yield from standing(Standing(turn.row.session, digest))
    return None if found is None else _said(found)


def begun(call: SagaCall, tool: Tool, arguments: Mapping[str, object]) -> list[Effect]:
    """Return the row by which a later call is known to be the same."""
    if not _counts(tool):
        return []
    return [Effect(call.session, _digest(tool, arguments), call.turn, call.id)]


def _counts(tool: Tool) -> bool:
    """Tell whether doing it twice is more than doing it once."""
    if tool.effective is Reversibility.READ_ONLY:
        return False
    options = tool.options  # files come back with a rewind, and are written anew
    return not (options.get("idempotent", False) or options.get("files_only", False))


def _digest(tool: Tool, arguments: Mapping[str, object]) -> str:
    names = tool.options.get("secrets", ())
    shown = records.redact_arguments(arguments, names)
    # A value that is no JSON stands for itself by its repr: one that names an address is never
    # the same twice, which lets the call through.
    try:
        text = json.dumps([tool.name, shown], sort_keys=True, default=repr)
    except (TypeError, ValueError):  # keys of several types, a circle
        text = repr([tool.name, shown])
    except RecursionError:
        text = records.lenient([tool.name, shown])
    secrets = records.secret_values(arguments, names)
    plain = records.redact(text, secrets)
    return blake2b(
        records.storable(plain).encode(), digest_size=_DIGEST_BYTES
    ).hexdigest()


def _said(call: SagaCall) -> str:
    named = f"Duplicate: {call.tool} with these arguments"
    if call.outcome == "held":
        return (
            f"{named} waits to be sent already ({call.id}): a rewind does not keep it from that."
            " It was not held again."
        )
    done = "was made before"
    if known.from_row(call) is Known.UNKNOWN:
        done = "was begun before, and nobody knows whether it happened"
    return (
        f"{named} {done} ({call.id}). That was taken out of the conversation, but its effect was"
        " not undone. It was not run again."
    )
