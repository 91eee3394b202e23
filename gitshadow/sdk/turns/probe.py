"""The probe of a tool: it is asked about a call whose end is unknown.

Nothing is guessed: without an answer the call stays in doubt, and no inverse runs.
"""

from collections.abc import Sequence
from dataclasses import replace

from gitshadow.sdk.turns import drift, evidence, json_values, path_images
from gitshadow.sdk.turns.call_records import key_of
from gitshadow.sdk.turns.commands import Invoke, Procedure, Returned, Save, ask
from gitshadow.sdk.turns.evidence import note
from gitshadow.sdk.turns.inverse_binding import InverseParts, bound, trouble_in
from gitshadow.sdk.turns.kept_secrets import KeptSecrets
from gitshadow.sdk.turns.redaction import NO_SECRETS
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import JsonObject, Outcome
from gitshadow.store.journal.saga_rows import SagaCall, logged

TOO_LATE = "it ended only after it was to be undone"


def settled(
    call: SagaCall,
    setting: TurnSettings,
    moment_ns: int,
    op: str | None = None,
    *,
    before: Sequence[SagaCall] = (),
    is_late: bool = False,
) -> Procedure[SagaCall]:
    """Settle a call whose effect is unknown, log the answer, return the call.

    Its tool's probe is asked; of a call that changes nothing but files, the files are compared.
    Without an answer the call stays as it is, and so does one that still runs.

    Args:
        call: What is in doubt.
        setting: Of the session.
        moment_ns: For the log.
        op: The undo that asks.
        before: Calls of the same turn; what their files were before them counts as well.
        is_late: Whether an undo has ended without knowing; what happened needs another one.
    """
    if evidence.unreadable(call) is not None or (call.turn, call.id) in setting.active:
        return call
    tool = setting.registry.find(call.tool)
    found = yield from asked(call, tool, setting.given)
    body = {} if op is None else {"op": op}
    if found is None:
        said = yield from path_images.restored(call, before, setting.root)
    else:
        said = "it did not happen" if found is False else None
    if said is not None:
        after = replace(call, undo="skipped", error=said, op=op)
        yield Save((after, note(call, "undo_skipped", body, moment_ns)))
        return after
    if found is None:
        return call
    return (yield from happened(call, setting, found, moment_ns, body, is_late=is_late))


def asked(call: SagaCall, tool: Tool | None, given: KeptSecrets) -> Procedure[object]:
    """Ask a tool's probe about a call.

    Returns:
        False: it did not happen. An `Outcome`, or True: it did. None: nobody knows.
    """
    probe = tool.options.get("probe") if tool is not None else None
    if tool is None or probe is None:
        return None
    intent = json_values.intent(call.intent)
    if intent.get("altered_arguments"):
        # The journal's arguments differ from the call's, so the probe would be asked about
        # another call.
        return None
    extras = tool.extras("probe", key_of(call, "do"))
    event = yield from ask(Invoke(probe, (given.of(call, intent).arguments,), extras))
    return event.value if isinstance(event, Returned) else None


def happened(
    call: SagaCall,
    setting: TurnSettings,
    found: object,
    moment_ns: int,
    body: JsonObject,
    *,
    is_late: bool = False,
) -> Procedure[SagaCall]:
    """Write down that a call had its effect, and bind its inverse now."""
    tool = setting.registry.find(call.tool)
    assert tool is not None, "its probe was asked"
    intent = json_values.intent(call.intent)
    given = setting.given.of(call, intent)
    parts = InverseParts(
        given.arguments,
        intent["capture"],
        found.content if isinstance(found, Outcome) else None,
        drift.settled_late(intent, tool),
        given.secrets or NO_SECRETS,
        trouble_in(intent),
    )
    # Nobody knows when it ended, so its undo window begins with the call.
    after = yield from bound(call, tool, parts, setting.registry, call.started_ns)
    if is_late:
        after = replace(after, undo="failed", error=after.error or TOO_LATE)
    body = {**body, "inverse": logged(after.inverse)}
    yield Save((after, note(call, "probed", body, moment_ns)))
    return after
