"""The codec: what is written can be read, and what is missing or wrong has one meaning."""

import json
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import UsageError
from gitshadow.messages.codec import UNSET, Flat, Unset, decode, encode, parse


class Inner(NamedTuple):
    name: str
    count_: int | None = None


class Outer(NamedTuple):
    text: str
    number: int
    ratio: float
    flag: bool
    kind: Literal["a", "b"]
    maybe: str | None
    inner: Inner
    class_: tuple[str, ...]
    rows: tuple[Inner, ...]
    named: Mapping[str, Inner]
    extra: str | None = ""
    more: tuple[str, ...] = ()


EMPTY = Outer("", 0, 0.0, False, "a", None, Inner(""), (), (), {})
inners = st.builds(Inner, st.text(), st.none() | st.integers())
outers = st.builds(
    Outer,
    text=st.text(),
    number=st.integers(),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    flag=st.booleans(),
    kind=st.sampled_from(["a", "b"]),
    maybe=st.none() | st.text(),
    inner=inners,
    class_=st.lists(st.text()).map(tuple),
    rows=st.lists(inners).map(tuple),
    named=st.dictionaries(st.text(), inners),
    extra=st.none() | st.text(),
    more=st.lists(st.text()).map(tuple),
)


@given(outers)
def test_decode_returns_what_was_encoded(message: Outer) -> None:
    document = json.loads(json.dumps(encode(message)))
    assert decode(Outer, document) == message


def test_field_with_its_default_is_not_in_the_document() -> None:
    assert encode(EMPTY) == {
        "text": "",
        "number": 0,
        "ratio": 0.0,
        "flag": False,
        "kind": "a",
        "maybe": None,
        "inner": {"name": ""},
        "class": [],
        "rows": [],
        "named": {},
    }
    assert encode(EMPTY._replace(extra=None, more=("x",))) == {
        **encode(EMPTY),
        "extra": None,
        "more": ["x"],
    }


def test_missing_field_of_an_answer_is_empty() -> None:
    assert encode(decode(Outer, {})) == {**encode(EMPTY), "kind": ""}


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": 1},
        {"number": "1"},
        {"number": True},
        {"flag": 1},
        {"inner": []},
        {"class": "x"},
        {"class": [1]},
        {"rows": [1]},
        {"named": {"x": 1}},
        {"extra": 1},
    ],
)
def test_field_of_another_type_is_as_if_missing(wrong: Mapping[str, object]) -> None:
    assert decode(Outer, {**encode(EMPTY), **wrong}) == EMPTY


class Request(NamedTuple):
    name: str
    limit: int | None = None
    all: bool = False
    paths: tuple[str, ...] = ()


class Other(NamedTuple):
    number: int
    name: str | Unset | None = UNSET


class Outside(NamedTuple):
    type: str
    thing: Annotated[Inner | Other, Flat("type", ("inner", "other"))]
    row: Annotated[Request, Flat()]
    last: str | Unset


@pytest.mark.parametrize(
    ("message", "document"),
    [
        (
            Outside("inner", Inner("x", 2), Request("x", all=True), "y"),
            {"type": "inner", "name": "x", "count": 2, "all": True, "last": "y"},
        ),
        (
            Outside("other", Other(1, "x"), Request("x"), UNSET),
            {"type": "other", "number": 1, "name": "x"},
        ),
    ],
)
def test_flat_field_is_in_the_object_of_its_message(
    message: Outside, document: Mapping[str, object]
) -> None:
    assert encode(message) == document
    assert decode(Outside, document) == message


def test_missing_and_null_are_different_if_a_field_may_miss() -> None:
    assert encode(Other(1)) == {"number": 1}
    assert encode(Other(1, None)) == {"number": 1, "name": None}
    assert decode(Other, {"number": 1}).name is UNSET
    assert decode(Other, {"number": 1, "name": None}).name is None


def test_request_takes_null_as_not_given_and_ignores_what_it_does_not_know() -> None:
    document = {"name": "x", "limit": None, "all": None, "cwd": "/"}
    assert parse(Request, document) == Request("x")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "missing required argument: name"),
        ({"name": 1}, "cannot use name: expected a string"),
        ({"name": "x", "limit": "1"}, "cannot use limit: expected a whole number"),
        ({"name": "x", "limit": True}, "cannot use limit: expected a whole number"),
        ({"name": "x", "all": 1}, "cannot use all: expected true or false"),
        ({"name": "x", "paths": "a"}, "cannot use paths: expected a list of strings"),
    ],
)
def test_request_with_a_wrong_field_names_it(
    document: Mapping[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        parse(Request, document)
