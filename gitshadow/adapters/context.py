"""Words to the model, in the form of the agent that asks: the one thing a hook ever prints.

Invariant: pure; what comes out adds context and never decides anything.
"""

import json

from gitshadow.adapters.base import ContextChannel, HookEvent, HookPhase
from gitshadow.adapters.registry import traits


def takes_context(event: HookEvent) -> bool:
    """Tell whether an event is a prompt whose hook can add to what the model reads."""
    return (
        event.phase is HookPhase.PROMPT
        and traits(event.host).context is not ContextChannel.NONE
    )


def added_context(text: str, event: HookEvent) -> bytes:
    """Return what a hook prints to add a text; nothing where the event does not take it."""
    if not takes_context(event):
        return b""
    if traits(event.host).context is ContextChannel.TEXT:
        return text.encode("utf-8", "replace") + b"\n"
    output = {"hookEventName": event.raw_event, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": output}).encode() + b"\n"
