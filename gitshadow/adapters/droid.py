"""Factory Droid: `docs/reference/hooks-reference.mdx` of Factory-AI/factory, 2026-07-24.

Its shape is Claude Code's without ids of prompts, calls and subagents: a prompt begins a turn, a
call is named after its session, tool and input, and the end of a subagent, which names nobody,
does not concern us. `droid exec` may send no prompt: its session then has calls and no turn.
Invariant: only the fields named here are read.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import claude_code
from gitshadow.adapters.base import ContextChannel, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "droid"

_SHAPE: Shape = replace(
    claude_code.SHAPE,
    agent=NAME,
    turn=("prompt_id",),
    call=("tool_use_id", "toolUseId"),
    subagent=(),
    path_keys=("file_path", "notebook_path", "path"),
    patch_keys=("input", "patch", "command"),
    tools={
        ToolClass.WRITE: frozenset(
            {"ApplyPatch", "Create", "Edit", "MultiEdit", "NotebookEdit", "Write"}
        ),
        ToolClass.SHELL: frozenset({"Bash", "Execute"}),
        ToolClass.READ: frozenset(
            {
                "AskUser",
                "ExitSpecMode",
                "FetchUrl",
                "Glob",
                "Grep",
                "LS",
                "Read",
                "TaskStop",
                "TodoWrite",
                "ToolSearch",
                "WebFetch",
                "WebSearch",
            }
        ),
    },
)


class Droid:
    """Read payloads of Droid.

    `PreToolUse` comes for every tool, several may run at once. A subagent sends nothing that
    names it: the tool that starts one, `Task`, is open for any path.

    `UserPromptSubmit` takes `additionalContext` (hooks-reference.mdx).
    """

    name = NAME
    traits = Traits(covers_all_tools=True, context=ContextChannel.JSON)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        return _SHAPE.read(payload)
