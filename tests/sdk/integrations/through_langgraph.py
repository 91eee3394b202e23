"""Run a script through LangGraph, with a fake chat model that says what the script says."""

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from gitshadow.sdk.integrations.langgraph import undo_node
from gitshadow.sdk.integrations.runs import Runs
from gitshadow.sdk.integrations.tool_exposure import plain_name
from tests.sdk.integrations.frameworks import Batches, Heard


class Scripted(FakeMessagesListChatModel):
    """A fake chat model that may be told of tools."""

    def bind_tools(self, tools: object, **kwargs: object) -> "Scripted":
        return self


def model(batches: Batches) -> Scripted:
    """Return a model that asks for these calls."""
    return Scripted(responses=spoken(batches))


async def run(runs: Runs, batches: Batches) -> Heard:
    """Run a graph to its end and return what the model read of each call."""
    return await run_node(undo_node(runs), batches)


async def run_node(node: ToolNode, batches: Batches) -> Heard:
    """Run a graph with this tool node."""
    heard: Heard = {}
    start = MessagesState(messages=[HumanMessage("go")])
    graph = graph_of(node, model(batches), heard)
    await graph.compile().ainvoke(start, {"recursion_limit": 50})
    return heard


def graph_of(
    node: ToolNode, speaker: BaseChatModel, heard: Heard
) -> "StateGraph[MessagesState, None, MessagesState, MessagesState]":
    """Return the graph of an agent whose model's reading is kept."""

    async def speak(state: MessagesState) -> dict[str, list[BaseMessage]]:
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                heard[message.tool_call_id] = str(message.text)
        return {"messages": [await speaker.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", speak)
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph


def spoken(batches: Batches) -> list[BaseMessage]:
    """Return the messages of a model that asks for these calls, and the last one."""
    asking: list[BaseMessage] = [
        AIMessage(
            "",
            tool_calls=[
                {
                    "name": plain_name(one.tool),
                    "args": dict(one.arguments),
                    "id": one.call,
                }
                for one in steps
            ],
        )
        for steps in batches
    ]
    return [*asking, AIMessage("done")]
