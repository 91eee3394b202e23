"""The arguments of calls as they were before them, also those of which the journal has no text.

Tools and callers change their own objects. So does a function of an option: each gets a copy.
A secret is kept in memory only. If it is not kept any more, reading it is an error: nothing is put
in its place.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.redaction import NO_SECRETS, REDACTED, Secrets
from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.journal.saga_rows import SagaCall

# A program may run for weeks, and only its newest calls are likely to be undone.
_KEPT = 1000
_KIND_OF_ERROR = re.compile(r"[A-Za-z_][\w.]*(?=: )")
_NOT_SHOWN = "not shown, because it may have a secret argument, which is not kept"


class ArgumentNotKeptError(LookupError):
    """Report an argument that is secret or cannot be copied, and is asked for after its call.

    It is no KeyError: `Mapping.get` would take that for an argument that was not given.
    """


class PartialArguments(JsonObject):
    """Arguments without the missing ones: asking for one of these raises, with its reason.

    Raises:
        ArgumentNotKeptError: an argument is read that is missing.
    """

    def __init__(self, kept: JsonObject, missing: Mapping[str, str]) -> None:
        self.kept, self.missing = kept, missing

    def __getitem__(self, name: str) -> object:
        if name in self.missing:
            raise ArgumentNotKeptError(f"the argument {name} {self.missing[name]}")
        return self.kept[name]

    def __iter__(self) -> Iterator[str]:
        yield from (*self.kept, *self.missing)

    def __len__(self) -> int:
        return len(self.kept) + len(self.missing)


def parts_of(arguments: JsonObject) -> tuple[JsonObject, Mapping[str, str]]:
    """Return the arguments that are there, and why each of the others is missing."""
    if isinstance(arguments, PartialArguments):
        return arguments.kept, arguments.missing
    return arguments, {}


def copies_of(arguments: JsonObject) -> JsonObject:
    """Return copies of arguments; those of which there is none are missing."""
    there, reasons = parts_of(arguments)
    kept, missing = dict(there), dict(reasons)
    for name, value in there.items():
        try:
            kept[name] = json_values.copied(value)
        except json_values.NotStorableError as error:
            missing[name] = str(error)
            del kept[name]
    return PartialArguments(kept, missing) if missing else kept


def completed(arguments: JsonObject, given: JsonObject) -> JsonObject:
    """Return arguments with those that are missing from others, as far as these have them."""
    kept, reasons = parts_of(arguments)
    missing = {name: why for name, why in reasons.items() if name not in given}
    found = {name: given[name] for name in reasons.keys() - missing.keys()}
    kept = {**kept, **found}
    return PartialArguments(kept, missing) if missing else kept


class KnownArguments(NamedTuple):
    """The arguments of a call as far as they are known, and its secrets; None: not kept."""

    arguments: JsonObject
    secrets: Secrets | None

    def hide_text(self, text: str) -> str:
        """Return the text of an error without the secrets; without words if these are not kept."""
        if self.secrets is not None:
            return self.secrets.hide_text(text)
        if text.startswith(ArgumentNotKeptError.__name__):
            return text
        kind = _KIND_OF_ERROR.match(text)
        return f"{kind[0] if kind else 'an error'}: {_NOT_SHOWN}"


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
