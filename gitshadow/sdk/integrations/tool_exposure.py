"""Registered functions in the form that frameworks need.

A framework reads a function's name, types and docstring for its model, runs it in a task or thread
of its own and makes a message from the result. Invariant: our own arguments are hidden from the
model, and the original result or exception reaches the turn, even if the framework changes it.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias, get_type_hints

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.commands import Returned
from gitshadow.sdk.turns.deferred_work import unrun
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import JsonObject

Errors: TypeAlias = tuple[type[Exception], ...]


@dataclass(slots=True)
class Cell:
    """Our own arguments for a tool's function, and its original result or error.

    Errors of the types in `passing` are messages of the tool to its framework.
    """

    extras: JsonObject
    passing: Errors = ()
    result: Returned[object] | None = None
    error: Exception | None = None

    @contextmanager
    def carried(self) -> Iterator[None]:
        """Make the cell visible to the tool's function; raise the function's original error."""
        token = _CELL.set(self)
        try:
            yield
        except Exception:
            if self.error is None:
                raise
        finally:
            _CELL.reset(token)
        if self.error is not None:
            raise self.error

    @contextmanager
    def noting_errors(
        self, tool: Tool, args: tuple[object, ...], kwargs: JsonObject
    ) -> Iterator[None]:
        """Keep an error of the tool's own function and raise it again.

        Arguments that do not fit are a failure for the model: nothing of the function runs.
        """
        try:
            _check_fit(tool.name, tool.misfit(kwargs, *args))
            try:
                yield
            except TypeError as error:
                _check_fit(tool.name, tool.misfit_inside(error, kwargs, *args))
                raise
        except Exception as error:
            if not isinstance(error, self.passing):
                self.error = error
            raise


# Python copies the context into the tasks and threads in which frameworks run tools.
_CELL: ContextVar[Cell | None] = ContextVar("gitshadow_call", default=None)


def plain_name(tool: str) -> str:
    """Return a tool's name without dots, which models do not accept."""
    return tool.replace(".", "_")


def description(tool: Tool) -> str:
    """Return the description of a tool for a model."""
    said = tool.options.get("description") or inspect.getdoc(tool.function)
    return said or tool.name


def exposed(tool: Tool) -> Callable[..., Awaitable[object]]:
    """Return a tool's function for a framework: with name and types, without our arguments.

    It runs only inside `Cell.carried`, which provides those arguments.
    """

    async def run(*args: object, **kwargs: object) -> object:
        cell = _cell(tool)
        with cell.noting_errors(tool, args, kwargs):
            value = tool.function(*args, **kwargs, **cell.extras)
            cell.result = Returned(await value if inspect.isawaitable(value) else value)
        return cell.result.value

    _dress(run, tool)
    return run


def exposed_sync(tool: Tool) -> Callable[..., object]:
    """Do as `exposed`, for a framework that does not await the function."""

    def run(*args: object, **kwargs: object) -> object:
        cell = _cell(tool)
        with cell.noting_errors(tool, args, kwargs):
            value = tool.function(*args, **kwargs, **cell.extras)
            if unrun(value) is not None and inspect.isawaitable(value):
                raise TypeError(f"{tool.name} is async: use AsyncAgentUndo")
            cell.result = Returned(value)
        return cell.result.value

    _dress(run, tool)
    return run


def _check_fit(tool: str, misfit: str | None) -> None:
    if misfit is not None:
        raise ToolFailure(f"cannot call {tool}: {misfit}")


def _cell(tool: Tool) -> Cell:
    cell = _CELL.get()
    if cell is None:
        raise UsageError(
            f"cannot run {tool.name}: no call of a turn is running",
            hint="pass it to its framework through the adapter",
        )
    return cell


def _dress(run: Callable[..., object], tool: Tool) -> None:
    """Set the name, docstring and parameters of a function for the model."""
    parameters = _shown(tool)
    run.__name__ = run.__qualname__ = plain_name(tool.name)
    run.__doc__ = description(tool)
    run.__annotations__ = {
        one.name: one.annotation
        for one in parameters
        if one.annotation is not inspect.Parameter.empty
    }
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _shown(tool: Tool) -> list[inspect.Parameter]:
    """Return the parameters for the model, with resolved types."""
    try:
        hints = get_type_hints(tool.function, include_extras=True)
    except TypeError:
        hints = {}  # an object that can be called, a partial for example
    return [
        one.replace(annotation=hints.get(name, one.annotation))
        for name, one in inspect.signature(tool.function).parameters.items()
        if name not in tool.takes
    ]
