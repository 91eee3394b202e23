"""LangGraph: a tool node each call of which passes through the turn.

Source: `ToolNode` of langgraph-prebuilt 1.1, which wraps each call in `awrap_tool_call`.
Invariant: an interrupt is no failure: the interrupted call did nothing yet, and runs when the graph
is resumed.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from gitshadow.errors import UsageError
from gitshadow.sdk.integrations.runs import Asked, CallEnd, Runs, SyncRuns
from gitshadow.sdk.integrations.tool_exposure import (
    description,
    exposed,
    exposed_sync,
    plain_name,
)
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.tool import Tool

Answer: TypeAlias = "ToolMessage | Command[object]"
Execute: TypeAlias = Callable[[ToolCallRequest], Awaitable[Answer]]
ExecuteSync: TypeAlias = Callable[[ToolCallRequest], Answer]


def undo_tools(runs: Runs | SyncRuns) -> list[BaseTool]:
    """Return the registered tools as LangChain tools; they run only in an `undo_node`."""
    return [_tool(declared) for declared in runs.registry]


def undo_node(
    runs: Runs | SyncRuns, tools: Sequence[BaseTool] | None = None
) -> ToolNode:
    """Return a tool node whose calls belong to the turn in which the graph runs.

    The declaration of a tool has the same name, or a dot for an underscore (`draft_create` is
    `draft.create`); a tool without one counts as non-reversible. If the tool or the node turns an
    exception into a message for the model, the call has failed; any other exception ends the run,
    and the turn is rolled back.

    Args:
        runs: The session's turns: `Runs` for a graph that you run with `ainvoke` or `astream`,
            `SyncRuns` for one that you run with `invoke` or `stream`.
        tools: The tools; None means the registered ones.
    """
    named = undo_tools(runs) if tools is None else list(tools)
    if isinstance(runs, SyncRuns):
        return _InOrder(
            named,
            wrap_tool_call=around_sync_calls(runs),
            awrap_tool_call=_refused_to_wait,
        )
    return ToolNode(named, wrap_tool_call=_refused, awrap_tool_call=around_calls(runs))


class _InOrder(ToolNode):
    """Run the calls of one message in their order; ToolNode starts a thread for each."""

    def invoke(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> object:
        one = RunnableConfig(max_concurrency=1)
        return super().invoke(input, merge_configs(config, one), **kwargs)


def around_calls(
    runs: Runs,
) -> Callable[[ToolCallRequest, Execute], Awaitable[Answer]]:
    """Return the wrapper of each call, for a tool node of your own."""

    async def around(request: ToolCallRequest, execute: Execute) -> Answer:
        call = _NodeCall(request)

        async def run() -> object:
            return call.result(await execute(request))

        return call.answer(await runs.call(call.asked, run, (GraphBubbleUp,)))

    return around


def around_sync_calls(
    runs: SyncRuns,
) -> Callable[[ToolCallRequest, ExecuteSync], Answer]:
    """Return the wrapper of each call, for a tool node of your own in a sync graph."""

    def around(request: ToolCallRequest, execute: ExecuteSync) -> Answer:
        call = _NodeCall(request)

        def run() -> object:
            return call.result(execute(request))

        return call.answer(runs.call(call.asked, run, (GraphBubbleUp,)))

    return around


class _NodeCall:
    """One call of a node: what the model requested, and the node's own answer once it ran."""

    def __init__(self, request: ToolCallRequest) -> None:
        call = request.tool_call
        self.asked = Asked(call["name"], call["args"], call["id"], _origin(request))
        self._message: Answer | None = None

    def result(self, message: Answer) -> object:
        """Return the result of a tool from the node's answer.

        Raises:
            ToolFailure: the answer is an error.
        """
        self._message = message
        if not isinstance(message, ToolMessage):
            return message
        if _is_error(message):
            raise ToolFailure(str(message.text))
        return message.artifact if message.artifact is not None else message.content

    def answer(self, done: CallEnd) -> Answer:
        """Return the answer to the model: the node's own one if it is the call's result."""
        message = self._message
        if message is not None and (done.outcome.ok or _is_error(message)):
            return message
        return ToolMessage(
            done.outcome.text,
            name=self.asked.name,
            tool_call_id=self.asked.call_id,
            status="error" if done.is_error else "success",
        )


def _origin(request: ToolCallRequest) -> str | None:
    """Return a text that is equal only for a replay of this call from a checkpoint, or None."""
    # Call ids are made by the model and may repeat. Message ids are made by LangGraph, and the
    # checkpoints of a thread keep them. A graph without a thread has no checkpoints.
    config = getattr(request.runtime, "config", None) or {}
    thread = config.get("configurable", {}).get("thread_id")
    state, call_id = request.state, request.tool_call["id"]
    if isinstance(state, Mapping):
        state = state.get("messages")
    messages = getattr(state, "messages", state)
    for message in reversed(messages if isinstance(messages, list) else []):
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        if any(one["id"] == call_id for one in calls):
            named = None not in (thread, message.id, call_id)
            return json.dumps([str(thread), message.id, call_id]) if named else None
    return None


def _is_error(answer: Answer) -> bool:
    return isinstance(answer, ToolMessage) and answer.status == "error"


def _refused(request: ToolCallRequest, execute: ExecuteSync) -> Answer:
    raise UsageError(
        f"cannot run {request.tool_call['name']}: turns of a graph are asynchronous",
        hint="run the graph by ainvoke or astream, or make its node with SyncRuns",
    )


async def _refused_to_wait(request: ToolCallRequest, execute: Execute) -> Answer:
    raise UsageError(
        f"cannot run {request.tool_call['name']}: turns of this graph are synchronous",
        hint="run the graph by invoke or stream, or make its node with Runs",
    )


def _tool(declared: Tool) -> BaseTool:
    schema = declared.options.get("schema")
    return StructuredTool.from_function(
        func=exposed_sync(declared),
        coroutine=exposed(declared),
        name=plain_name(declared.name),
        description=description(declared),
        args_schema=dict(schema) if schema is not None else None,
    )
