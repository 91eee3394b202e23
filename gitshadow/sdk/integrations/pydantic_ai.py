"""PydanticAI: a toolset around toolsets, each call of which passes through the turn.

Source: `WrapperToolset` of pydantic-ai 2.68. Invariant: the wrapped toolset validates and runs its
tools as before; its exceptions that are messages to the model or the program reach the framework.
"""

from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    ToolFailed,
)
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset

from gitshadow.sdk.integrations.runs import Asked, Runs
from gitshadow.sdk.integrations.tool_exposure import description, exposed, plain_name
from gitshadow.sdk.turns.tool import Tool as DeclaredTool

_TO_THE_FRAMEWORK = (ModelRetry, ToolFailed, CallDeferred, ApprovalRequired)


@dataclass
class UndoToolset(WrapperToolset[AgentDepsT]):
    """Wrap a toolset so that its calls belong to the turn in which the agent runs.

    The declaration of a tool has the same name, or a dot for an underscore (`draft_create` is
    `draft.create`); a tool without one counts as non-reversible.

    Args:
        wrapped: The toolset.
        runs: The session's turns.
    """

    runs: Runs

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],
    ) -> Any:
        """Run a call in the turn; a failure, a denial or a conflict is an answer to the model.

        Raises:
            UsageError: no turn is running.
            ToolFailed: the call did nothing; the model reads the reason.
            Exception: the tool's own exception.
        """

        async def execute() -> object:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        asked = Asked(name, tool_args, ctx.tool_call_id)
        done = await self.runs.call(asked, execute, _TO_THE_FRAMEWORK)
        if done.is_error:
            raise ToolFailed(done.outcome.text)
        return done.answer.value if done.answer is not None else done.outcome.text


def undo_toolset(runs: Runs) -> UndoToolset[Any]:
    """Return the registered tools as a toolset; their functions run in the turn."""
    return UndoToolset(FunctionToolset([_tool(one) for one in runs.registry]), runs)


def _tool(declared: DeclaredTool) -> Tool[Any]:
    name, said = plain_name(declared.name), description(declared)
    schema = declared.options.get("schema")
    if schema is None:
        return Tool(exposed(declared), takes_ctx=False, name=name, description=said)
    return Tool.from_schema(exposed(declared), name, said, dict(schema))
