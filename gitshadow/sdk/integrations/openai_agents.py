"""OpenAI Agents SDK: function tools each call of which passes through the turn.

Source: `FunctionTool` of openai-agents 0.24. Invariant: the tool itself decides whether an error
is for the model or ends the run (`failure_error_function`); an error for the model fails the call,
which is then not recorded as done.
"""

import copy
import json
from collections.abc import Awaitable, Callable

from agents import FunctionTool, ModelBehaviorError
from agents.tool import (
    function_tool,
    maybe_invoke_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from gitshadow.sdk.integrations.runs import Asked, Runs
from gitshadow.sdk.integrations.tool_exposure import description, exposed, plain_name
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import JsonObject


def undo_tools(runs: Runs) -> list[FunctionTool]:
    """Return the registered tools as function tools; their functions run in the turn."""
    return [undoable(_tool(declared), runs) for declared in runs.registry]


def undoable(tool: FunctionTool, runs: Runs) -> FunctionTool:
    """Return a copy of a tool whose calls belong to the turn in which the agent runs.

    Its declaration has the same name, or a dot for an underscore (`draft_create` is
    `draft.create`); a tool without one counts as non-reversible. The model gets an exception if
    the tool has a `failure_error_function`, which is the default of `function_tool`; otherwise the
    exception ends the run, and the turn is rolled back. Arguments that do not fit are always for
    the model.
    """
    raising = copy.copy(tool)
    set_function_tool_failure_error_function(raising, None)

    async def invoke(context: ToolContext[object], said: str) -> object:
        async def execute() -> object:
            try:
                return await raising.on_invoke_tool(context, said)
            except Exception as error:
                text = await maybe_invoke_function_tool_failure_error_function(
                    function_tool=tool, context=context, error=error
                )
                if text is None and not _is_misfit(error, context.tool_name):
                    raise
                raise ToolFailure(text or str(error)) from error

        asked = Asked(tool.name, _arguments(said), context.tool_call_id)
        done = await runs.call(asked, execute)
        if done.outcome.ok and done.answer is not None:
            return done.answer.value
        return done.outcome.text

    wrapped = copy.copy(tool)
    wrapped.on_invoke_tool = invoke
    return wrapped


def _is_misfit(error: Exception, tool: str) -> bool:
    """Return whether the framework refused the arguments, so that nothing of the tool ran."""
    # It has no class of its own for that. An agent in the tool raises the same class, with the
    # name of another tool, when the tool has begun.
    said = f"Invalid JSON input for tool {tool}"
    is_behavior = isinstance(error, ModelBehaviorError)
    return is_behavior and str(error).partition(":")[0] == said


def _tool(declared: Tool) -> FunctionTool:
    name, said = plain_name(declared.name), description(declared)
    function = exposed(declared)
    schema = declared.options.get("schema")
    if schema is not None:
        return set_function_tool_failure_error_function(
            FunctionTool(name, said, dict(schema), _by_keywords(function), False), None
        )
    return function_tool(
        function,
        name_override=name,
        description_override=said,
        failure_error_function=None,
        strict_mode=False,
    )


def _by_keywords(
    function: Callable[..., Awaitable[object]],
) -> Callable[[ToolContext[object], str], Awaitable[object]]:
    async def invoke(context: ToolContext[object], said: str) -> object:
        return await function(**_arguments(said))

    return invoke


def _arguments(said: str) -> JsonObject:
    """Return the arguments that a model wrote; any other value is kept as `input`."""
    try:
        found = json.loads(said or "{}")
    except ValueError:
        return {"input": said}
    return found if isinstance(found, dict) else {"input": found}
