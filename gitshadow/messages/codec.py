"""The one codec between messages and JSON documents.

A message is a NamedTuple whose fields are strings, numbers, flags, tuples, mappings with string
keys, and other messages. A field without a default is in every document; a field with a default
only if its value differs from the default. A field whose JSON name is a Python keyword or
a method of tuples has an underscore at its end (`class_`, `count_`). The fields of a `Flat` field
are in the object of the message itself.

NamedTuples, not dataclasses: commands import the messages, and a dataclass takes nine times as
long to define (0.7 ms, not 0.08). msgspec would add 28 ms to every command.
"""

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from gitshadow.errors import UsageError

JsonObject: TypeAlias = dict[str, object]
"""A JSON object as `json.loads` gives it."""
Params: TypeAlias = Mapping[str, object]
"""The fields of a request or an answer, to be read only."""

M = TypeVar("M", bound=NamedTuple)
Q = TypeVar("Q", bound=NamedTuple)
A = TypeVar("A", bound=NamedTuple)
_Reader: TypeAlias = Callable[[object], object]
_WORDS: Mapping[object, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
    tuple[tuple[int, int], ...]: "a list of pairs of whole numbers",
}


class Verb(NamedTuple, Generic[Q, A]):
    """A verb's name on the wire, with the types of its request and its answer."""

    name: str
    request: type[Q]
    answer: type[A]


class Nothing(NamedTuple):
    """A request or an answer that has no fields."""


class Unset(Enum):
    """The type of `UNSET`, the value of a field that is missing but has no default."""

    UNSET = "unset"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset.UNSET


class Flat(NamedTuple):
    """Annotate a field whose fields are in the object of its message.

    If the field has several types, the field `by` names the one that is there: `names` has a name
    for each type, in the order of the types.
    """

    by: str = ""
    names: tuple[str, ...] = ()


class _MismatchError(Exception):
    """Report a value that is not of its field's type."""


class _Field(NamedTuple):
    """A field of a message; `empty` is its value where a document has none."""

    json_name: str
    reader: _Reader
    required: bool
    empty: object
    expected: str
    flat: bool


def prepare() -> None:
    """Find the fields of all messages that are imported: processes that fork then have them."""
    package = __name__.rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.startswith(package):
            for value in list(vars(module).values()):
                if _is_message(value):
                    with suppress(TypeError):  # not all are sent
                        _fields(value)


def encode(message: NamedTuple) -> JsonObject:
    """Return a message as a JSON object."""
    defaults = message._field_defaults
    document: JsonObject = {}
    for field, name, value in zip(
        _fields(type(message)), message._fields, message, strict=True
    ):
        if field.flat:
            document |= encode(cast(NamedTuple, value))
        elif value is not UNSET and (name not in defaults or value != defaults[name]):
            document[field.json_name] = _plain(value)
    return document


def decode(kind: type[M], document: Params) -> M:
    """Return the message in a document that this program, or another version of it, wrote.

    A field that is missing, or of another type, gets its default or else the empty value of its
    type, because a daemon of another version may have sent the document.
    """
    values = []
    for field in _fields(kind):
        value = document.get(field.json_name, field.empty)
        if field.flat:
            value = document
        try:
            values.append(field.reader(value))
        except _MismatchError:
            values.append(field.empty)
    return kind._make(values)


def parse(kind: type[M], document: Params) -> M:
    """Return the request in a document; null means that a field is not given.

    Raises:
        UsageError: a field is missing or of another type.
    """
    values = []
    for field in _fields(kind):
        value = document.get(field.json_name)
        if value is None:
            if field.required:
                raise UsageError(f"missing required argument: {field.json_name}")
            values.append(field.empty)
            continue
        try:
            values.append(field.reader(value))
        except _MismatchError:
            raise UsageError(
                f"cannot use {field.json_name}: expected {field.expected}"
            ) from None
    return kind._make(values)


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        if _is_message(type(value)):
            return encode(cast(NamedTuple, value))
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


@cache
def _fields(kind: type[NamedTuple]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        _Field(
            json_name=name.rstrip("_"),
            reader=_reader(hints[name]),
            required=name not in kind._field_defaults
            and not (_optional(hints[name]) or _may_miss(hints[name])),
            empty=kind._field_defaults.get(name, _empty(hints[name])),
            expected=_WORDS.get(_inner(hints[name]), "an object"),
            flat=get_origin(hints[name]) is Annotated,
        )
        for name in kind._fields
    )


def _optional(hint: object) -> bool:
    return type(None) in get_args(hint)


def _may_miss(hint: object) -> bool:
    return Unset in get_args(hint)


def _inner(hint: object) -> object:
    """Return the type that an optional one is about."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (inner,) = (each for each in get_args(hint) if each not in (type(None), Unset))
    return inner


def _empty(hint: object) -> object:
    if _may_miss(hint):
        return UNSET
    if _optional(hint):
        return None
    if get_origin(hint) is tuple:
        return ()
    if get_origin(hint) is Literal:
        return ""
    if get_origin(hint) is Annotated:
        return None  # every document can be read as a flat field
    if _is_message(hint):
        return decode(cast(type[NamedTuple], hint), {})
    if get_origin(hint) in (dict, Mapping):
        return {}
    return hint() if isinstance(hint, type) else None


def _is_message(hint: object) -> bool:
    return isinstance(hint, type) and hasattr(hint, "_fields")


def _reader(hint: object) -> _Reader:
    """Return the function that reads a JSON value as a type.

    Raises:
        TypeError: messages cannot have fields of this type.
    """
    if _optional(hint):
        read = _reader(_inner(hint))
        return lambda value: None if value is None else read(value)
    if _may_miss(hint):
        return _reader(_inner(hint))
    origin = get_origin(hint)
    if origin is Annotated:
        return _flat_reader(*get_args(hint))
    if _is_message(hint):
        return _message_reader(hint)
    if origin is tuple:
        *items, last = get_args(hint)
        if last is ...:
            return _tuple_reader(_reader(*items))
        return _fixed_reader([_reader(each) for each in (*items, last)])
    if origin in (dict, Mapping):
        return _mapping_reader(_reader(get_args(hint)[1]))
    if origin is Literal:
        return _checked(str)
    if hint is object:
        return lambda value: value
    if hint in (str, int, float, bool, type(None)):
        return _checked(hint)
    raise TypeError(f"no codec for {hint}")


def _checked(kind: Any) -> _Reader:
    def read(value: object) -> object:
        # bool is a subclass of int, and JSON has no whole floats of its own
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return value
        raise _MismatchError

    return read


def _message_reader(kind: Any) -> _Reader:
    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise _MismatchError
        return decode(kind, value)

    return read


def _flat_reader(hint: Any, flat: Flat) -> _Reader:
    kinds = (hint,) if _is_message(hint) else get_args(hint)
    by_name = dict(zip(flat.names, kinds, strict=bool(flat.names)))

    def read(value: object) -> object:
        document = cast(JsonObject, value)
        return decode(by_name.get(str(document.get(flat.by)), kinds[0]), document)

    return read


def _tuple_reader(read_item: _Reader) -> _Reader:
    def read(value: object) -> object:
        if not isinstance(value, list | tuple):
            raise _MismatchError
        return tuple(read_item(each) for each in value)

    return read


def _fixed_reader(readers: Sequence[_Reader]) -> _Reader:
    def read(value: object) -> object:
        if not isinstance(value, list | tuple) or len(value) != len(readers):
            raise _MismatchError
        return tuple(item(each) for item, each in zip(readers, value, strict=True))

    return read


def _mapping_reader(read_item: _Reader) -> _Reader:
    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise _MismatchError
        return {key: read_item(each) for key, each in value.items()}

    return read
