"""OpenHands: notes of another recorder on its hooks, 2026-09; the vendor documents no payload.

Invariant: event names count in PascalCase, as they were seen, and in the snake_case of the
settings file. No call id is sent and the end repeats only a part of the input, so a call that
writes one file is named after it.
"""

from collections.abc import Mapping

from gitshadow.adapters import fields
from gitshadow.adapters.base import HookPhase, Parsed, Traits
from gitshadow.adapters.filetools import by_file, unless_viewing
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "openhands"

_PHASES: Mapping[str, HookPhase] = {
    "SessionStart": HookPhase.SESSION_START,
    "UserPromptSubmit": HookPhase.PROMPT,
    "PreToolUse": HookPhase.BEFORE,
    "PostToolUse": HookPhase.AFTER,
    "Stop": HookPhase.TURN_END,
    "SessionEnd": HookPhase.SESSION_END,
}
_SNAKE: Mapping[str, HookPhase] = {
    "session_start": HookPhase.SESSION_START,
    "user_prompt_submit": HookPhase.PROMPT,
    "pre_tool_use": HookPhase.BEFORE,
    "post_tool_use": HookPhase.AFTER,
    "stop": HookPhase.TURN_END,
    "session_end": HookPhase.SESSION_END,
}
_SHAPE = Shape(
    agent=NAME,
    event=("event_type",),
    phases={**_PHASES, **_SNAKE},
    session=("session_id",),
    call=("tool_call_id",),
    cwd=("working_dir",),
    prompt=("message",),
    path_keys=("path", "file_path"),
    patch_keys=("patch",),
    tools={
        ToolClass.WRITE: frozenset(
            {"apply_patch", "file_editor", "planning_file_editor", "str_replace_editor"}
        ),
        ToolClass.SHELL: frozenset({"bash", "execute_bash", "terminal"}),
        ToolClass.AGENT: frozenset({"delegate", "task"}),
        ToolClass.READ: frozenset({"finish", "glob", "grep", "think"}),
    },
)


class OpenHands:
    """Read payloads of OpenHands.

    Its settings take a matcher of all tools; whether two of them run at once is not known.
    """

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = _SHAPE.read(payload)
        found = unless_viewing(found, fields.mapping(payload, "tool_input"))
        return by_file(found)
