"""Run a script through PydanticAI, with a model that says what the script says."""

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from gitshadow.sdk.integrations.pydantic_ai import undo_toolset
from gitshadow.sdk.integrations.runs import Runs
from gitshadow.sdk.integrations.tool_exposure import plain_name
from tests.sdk.integrations.frameworks import Batches, Heard


async def run(runs: Runs, batches: Batches) -> Heard:
    """Run an agent to its end and return what the model read of each call."""
    heard: Heard = {}
    agent = Agent(model(batches, heard), toolsets=[undo_toolset(runs)])
    await agent.run("go")
    return heard


def model(batches: Batches, heard: Heard | None = None) -> FunctionModel:
    """Return a model that asks for these calls and keeps what it reads."""
    waiting = iter(batches)
    kept = {} if heard is None else heard

    def speak(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart | RetryPromptPart):
                kept[part.tool_call_id] = str(part.content)
        calls = [
            ToolCallPart(plain_name(one.tool), dict(one.arguments), one.call)
            for one in next(waiting, ())
        ]
        return ModelResponse(parts=[*calls] or [TextPart("done")])

    return FunctionModel(speak)
