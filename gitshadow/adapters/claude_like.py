"""Agents that send what Claude Code sends, with small differences: Devin CLI, Droid, Qwen Code.

Invariant: only the fields named here and in `claude_code` are read.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import claude_code
from gitshadow.adapters.base import TOOL_PHASES, HookEvent, HookPhase, Parsed, Parser
from gitshadow.adapters.payload import Payload, raw_path
from gitshadow.adapters.shape import Shape, tool_classes

# Payloads that another recorder captured from 3000.2.17, 2026-09. They have no `cwd` and no
# `transcript_path`: the environment of the hook has the directory.
DEVIN: Shape = replace(
    claude_code.SHAPE,
    agent="devin",
    patch_keys=("patch", "input", "command"),
    tools=tool_classes(
        write="apply_patch edit notebook_edit write",
        shell="exec",
        read="glob grep read todo_write web_search",
    ),
)
# `docs/reference/hooks-reference.mdx` of Factory-AI/factory, 2026-07-24, and own payloads
# (0.215). There are no ids of prompts and calls: a prompt begins a turn, and a call is named
# after its session, tool and input. A subagent is a process and a session of its own, and only
# its start names the session that called it. `SubagentStop` names none, so it is ignored, and
# `Task` is open for any path. `droid exec` sends no prompt.
DROID: Shape = replace(
    claude_code.SHAPE,
    agent="droid",
    call=("tool_use_id", "toolUseId"),
    subagent=(),
    content=("content",),
    replaced=("old_str", "new_str"),
    path_keys=("file_path", "notebook_path", "path"),
    patch_keys=("input", "patch", "command"),
    tools=tool_classes(
        write="ApplyPatch Create Edit MultiEdit NotebookEdit Write",
        shell="Bash Execute",
        read="AskUser ExitSpecMode FetchUrl Glob Grep LS Read TaskStop TodoWrite"
        " ToolSearch WebFetch WebSearch",
    ),
)
# `docs/users/features/hooks.md` and `hookRunner.ts` of QwenLM/qwen-code, 2026-08.
QWEN: Shape = replace(
    claude_code.SHAPE,
    agent="qwen",
    call=("tool_use_id", "tool_call_id"),
    prompt=("submitted_prompt",),
    backgrounded=("tool_input.is_background", "tool_input.run_in_background"),
    edit_texts=(
        "tool_response.returnDisplay.originalContent",
        "tool_response.returnDisplay.newContent",
    ),
    path_keys=("file_path", "notebook_path", "path", "absolute_path"),
    tools=tool_classes(
        write="edit notebook_edit replace write_file",
        shell="monitor run_shell_command",
        agent="agent skill task",
        read="ask_user_question exit_plan_mode glob grep_search list_directory lsp"
        " read_file read_many_files search_file_content todo_write web_fetch"
        " web_search",
    ),
)


@DEVIN.adjusted
def _devin(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read a payload of Devin CLI."""
    phase = found.phase
    if payload.value("tool_response.success") is False:
        phase = HookPhase.FAILED if phase is HookPhase.AFTER else phase
    # Its call ids count the calls of a tool (`write_0`) and may come again in a later turn, so they
    # are treated like derived ones.
    return replace(
        found,
        phase=phase,
        cwd=found.cwd or raw_path(env.get("DEVIN_PROJECT_DIR")),
        call_derived=phase in TOOL_PHASES,
    )


@DROID.adjusted
def _droid(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read a payload of Droid."""
    return replace(found, calling_session=payload.native_id("calling_session_id"))


@QWEN.adjusted
def _qwen(found: HookEvent, payload: Payload, env: Mapping[str, str]) -> Parsed:
    """Read a payload of Qwen Code; the prompt of a headless run is not recorded."""
    # `UserPromptSubmit` comes for each message to the model, results of tools included. Only
    # `submitted_prompt` marks what a person sent, and only the terminal interface has it.
    if found.phase is HookPhase.PROMPT and found.prompt is None:
        return None
    # A headless run names its turn in the environment, for prompts and for tools.
    turn = found.turn_id or Payload(env).identifier("QWEN_CODE_PROMPT_ID")
    return replace(found, turn_id=turn)


PARSERS: Mapping[str, Parser] = {
    "devin": _devin,
    "droid": _droid,
    "qwen": _qwen,
}
