"""The arguments of calls of which the journal has only redacted ones.

A secret is kept in memory only. If it is not kept any more, reading it is an error: nothing is put
in its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.argument_copies import PartialArguments, copies_of
from gitshadow.sdk.turns.redaction import NO_SECRETS, REDACTED, Secrets
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.journal.saga_rows import SagaCall

# A program may run for weeks, and only its newest calls are likely to be undone.
_KEPT = 1000


class KnownArguments(NamedTuple):
    """The arguments of a call as far as they are known, and its secrets; None: not kept."""

    arguments: JsonObject
    secrets: Secrets | None


@dataclass(slots=True)
class KeptSecrets:
    """Keep the arguments of the calls of one session that had secrets."""

    _kept: dict[tuple[str, str, int], KnownArguments] = field(default_factory=dict)

    def keep(self, call: SagaCall, arguments: JsonObject, secrets: Secrets) -> None:
        """Keep copies of the arguments of a call; the oldest ones are forgotten."""
        self._kept[_name(call)] = KnownArguments(arguments, secrets)
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    def of(self, call: SagaCall, intent: JsonObject) -> KnownArguments:
        """Return what is known of a call; reading an argument that is not kept raises.

        `intent` is what was written down before it, as `json_values.intent` returns it.
        """
        found = intent.get("arguments")
        stored = found if isinstance(found, Mapping) else {}
        if REDACTED not in call.intent or not _is_redacted(stored):
            return KnownArguments(stored, NO_SECRETS)
        kept = self._kept.get(_name(call))
        if kept is not None:
            return KnownArguments(copies_of(kept.arguments), kept.secrets)
        why = "was secret and is not kept"
        gone = {name: why for name, value in stored.items() if _is_redacted(value)}
        rest = {name: value for name, value in stored.items() if name not in gone}
        return KnownArguments(PartialArguments(rest, gone) if gone else rest, None)

    def hide_text(self, turn: str, text: str) -> str:
        """Return a text without the secrets of a turn's calls that are kept."""
        for (of_turn, *_), kept in self._kept.items():
            if of_turn == turn and kept.secrets is not None:
                text = kept.secrets.hide_text(text)
        return text


def _name(call: SagaCall) -> tuple[str, str, int]:
    return call.turn, call.id, call.started_ns


def _is_redacted(value: object) -> bool:
    return REDACTED in json_values.lenient(value)
