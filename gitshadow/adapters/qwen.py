"""Qwen Code: `docs/users/features/hooks.md` and `hookRunner.ts` of QwenLM/qwen-code, 2026-08.

`UserPromptSubmit` comes for each message to the model, results of tools included. Only
`submitted_prompt` marks what a person sent, and only the terminal interface has it. Without it
nothing tells the two apart, so the event does not concern us: a headless run has its turns from
`QWEN_CODE_PROMPT_ID`, which its tools carry too, and keeps no prompt.
Invariant: only the fields named here are read.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import claude_code, fields
from gitshadow.adapters.base import ContextChannel, HookEvent, HookPhase, Parsed, Traits
from gitshadow.model import ToolClass

NAME = "qwen"
PROMPT_ID = "QWEN_CODE_PROMPT_ID"

_SHAPE = replace(
    claude_code.SHAPE,
    agent=NAME,
    turn=("prompt_id",),
    call=("tool_use_id", "tool_call_id"),
    prompt=("submitted_prompt",),
    path_keys=("file_path", "notebook_path", "path", "absolute_path"),
    patch_keys=(),
    tools={
        ToolClass.WRITE: frozenset({"edit", "notebook_edit", "replace", "write_file"}),
        ToolClass.SHELL: frozenset({"monitor", "run_shell_command"}),
        ToolClass.AGENT: frozenset({"agent", "skill", "task"}),
        ToolClass.READ: frozenset(
            {
                "ask_user_question",
                "exit_plan_mode",
                "glob",
                "grep_search",
                "list_directory",
                "lsp",
                "read_file",
                "read_many_files",
                "search_file_content",
                "todo_write",
                "web_fetch",
                "web_search",
            }
        ),
    },
)


class Qwen:
    """Read payloads of Qwen Code.

    `PreToolUse` comes for every tool, subagents' included, and several may run at once.

    `UserPromptSubmit` takes `additionalContext` (hooks.md).
    """

    name = NAME
    traits = Traits(covers_all_tools=True, context=ContextChannel.JSON)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = _SHAPE.read(payload)
        if not isinstance(found, HookEvent):
            return found
        if found.phase is HookPhase.PROMPT and found.prompt is None:
            return None
        turn = found.turn_id or fields.identifier(env, PROMPT_ID)
        return replace(found, turn_id=turn)
