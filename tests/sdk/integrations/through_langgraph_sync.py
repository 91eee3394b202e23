"""Run a script through LangGraph in a graph that nobody awaits."""

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from gitshadow.sdk.integrations.langgraph import undo_node
from gitshadow.sdk.integrations.runs import SyncRuns
from tests.sdk.integrations.frameworks import Batches, Heard
from tests.sdk.integrations.through_langgraph import model


def run(runs: SyncRuns, batches: Batches) -> Heard:
    """Run a graph to its end by `invoke` and return what the model read of each call."""
    heard: Heard = {}
    start = MessagesState(messages=[HumanMessage("go")])
    graph = graph_of(undo_node(runs), model(batches), heard)
    graph.compile().invoke(start, {"recursion_limit": 50})
    return heard


def graph_of(
    node: ToolNode, speaker: BaseChatModel, heard: Heard
) -> "StateGraph[MessagesState, None, MessagesState, MessagesState]":
    """Return the graph of an agent whose model's reading is kept."""

    def speak(state: MessagesState) -> dict[str, list[BaseMessage]]:
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                heard[message.tool_call_id] = str(message.text)
        return {"messages": [speaker.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", speak)
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph
