"""VS Code's Copilot agents: the hooks pages of microsoft/vscode-docs, 2026-08.

Field names are mixed: `sessionId` and `hookEventName`, but `tool_name` and `tool_use_id`.
Invariant: only the fields named here are read.
"""

from collections.abc import Mapping

from gitshadow.adapters.base import Parsed, Traits
from gitshadow.adapters.shape import CLAUDE_SETTINGS_PHASES, Shape
from gitshadow.model import ToolClass

NAME = "vscode-copilot"

_SHAPE = Shape(
    agent=NAME,
    event=("hookEventName", "hook_event_name"),
    phases=CLAUDE_SETTINGS_PHASES,
    session=("sessionId", "session_id"),
    call=("tool_use_id",),
    subagent=("agent_id",),
    subagent_type=("agent_type",),
    path_keys=("filePath", "files[]", "replacements[].filePath", "path", "file_path"),
    patch_keys=("input", "patch"),
    tools={
        ToolClass.WRITE: frozenset(
            {
                "apply_patch",
                "createFile",
                "create_file",
                "editFiles",
                "edit_notebook_file",
                "insert_edit_into_file",
                "multi_replace_string_in_file",
                "replace_string_in_file",
            }
        ),
        ToolClass.SHELL: frozenset(
            {
                "create_and_run_task",
                "runInTerminal",
                "runTests",
                "run_in_terminal",
                "run_task",
                "send_to_terminal",
            }
        ),
        ToolClass.READ: frozenset(
            {
                "codebase",
                "fetch_webpage",
                "file_search",
                "get_changed_files",
                "get_errors",
                "get_terminal_output",
                "github_repo",
                "grep_search",
                "list_code_usages",
                "list_dir",
                "manage_todo_list",
                "readFile",
                "read_file",
                "semantic_search",
                "terminal_last_command",
                "terminal_selection",
                "test_search",
            }
        ),
    },
)


class VsCodeCopilot:
    """Read payloads of VS Code's agents.

    `PreToolUse` comes for every tool. The tool that starts a subagent is open for any path,
    because it is not documented that the subagent's own tools send events.
    """

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        return _SHAPE.read(payload)
