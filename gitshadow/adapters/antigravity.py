r"""Antigravity CLI (`agy`): payloads that another recorder captured from 1.0.14, 2026-09.

No payload names its event: what it holds does. A tool call is known by `stepIdx` alone, which
is all that its end repeats of it. Values of arguments may be JSON texts of their own
(`"\"a.txt\""`).
Invariant: a call's id is made of its step, so both ends have the same one.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "antigravity"

_EVENT = "event"
_SHAPE = Shape(
    agent=NAME,
    event=(_EVENT,),
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
    tools={
        ToolClass.WRITE: frozenset(
            {"multi_replace_file_content", "replace_file_content", "write_to_file"}
        ),
        ToolClass.SHELL: frozenset({"run_command", "send_command_input"}),
        ToolClass.AGENT: frozenset({"browser_subagent"}),
        ToolClass.READ: frozenset(
            {
                "codebase_search",
                "command_status",
                "find_by_name",
                "grep_search",
                "list_dir",
                "notify_user",
                "read_url_content",
                "search_web",
                "task_boundary",
                "view_code_item",
                "view_content_chunk",
                "view_file",
                "view_file_outline",
            }
        ),
    },
)


class Antigravity:
    """Read payloads of Antigravity's CLI; hooks with `*` come for every tool, several at once."""

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        event = _event_of(payload)
        if event is None:
            return None
        if event == "PostToolUse":
            return _ended(payload, event)
        given = _decoded(fields.mapping(payload, "toolCall.args"))
        found = _SHAPE.read(
            {**payload, _EVENT: event, "step": _step(payload), "arguments": given}
        )
        if isinstance(found, HookEvent) and payload.get("fullyIdle") is False:
            return replace(found, background_tasks=1)
        return found


def _event_of(payload: Mapping[str, object]) -> str | None:
    """Tell which event a payload is; None for what does not concern us.

    The model is invoked several times in a turn; its first invocation begins one.
    """
    if "toolCall" in payload:
        return "PreToolUse"
    if "stepIdx" in payload:
        return "PostToolUse"
    if "fullyIdle" in payload or "terminationReason" in payload:
        return "Stop"
    number = payload.get("invocationNum")
    first = number == 0 and not isinstance(number, bool)
    return "PreInvocation" if first and "initialNumSteps" in payload else None


def _step(payload: Mapping[str, object]) -> str | None:
    number = payload.get("stepIdx")
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return f"step-{number}"


def _decoded(given: Mapping[str, object]) -> dict[str, object]:
    """Undo a second encoding of the texts among a tool's arguments."""
    return {key: _plain(value) for key, value in given.items()}


def _plain(value: object) -> object:
    if not isinstance(value, str) or not value.startswith('"'):
        return value
    try:
        inner = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return value
    return inner if isinstance(inner, str) else value


def _ended(payload: Mapping[str, object], event: str) -> Parsed:
    """Read the end of a call, which names its step and neither tool nor paths."""
    session, step = fields.native_id(payload, "conversationId"), _step(payload)
    if session is None:
        return BadPayload(f"the {event} payload has no session")
    if step is None:
        return BadPayload(f"the {event} payload has no step")
    error = fields.text(payload, "error")
    return HookEvent(
        agent=NAME,
        host=NAME,
        native_session=session,
        phase=HookPhase.AFTER if error is None else HookPhase.FAILED,
        raw_event=event,
        call_id=step,
        cwd=fields.first_path(payload, "workspacePaths"),
        transcript_path=fields.text(payload, "transcriptPath"),
        reason=error,
    )
