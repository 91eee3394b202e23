"""Which host sent a payload, over every fixture of every family."""

import json
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent
from gitshadow.adapters.sender import identify

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
    assert identify(payload, env, "claude-code") == agent


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("kiro_v1__*")), ids=lambda p: p.stem
)
def test_sender_is_the_registered_one_when_shape_says_nothing(path: Path) -> None:
    payload = json.loads(path.read_bytes())
    assert identify(payload, {}, "kiro") == "kiro"


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
    assert identify(payload, {}, "claude-code") == "claude-code"
    assert identify(payload, env, "claude-code") == "claude-code"


def test_claude_shaped_host_is_read_when_it_has_no_adapter() -> None:
    raw = (FIXTURES / "copilot_cli__PreToolUse__claude_compat.json").read_bytes()
    parsed = registry.parse("claude-code", raw, {})
    assert isinstance(parsed, HookEvent)
    assert (parsed.agent, parsed.host) == ("copilot", "copilot")
    assert parsed.paths == (b"/home/dev/app/src/money.py",)


def test_payload_is_ignored_when_its_host_has_a_shape_of_its_own() -> None:
    raw = (FIXTURES / "cursor__preToolUse__Write.json").read_bytes()
    assert registry.parse("claude-code", raw, {}) is None


def test_hook_does_nothing_when_the_agent_is_unknown() -> None:
    raw = (FIXTURES / "claude_code__SessionStart.json").read_bytes()
    assert registry.parse("nobody", raw, {}) is None
    assert registry.adapter("nobody") is None


@pytest.mark.parametrize(
    ("agent", "covers"), [("claude-code", True), ("generic", False), (None, False)]
)
def test_traits_promise_full_cover_when_the_agent_has_hooks_for_all(
    agent: str | None, covers: bool
) -> None:
    assert registry.traits(agent).covers_all_tools is covers
