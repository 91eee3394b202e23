"""Crush: `docs/hooks/README.md` and `internal/hooks` of charmbracelet/crush, 2026-08-21.

Invariant: there is one event, before a tool of the top-level agent; a window ends with the next
event of its session.
"""

from collections.abc import Mapping

from gitshadow.adapters.base import HookPhase, Parsed, Traits
from gitshadow.adapters.shape import Shape
from gitshadow.model import ToolClass

NAME = "crush"

_SHAPE = Shape(
    agent=NAME,
    event=("event",),
    phases={"PreToolUse": HookPhase.BEFORE},
    session=("session_id",),
    path_keys=("file_path",),
    tools={
        ToolClass.WRITE: frozenset({"edit", "write", "multiedit", "download"}),
        ToolClass.SHELL: frozenset({"bash"}),
        ToolClass.AGENT: frozenset({"agent", "agentic_fetch"}),
        ToolClass.READ: frozenset(
            {
                "crush_info",
                "crush_logs",
                "diagnostics",
                "fetch",
                "glob",
                "grep",
                "job_output",
                "ls",
                "lsp_diagnostics",
                "lsp_references",
                "references",
                "sourcegraph",
                "todos",
                "view",
                "web_fetch",
                "web_search",
            }
        ),
    },
)


class Crush:
    """Read payloads of Crush.

    Subagents send nothing, and the documented matcher leaves other tools out, so windows do not
    cover all that writes. With no after event at all, a window ends with the next one, and that of
    an edit once its file was written.
    """

    name = NAME
    traits = Traits(covers_all_tools=False, sequential=True, never_ends=True)

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        return _SHAPE.read(payload)
