"""Registered functions as frameworks see them."""

import functools
import inspect
from typing import Annotated

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.tool_exposure import Cell, exposed
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import Tool


def added(function: object, **options: str) -> Tool:
    assert callable(function)
    return ToolRegistry().add("draft.create", function, **options)  # type: ignore[arg-type]


def test_our_own_arguments_are_hidden() -> None:
    """TX-05: name, types and text are the function's, what we fill in is not among them."""

    def create(
        title: "Annotated[str, 'of the draft']",
        copies: int = 1,
        *,
        idempotency_key: str,
        revision: object = None,
    ) -> int:
        """Create a draft."""
        return copies

    shown = exposed(added(create))
    assert shown.__name__ == "draft_create"
    assert shown.__doc__ == "Create a draft."
    assert shown.__annotations__ == {
        "title": Annotated[str, "of the draft"],
        "copies": int,
    }
    assert str(inspect.signature(shown)).endswith("copies: int = 1)")


async def test_what_we_fill_in_reaches_the_function() -> None:
    """TX-05: and its result comes back as it is."""

    def create(title: str, *, idempotency_key: str) -> tuple[str, str]:
        return title, idempotency_key

    cell = Cell({"idempotency_key": "k"})
    with cell.carried():
        await exposed(added(create))(title="x")
    assert cell.result is not None
    assert cell.result.value == ("x", "k")


async def test_it_runs_in_a_call_of_a_turn_alone() -> None:
    with pytest.raises(UsageError, match="no call of a turn is running"):
        await exposed(added(lambda title: title))(title="x")


def test_an_object_that_can_be_called_shows_its_arguments() -> None:
    def create(kind: str, title: str) -> str:
        return kind + title

    shown = exposed(added(functools.partial(create, "draft"), description="Create."))
    assert list(inspect.signature(shown).parameters) == ["title"]
    assert shown.__doc__ == "Create."
