"""Functions and values that have not run yet: generators, coroutines.

A call of such a function returns at once and does its work later, or never. Invariant: nothing
that has not run counts as done.
"""

import inspect
from collections.abc import Iterator
from functools import partial

from gitshadow.errors import UsageError

_GENERATOR, _ASYNC_GENERATOR = "a generator", "an async generator"


def generator_kind(function: object) -> str | None:
    """Return which kind of generator function a function is, or None.

    Partials, objects that can be called and decorators that use `functools.wraps` are followed.
    """
    for layer in _layers(function, decorated=True):
        if inspect.isasyncgenfunction(layer):
            return _ASYNC_GENERATOR
        if inspect.isgeneratorfunction(layer):
            return _GENERATOR
    return None


def is_async(function: object) -> bool:
    """Return whether a function has to be awaited.

    What is behind a decorator does not count: it may run the coroutine itself.
    """
    return any(map(inspect.iscoroutinefunction, _layers(function, decorated=False)))


def unrun(value: object) -> str | None:
    """Return what a value is that has not run yet, or None; a coroutine is closed."""
    if inspect.iscoroutine(value):
        # Python warns about a coroutine that was never awaited, unless it is closed.
        value.close()
        return "a coroutine"
    if inspect.isasyncgen(value):
        return _ASYNC_GENERATOR
    if inspect.isgenerator(value):
        return _GENERATOR
    return "an awaitable" if inspect.isawaitable(value) else None


def check_turn_function(function: object, *, awaits: bool) -> None:
    """Check a function whose runs are to be turns.

    Args:
        function: What a program decorates.
        awaits: Whether the front awaits it.

    Raises:
        UsageError: its work would run outside of the turn.
    """
    kind = generator_kind(function)
    if kind is None and (awaits or not is_async(function)):
        return
    name = getattr(function, "__qualname__", "the function")
    raise UsageError(
        f"cannot make {name} a turn: it is {kind or 'a coroutine'} function",
        hint="use AsyncAgentUndo" if kind is None else "return a list",
    )


def check_has_run(value: object) -> None:
    """Check what a function returned whose run was a turn.

    Raises:
        UsageError: it has not run, so its work would be outside of the turn.
    """
    kind = unrun(value)
    if kind is not None:
        raise UsageError(
            f"cannot end the turn: its function returned {kind}, which has not run",
            hint="await it inside, or return a list",
        )


def _layers(function: object, *, decorated: bool) -> Iterator[object]:
    """Yield a function and those that it calls, outermost first."""
    seen: set[int] = set()
    while id(function) not in seen:
        seen.add(id(function))
        yield function
        wrapped = getattr(function, "__dict__", {}).get("__wrapped__")
        if isinstance(function, partial):
            function = function.func
        elif decorated and wrapped is not None:
            function = wrapped
        elif not inspect.isroutine(function) and not isinstance(function, type):
            function = type(function).__call__ if callable(function) else function
