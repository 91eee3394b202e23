"""Checks of what a program passes as options.

Invariant: an unknown word and a value of another type are refused where they are passed; none
counts as a known one later.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.deferred_work import generator_kind, is_async
from gitshadow.words import did_you_mean

OptionCheck: TypeAlias = Callable[[str, object], None]
"""Raise `UsageError` if the value of the option of this name does not fit."""


def check_all(checks: Mapping[str, OptionCheck], values: Mapping[str, object]) -> None:
    """Check values by their names.

    Raises:
        UsageError: there is no option of a name, or its value does not fit.
    """
    for option, value in values.items():
        if option not in checks:
            raise UsageError(
                f"there is no option {option}",
                hint=did_you_mean(option, checks) or f"use one of {', '.join(checks)}",
            )
        checks[option](option, value)


def check_fields(owner: object, checks: Mapping[str, OptionCheck]) -> None:
    """Check the fields of an object; those without a check are left out."""
    for name, check in checks.items():
        check(name, getattr(owner, name))


def unfit(
    option: str, expected: str, value: object, *, hint: str | None = None
) -> UsageError:
    """Return the error for a value that does not fit; it shows words and numbers alone."""
    is_plain = value is None or isinstance(value, str | int | float)
    given = repr(value) if is_plain else f"a value of {type(value).__name__}"
    return UsageError(f"{option} must be {expected}, not {given}", hint=hint)


def one_of(*words: str) -> OptionCheck:
    """Return the check for one of some words."""
    expected = f"{', '.join(words[:-1])} or {words[-1]}"

    def check(option: str, value: object) -> None:
        if not isinstance(value, str) or value not in words:
            near = did_you_mean(str(value).lower(), words)
            raise unfit(option, expected, value, hint=near)

    return check


def instance_of(kind: type, expected: str) -> OptionCheck:
    """Return the check for a value of a type."""

    def check(option: str, value: object) -> None:
        if not isinstance(value, kind):
            raise unfit(option, expected, value)

    return check


def tuple_of(fits: Callable[[object], bool], expected: str) -> OptionCheck:
    """Return the check for a tuple or list of values that fit."""

    def check(option: str, value: object) -> None:
        if not isinstance(value, tuple | list) or not all(map(fits, value)):
            raise unfit(option, f"a tuple of {expected}", value)

    return check


flag = instance_of(bool, "True or False")
text = instance_of(str, "a text")


def having(method: str) -> OptionCheck:
    """Return the check for an object that has a method."""

    def check(option: str, value: object) -> None:
        if isinstance(value, type) or not callable(getattr(value, method, None)):
            raise unfit(option, f"an object with the method {method}", value)

    return check


def private(kinds: tuple[type, ...], expected: str) -> OptionCheck:
    """Return the check for a value of which an error must show nothing but the type."""

    def check(option: str, value: object) -> None:
        if not isinstance(value, kinds):
            raise UsageError(f"{option} must be {expected}, not {type(value).__name__}")

    return check


mapping = private((Mapping,), "a mapping")
octets = private((bytes, bytearray, memoryview), "bytes")


def keyed_by_texts(option: str, value: object) -> None:
    """Check a mapping whose keys are texts."""
    mapping(option, value)
    for key in value:  # type: ignore[attr-defined]
        text(f"a key of {option}", key)


def optional(inner: OptionCheck) -> OptionCheck:
    """Return the check for a value or None."""

    def check(option: str, value: object) -> None:
        if value is not None:
            inner(option, value)

    return check


def at_least(least: int) -> OptionCheck:
    """Return the check for a whole number."""

    def check(option: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise unfit(option, f"a whole number of at least {least}", value)

    return check


def seconds(option: str, value: object) -> None:
    """Check a length of time, 0 or more."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:  # type: ignore[operator]
        raise unfit(option, "a number of seconds, 0 or more", value)


def names(option: str, value: object) -> None:
    """Check several names."""
    if isinstance(value, str):
        raise unfit(option, "a tuple of names", value, hint=f"{option}=({value!r},)")
    if isinstance(value, Mapping) or not isinstance(value, Collection):
        raise unfit(option, "a tuple of names", value)
    for one in value:
        if not isinstance(one, str) or not one:
            raise unfit(option, "a tuple of names", value)


def function(option: str, value: object) -> None:
    """Check a function, or a coroutine function for the async front."""
    if not callable(value):
        raise unfit(option, "a function", value)
    kind = generator_kind(value)
    if kind is not None:
        raise UsageError(
            f"{option} must not be {kind} function: a call would run nothing of it",
            hint="collect what it yields in a list, and return that",
        )


def plain_function(option: str, value: object) -> None:
    """Check a function that is not awaited in any front."""
    function(option, value)
    if is_async(value):
        raise UsageError(
            f"{option} must not be a coroutine function: nothing awaits it"
        )


def functions(option: str, value: object) -> None:
    """Check a tuple or list of functions."""
    if not isinstance(value, tuple | list):
        raise unfit(option, "a tuple of functions", value)
    for one in value:
        function(option, one)
