"""Values as JSON texts for the journal, and back.

A value has exactly one text, so texts can be compared and hashed.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from gitshadow.errors import JournalError, UsageError
from gitshadow.messages import codec
from gitshadow.sdk.turns import inverse_kinds
from gitshadow.sdk.turns.redaction import NO_SECRETS, REDACTED, Secrets, digits
from gitshadow.sdk.turns.values import (
    Conflict,
    Inverse,
    Json,
    JsonObject,
    Outcome,
    Retry,
    Secret,
)

# What only looks like a reference (a value that a tool once read) is wrapped, never looked up.
_LITERAL_KEY = "$literal"
_TOKEN_BYTES = 8
# Deeper values are written down in part; Python itself gives up at some hundreds.
_DEEPEST = 64
# JSON has longer numbers, but Python reads and writes 4,300 digits at most.
_MOST_BITS = 14_280


class NotStorableError(ValueError):
    """Report a value that cannot or must not be written down; the text says why."""


def canonical(value: object) -> str:
    """Return the one text of a JSON value; half a surrogate pair is escaped in it.

    Raises:
        NotStorableError: it is no JSON value.
    """
    try:
        text = json.dumps(
            value,
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )
    except (TypeError, ValueError) as error:
        raise NotStorableError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise NotStorableError("not JSON: it is nested too deeply") from error
    return storable(text)


def storable(text: str) -> str:
    r"""Return a text as the journal can hold it: half a surrogate pair is written as `\ud83d`."""
    return text.encode("utf-8", "backslashreplace").decode()


def faithful(value: object) -> str:
    """Return the one text of a value that is the same value when it is read again.

    Raises:
        NotStorableError: it is no JSON value, or it would come back as another one: a tuple as a
            list, a key that is a number as a text.
    """
    text = canonical(value)
    if not _same(value, json.loads(text)):
        raise NotStorableError(
            "not JSON: a tuple, or a key that is not a string, would change"
        )
    return text


def _same(value: object, again: object) -> bool:
    """Return whether a value came back from JSON as it was; a tuple is no list here."""
    if isinstance(value, Mapping):
        return (
            isinstance(again, dict)
            and len(value) == len(again)
            and all(key in again and _same(value[key], again[key]) for key in value)
        )
    if isinstance(value, list):
        return (
            isinstance(again, list)
            and len(value) == len(again)
            and all(map(_same, value, again))
        )
    if type(value) is tuple:
        return (
            isinstance(again, tuple)
            and len(value) == len(again)
            and all(map(_same, value, again))
        )
    return value == again


def tuples_in(value: object) -> list[list[object]]:
    """Return where a value has tuples, which JSON has not: paths of keys, the inner ones first."""
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list | tuple):
        pairs = enumerate(value)
    found = [[key, *path] for key, each in pairs for path in tuples_in(each)]
    return [*found, []] if type(value) is tuple else found


def with_tuples(value: object, paths: object) -> object:
    """Return a value read from JSON with the tuples that `tuples_in` found in it.

    Raises:
        LookupError, TypeError: the paths are those of another value.
    """
    holder = [value]
    for path in paths if isinstance(paths, list) else ():
        inside: Any = holder
        way: list[Any] = [0, *path]
        for key in way[:-1]:
            inside = inside[key]
        inside[way[-1]] = tuple(inside[way[-1]])
    return holder[0]


def altered(value: object) -> str | None:
    """Return why a value would be another one when the journal gives it back, or None."""
    try:
        canonical(value)
        again = with_tuples(json.loads(lenient(value)), tuples_in(value))
        is_same = _same(value, again)
    except NotStorableError as error:
        return str(error)
    except (LookupError, TypeError, RecursionError):
        is_same = False
    return None if is_same else "not JSON: they would change"


def intent(text: str) -> JsonObject:
    """Return what was written down before a call, with arguments and capture as they were.

    Raises:
        JournalError: it cannot be read.
    """
    found = parse(text)
    values = [found.get("arguments"), found.get("capture")]
    try:
        with_tuples(values, found.get("tuples"))
    except (LookupError, TypeError) as error:
        raise JournalError(f"could not read the saga: {error!r}") from error
    return {**found, "arguments": values[0], "capture": values[1]}


def lenient(value: object, secrets: Secrets = NO_SECRETS) -> str:
    """Return a text for any value, without secrets; what is no JSON is named by its type alone."""
    return canonical(hidden(value, secrets))


def hidden(value: object, secrets: Secrets) -> Json:
    """Return a JSON value that stands for any, without secrets."""
    return secrets.hide(_plain(value, ()))


def shown_arguments(arguments: JsonObject, secrets: Secrets) -> dict[str, Json]:
    """Return the arguments of a call as they are stored."""
    shown = secrets.without(arguments)
    return {name: hidden(value, secrets) for name, value in shown.items()}


def _plain(value: object, above: tuple[int, ...]) -> Json:
    """Return a JSON value that stands for any; `above` are the ids of what contains it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < _MOST_BITS else digits(value)
    if isinstance(value, float):
        # inf - inf and nan - nan are nan: only finite numbers are JSON.
        return value if value - value == 0 else str(value)
    if isinstance(value, Secret):
        return REDACTED
    if isinstance(value, bytes) or not isinstance(
        value, Mapping | Sequence | set | frozenset
    ):
        return f"<{type(value).__name__}>"
    if id(value) in above:
        return "<circular>"
    if len(above) == _DEEPEST:
        return "<nested too deeply>"
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return {text_of(key): _plain(each, inside) for key, each in value.items()}
    return [_plain(each, inside) for each in value]


def text_of(value: object) -> str:
    """Return what a value says of itself; one that cannot is named by its type."""
    try:
        return digits(value) if isinstance(value, int) else str(value)
    except Exception:  # noqa: BLE001 - the host's own values run its code here
        return f"<{type(value).__name__}>"


def token(value: object) -> str:
    """Return a short text that another value has not."""
    return blake2b(lenient(value).encode(), digest_size=_TOKEN_BYTES).hexdigest()


def parse(text: str | None) -> JsonObject:
    """Return the object that a text of the journal holds; none for no text.

    Raises:
        JournalError: it holds something else.
    """
    found = loads(text or "{}")
    if not isinstance(found, dict):
        raise JournalError("could not read the saga: a row does not contain an object")
    return found


def readable(text: str | None) -> JsonObject:
    """As `parse`, but a text that cannot be read has nothing in it."""
    try:
        return parse(text)
    except JournalError:
        return {}


def loads(text: str) -> object:
    """Return the value of a text of the journal.

    Raises:
        JournalError: it is no JSON.
    """
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JournalError(f"could not read the saga: {error}") from error
    return found


def in_words(error: BaseException) -> str:
    """Return an error as one line; one that cannot say what it is about is its name alone."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - the host's own errors run its code here
        said = ""
    words = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return storable(words)


class Observation(NamedTuple):
    """What a tool observed as a text, or the error that kept it from that."""

    text: str | None = None
    trouble: str | None = None


NOT_OBSERVED = Observation()


class StoredRetry(NamedTuple):
    """How the journal has a `Retry`."""

    attempts: int
    backoff_s: float
    max_backoff_s: float
    timeout_s: float | None

    def pause_s(self, attempt: int) -> float:
        """Return how long to wait after a failed attempt, counted from 1."""
        return Retry(
            backoff_s=self.backoff_s, max_backoff_s=self.max_backoff_s
        ).pause_s(attempt)


class StoredInverse(NamedTuple):
    """An inverse as the journal has it."""

    handler: str
    version: str
    args: JsonObject
    residue: str | None
    depends_on: tuple[str, ...]
    critical: bool
    idempotent: bool
    after: str | None
    unseen: str | None
    after_files: bool
    retry: StoredRetry
    non_retryable: tuple[str, ...]

    def resolved(self, look_up: Callable[[str], str]) -> JsonObject:
        """Return the arguments with secrets looked up by name.

        Raises:
            KeyError: there is no such secret.
        """
        return {name: _restored(value, look_up) for name, value in self.args.items()}


def inverse_text(
    inverse: Inverse,
    retry: Retry,
    secrets: Secrets,
    *,
    after: Observation = NOT_OBSERVED,
    after_files: bool,
    version: str = "",
) -> str:
    """Return an inverse as the journal holds it.

    Raises:
        NotStorableError: an argument is no JSON, or there is a secret in what would be stored.
    """
    # Refused and not redacted: with another argument, the inverse would do something else.
    if secrets.are_in([inverse.args, inverse.residue, inverse.depends_on]):
        raise NotStorableError("it would store a secret: pass Secret(NAME) instead")
    try:
        args = {name: _storable(value) for name, value in inverse.args.items()}
    except RecursionError as error:
        raise NotStorableError("not JSON: it is nested too deeply") from error
    faithful(args)
    if inverse_kinds.is_external(inverse.handler):
        try:
            inverse_kinds.check(inverse.handler, args)
        except ValueError as error:
            raise NotStorableError(str(error)) from error
    stored = StoredInverse(
        handler=inverse.handler,
        version=version,
        args=args,
        residue=inverse.residue,
        depends_on=tuple(inverse.depends_on),
        critical=inverse.critical,
        idempotent=inverse.idempotent,
        after=after.text,
        unseen=after.trouble,
        after_files=after_files,
        retry=StoredRetry(
            retry.attempts, retry.backoff_s, retry.max_backoff_s, retry.timeout_s
        ),
        non_retryable=tuple(kind.__name__ for kind in retry.non_retryable),
    )
    return canonical(codec.encode(stored))


# Each rule of an undo reads the inverse again, a dozen times per call.
@lru_cache(maxsize=128)
def stored_inverse(text: str) -> StoredInverse:
    """Return the inverse that `inverse_text` wrote.

    Raises:
        JournalError: it is none.
    """
    # Earlier versions wrote neither.
    row = {"version": "", "idempotent": False, **parse(text)}
    try:
        return codec.parse(StoredInverse, row)
    except UsageError as error:
        raise JournalError(f"could not read an inverse: {error}") from error


def content_text(outcome: Outcome, secrets: Secrets) -> str | None:
    """Return what is kept of an outcome: results of tools are not."""
    if outcome.ok:
        return None
    if not isinstance(outcome.content, Conflict):
        return lenient(outcome.text, secrets)
    kept = {
        "message": outcome.content.message,
        "expected": outcome.content.expected,
        "actual": outcome.content.actual,
        "state_delta": outcome.content.state_delta,
    }
    return lenient({name: hidden(value, secrets) for name, value in kept.items()})


def _storable(value: object) -> object:
    """Return a value with its secrets replaced by their names."""
    if isinstance(value, Secret):
        return {inverse_kinds.SECRET_KEY: value.variable}
    if isinstance(value, Mapping):
        stored = {name: _storable(each) for name, each in value.items()}
        return {_LITERAL_KEY: stored} if _is_special(value) else stored
    if isinstance(value, list):
        return [_storable(each) for each in value]
    return value


def _restored(value: object, look_up: Callable[[str], str]) -> object:
    if isinstance(value, Mapping):
        if value.keys() == {inverse_kinds.SECRET_KEY}:
            return look_up(str(value[inverse_kinds.SECRET_KEY]))
        literal = value.get(_LITERAL_KEY) if _is_special(value) else None
        found = literal if isinstance(literal, Mapping) else value
        return {name: _restored(each, look_up) for name, each in found.items()}
    if isinstance(value, list):
        return [_restored(each, look_up) for each in value]
    return value


def _is_special(value: JsonObject) -> bool:
    return value.keys() in ({inverse_kinds.SECRET_KEY}, {_LITERAL_KEY})
