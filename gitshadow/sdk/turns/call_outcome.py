"""What is known of the end of a call: it was done, it was not done, or that is unknown. Pure.

Tools, held calls, tools of MCP servers, cancelled calls and inverses are all judged here, and what
is not certain is unknown.
"""

from enum import StrEnum

from gitshadow.sdk.turns.commands import Event, Raised, Returned
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Outcome, OutcomeKind, Reversibility
from gitshadow.store.journal.saga_rows import SagaCall

RAISED = "raised"
"""The outcome in the journal of a call that raised, so that its effect is unknown."""


class CallKnowledge(StrEnum):
    """Whether a call had its effect."""

    DONE = "done"
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"


def from_event(event: Event, tool: Tool) -> CallKnowledge:
    """Return what is known of a function's effect from the way in which it ended.

    A returned outcome that is no success and a `ToolFailure` say that nothing was done. Any other
    exception does so only for a tool declared with `errors="nothing_done"`. A timeout never does.
    """
    if isinstance(event, Returned):
        value = event.value
        is_no = isinstance(value, Outcome) and not value.ok
        return CallKnowledge.NOT_DONE if is_no else CallKnowledge.DONE
    if not isinstance(event, Raised):
        return CallKnowledge.UNKNOWN
    is_sure = tool.fails_clean and isinstance(event.error, Exception)
    is_no = is_sure or isinstance(event.error, ToolFailure)
    return CallKnowledge.NOT_DONE if is_no else CallKnowledge.UNKNOWN


def from_row(call: SagaCall) -> CallKnowledge:
    """Return what the journal says of a call's effect; that of one that reads is none."""
    if call.outcome == OutcomeKind.SUCCESS:
        return CallKnowledge.DONE
    if call.outcome is None:
        return CallKnowledge.UNKNOWN
    reads = call.klass == Reversibility.READ_ONLY
    return (
        CallKnowledge.UNKNOWN
        if call.outcome == RAISED and not reads
        else CallKnowledge.NOT_DONE
    )
