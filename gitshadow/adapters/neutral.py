"""Two forms of other recorders that agents may send already: git-ai's agent-v1, Entire's protocol.

git-ai (2026-08): `human` before an edit, so that what stands there is nobody else's, `ai_agent`
after it. Entire (2026-09): the `HookInput` of its external agents. Neither names an event as
docs/hooks.md does, which tells them apart.
Invariant: an edit of which only its end is told claims no more than the moment before that.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import claude_code, fields
from gitshadow.adapters.base import BadPayload, HookEvent, HookPhase, Parsed
from gitshadow.adapters.filetools import SAVED_WITHIN_NS
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "generic"

_ENTIRE = Shape(
    agent=NAME,
    event=("hook_type",),
    phases={
        "session_start": HookPhase.SESSION_START,
        "user_prompt_submit": HookPhase.PROMPT,
        "pre_tool_use": HookPhase.BEFORE,
        "post_tool_use": HookPhase.AFTER,
        "stop": HookPhase.TURN_END,
        "session_end": HookPhase.SESSION_END,
    },
    session=("session_id",),
    call=("tool_use_id",),
    prompt=("user_prompt", "prompt"),
    transcript=("session_ref",),
    tools={},
)
_PATH_KEYS = ("file_path", "notebook_path", "path", "filePath")
_LOOKING = frozenset({"glob", "grep", "list", "ls", "read", "read_file", "view"})


def read(payload: Mapping[str, object]) -> Parsed:
    """Read a payload of one of the two forms; None for what is neither."""
    if "hook_type" in payload:
        return _entire(payload)
    kind = fields.text(payload, "type")
    if "repo_working_dir" not in payload or kind not in ("human", "ai_agent"):
        return None
    return _human(payload) if kind == "human" else _ai_agent(payload)


def is_neutral(payload: Mapping[str, object]) -> bool:
    """Tell whether a payload has one of the two forms and not our own."""
    return "event" not in payload and not payload.keys().isdisjoint(
        {"hook_type", "repo_working_dir"}
    )


def _human(payload: Mapping[str, object]) -> Parsed:
    """Read the notice that comes before an edit; it says neither who will edit nor when."""
    return HookEvent(
        agent=NAME,
        host=NAME,
        native_session="agent-v1",
        phase=HookPhase.NOTICE,
        raw_event="human",
        paths=fields.paths_at(payload, ("will_edit_filepaths[]",)),
        cwd=fields.first_path(payload, "repo_working_dir"),
    )


def _ai_agent(payload: Mapping[str, object]) -> Parsed:
    """Read the end of an edit, a call of its own, named after its files."""
    session = fields.native_id(payload, "conversation_id")
    if session is None:
        return BadPayload("the ai_agent payload has no session")
    paths = fields.paths_at(payload, ("edited_filepaths[]",))
    names = [path.hex() for path in paths]
    return HookEvent(
        agent=fields.identifier(payload, "agent_name") or NAME,
        host=NAME,
        native_session=session,
        phase=HookPhase.AFTER,
        raw_event="ai_agent",
        call_id=fields.derived_call_id(session, "ai_agent", names),
        call_derived=True,
        tool="ai_agent",
        tool_class=ToolClass.WRITE if paths else ToolClass.OTHER,
        paths=paths,
        cwd=fields.first_path(payload, "repo_working_dir"),
        model=fields.text(payload, "model"),
        duration_ns=SAVED_WITHIN_NS,
    )


def _entire(payload: Mapping[str, object]) -> Parsed:
    """Read an Entire payload; tools keep their agent's names, mostly those of Claude Code."""
    found = _ENTIRE.read(payload)
    if not isinstance(found, HookEvent) or found.tool is None:
        return found
    kind = claude_code.tool_class(found.tool)
    if kind is ToolClass.OTHER and found.tool.lower() in _LOOKING:
        kind = ToolClass.READ
    paths = fields.paths_at(fields.mapping(payload, "tool_input"), _PATH_KEYS)
    if kind not in (ToolClass.WRITE, ToolClass.OTHER):
        return replace(found, tool_class=kind)
    kind = ToolClass.WRITE if paths else ToolClass.OTHER
    return replace(found, tool_class=kind, paths=paths)
