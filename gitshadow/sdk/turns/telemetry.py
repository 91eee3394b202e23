"""Spans for telemetry, one per call and per attempt to undo one; off by default.

Only names, ids and types leave the program, nothing of arguments, results or errors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.protocols import Telemetry, Working
from gitshadow.sdk.turns.values import Work
from gitshadow.store.journal.saga_rows import SagaCall


@dataclass(slots=True)
class WorkSpan:
    """The span of one piece of work; a context manager that ends it.

    `outcome` is what the work came to; without one it has raised.
    """

    working: Working | None
    outcome: str | None = None

    @property
    def reference(self) -> str | None:
        """Return what a later span can name this one by; None if nothing is reported."""
        return None if self.working is None else self.working.reference

    def around(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return a function as it is to be called: what it does belongs to the span."""
        return function if self.working is None else self.working.around(function)

    def __enter__(self) -> "WorkSpan":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.working is not None:
            name = None if kind is None else kind.__name__
            self.working.ended(self.outcome or "raised", name)


def of_call(telemetry: Telemetry | None, call: SagaCall) -> WorkSpan:
    """Return the span of a call."""
    return _started(telemetry, Work("execute_tool", *_names(call)))


def of_undo(telemetry: Telemetry | None, call: SagaCall, handler: str) -> WorkSpan:
    """Return the span of one attempt to undo a call; it names the span of the call."""
    trace = json_values.parse(call.intent).get("trace") if telemetry else None
    link = None if trace is None else str(trace)
    return _started(telemetry, Work("undo", *_names(call), handler, link))


def _started(telemetry: Telemetry | None, work: Work) -> WorkSpan:
    return WorkSpan(None if telemetry is None else telemetry.started(work))


def _names(call: SagaCall) -> tuple[str, str, str, str]:
    return call.tool, call.id, call.turn, call.session
