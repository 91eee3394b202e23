"""LangGraph: a tool node each call of which passes through the turn.

After `ToolNode` of langgraph-prebuilt 1.1, whose `awrap_tool_call` stands around every call.
Invariant: an interrupt is no failure: the call that it stopped has done nothing yet, and runs when
the graph is resumed.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from gitshadow.errors import UsageError
from gitshadow.integrations.exposing import description, exposed, plain_name
from gitshadow.integrations.runs import Asked, Runs
from gitshadow.turns.errors import ToolFailure
from gitshadow.turns.registry import Tool

Answer: TypeAlias = "ToolMessage | Command[object]"
Execute: TypeAlias = Callable[[ToolCallRequest], Awaitable[Answer]]


def undo_tools(runs: Runs) -> list[BaseTool]:
    """Return the registered tools as LangChain tools; they run in an `undo_node` alone."""
    return [_tool(declared) for declared in runs.registry]


def undo_node(runs: Runs, tools: Sequence[BaseTool] | None = None) -> ToolNode:
    """Return a tool node whose calls belong to the turn in which the graph runs.

    A tool is declared by a registered name that is its own, or its own with a dot for an underscore
    (`draft_create` is `draft.create`); one that is not counts as non-reversible. An error of which
    the tool or the node makes a message for the model has failed the call; any other ends the
    run, and the turn is rolled back. The graph must run by `ainvoke` or `astream`.

    Args:
        runs: The session's turns.
        tools: The tools; without any, the registered ones.
    """
    return ToolNode(
        undo_tools(runs) if tools is None else list(tools),
        wrap_tool_call=_refused,
        awrap_tool_call=around_calls(runs),
    )


def around_calls(
    runs: Runs,
) -> Callable[[ToolCallRequest, Execute], Awaitable[Answer]]:
    """Return what stands around each call of a tool node, for one of your own."""

    async def around(request: ToolCallRequest, execute: Execute) -> Answer:
        told: list[Answer] = []

        async def run() -> object:
            told.append(await execute(request))
            return _result(told[0])

        call = request.tool_call
        asked = Asked(call["name"], call["args"], call["id"])
        done = await runs.call(asked, run, (GraphBubbleUp,))
        if told and (done.outcome.ok or _is_error(told[0])):
            return told[0]
        return ToolMessage(
            done.outcome.text,
            name=asked.name,
            tool_call_id=call["id"],
            status="error" if done.is_error else "success",
        )

    return around


def _result(answer: Answer) -> object:
    """Return what a tool gave, as far as its message tells.

    Raises:
        ToolFailure: the message says that it failed.
    """
    if not isinstance(answer, ToolMessage):
        return answer
    if _is_error(answer):
        raise ToolFailure(str(answer.text))
    return answer.artifact if answer.artifact is not None else answer.content


def _is_error(answer: Answer) -> bool:
    return isinstance(answer, ToolMessage) and answer.status == "error"


def _refused(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Answer]
) -> Answer:
    raise UsageError(
        f"could not run {request.tool_call['name']}: turns of a graph are asynchronous",
        hint="run the graph by ainvoke or astream",
    )


def _tool(declared: Tool) -> BaseTool:
    schema = declared.options.get("schema")
    return StructuredTool.from_function(
        coroutine=exposed(declared),
        name=plain_name(declared.name),
        description=description(declared),
        args_schema=dict(schema) if schema is not None else None,
    )
