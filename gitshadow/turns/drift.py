"""Has the world moved since a call? What a tool observes now against what it saw right after it.

Invariant: only a tool with `observe` can tell; silence is no drift.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitshadow.store.journal.saga_rows import SagaCall
from gitshadow.turns import records
from gitshadow.turns.registry import ToolRegistry
from gitshadow.turns.steps import Invoke, Procedure, Returned, ask


@dataclass(slots=True)
class Drift:
    """Look for drift, of one call or, for a plan, of several newest first."""

    registry: ToolRegistry
    _undone: list[tuple[str, str, str]] = field(default_factory=list)

    def look(self, call: SagaCall) -> Procedure[str | None]:
        """Return in words how the world differs from what the call left, or None."""
        seen = yield from self._present(call)
        return None if seen is None else _difference(call, seen)

    def predict(self, call: SagaCall) -> Procedure[str | None]:
        """As `look`, as if the calls asked about before had been taken back already."""
        seen = yield from self._present(call)
        if seen is None:
            return None
        for tool, left, found in self._undone:
            if tool == call.tool and left == seen:
                seen = found
        said = _difference(call, seen)
        before, after = images(call)
        if said is None and before is not None and after is not None:
            self._undone.append((call.tool, after, before))
        return said

    def _present(self, call: SagaCall) -> Procedure[str | None]:
        """Return what the tool observes now; None where it cannot, or once was undone half."""
        tool = self.registry.find(call.tool)
        observe = tool.options.get("observe") if tool is not None else None
        _, after = images(call)
        if observe is None or after is None or call.attempts:
            return None
        if records.REDACTED in after:
            return None
        arguments = records.parse(call.intent).get("arguments")
        assert isinstance(arguments, Mapping)
        event = yield from ask(Invoke(observe, (arguments,)))
        return records.lenient(event.value) if isinstance(event, Returned) else None


def images(call: SagaCall) -> tuple[str | None, str | None]:
    """Return what the tool observed before and after a call."""
    before = records.parse(call.intent).get("before")
    after = records.stored_inverse(call.inverse).after if call.inverse else None
    return (before if isinstance(before, str) else None), after


def _difference(call: SagaCall, seen: str) -> str | None:
    before, after = images(call)
    if seen in (before, after):
        return None
    return f"it left {after}, now there is {seen}"
