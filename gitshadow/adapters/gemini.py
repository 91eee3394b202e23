"""Gemini CLI: `docs/hooks` and `packages/core/src/hooks` of google-gemini/gemini-cli, 2026-08-21.

Its payloads have no ids of turns and calls: a prompt begins a turn, a call is named after its
session, tool and input.
Invariant: only the fields named here are read.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import fields
from gitshadow.adapters.base import ContextChannel, HookEvent, HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "gemini"

_SHAPE = Shape(
    agent=NAME,
    event=("hook_event_name",),
    phases={
        "SessionStart": HookPhase.SESSION_START,
        "BeforeAgent": HookPhase.PROMPT,
        "BeforeTool": HookPhase.BEFORE,
        "AfterTool": HookPhase.AFTER,
        "AfterAgent": HookPhase.TURN_END,
        "SessionEnd": HookPhase.SESSION_END,
    },
    session=("session_id",),
    path_keys=("file_path", "path", "absolute_path"),
    tools={
        ToolClass.WRITE: frozenset({"edit", "replace", "write_file"}),
        ToolClass.SHELL: frozenset({"run_shell_command"}),
        ToolClass.READ: frozenset(
            {
                "ask_user",
                "enter_plan_mode",
                "get_internal_docs",
                "glob",
                "google_web_search",
                "grep_search",
                "list_directory",
                "read_file",
                "read_many_files",
                "search_file_content",
                "web_fetch",
                "write_todos",
            }
        ),
    },
)


class Gemini:
    """Read payloads of Gemini CLI.

    `BeforeTool` comes for every tool. A subagent shows as one tool, whose window is open for any
    path because nothing tells what it does inside.

    `BeforeAgent` takes `additionalContext`, for that turn (reference.md); it reads JSON alone.
    """

    name = NAME
    traits = Traits(
        covers_all_tools=True, waits_unseen=True, context=ContextChannel.JSON
    )

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = _SHAPE.read(payload)
        if not isinstance(found, HookEvent) or found.phase is not HookPhase.AFTER:
            return found
        failed = bool(fields.at(payload, "tool_response.error"))
        return replace(found, phase=HookPhase.FAILED) if failed else found
