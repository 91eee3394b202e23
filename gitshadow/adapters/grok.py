"""Grok Build: payloads that another recorder captured (1.0.5), and own ones (1.0.41), 2026-09.

Field names are camelCase, event names snake_case. A session sends two `stop` events: the end of
a turn, and, with the reason `shutdown` and no prompt id, its own end. A subagent runs in the
background: its start names it in the parent's session, its other events have its own session id.
Invariant: only the fields named here are read.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import IN_SUBAGENT, HookEvent, HookPhase, Parsed
from gitshadow.adapters.payload import Payload, shortened_id
from gitshadow.adapters.shape import SNAKE_CASE_PHASES, Shape, tool_classes

NAME = "grok"

_SHAPE = Shape(
    agent=NAME,
    event=("hookEventName",),
    phases={
        **SNAKE_CASE_PHASES,
        "post_tool_use_failure": HookPhase.FAILED,
        "permission_denied": HookPhase.DENIED,
        "stop_cancelled": HookPhase.TURN_END,
        "stop_failure": HookPhase.TURN_END,
        "subagent_start": HookPhase.SUBAGENT_START,
        "subagent_stop": HookPhase.SUBAGENT_END,
    },
    session=("sessionId",),
    turn=("promptId",),
    call=("toolUseId",),
    tool=("toolName",),
    tool_input=("toolInput",),
    cwd=("cwd", "workspaceRoot"),
    transcript=("transcriptPath",),
    duration_ms=("durationMs", "duration_ms"),
    background_tasks=("backgroundTasks",),
    backgrounded=("isBackgrounded",),
    content=("content",),
    replaced=("old_string", "new_string"),
    subagent=("subagentId", "agentId"),
    subagent_type=("subagentType", "agentType"),
    path_keys=("file_path", "path", "filePath", "target_file"),
    tools=tool_classes(
        write="write edit search_replace delete_file",
        shell="run_terminal_command bash",
        agent="task spawn_subagent",
        read="ask_user_question codebase_search enter_plan_mode exit_plan_mode glob"
        " grep kill_command_or_subagent list_dir read read_file scheduler_create"
        " scheduler_delete scheduler_list search_tool send_feedback todo_write"
        " web_fetch web_search",
    ),
)
_WAITS = ("get_command_or_subagent_output", "wait_commands_or_subagents")
# The prefix of the id of a prompt by Grok itself, which goes on when a subagent has ended.
_COMPLETED = "subagent-completed-"
_QUERY = re.compile(r"\A\s*<user_query>\n?(.*?)\n?</user_query>\s*\Z", re.DOTALL)


def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read one payload; a `base.Parser`."""
    found = _SHAPE.read(payload)
    if not isinstance(found, HookEvent):
        # The fields of a subagent's events are not published, so one that cannot be read is no gap.
        name = payload.text("hookEventName") or ""
        return None if name.startswith("subagent_") else found
    teardown = found.turn_id is None and found.reason == "shutdown"
    if found.raw_event == "stop" and teardown:
        found = replace(found, phase=HookPhase.SESSION_END)
    if found.tool in _WAITS:
        found = replace(found, awaited=_awaited(payload))
    # After its start, only `subagentType` distinguishes a subagent's events from its parent's.
    if found.subagent_id is not None or found.subagent_type is not None:
        return _below(found, payload.native_id("sessionId"))
    if (found.turn_id or "").startswith(_COMPLETED):
        return _continued(found)
    return replace(found, prompt=_asked(found.prompt))


def _awaited(payload: Payload) -> tuple[str, ...]:
    named = _SHAPE.input_of(payload).value("task_ids")
    return tuple(map(str, named)) if isinstance(named, list) else ()


def _below(found: HookEvent, session: str | None) -> HookEvent:
    """Move a subagent's event into its own session, below the one that its start names."""
    own = found.subagent_id or session or found.native_session
    return replace(
        found,
        native_session=own,
        parent_session=None if session == own else session,
        subagent_id=shortened_id(own),
        turn_id=None,
        prompt=None,
        phase=IN_SUBAGENT.get(found.phase, found.phase),
    )


def _continued(found: HookEvent) -> HookEvent:
    """Make an event after a subagent's end a part of the turn that started the subagent."""
    is_prompt = found.phase is HookPhase.PROMPT
    return replace(
        found,
        phase=HookPhase.CONTINUATION if is_prompt else found.phase,
        turn_id=None,
        prompt=None,
    )


def _asked(prompt: str | None) -> str | None:
    """Return what the user wrote, without the element in which Grok wraps it."""
    wrapped = _QUERY.match(prompt or "")
    return wrapped.group(1) if wrapped is not None else prompt
