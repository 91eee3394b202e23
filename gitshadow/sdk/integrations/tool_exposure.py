"""Registered functions as frameworks are to see them.

A framework reads a function's name, types and text for its model, runs it in a task or thread of
its own and makes a message of what it gives. Invariant: our own arguments are shown to nobody, and
what the function itself gave or raised reaches the turn, whatever became of it on the way.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias, get_type_hints

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.commands import Returned
from gitshadow.sdk.turns.tool import Tool

Errors: TypeAlias = tuple[type[Exception], ...]


@dataclass(slots=True)
class Cell:
    """Carry our own arguments to a tool's function, and its result or error back.

    Errors of the types in `passing` are between the tool and its framework.
    """

    extras: Mapping[str, object]
    passing: Errors = ()
    result: Returned | None = None
    error: Exception | None = None

    @contextmanager
    def carried(self) -> Iterator[None]:
        """Let the tool's function find the cell; its own error goes on, not what became of it."""
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
    def noting_errors(self) -> Iterator[None]:
        """Keep the error of the tool's own function, which goes on."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, self.passing):
                self.error = error
            raise


# The context goes along into the tasks and threads in which frameworks run tools.
_CELL: ContextVar[Cell | None] = ContextVar("gitshadow_call", default=None)


def plain_name(tool: str) -> str:
    """Return a tool's name as models take it: without dots."""
    return tool.replace(".", "_")


def description(tool: Tool) -> str:
    """Return what a model is told of a tool."""
    said = tool.options.get("description") or inspect.getdoc(tool.function)
    return said or tool.name


def exposed(tool: Tool) -> Callable[..., Awaitable[object]]:
    """Return a tool's function as a framework is to see it: named, typed, without our arguments.

    It runs only while a cell is carried, which fills those in.
    """

    async def run(*args: object, **kwargs: object) -> object:
        cell = _cell(tool)
        with cell.noting_errors():
            value = tool.function(*args, **kwargs, **cell.extras)
            cell.result = Returned(await value if inspect.isawaitable(value) else value)
        return cell.result.value

    _dress(run, tool)
    return run


def exposed_sync(tool: Tool) -> Callable[..., object]:
    """Return a tool's function as `exposed` does, for a framework that does not await it."""

    def run(*args: object, **kwargs: object) -> object:
        cell = _cell(tool)
        with cell.noting_errors():
            value = tool.function(*args, **kwargs, **cell.extras)
            if inspect.iscoroutine(value):
                value.close()
                raise TypeError(f"{tool.name} is async: use AsyncAgentUndo")
            cell.result = Returned(value)
        return cell.result.value

    _dress(run, tool)
    return run


def _cell(tool: Tool) -> Cell:
    cell = _CELL.get()
    if cell is None:
        raise UsageError(
            f"cannot run {tool.name}: no call of a turn is running",
            hint="pass it to its framework through the adapter",
        )
    return cell


def _dress(run: Callable[..., object], tool: Tool) -> None:
    """Give a function the name, the text and the parameters that a model is to see."""
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
    """Return the parameters that a model fills in, their types resolved."""
    try:
        hints = get_type_hints(tool.function, include_extras=True)
    except TypeError:
        hints = {}  # an object that can be called, a partial for example
    return [
        one.replace(annotation=hints.get(name, one.annotation))
        for name, one in inspect.signature(tool.function).parameters.items()
        if name not in tool.takes
    ]
