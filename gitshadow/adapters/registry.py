"""From an agent's name and raw bytes to a `HookEvent`, and back to the form of an answer.

Invariant: `parse` never raises, whatever the bytes are. The module of an agent is imported when
its first payload comes, because each hook without a daemon pays for every import.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from gitshadow.adapters import event_json
from gitshadow.adapters.base import (
    BadPayload,
    ContextChannel,
    HookEvent,
    HookPhase,
    Parsed,
    Parser,
    Traits,
)
from gitshadow.adapters.payload import Payload
from gitshadow.adapters.sender import identify

MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
_TOO_DEEP = "the payload is nested too deeply"

_TRAITS: Mapping[str, Traits] = {
    # PreToolUse and PostToolUse come for every tool, MCP servers' and subagents' included.
    "claude-code": Traits(
        covers_all_tools=True,
        cancels_unseen=True,
        reports_turns=True,
        shells_below=True,
        context=ContextChannel.JSON,
        # Its menu restores code, conversation or both (2.1.330).
        rewind='/rewind, then "Restore conversation"',
    ),
    # Only the hosted web search has no hook, and it writes nothing.
    "codex": Traits(
        covers_all_tools=True,
        waits_unseen=True,
        reports_turns=True,
        shells_below=True,
        context=ContextChannel.JSON,
    ),
    "cursor": Traits(covers_all_tools=True),
    # BeforeAgent takes `additionalContext` for that turn (reference.md); it reads only JSON.
    "gemini": Traits(
        covers_all_tools=True,
        waits_unseen=True,
        reports_turns=True,
        shells_below=True,
        context=ContextChannel.JSON,
    ),
    "copilot": Traits(
        covers_all_tools=True,
        waits_unseen=True,
        reports_turns=True,
        shells_below=True,
    ),
    "vscode-copilot": Traits(covers_all_tools=True),
    "windsurf": Traits(covers_all_tools=True),
    "devin": Traits(covers_all_tools=True),
    "droid": Traits(
        covers_all_tools=True,
        prompts_unseen=True,
        shells_below=True,
        context=ContextChannel.JSON,
    ),
    "goose": Traits(covers_all_tools=True),
    # Subagents send nothing, the documented matcher excludes other tools, and nothing comes
    # after a tool: a window ends with the next one, that of an edit when its file was written.
    "crush": Traits(sequential=True, never_ends=True),
    "qwen": Traits(
        covers_all_tools=True,
        reports_turns=True,
        shells_below=True,
        context=ContextChannel.JSON,
    ),
    # What a hook of a prompt prints goes into the context ("Hooks", exit code 0).
    "kiro": Traits(covers_all_tools=True, context=ContextChannel.TEXT),
    "cline": Traits(covers_all_tools=True, shells_below=True),
    "opencode": Traits(covers_all_tools=True, reports_turns=True, shells_below=True),
    "amp": Traits(covers_all_tools=True),
    "pi": Traits(covers_all_tools=True, reports_turns=True, shells_below=True),
    "grok": Traits(covers_all_tools=True, reports_turns=True, shells_below=True),
    "antigravity": Traits(covers_all_tools=True),
    # Whether two tools run at once is not known.
    "openhands": Traits(covers_all_tools=True, reports_turns=True),
    # What a hook of a prompt prints goes into the context ("Hooks", exit code 0).
    "kimi": Traits(
        covers_all_tools=True,
        one_session=True,
        reports_turns=True,
        shells_below=True,
        context=ContextChannel.TEXT,
    ),
    "vibe": Traits(covers_all_tools=True),
    # Agents report the tools that they choose to, so a turn may write outside all windows.
    "acp": Traits(),
    "aider": Traits(),
    "generic": Traits(),
}
KNOWN_AGENTS: tuple[str, ...] = tuple(_TRAITS)

# Modules with a table of parsers; every other agent has a module of its name.
_IN_TABLES: Mapping[str, str] = {
    "aider": "generic",
    "crush": "plain",
    "devin": "claude_like",
    "droid": "claude_like",
    "gemini": "plain",
    "kimi": "plain",
    "generic": "generic",
    "openhands": "plain",
    "qwen": "claude_like",
    "vibe": "plain",
    "vscode-copilot": "plain",
}

OWN_FORM = frozenset({"acp", "aider", "generic"})
"""Names without hooks of a host: the shape of such a payload does not show who sent it."""


def traits(agent: str | None) -> Traits:
    """Return what an agent's hooks promise; for an unknown agent, nothing."""
    return _TRAITS.get(agent or "", Traits())


def parse(agent: str, raw: bytes, env: Mapping[str, str]) -> Parsed:
    """Read one payload as it came on standard input.

    Args:
        agent: The name under which the hook was installed, or that of an event from the spool.
        raw: The bytes; control characters, half a JSON and wrong types are no error.
        env: The markers that the hook program found in its environment.

    Returns:
        The event, with the agent that really sent it; None for an unknown agent or event; or
        what is wrong with the payload.
    """
    if agent not in (*_TRAITS, event_json.NAME):
        return None
    payload = _decode(raw)
    if isinstance(payload, BadPayload):
        return payload
    if agent == event_json.NAME:
        return event_json.parse(payload)
    sender = agent if agent in OWN_FORM else identify(payload, env, agent)
    try:
        return parser(sender)(payload, env)
    except RecursionError:
        # A payload that could just be read may be too deep to be hashed.
        return BadPayload(_TOO_DEEP)


def parser(agent: str) -> Parser:
    """Return the function that reads the payloads of a known agent."""
    module = module_of(agent)
    found: Parser = (
        module.PARSERS[agent] if agent in _IN_TABLES else vars(module)["parse"]
    )
    return found


def module_of(agent: str) -> ModuleType:
    """Import the module that reads the payloads of a known agent."""
    name = _IN_TABLES.get(agent, agent.replace("-", "_"))
    return import_module(f"gitshadow.adapters.{name}")


def takes_context(event: HookEvent) -> bool:
    """Return whether an event is a prompt whose hook can add to what the model reads."""
    channel = traits(event.host).context
    return event.phase is HookPhase.PROMPT and channel is not ContextChannel.NONE


def added_context(text: str, event: HookEvent) -> bytes:
    """Return what a hook prints to add a text for the model; nothing if it cannot.

    The answer adds context and never makes a decision.
    """
    if not takes_context(event):
        return b""
    if traits(event.host).context is ContextChannel.TEXT:
        return text.encode("utf-8", "replace") + b"\n"
    output = {"hookEventName": event.raw_event, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": output}).encode() + b"\n"


def _decode(raw: bytes) -> Payload | BadPayload:
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
    return Payload(decoded)


def _text(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
