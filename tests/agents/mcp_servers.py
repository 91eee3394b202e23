"""How each agent is told of an MCP server: files at home, and arguments of a run."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.agents.studio import AgentStudio

PROGRAM = sys.executable
SCRIPT = str(Path(__file__).parent / "note_server.py")
_SERVER = {"command": PROGRAM, "args": [SCRIPT]}
_TOML = f"command = {json.dumps(PROGRAM)}\nargs = [{json.dumps(SCRIPT)}]\n"


def add_note_server(studio: AgentStudio) -> Sequence[str]:
    """Give an agent the server that writes notes; return more arguments of its runs."""
    return SERVERS[studio.name](studio)


def _in_file(
    name: str, key: str = "mcpServers", **more: object
) -> Callable[[AgentStudio], Sequence[str]]:
    """Return what adds the server to a JSON file at home."""

    def add(studio: AgentStudio) -> Sequence[str]:
        path = studio.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        settings = json.loads(path.read_text()) if path.exists() else {}
        settings[key] = {"notes": {**_SERVER, **more}}
        path.write_text(json.dumps(settings))
        return ()

    return add


def _claude(studio: AgentStudio) -> Sequence[str]:
    settings = studio.home / "mcp.json"
    settings.write_text(json.dumps({"mcpServers": {"notes": _SERVER}}))
    return ("--mcp-config", str(settings))


def _codex(_: AgentStudio) -> Sequence[str]:
    server = (f"mcp_servers.notes.{line}" for line in _TOML.splitlines())
    # A model that it knows finds the tools of servers by a search of its own kind.
    return (
        "-c",
        'model="gpt-5-codex"',
        *(word for one in server for word in ("-c", one)),
    )


def _copilot(_: AgentStudio) -> Sequence[str]:
    server = {**_SERVER, "type": "local", "tools": ["*"]}
    settings = json.dumps({"mcpServers": {"notes": server}})
    return ("--additional-mcp-config", settings)


def _grok(studio: AgentStudio) -> Sequence[str]:
    with (studio.home / ".grok" / "config.toml").open("a") as file:
        file.write(f"\n[mcp_servers.notes]\n{_TOML}")
    return ()


SERVERS: Mapping[str, Callable[[AgentStudio], Sequence[str]]] = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini": _in_file(".gemini/settings.json", trust=True),
    "copilot": _copilot,
    "grok": _grok,
    "droid": _in_file(".factory/mcp.json", type="stdio"),
    "opencode": _in_file(
        ".config/opencode/opencode.json",
        "mcp",
        type="local",
        command=[PROGRAM, SCRIPT],
        args=None,
        enabled=True,
    ),
    "qwen": _in_file(".qwen/settings.json", trust=True),
    "openhands": _in_file(".openhands/mcp.json"),
    "kimi": _in_file(".kimi-code/mcp.json"),
    "cline": _in_file(
        ".cline/data/settings/cline_mcp_settings.json", autoApprove=["write_note"]
    ),
}
