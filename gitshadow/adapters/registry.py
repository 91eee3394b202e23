"""From an agent's name and raw bytes to a `HookEvent`, whatever the bytes are.

Invariant: `parse` never raises for what it is given. Adapters are imported when first needed.
"""

import json
from collections.abc import Mapping
from importlib import import_module

from gitshadow.adapters.base import Adapter, BadPayload, Parsed, Traits
from gitshadow.adapters.sender import identify

MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
_TOO_DEEP = "the payload is nested too deeply"

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


_ADAPTERS: Mapping[str, tuple[str, str]] = {
    "acp": ("acp", "Acp"),
    "aider": ("aider", "Aider"),
    "amp": ("amp", "Amp"),
    "antigravity": ("antigravity", "Antigravity"),
    "claude-code": ("claude_code", "ClaudeCode"),
    "cline": ("cline", "Cline"),
    "codex": ("codex", "Codex"),
    "copilot": ("copilot", "Copilot"),
    "crush": ("crush", "Crush"),
    "cursor": ("cursor", "Cursor"),
    "devin": ("devin", "Devin"),
    "droid": ("droid", "Droid"),
    "gemini": ("gemini", "Gemini"),
    "generic": ("generic", "Generic"),
    "goose": ("goose", "Goose"),
    "grok": ("grok", "Grok"),
    "kiro": ("kiro", "Kiro"),
    "opencode": ("opencode", "OpenCode"),
    "openhands": ("openhands", "OpenHands"),
    "pi": ("pi", "Pi"),
    "qwen": ("qwen", "Qwen"),
    "vscode-copilot": ("vscode_copilot", "VsCodeCopilot"),
    "windsurf": ("windsurf", "Windsurf"),
}
"""Module and class of each agent; a module is imported when it is first needed."""

_OWN_FORM = frozenset({"acp", "aider", "generic"})
"""Names under which no host installs hooks: the shape of a payload says nothing of its sender."""


def adapter(agent: str) -> Adapter | None:
    """Return the adapter of an agent; None for one that has none."""
    if agent not in _ADAPTERS:
        return None
    module, name = _ADAPTERS[agent]
    made: Adapter = getattr(import_module(f"gitshadow.adapters.{module}"), name)()
    return made


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
    sender = agent if agent in _OWN_FORM else identify(payload, env, agent)
    own = adapter(sender)
    try:
        return None if own is None else own.parse(payload, env)
    except RecursionError:  # what could just be read may be too deep to be hashed
        return BadPayload(_TOO_DEEP)


def _decode(raw: bytes) -> dict[str, object] | BadPayload:
    if not raw.strip():
        return BadPayload("the payload is empty")
    if len(raw) > MAX_PAYLOAD_BYTES:
        return BadPayload(f"the payload has {len(raw)} bytes, too many to read")
    try:
        decoded = json.loads(_text(raw), strict=False)
    except RecursionError:
        return BadPayload(_TOO_DEEP)
    except ValueError:
        return BadPayload("the payload is not JSON")
    if not isinstance(decoded, dict):
        return BadPayload("the payload is not a JSON object")
    return decoded


def _text(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
