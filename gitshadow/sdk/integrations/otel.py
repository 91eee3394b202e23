"""OpenTelemetry: a span for each tool call, and a linked one for each attempt to undo it.

The names follow the semantic conventions for generative AI, "execute tool" (status: Development).
Only the API is needed; the spans are exported if the program has set up an SDK.
Invariant: no argument, result or error text is in a span.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import wraps

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gitshadow import __version__
from gitshadow.sdk.turns.values import Work

_CALL = "execute_tool"
_HEADER = "traceparent"


class OpenTelemetry:
    """Report calls to OpenTelemetry: `Host(telemetry=OpenTelemetry())`.

    Args:
        provider: The provider of the tracer; the global one by default.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("gitshadow", __version__, provider)

    def started(self, work: Work) -> "Spanning":
        """Begin the span of a call, or of an attempt to undo one."""
        attributes = {
            "gen_ai.tool.name": work.tool,
            "gen_ai.tool.call.id": work.call_id,
            "gitshadow.turn": work.turn,
            "gitshadow.session": work.session,
        }
        if work.kind == _CALL:
            attributes |= {
                "gen_ai.operation.name": _CALL,
                "gen_ai.tool.type": "function",
            }
        if work.handler is not None:
            attributes["gitshadow.handler"] = work.handler
        span = self._tracer.start_span(
            f"{work.kind} {work.tool}",
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            links=_links(work.link),
        )
        return Spanning(span)


class Spanning:
    """One span that has begun."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def reference(self) -> str:
        """Return the span as a W3C `traceparent`; empty for a span that is not recorded."""
        carrier: dict[str, str] = {}
        context = trace.set_span_in_context(self._span)
        TraceContextTextMapPropagator().inject(carrier, context)
        return carrier.get(_HEADER, "")

    def around(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return a function that runs with the span as the current one, in any thread."""
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: object, **kwargs: object) -> object:
                with self._current():
                    value: Awaitable[object] = function(*args, **kwargs)
                    return await value

            return awaited

        @wraps(function)
        def called(*args: object, **kwargs: object) -> object:
            with self._current():
                return function(*args, **kwargs)

        return called

    def _current(self) -> AbstractContextManager[Span]:
        # The defaults would put the text of an exception into the span.
        return trace.use_span(
            self._span, record_exception=False, set_status_on_exception=False
        )

    def ended(self, outcome: str, error: str | None) -> None:
        """End the span."""
        self._span.set_attribute("gitshadow.outcome", outcome)
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


def _links(reference: str | None) -> list[Link]:
    """Return a link to the span of a stored `traceparent`."""
    context = TraceContextTextMapPropagator().extract({_HEADER: reference or ""})
    found = trace.get_current_span(context).get_span_context()
    return [Link(found)] if reference and found.is_valid else []
