"""Declarations are checked when they are made: what means nothing is refused."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Inverse, Reversibility
from tests.sdk.turns.world import decorated


def generates(*args: object) -> Iterator[int]:
    yield 1


async def agenerates(*args: object) -> AsyncIterator[int]:
    yield 1


class Object:
    """Something that can be called."""

    async def __call__(self, *args: object) -> AsyncIterator[int]:
        yield 1


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"secret": ("card",)}, "no option secret", "did you mean secrets"),
        ({"held": True}, "no option held", "did you mean hold"),
        ({"reversability": "reversible"}, "no option", "did you mean reversibility"),
        ({"zzz": 1}, "no option zzz", "allow_duplicates"),
        ({"secrets": "card"}, "secrets must be a tuple of names", "('card',)"),
        ({"errors": "none"}, "errors must be unknown or nothing_done", None),
        ({"on_capture_failure": "no"}, "must be refuse or record", None),
        ({"reversibility": "reversable"}, "no class 'reversable'", "reversible"),
        ({"reversibility": None}, "no class None", "reversible"),
        ({"reversibility": "Reversible"}, "no class", "did you mean reversible"),
        ({"hold": "no"}, "hold must be True or False", None),
        ({"idempotent": 1}, "idempotent must be True or False", None),
        ({"pivot": None}, "pivot must be True or False", None),
        ({"delay_s": -1}, "delay_s must be a number of seconds", None),
        ({"delay_s": True}, "delay_s must be a number of seconds", None),
        ({"undo_for": float("nan")}, "undo_for must be a number", None),
        ({"undo_for": "30 moons"}, "undo_for is not a length of time", "30d"),
        ({"inverse": None}, "inverse must be a function", None),
        ({"retry": 3}, "retry must be a Retry", None),
        ({"schema": "{}"}, "schema must be a JSON schema", None),
        ({"residue": 5}, "residue must be a text", None),
        ({"verify": "yes"}, "verify must be a function", None),
        ({"accepts": [1]}, "accepts must be a tuple of names", None),
        (
            {"fingerprint": generates},
            "fingerprint must not be a generator function",
            "list",
        ),
        ({"capture": partial(generates)}, "not be a generator function", "list"),
        ({"probe": Object()}, "probe must not be an async generator function", "list"),
        ({"verify": decorated(generates)}, "verify must not be a generator", "list"),
        ({"describe": generates}, "describe must not be a generator", "list"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    options: dict[str, object], said: str, hint: str | None
) -> None:
    """A misspelled `secrets` would store the secret, a misspelled `hold` would send."""
    tools = ToolRegistry()
    with pytest.raises(RegistrationError) as caught:
        tools.add("card.charge", print, **options)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert hint is None or hint in str(caught.value.hint)
    assert tools.find("card.charge") is None


@pytest.mark.parametrize("option", ["secrets", "paths"])
def test_an_option_that_names_no_argument_is_refused(option: str) -> None:
    """`secrets=("crad",)` would store the card."""
    tools = ToolRegistry()

    def charge(card: str, amount: int, *, idempotency_key: str) -> None: ...

    def takes_any(**arguments: object) -> None: ...

    named = {option: ("crad",)}
    listed = {"properties": {"card": {"type": "string"}}}
    for function, more in [
        (charge, {}),
        (decorated(charge), {}),
        (partial(charge, amount=1), {}),
        (takes_any, {"schema": listed}),
    ]:
        with pytest.raises(RegistrationError) as caught:
            tools.add("card.charge", function, **named, **more)  # type: ignore[arg-type]
        assert f"{option} names crad, which is no argument" in str(caught.value)
        assert "did you mean card?" in str(caught.value.hint)
    open_schema = {**listed, "additionalProperties": True}
    named = {option: ("card",)}
    tools.add("card.a", charge, **named)  # type: ignore[arg-type]
    tools.add("card.b", takes_any, **named)  # type: ignore[arg-type]
    tools.add("card.c", takes_any, schema=listed, **named)  # type: ignore[arg-type]
    tools.add("card.d", takes_any, schema=open_schema, **{option: ("other",)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function",
    [
        generates,
        agenerates,
        partial(generates, 1),
        Object(),
        decorated(generates),
        partial(decorated(agenerates)),
        contextmanager(generates),
    ],
)
def test_a_generator_is_no_tool_and_no_handler(
    function: Callable[..., object],
) -> None:
    """A call of one succeeds before anything of it has run."""
    tools = ToolRegistry()
    for declare in (tools.tool("x.y"), tools.handler("x.y")):
        with pytest.raises(RegistrationError, match=r"not be an? (async )?generator"):
            declare(function)
    assert tools.find_handler("x.y") is None


@pytest.mark.parametrize(
    "name", ["a. b", "a.b\n", "a.b\tc", "a.b\u00a0", " a.b", "a.\x00b"]
)
def test_a_name_with_blanks_is_refused(name: str) -> None:
    """It would be several words in a log and in a trailer."""
    tools = ToolRegistry()
    for declare in (tools.tool(name), tools.handler(name)):
        with pytest.raises(RegistrationError, match="a name is a word without blanks"):
            declare(lambda: None)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(RegistrationError, match="the name must be a text, not 5"):
        ToolRegistry().add(5, print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"idempotent": "no"}, {"version": 2}, {"accepts": "1"}]
)
def test_an_option_of_a_compensator_is_checked(options: dict[str, object]) -> None:
    with pytest.raises(RegistrationError, match=f"{next(iter(options))} must be"):
        ToolRegistry().handler("x.y", **options)(lambda: None)  # type: ignore[arg-type]


def test_a_class_may_be_a_text() -> None:
    tools = ToolRegistry()
    made = tools.add(
        "crm.set",
        print,
        reversibility="reversible",
        inverse=lambda a, c, r: Inverse.tool("crm.unset"),
    )
    assert made.reversibility is Reversibility.REVERSIBLE
    assert made.options["reversibility"] is Reversibility.REVERSIBLE
