"""Devin CLI: payloads that another recorder captured from 3000.2.17, 2026-09.

Its shape is Claude Code's, without `cwd` and `transcript_path`: the directory stands in the
environment of the hook. Call ids count the calls of a tool (`write_0`) and may come again in a
later turn; then they get a number, as derived ones do.
Invariant: only the fields named here are read.
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters import claude_code, fields
from gitshadow.adapters.base import TOOL_PHASES, HookEvent, HookPhase, Parsed, Traits
from gitshadow.model import ToolClass

NAME = "devin"
PROJECT = "DEVIN_PROJECT_DIR"

_SHAPE = replace(
    claude_code.SHAPE,
    agent=NAME,
    patch_keys=("patch", "input", "command"),
    tools={
        ToolClass.WRITE: frozenset({"apply_patch", "edit", "notebook_edit", "write"}),
        ToolClass.SHELL: frozenset({"exec"}),
        ToolClass.READ: frozenset({"glob", "grep", "read", "todo_write", "web_search"}),
    },
)


class Devin:
    """Read payloads of Devin CLI; `PreToolUse` and `PostToolUse` come for every tool."""

    name = NAME
    traits = Traits(covers_all_tools=True, sequential=False)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = _SHAPE.read(payload)
        if not isinstance(found, HookEvent):
            return found
        phase = found.phase
        if fields.at(payload, "tool_response.success") is False:
            phase = HookPhase.FAILED if phase is HookPhase.AFTER else phase
        return replace(
            found,
            phase=phase,
            cwd=found.cwd or fields.raw_path(env.get(PROJECT)),
            call_derived=found.phase in TOOL_PHASES,
        )
