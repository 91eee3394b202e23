"""The probe of a tool: it is asked about a call whose end is unknown.

Nothing is guessed: without an answer the call stays in doubt, and no inverse runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gitshadow.sdk.turns import evidence, json_values, path_images
from gitshadow.sdk.turns.call_records import key_of
from gitshadow.sdk.turns.commands import Invoke, Procedure, Raised, Returned, Save, ask
from gitshadow.sdk.turns.kept_secrets import KeptSecrets
from gitshadow.sdk.turns.redaction import NO_SECRETS
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Inverse, JsonObject, Outcome
from gitshadow.store.journal.saga_rows import SagaCall, SagaEntry


class Sources(NamedTuple):
    """What a program knows of its calls besides their rows; `root` is the working tree."""

    registry: ToolRegistry
    root: str
    given: KeptSecrets


def settled(
    call: SagaCall,
    sources: Sources,
    moment_ns: int,
    op: str | None = None,
    *,
    before: Sequence[SagaCall] = (),
) -> Procedure[SagaCall]:
    """Settle a call whose effect is unknown, log the answer, return the call.

    Its tool's probe is asked; of a call that changes nothing but files, the files are compared.
    Without an answer the call stays as it is.

    Args:
        call: What is in doubt.
        sources: What the program knows of its calls.
        moment_ns: For the log.
        op: The undo that asks.
        before: Calls of the same turn; what their files were before them counts as well.
    """
    if evidence.unreadable(call) is not None:
        return call
    tool = sources.registry.find(call.tool)
    found = yield from asked(call, tool, sources.given)
    body = {} if op is None else {"op": op}
    if found is None:
        said = yield from path_images.restored(call, before, sources.root)
    else:
        said = "it did not happen" if found is False else None
    if said is not None:
        after = replace(call, undo="skipped", error=said, op=op)
        yield Save((after, _note(call, "undo_skipped", moment_ns, body)))
        return after
    if found is None or tool is None:
        return call
    return (yield from happened(call, sources, tool, found, moment_ns, body))


def asked(call: SagaCall, tool: Tool | None, given: KeptSecrets) -> Procedure[object]:
    """Ask a tool's probe about a call.

    Returns:
        False: it did not happen. An `Outcome`, or True: it did. None: nobody knows.
    """
    probe = tool.options.get("probe") if tool is not None else None
    if tool is None or probe is None:
        return None
    if json_values.parse(call.intent).get("altered_arguments"):
        # The journal's arguments differ from the call's, so the probe would be asked about
        # another call.
        return None
    extras = tool.extras("probe", key_of(call, "do"))
    event = yield from ask(Invoke(probe, (given.of(call),), extras))
    return event.value if isinstance(event, Returned) else None


def happened(
    call: SagaCall,
    sources: Sources,
    tool: Tool,
    found: object,
    moment_ns: int,
    body: JsonObject,
) -> Procedure[SagaCall]:
    """Write down that a call had its effect, and bind its inverse now."""
    inverse, trouble = yield from _late_inverse(sources, tool, call, found)
    undo = "none" if inverse is None else "planned"
    after = replace(call, outcome="success", inverse=inverse, error=trouble, undo=undo)
    yield Save((after, _note(call, "probed", moment_ns, {**body, "inverse": inverse})))
    return after


def _late_inverse(
    sources: Sources, tool: Tool, call: SagaCall, found: object
) -> Procedure[tuple[str | None, str | None]]:
    """Bind the second half of an inverse once a probe has returned the result."""
    build = tool.options.get("inverse")
    if build is None:
        return None, None
    intent = json_values.intent(call.intent)
    if intent.get("altered") is not None:
        return None, f"the inverse was not made: {intent['altered']}"
    result = found.content if isinstance(found, Outcome) else None
    args = (sources.given.of(call), intent["capture"], result)
    secrets = sources.given.secrets_of(call) or NO_SECRETS
    extras = tool.extras("inverse", key_of(call, "do"))
    event = yield from ask(Invoke(build, args, extras))
    if not isinstance(event, Returned) or not isinstance(event.value, Inverse):
        return None, secrets.hide_text(_why(event) or "no inverse")
    after_files = tool.options.get("after_files", False)
    try:
        text = json_values.inverse_text(
            event.value,
            tool.retry,
            secrets,
            after_files=after_files,
            version=sources.registry.version_of(event.value.handler),
        )
    except json_values.NotStorableError as error:
        return None, f"the inverse was not stored: {error}"
    return text, None


def _why(event: object) -> str | None:
    if not isinstance(event, Raised):
        return None
    return json_values.in_words(event.error)


def _note(call: SagaCall, kind: str, moment_ns: int, body: JsonObject) -> SagaEntry:
    return SagaEntry(
        session=call.session,
        turn=call.turn,
        call=call.id,
        kind=kind,
        ts_ns=moment_ns,
        body=json_values.lenient(body),
    )
