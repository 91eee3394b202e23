"""The arguments of a call as they were before it, for all that looks at them later.

Tools and callers change their own objects. So does a function of an option: each gets a copy.
"""

from collections.abc import Iterator, Mapping

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.values import JsonObject


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
