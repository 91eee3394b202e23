r"""Antigravity CLI (`agy`): payloads that another recorder captured from 1.0.14, 2026-09.

No payload names its event: its fields show it. The end of a tool call repeats nothing of it but
`stepIdx`. Values of arguments may be JSON texts of their own (`"\"a.txt\""`).
Invariant: a call's id is made of its step, so both ends have the same one.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.shape import Shape, tool_classes
from gitshadow.model import JsonValue

NAME = "antigravity"

_SHAPE = Shape(
    agent=NAME,
    event=("event",),
    phases={
        "PreInvocation": HookPhase.PROMPT,
        "PreToolUse": HookPhase.BEFORE,
        "PostToolUse": HookPhase.AFTER,
        "Stop": HookPhase.TURN_END,
    },
    session=("conversationId",),
    call=("step",),
    tool=("toolCall.name",),
    tool_input=("arguments",),
    cwd=("workspacePaths",),
    transcript=("transcriptPath",),
    reason=("terminationReason", "error"),
    path_keys=("TargetFile", "AbsolutePath", "File"),
    tools=tool_classes(
        write="multi_replace_file_content replace_file_content write_to_file",
        shell="run_command send_command_input",
        agent="browser_subagent",
        read="codebase_search command_status find_by_name grep_search list_dir"
        " notify_user read_url_content search_web task_boundary view_code_item"
        " view_content_chunk view_file view_file_outline",
    ),
)


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    event = _event_of(payload)
    if event is None:
        return None
    if event == "PostToolUse":
        return _ended(payload, event)
    # The texts among a tool's arguments are encoded twice.
    arguments = payload.object("toolCall.args").fields
    given = {key: _plain(value) for key, value in arguments.items()}
    found = _SHAPE.read(
        payload.changed(event=event, step=_step(payload), arguments=given)
    )
    if isinstance(found, HookEvent) and payload.value("fullyIdle") is False:
        return replace(found, background_tasks=1)
    return found


def _event_of(payload: Payload) -> str | None:
    """Return which event a payload is; None for one that does not concern gitshadow."""
    if "toolCall" in payload:
        return "PreToolUse"
    if "stepIdx" in payload:
        return "PostToolUse"
    if "fullyIdle" in payload or "terminationReason" in payload:
        return "Stop"
    # The model is invoked several times in a turn; the first invocation begins it.
    number = payload.value("invocationNum")
    first = number == 0 and not isinstance(number, bool)
    return "PreInvocation" if first and "initialNumSteps" in payload else None


def _step(payload: Payload) -> str | None:
    number = payload.value("stepIdx")
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return f"step-{number}"


def _plain(value: JsonValue) -> JsonValue:
    if not isinstance(value, str) or not value.startswith('"'):
        return value
    try:
        inner = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return value
    return inner if isinstance(inner, str) else value


def _ended(payload: Payload, event: str) -> Parsed:
    """Read the end of a call, which names its step, but no tool and no paths."""
    session, step = payload.native_id("conversationId"), _step(payload)
    if session is None:
        return BadPayload(f"the {event} payload has no session")
    if step is None:
        return BadPayload(f"the {event} payload has no step")
    error = payload.text("error")
    return HookEvent(
        agent=NAME,
        host=NAME,
        native_session=session,
        phase=HookPhase.AFTER if error is None else HookPhase.FAILED,
        raw_event=event,
        call_id=step,
        cwd=payload.path("workspacePaths"),
        transcript_path=payload.text("transcriptPath"),
        reason=error,
    )
