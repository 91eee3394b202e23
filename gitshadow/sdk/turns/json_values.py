"""Values as JSON texts for the journal, and back.

What is compared or hashed has exactly one text; what is given back keeps the order of its keys.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

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
from gitshadow.store.digests import digest

# What only looks like a reference (a value that a tool once read) is wrapped, never looked up.
_LITERAL_KEY = "$literal"
_TOKEN_BYTES = 8
# Deeper values are written down in part; Python itself gives up at some hundreds.
_DEEPEST = 64
# JSON has longer numbers, but Python reads and writes 4,300 digits at most.
_MOST_BITS = 14_280
# Two halves of one character would come back from JSON as that character.
_TWO_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class NotStorableError(ValueError):
    """Report a value that cannot or must not be written down; the text says why."""


def canonical(value: object) -> str:
    """Return the one text of a JSON value; half a surrogate pair is escaped in it.

    Raises:
        NotStorableError: it is no JSON value.
    """
    return _text(value, sort_keys=True)


def _text(value: object, *, sort_keys: bool) -> str:
    try:
        text = json.dumps(
            value,
            sort_keys=sort_keys,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )
    except (TypeError, ValueError) as error:
        raise NotStorableError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error
    return storable(text)


def storable(text: str) -> str:
    r"""Return a text as the journal can hold it: half a surrogate pair is written as `\ud83d`."""
    return text.encode("utf-8", "backslashreplace").decode()


def faithful(value: object, *place: object) -> str:
    """Return a text of a value that is the same value, in the same order, when it is read again.

    `place` is where it belongs, for the error.

    Raises:
        NotStorableError: it is no JSON value, or it would come back as another one: a tuple as a
            list, a key that is a number as a text, a member of an enum as its value.
    """
    return _text(_Copying(deepest=None).of(value, place), sort_keys=False)


def observation_text(value: object, secrets: Secrets = NO_SECRETS) -> str:
    """Return the one text of what a tool observed, without secrets.

    Sets are sorted; a tuple counts as a list, a key that is a number or flag as its text, and a
    member of an enum of texts or numbers as its value.

    Raises:
        NotStorableError: it is nothing of the kind, or something in it is not; the text says what
            and where.
        Exception: reading it raised.
    """
    return lenient(_Copying(loose=True).of(value), secrets)


def copied(value: object) -> object:
    """Return a copy: what the journal gives back, or, of what it cannot, the copy of Python.

    Raises:
        NotStorableError: it cannot be copied.
    """
    try:
        return _Copying(tuples=True).of(value)
    except NotStorableError:
        pass
    try:
        return deepcopy(value)
    except Exception as error:  # it runs code of the host's own classes
        raise NotStorableError(f"could not be copied: {in_words(error)}") from error


def altered(value: object, *place: object) -> str | None:
    """Return why a value would be another one when the journal gives it back, or None.

    `place` is where in a text of the journal it is.
    """
    try:
        _Copying(tuples=True).of(value, place)
    except NotStorableError as error:
        return str(error)
    return None


class _Copying(NamedTuple):
    """How a value is copied: exactly, or not at all.

    `tuples` stay tuples. `loose`: all mappings, sequences, sets and subclasses count as what JSON
    makes of them.
    """

    tuples: bool = False
    loose: bool = False
    deepest: int | None = _DEEPEST

    def of(self, value: object, place: tuple[object, ...] = ()) -> object:
        """Return a copy.

        Raises:
            NotStorableError: it has none; the text names its type and its place.
        """
        try:
            return self._of(value, place)
        except RecursionError as error:
            raise _too_deep() from error
        except NotStorableError:
            raise
        except Exception as error:  # it runs code of the host's own classes
            # What a tool observed may fail while it is read: the observer says how.
            if self.loose:
                raise
            raise _unreadable(error) from error

    def _of(self, value: object, place: tuple[object, ...]) -> object:
        kind = type(value)
        if isinstance(value, int) and value.bit_length() >= _MOST_BITS:
            raise NotStorableError(f"not JSON: a number that is too long{_at(place)}")
        if value is None or kind is bool or kind is int:
            return value
        if kind is str and not _TWO_HALVES.search(str(value)):
            return value
        # inf - inf and nan - nan are nan: only finite numbers are JSON.
        if isinstance(value, float) and value - value == 0:
            return value if kind is float or self.loose else _refused(value, place)
        if len(place) == self.deepest:
            raise _too_deep()
        if isinstance(value, dict) or (self.loose and isinstance(value, Mapping)):
            return self._mapping(value, place)
        if isinstance(value, list):
            return self._items(value, place)
        if isinstance(value, tuple) and kind is tuple and self.tuples:
            return tuple(self._items(value, place))
        return self._like_json(value, place) if self.loose else _refused(value, place)

    def _mapping(
        self, value: Mapping[object, object], place: tuple[object, ...]
    ) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, each in value.items():
            name = self._key(key, place)
            if name is None or name in found:
                kind = type(key).__name__
                raise NotStorableError(f"not JSON: a key of type {kind}{_at(place)}")
            found[name] = self._of(each, (*place, name))
        return found

    def _key(self, key: object, place: tuple[object, ...]) -> str | None:
        if isinstance(key, str):
            is_exact = type(key) is str and not _TWO_HALVES.search(key)
            return str.__str__(key) if is_exact or self.loose else None
        is_scalar = key is None or isinstance(key, int | float)
        return canonical(self._of(key, place)) if is_scalar and self.loose else None

    def _like_json(self, value: object, place: tuple[object, ...]) -> object:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, Set):
            return sorted(
                (self._of(each, (*place, "*")) for each in value), key=canonical
            )
        if isinstance(value, Sequence) and not isinstance(
            value, bytes | bytearray | memoryview
        ):
            return self._items(value, place)
        return _refused(value, place)

    def _items(
        self, value: Iterable[object], place: tuple[object, ...]
    ) -> list[object]:
        return [self._of(each, (*place, n)) for n, each in enumerate(value)]


def _refused(value: object, place: tuple[object, ...]) -> NoReturn:
    raise NotStorableError(f"not JSON: {type(value).__name__}{_at(place)}")


def _too_deep() -> NotStorableError:
    return NotStorableError("not JSON: it is nested too deeply")


def _unreadable(error: Exception) -> NotStorableError:
    # Without its text, which may have a secret.
    return NotStorableError(f"not JSON: reading it raised {type(error).__name__}")


def _at(place: tuple[object, ...]) -> str:
    """Return in words where something is in a value; nothing of the value itself."""
    if not place:
        return ""
    first, *rest = place
    named = str(first) if isinstance(first, str) else f"[{first!r}]"
    return f" at {named}" + "".join(f"[{one!r}]" for one in rest)


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


def lenient(
    value: object, secrets: Secrets = NO_SECRETS, *, sort_keys: bool = True
) -> str:
    """Return a text for any value, without secrets; what is no JSON is named by its type alone."""
    return _text(hidden(value, secrets), sort_keys=sort_keys)


def hidden(value: object, secrets: Secrets) -> Json:
    """Return a JSON value that stands for any, without secrets."""
    return secrets.hide(_plain(value, ()))


def shown_arguments(arguments: JsonObject, secrets: Secrets) -> dict[str, Json]:
    """Return the arguments of a call as they are stored."""
    shown = secrets.without(arguments)
    return {name: hidden(value, secrets) for name, value in shown.items()}


def _plain(value: object, above: tuple[int, ...]) -> Json:
    """Return a JSON value that stands for any; `above` are the ids of what contains it."""
    try:
        return _in_json(value, above)
    except Exception:  # noqa: BLE001 - it runs code of the host's own classes
        return f"<{type(value).__name__}>"


def _in_json(value: object, above: tuple[int, ...]) -> Json:
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
    return digest(lenient(value), _TOKEN_BYTES)


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

    def hide_text(self, text: str, look_up: Callable[[str], str]) -> str:
        """Return a text without the secrets that the arguments name, as far as there are any."""
        found: list[str] = []

        def note(name: str) -> str:
            with suppress(KeyError):
                found.append(look_up(name))
            return ""

        try:
            self.resolved(note)
        except Exception:  # noqa: BLE001 - the host's own code looks secrets up
            return REDACTED
        return Secrets(found).hide_text(text)


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
    try:
        has_secret = secrets.are_in([inverse.args, inverse.residue, inverse.depends_on])
        args = {name: _storable(value) for name, value in inverse.args.items()}
    except RecursionError as error:
        raise _too_deep() from error
    except Exception as error:  # it runs code of the host's own classes
        raise _unreadable(error) from error
    # Refused and not redacted: with another argument, the inverse would do something else.
    if has_secret:
        raise NotStorableError("it would store a secret: pass Secret(NAME) instead")
    # What would come back as another value is refused.
    _Copying(deepest=None).of(args)
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
    return _text(codec.encode(stored), sort_keys=False)


def without_secrets(text: str, look_up: Callable[[str], str]) -> str:
    """Return the text of an inverse whose `unseen` has none of the secrets that it names."""
    stored = stored_inverse(text)
    hidden = stored.hide_text(stored.unseen or "", look_up)
    return _text(codec.encode(stored._replace(unseen=hidden)), sort_keys=False)


# Each rule of an undo reads the inverse again, a dozen times per call.
@lru_cache(maxsize=128)
def stored_inverse(text: str) -> StoredInverse:
    """Return the inverse that `inverse_text` wrote.

    Raises:
        JournalError: it is none.
    """
    try:
        return codec.parse(StoredInverse, parse(text))
    except UsageError as error:
        raise JournalError(f"could not read an inverse: {error}") from error


def content_text(outcome: Outcome, secrets: Secrets) -> str | None:
    """Return what is kept of an outcome: results of tools are not."""
    if outcome.ok:
        return None
    if not isinstance(outcome.content, Conflict):
        return lenient(outcome.text, secrets)
    kept = asdict(outcome.content).items()
    return lenient({name: hidden(value, secrets) for name, value in kept})


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
