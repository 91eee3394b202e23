"""What became of a call that began and never ended? Its tool is asked, where it can tell.

Invariant: nothing is guessed: without an answer the call stays in doubt, and no inverse runs.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.store.journal.saga_rows import Note, SagaCall
from gitshadow.turns import records
from gitshadow.turns.registry import Tool, ToolRegistry
from gitshadow.turns.steps import Invoke, Procedure, Raised, Returned, Save, ask
from gitshadow.turns.values import Inverse, Outcome


def settled(
    call: SagaCall, registry: ToolRegistry, moment_ns: int, op: str | None = None
) -> Procedure[SagaCall]:
    """Ask a tool's probe about an unfinished call, write the answer down, return the call.

    False: it did not happen. An `Outcome`, or True: it did, and its inverse is bound now. None, or
    no probe: the call stays as it is.
    """
    tool = registry.find(call.tool)
    probe = tool.options.get("probe") if tool is not None else None
    if tool is None or probe is None:
        return call
    intent = records.parse(call.intent)
    event = yield from ask(Invoke(probe, (intent["arguments"],)))
    found = event.value if isinstance(event, Returned) else None
    if found is None:
        return call
    body: dict[str, object] = {"op": op} if op is not None else {}
    if found is False:
        said = "it did not happen"
        after = replace(call, undo="skipped", error=said, op=op)
        yield Save((after, _note(call, "undo_skipped", moment_ns, body)))
        return after
    inverse, trouble = yield from _late_inverse(registry, tool, intent, found)
    undo = "none" if inverse is None else "planned"
    after = replace(call, outcome="success", inverse=inverse, error=trouble, undo=undo)
    body["inverse"] = inverse
    yield Save((after, _note(call, "probed", moment_ns, body)))
    return after


def _late_inverse(
    registry: ToolRegistry, tool: Tool, intent: Mapping[str, object], found: object
) -> Procedure[tuple[str | None, str | None]]:
    """Bind the second half of an inverse once a probe has told the result."""
    build = tool.options.get("inverse")
    if build is None:
        return None, None
    result = found.content if isinstance(found, Outcome) else None
    args = (intent["arguments"], intent["capture"], result)
    event = yield from ask(Invoke(build, args))
    if not isinstance(event, Returned) or not isinstance(event.value, Inverse):
        return None, _why(event) or "no inverse"
    after_files = tool.options.get("after_files", False)
    try:
        text = records.inverse_text(
            event.value,
            tool.retry,
            (),
            after=None,
            after_files=after_files,
            version=registry.version_of(event.value.handler),
        )
    except records.NotStorableError as error:
        return None, f"the inverse was not stored: {error}"
    return text, None


def _why(event: object) -> str | None:
    if not isinstance(event, Raised):
        return None
    return records.in_words(event.error)


def _note(
    call: SagaCall, kind: str, moment_ns: int, body: Mapping[str, object]
) -> Note:
    return Note(
        session=call.session,
        turn=call.turn,
        call=call.id,
        kind=kind,
        ts_ns=moment_ns,
        body=records.lenient(body),
    )
