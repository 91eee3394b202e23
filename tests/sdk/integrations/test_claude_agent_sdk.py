"""An agent of the Claude Agent SDK: its own tools, its prompts, and what it is told (AN-40)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.sdk.integrations.runs import Runs
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.policy import Policy, Proposal, Verdict
from gitshadow.sdk.turns.registry import ToolRegistry
from tests.sdk.integrations.frameworks import need
from tests.sdk.integrations.toy import Step, saga_rows
from tests.sdk.turns.front import FREE
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.world import BoomError, World
from tests.support.repo import Repo

need("claude_agent_sdk")

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, tool

from gitshadow.sdk.integrations.claude_agent_sdk import ClaudeUndo
from tests.sdk.integrations.claude_agent import (
    InterruptedByUserError,
    Native,
    ScriptedAgent,
)
from tests.sdk.integrations.through_claude_agent_sdk import run_agent

CREATE = Step("c1", "draft.create", {"title": "A"})
BOOM = Step("c2", "toy.boom", {})
BASH = Step("c3", "Bash", {"command": "make"})


@pytest.fixture
def au(place: Path, tools: ToolRegistry) -> Iterator[AsyncAgentUndo]:
    with closing(opened(place, tools, FREE)) as session:
        yield session


def opened(place: Path, tools: ToolRegistry, policy: Policy) -> AsyncAgentUndo:
    return AsyncAgentUndo.open(str(place), session="s", tools=tools, policy=policy)


def interrupted(**arguments: object) -> object:
    raise InterruptedByUserError("[Request interrupted by user]")


async def test_a_prompt_alone_is_a_turn_that_its_stop_commits(
    au: AsyncAgentUndo, world: World
) -> None:
    """What a tool raises is text for the model, and nothing is undone by itself."""
    agent = ScriptedAgent(((CREATE,), (BOOM,)))
    await run_agent(ClaudeUndo(Runs(au)), agent, "Order 7\nplease")
    assert [(turn.label, turn.status) for turn in au.turns()] == [
        ("Order 7", "committed")
    ]
    assert [call.outcome for call in au.calls("t-1")] == ["success", "raised"]
    assert agent.heard["c2"] == "boom"
    assert world.state["drafts"] == {"9": "A"}
    assert (await au.undo("t-1")).counts["reversed"] == 1


async def test_a_prompt_after_an_interruption_marks_the_turn_before(
    au: AsyncAgentUndo, world: World
) -> None:
    """No stop came; the call at work is in doubt, and its turn is not undone."""
    undo = ClaudeUndo(Runs(au))
    stopped = ScriptedAgent(((CREATE,), (BASH,)), native={"Bash": interrupted})
    await run_agent(undo, stopped, "one")
    await run_agent(undo, ScriptedAgent(()), "two")
    assert [turn.status for turn in au.turns()] == ["interrupted", "committed"]
    assert [call.outcome for call in au.calls("t-1")] == ["success", None]
    assert world.state["drafts"] == {"9": "A"}


async def test_tools_of_the_agent_are_declared(au: AsyncAgentUndo) -> None:
    """CLS-03: what reads and what edits files is known; of all else nothing is."""
    used: dict[str, dict[str, object]] = {
        "Read": {"file_path": "a"},
        "Write": {"file_path": "a", "content": "x"},
        "Bash": {"command": "make"},
        "SendMessage": {"to": "b"},
        "mcp__bank__pay": {"amount": 5},
    }
    script = [
        (Step(f"c{at}", name, given),) for at, (name, given) in enumerate(used.items())
    ]
    native = {name: lambda **arguments: "ok" for name in used}
    runs = Runs(au)
    async with runs.turn("go"):
        await run_agent(ClaudeUndo(runs), ScriptedAgent(script, native=native))
    assert [(row.tool, row.klass, row.outcome) for row in saga_rows(au, "t-1")] == [
        ("claude.Read", "read_only", "success"),
        ("claude.Write", "reversible", "success"),
        ("claude.Bash", "undeclared", "success"),
        ("claude.SendMessage", "undeclared", "success"),
        ("bank.pay", "undeclared", "success"),
    ]


async def test_a_declaration_of_ones_own_counts(
    au: AsyncAgentUndo, tools: ToolRegistry
) -> None:
    tools.add("claude.Bash", lambda **arguments: None, follow_up="look at the build")
    runs = Runs(au)
    async with runs.turn("go"):
        agent = ScriptedAgent(((BASH,),), native={"Bash": lambda command: "ok"})
        await run_agent(ClaudeUndo(runs), agent)
    report = await au.undo("t-1")
    assert [item.follow_up for item in report.items] == ["look at the build"]


async def test_a_denied_tool_of_the_agent_does_not_run(
    place: Path, tools: ToolRegistry
) -> None:
    """OUT-02: by the agent's own permission decision."""
    ran: list[str] = []
    agent = ScriptedAgent(((BASH,),), native={"Bash": ran.append})
    with closing(opened(place, tools, Policy(non_reversible="deny"))) as au:
        runs = Runs(au)
        async with runs.turn("go"):
            await run_agent(ClaudeUndo(runs), agent)
        assert [call.outcome for call in au.calls("t-1")] == ["denied"]
    assert agent.heard == {"c3": "claude.Bash cannot be undone"}
    assert ran == []


async def test_a_guard_that_fails_denies_and_ends_the_run(
    place: Path, tools: ToolRegistry
) -> None:
    """An error in a hook would let the agent go on as if there were none."""

    def guard(proposal: Proposal) -> Verdict | None:
        raise ConnectionError("no answer from the directory")

    ran: list[str] = []
    agent = ScriptedAgent(((BASH,),), native={"Bash": ran.append})
    with closing(opened(place, tools, Policy(guards=(guard,)))) as au:
        runs = Runs(au)
        with pytest.raises(ConnectionError):
            async with runs.turn("go"):
                await run_agent(ClaudeUndo(runs), agent)
    assert agent.heard == {"c3": "ConnectionError: no answer from the directory"}
    assert agent.stopped == (
        "the turn is over: ConnectionError: no answer from the directory"
    )
    assert ran == []


@pytest.mark.parametrize("later", [CREATE, BASH], ids=["ours", "its own"])
async def test_a_tool_that_raised_stops_the_agent_at_its_next_call(
    au: AsyncAgentUndo, later: Step
) -> None:
    """OUT-06: the agent shows the error to its model and would go on."""
    runs = Runs(au)
    last = Step("c9", "Read", {"file_path": "a"})
    agent = ScriptedAgent(
        ((BOOM,), (later,), (last,)), native={"Bash": str, "Read": str}
    )
    with pytest.raises(BoomError):
        async with runs.turn("go"):
            await run_agent(ClaudeUndo(runs), agent)
    assert agent.heard == {"c2": "boom", later.call: "BoomError: boom"}
    assert agent.stopped == "the turn is over: BoomError: boom"
    assert [call.tool for call in au.calls("t-1")] == ["toy.boom"]


async def test_what_a_failed_shell_did_is_not_known(au: AsyncAgentUndo) -> None:
    """A command that ends in an error has worked until then; a failed edit has not."""

    def fails(**arguments: object) -> object:
        raise OSError("exit code 2")

    edit = Step("c1", "Edit", {"file_path": "a"})
    runs = Runs(au)
    async with runs.turn("go"):
        agent = ScriptedAgent(((edit,), (BASH,)), native={"Bash": fails, "Edit": fails})
        await run_agent(ClaudeUndo(runs), agent)
    assert [call.outcome for call in au.calls("t-1")] == ["failed", "raised"]
    report = await au.undo("t-1")
    assert [(one.tool, one.reason) for one in report.items] == [
        ("claude.Bash", "in_doubt")
    ]


async def test_like_calls_at_once_keep_their_ids(au: AsyncAgentUndo) -> None:
    """The server is told of arguments alone; each call takes one id, the older first."""
    twins = (CREATE, Step("c9", "draft.create", {"title": "A"}))
    runs = Runs(au)
    async with runs.turn("go"):
        await run_agent(ClaudeUndo(runs), ScriptedAgent((twins,)))
    assert [call.id for call in au.calls("t-1")] == ["c1", "c9"]


async def test_a_server_of_ones_own_is_taken_back_by_declaration(
    au: AsyncAgentUndo,
) -> None:
    """INV-05: the inverse is made from the tool's own answer; `is_error` is a failure."""

    @tool("draft_create", "Create a draft", {"title": str})
    async def create(arguments: dict[str, str]) -> dict[str, object]:
        if arguments["title"] == "B":
            said = [{"type": "text", "text": "no B, please"}]
            return {"content": said, "is_error": True}
        return {"content": [{"type": "text", "text": "made"}], "id": 4}

    agent = ScriptedAgent(((CREATE,), (Step("c2", "draft.create", {"title": "B"}),)))
    runs = Runs(au)
    undo = ClaudeUndo(runs)
    options = ClaudeAgentOptions(
        hooks=undo.hooks(), mcp_servers={"shop": undo.server("shop", [create])}
    )
    async with runs.turn("go"), ClaudeSDKClient(options, transport=agent) as client:
        await client.query("go")
        async for _ in client.receive_response():
            pass
    assert agent.heard == {"c1": "made", "c2": "no B, please"}
    rows = saga_rows(au, "t-1")
    assert [(row.outcome, row.inverse) for row in rows] == [
        ("success", {"id": 4}),
        ("failed", None),
    ]


async def test_subagents_are_in_the_history_of_their_turn(au: AsyncAgentUndo) -> None:
    """AN-30: their calls are calls of the turn."""
    runs = Runs(au)
    undo = ClaudeUndo(runs)
    agent = ScriptedAgent(())
    about = {"agent_id": "a1", "agent_type": "reviewer"}
    async with runs.turn("go"):
        options = ClaudeAgentOptions(hooks=undo.hooks())
        async with ClaudeSDKClient(options, transport=agent):
            await agent.hook("SubagentStart", **about)
            await agent.hook("SubagentStop", **about)
    said = [(event.author, event.text) for event in au.events()]
    assert said[-2:] == [("reviewer", "began: a1"), ("reviewer", "ended: a1")]


async def test_files_that_the_agent_edits_are_the_calls_own(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that the hook names is certain, what a shell writes goes by its time."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    recorded = Recorded.make(repo, tmp_path / "world", "async")
    write = Step("c1", "Write", {"file_path": str(repo.root / "a"), "content": "x\n"})
    native: dict[str, Native] = {
        "Write": lambda file_path, content: Path(file_path).write_text(content),
        "Bash": lambda command: (repo.root / "b").write_text(command),
    }
    with closing(opened(repo.root, recorded.front.tools, FREE)) as au:
        runs = Runs(au)
        async with runs.turn("go"):
            agent = ScriptedAgent(((write,), (BASH,)), native=native)
            await run_agent(ClaudeUndo(runs), agent)
    assert recorded.writes() == [
        ("a", "generic", "t-1", "c1", "claude.Write", "certain"),
        ("b", "generic", "t-1", "c3", "claude.Bash", "medium"),
    ]
