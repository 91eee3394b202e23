"""Run a script through the Claude Agent SDK, with an agent that does what the script says."""

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from gitshadow.sdk.integrations.claude_agent_sdk import ClaudeUndo
from gitshadow.sdk.integrations.runs import Runs
from tests.sdk.integrations.claude_agent import ScriptedAgent
from tests.sdk.integrations.frameworks import Batches, Heard


def model(batches: Batches) -> ScriptedAgent:
    """Return what stands in for the agent's process."""
    return ScriptedAgent(batches)


async def run(runs: Runs, batches: Batches) -> Heard:
    """Run an agent to its end and return what the model read of each call."""
    agent = ScriptedAgent(batches)
    await run_agent(ClaudeUndo(runs), agent)
    return agent.heard


async def run_agent(undo: ClaudeUndo, agent: ScriptedAgent, prompt: str = "go") -> None:
    """Give an agent one prompt and wait until it is done."""
    options = ClaudeAgentOptions(
        hooks=undo.hooks(), mcp_servers={"shop": undo.server("shop")}
    )
    async with ClaudeSDKClient(options, transport=agent) as client:
        await client.query(prompt)
        async for _ in client.receive_response():
            pass
