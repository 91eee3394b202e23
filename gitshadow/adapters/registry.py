"""From an agent's name and raw bytes to a `HookEvent`, whatever the bytes are.

Invariant: `parse` never raises for what it is given. Adapters are imported when first needed.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from gitshadow.adapters.base import Adapter, BadPayload, HookEvent, Parsed, Traits
from gitshadow.adapters.sender import identify

MAX_PAYLOAD_BYTES = 32 * 1024 * 1024

KNOWN_AGENTS: tuple[str, ...] = (
    "claude-code",
    "codex",
    "cursor",
    "gemini",
    "copilot",
    "vscode-copilot",
    "windsurf",
    "devin",
    "droid",
    "goose",
    "crush",
    "qwen",
    "kiro",
    "cline",
    "opencode",
    "amp",
    "pi",
    "grok",
    "antigravity",
    "openhands",
    "acp",
    "aider",
    "generic",
)


def _claude_code() -> Adapter:
    from gitshadow.adapters.claude_code import ClaudeCode

    return ClaudeCode()


def _generic() -> Adapter:
    from gitshadow.adapters.generic import Generic

    return Generic()


_ADAPTERS: Mapping[str, Callable[[], Adapter]] = {
    "claude-code": _claude_code,
    "generic": _generic,
}
_CLAUDE_SHAPED = frozenset({"copilot", "devin", "droid", "kiro", "qwen"})
"""Hosts that send Claude Code's fields where they run its hooks, read so for want of a module."""


def adapter(agent: str) -> Adapter | None:
    """Return the adapter of an agent; None for one that has none."""
    make = _ADAPTERS.get(agent)
    return None if make is None else make()


def traits(agent: str | None) -> Traits:
    """Return what an agent's hooks promise; for an unknown one, nothing."""
    found = None if agent is None else adapter(agent)
    return Traits() if found is None else found.traits


def parse(agent: str, raw: bytes, env: Mapping[str, str]) -> Parsed:
    """Read one payload as it came on standard input.

    Args:
        agent: The name under which the hook was installed.
        raw: The bytes; control characters, half a JSON and wrong types are no error.
        env: The markers that the hook program found in its environment.

    Returns:
        The event, with the agent that really sent it; None for an unknown agent or event; or
        what is wrong with the payload.
    """
    if agent not in KNOWN_AGENTS:
        return None
    payload = _decode(raw)
    if isinstance(payload, BadPayload):
        return payload
    if agent == "generic":
        return _generic().parse(payload, env)
    sender = identify(payload, env, agent)
    own = adapter(sender)
    if own is not None:
        return own.parse(payload, env)
    if sender not in _CLAUDE_SHAPED:
        return None
    return _renamed(_claude_code().parse(payload, env), sender)


def _renamed(parsed: Parsed, sender: str) -> Parsed:
    if isinstance(parsed, HookEvent):
        return replace(parsed, agent=sender, host=sender)
    return None


def _decode(raw: bytes) -> dict[str, object] | BadPayload:
    if not raw.strip():
        return BadPayload("the payload is empty")
    if len(raw) > MAX_PAYLOAD_BYTES:
        return BadPayload(f"the payload has {len(raw)} bytes, too many to read")
    try:
        decoded = json.loads(_text(raw), strict=False)
    except RecursionError:
        return BadPayload("the payload is nested too deeply")
    except ValueError:
        return BadPayload("the payload is not JSON")
    if not isinstance(decoded, dict):
        return BadPayload("the payload is not a JSON object")
    return decoded


def _text(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
