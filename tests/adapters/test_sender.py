"""Which host sent a payload, over every fixture of every family."""

import json
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent, Traits
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.registry import identify
from gitshadow.model import JsonValue

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"
AGENTS = {
    "antigravity": "antigravity",
    "claude_code": "claude-code",
    "cline": "cline",
    "cline_sdk": "cline",
    "codex": "codex",
    "copilot_cli": "copilot",
    "crush": "crush",
    "cursor": "cursor",
    "devin_cli": "devin",
    "factory_droid": "droid",
    "gemini_cli": "gemini",
    "goose": "goose",
    "grok": "grok",
    "kiro_cli2": "kiro",
    "openhands": "openhands",
    "qwen_code": "qwen",
    "vibe": "vibe",
    "vscode_copilot": "vscode-copilot",
    "windsurf": "windsurf",
}
# Delivered as an argument, not on standard input: no hook of another agent can send it.
NOT_A_HOOK = "codex__notify_agent_turn_complete"
PAYLOADS = [
    path
    for path in sorted(FIXTURES.glob("*__*.json"))
    if path.stem.split("__")[0] in AGENTS and path.stem != NOT_A_HOOK
]


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.stem)
def test_sender_is_named_by_shape_when_registered_for_claude_code(path: Path) -> None:
    """ATT-13: the sender is named by payload shape."""
    agent = AGENTS[path.stem.split("__")[0]]
    env = {"DEVIN_PROJECT_DIR": "/home/dev/app"} if agent == "devin" else {}
    payload = json.loads(path.read_bytes())
    assert identify(Payload(payload), env, "claude-code") == agent


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("kiro_v1__*")), ids=lambda p: p.stem
)
def test_sender_is_the_registered_one_when_shape_says_nothing(path: Path) -> None:
    payload = json.loads(path.read_bytes())
    assert identify(Payload(payload), {}, "kiro") == "kiro"


@pytest.mark.parametrize("registered", ["codex", "cursor", "gemini"])
def test_claude_payload_stays_claude_when_another_hook_delivers_it(
    registered: str,
) -> None:
    """ATT-13: both deliveries are one call of one session of one agent."""
    raw = (FIXTURES / "claude_code__PreToolUse__Edit.json").read_bytes()
    assert registry.parse(registered, raw, {}) == registry.parse("claude-code", raw, {})


def test_devin_is_claude_when_its_own_variable_is_missing() -> None:
    payload = json.loads((FIXTURES / "devin_cli__PreToolUse.json").read_bytes())
    env = {"DEVIN_PROJECT_DIR": "/x", "CLAUDE_PROJECT_DIR": "/x"}
    assert identify(Payload(payload), {}, "claude-code") == "claude-code"
    assert identify(Payload(payload), env, "claude-code") == "claude-code"


MATRIX = {
    **AGENTS,
    "acp": "acp",
    "amp": "amp",
    "entire_protocol": "generic",
    "gitai_agent_v1": "generic",
    "kiro_v1": "kiro",
    "opencode": "opencode",
    "pi": "pi",
}
# Kiro's newer payloads are told by elimination alone, so in a hook of Kiro alone.
NAMELESS = ("kiro_v1",)
# Forms that anybody may send, whoever's name the hook has; aider has no hooks of its own.
NEUTRAL = ("entire_protocol", "gitai_agent_v1")


@pytest.mark.parametrize("registered", registry.KNOWN_AGENTS)
def test_no_payload_becomes_another_agents_whoever_delivers_it(registered: str) -> None:
    """ATT-13: its real sender, or nobody."""
    wrong = {}
    for path in sorted(FIXTURES.glob("*__*.json")):
        family = path.stem.split("__")[0]
        if family in NAMELESS and registered != MATRIX[family]:
            continue
        env = {"DEVIN_PROJECT_DIR": "/home/dev/app"} if family == "devin_cli" else {}
        found = registry.parse(registered, path.read_bytes(), env)
        hosts = (MATRIX[family],)
        if registered == "aider" and family in NEUTRAL:
            hosts = (registered,)
        if isinstance(found, HookEvent) and found.host not in hosts:
            wrong[path.stem] = found.host
    assert wrong == {}


VARIANTS = [
    ("cursor", {"conversation_id": "c", "hook_event_name": "stop"}),
    ("cursor", {"cursor_version": "3.0", "hook_event_name": "PreToolUse"}),
    ("codex", {"hook_event_name": "Stop", "turn_id": "t", "model": "m"}),
    (
        "codex",
        {
            "hook_event_name": "SessionStart",
            "session_id": "s",
            "transcript_path": "C:\\Users\\me\\.codex\\sessions\\r.jsonl",
        },
    ),
    ("gemini", {"hook_event_name": "BeforeTool", "timestamp": "2026-09-20T10:15:30Z"}),
    ("copilot", {"sessionId": "s", "timestamp": 1.5e12, "prompt": "p"}),
    ("copilot", {"hook_event_name": "Stop", "timestamp": "2026-09-20T10:15:30Z"}),
    ("droid", {"hook_event_name": "Stop", "permission_mode": "spec"}),
    ("kiro", {"hook_event_name": "agentSpawn", "session_id": "s"}),
    ("qwen", {"hook_event_name": "PreToolUse", "tool_call_id": "c"}),
    ("windsurf", {"agent_action_name": "x", "trajectory_id": "t"}),
    ("acp", {"jsonrpc": "2.0", "method": "session/prompt"}),
    ("amp", {"hook": "tool.call", "event": {}}),
    ("pi", {"hook": "tool_call", "event": {}}),
    ("opencode", {"hook": "chat.message", "input": {}}),
    ("goose", {"event": "SessionStart", "session_id": "s"}),
    ("crush", {"event": "PreToolUse", "cwd": "/", "tool_name": "bash"}),
    ("claude-code", {"hook_event_name": "PreToolUse", "session_id": "s"}),
    ("claude-code", {"sessionId": "s", "timestamp": True}),
]


@pytest.mark.parametrize(("agent", "payload"), VARIANTS)
def test_sender_is_named_when_a_payload_has_little_but_its_own_fields(
    agent: str, payload: dict[str, JsonValue]
) -> None:
    assert identify(Payload(payload), {}, "claude-code") == agent
    assert identify(Payload(payload), {}, agent) == agent


def test_crush_is_crush_when_its_own_hook_leaves_the_directory_out() -> None:
    payload = {"event": "PreToolUse", "session_id": "s", "tool_name": "bash"}
    assert identify(Payload(payload), {}, "crush") == "crush"
    assert identify(Payload(payload), {}, "claude-code") == "goose"


@pytest.mark.parametrize(
    "payload",
    [{"session_id": "s", "prompt": "p"}, {"sessionId": "s", "hookEventName": 1}],
)
def test_copilot_takes_no_payload_without_a_name_when_it_is_anothers(
    payload: dict[str, object],
) -> None:
    found = registry.parse("copilot", json.dumps(payload).encode(), {})
    assert not isinstance(found, HookEvent)


@pytest.mark.parametrize("agent", ["gemini", "qwen"])
def test_sender_is_the_registered_one_when_it_sends_times_too(agent: str) -> None:
    payload = {"hook_event_name": "SessionStart", "timestamp": "2026-09-20T10:15:30Z"}
    assert identify(Payload(payload), {}, agent) == agent


@pytest.mark.parametrize("agent", registry.KNOWN_AGENTS)
def test_every_known_agent_has_a_parser(agent: str) -> None:
    assert not isinstance(registry.parser(agent)(Payload({}), {}), HookEvent)


def test_hook_does_nothing_when_the_agent_is_unknown() -> None:
    raw = (FIXTURES / "claude_code__SessionStart.json").read_bytes()
    assert registry.parse("nobody", raw, {}) is None
    assert registry.traits("nobody") == Traits()


@pytest.mark.parametrize(
    ("agent", "covers"), [("claude-code", True), ("generic", False), (None, False)]
)
def test_traits_promise_full_cover_when_the_agent_has_hooks_for_all(
    agent: str | None, covers: bool
) -> None:
    assert registry.traits(agent).covers_all_tools is covers
