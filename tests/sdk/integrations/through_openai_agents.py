"""Run a script through the OpenAI Agents SDK, with a model that says what the script says."""

import json
from collections.abc import AsyncIterator, Sequence

from agents import (
    Agent,
    FunctionTool,
    ModelResponse,
    Runner,
    Usage,
    set_tracing_disabled,
)
from agents.agent_output import AgentOutputSchemaBase
from agents.handoffs import Handoff
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.model_settings import ModelSettings
from agents.models.interface import Model, ModelTracing
from agents.tool import Tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response_prompt_param import ResponsePromptParam

from gitshadow.sdk.integrations.openai_agents import undo_tools
from gitshadow.sdk.integrations.runs import Runs
from gitshadow.sdk.integrations.tool_exposure import plain_name
from tests.sdk.integrations.frameworks import Batches, Heard
from tests.sdk.integrations.toy import Step

# A trace would be sent to its maker by a thread that outlives the run.
set_tracing_disabled(True)


class Scripted(Model):
    """Say what the script says, and keep what was heard."""

    def __init__(self, batches: Batches) -> None:
        self.heard: Heard = {}
        self._waiting = iter(batches)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> ModelResponse:
        for item in input if isinstance(input, list) else ():
            if item.get("type") == "function_call_output":
                self.heard[str(item["call_id"])] = str(item["output"])  # type: ignore[typeddict-item]
        return ModelResponse([*said(next(self._waiting, ()))], Usage(), None)

    def stream_response(
        self, *args: object, **kwargs: object
    ) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError


def said(
    steps: Sequence[Step],
) -> list[ResponseFunctionToolCall | ResponseOutputMessage]:
    """Return a message that asks for these calls; without any, the last one."""
    if steps:
        return [
            ResponseFunctionToolCall(
                type="function_call",
                name=plain_name(one.tool),
                arguments=json.dumps(dict(one.arguments)),
                call_id=one.call,
            )
            for one in steps
        ]
    done = ResponseOutputText(type="output_text", text="done", annotations=[])
    return [
        ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[done]
        )
    ]


def model(batches: Batches) -> Scripted:
    """Return a model that asks for these calls."""
    return Scripted(batches)


async def run(runs: Runs, batches: Batches) -> Heard:
    """Run an agent to its end and return what the model read of each call."""
    return await run_tools(undo_tools(runs), batches)


async def run_tools(tools: Sequence[FunctionTool], batches: Batches) -> Heard:
    """Run an agent with these tools."""
    model = Scripted(batches)
    agent = Agent(name="toy", model=model, tools=[*tools])
    await Runner.run(agent, "go", max_turns=20)
    return model.heard
