"""From an agent's name and raw bytes to a `HookEvent`, and back to the form of an answer.

Hosts run each other's hook files: Cursor, Copilot, VS Code, Devin and Grok run the commands of
`.claude/settings.json` too. So who sent a payload is found from the payload before anything is
recorded (as seen in 2026-09); of those rules the first that fits decides.
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

_DROID_MODES = ("auto-low", "auto-medium", "auto-high", "spec", "off")
_NOT_COPILOTS = frozenset({"permission_mode", "tool_use_id", "transcript_path"})
_VIBE_EVENTS = ("pre_tool", "post_tool", "post_agent")
_KIMI_SESSION = "session_"
_GEMINI_EVENTS = ("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel")
_FOLDERS: tuple[tuple[str, str], ...] = (
    ("/.cursor/", "cursor"),
    ("/.gemini/antigravity", "antigravity"),
    ("/.gemini/", "gemini"),
    ("/.copilot/", "copilot"),
    ("/.windsurf/", "windsurf"),
    ("/.grok/", "grok"),
    ("/.openhands/", "openhands"),
)
MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
_TOO_DEEP = "the payload is nested too deeply"

_HOOKED = Traits(covers_all_tools=True)
# Seen with the real programs.
_WHOLE = _HOOKED._replace(reports_turns=True, shells_below=True)
_ANSWERED = _WHOLE._replace(context=ContextChannel.JSON)

_TRAITS: Mapping[str, Traits] = {
    # PreToolUse and PostToolUse come for every tool, MCP servers' and subagents' included. Its menu
    # restores code, conversation or both (2.1.330).
    "claude-code": _ANSWERED._replace(
        cancels_unseen=True, rewind='/rewind, then "Restore conversation"'
    ),
    # Only the hosted web search has no hook, and it writes nothing.
    "codex": _ANSWERED._replace(waits_unseen=True),
    "cursor": _HOOKED,
    # BeforeAgent takes `additionalContext` for that turn (reference.md); it reads only JSON.
    "gemini": _ANSWERED._replace(waits_unseen=True),
    "copilot": _WHOLE._replace(waits_unseen=True),
    "vscode-copilot": _HOOKED,
    "windsurf": _HOOKED,
    "devin": _HOOKED,
    "droid": _ANSWERED._replace(reports_turns=False, prompts_unseen=True),
    "goose": _HOOKED,
    # Subagents send nothing, the documented matcher excludes other tools, and nothing comes
    # after a tool: a window ends with the next one, that of an edit when its file was written.
    "crush": Traits(sequential=True, never_ends=True),
    "qwen": _ANSWERED,
    # What a hook of a prompt prints goes into the context ("Hooks", exit code 0).
    "kiro": _HOOKED._replace(context=ContextChannel.TEXT),
    "cline": _HOOKED._replace(shells_below=True),
    "opencode": _WHOLE,
    "amp": _HOOKED,
    "pi": _WHOLE,
    "grok": _WHOLE,
    "antigravity": _HOOKED,
    # Whether two tools run at once is not known.
    "openhands": _HOOKED._replace(reports_turns=True),
    # What a hook of a prompt prints goes into the context ("Hooks", exit code 0).
    "kimi": _WHOLE._replace(one_session=True, context=ContextChannel.TEXT),
    "vibe": _HOOKED,
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


def identify(payload: Payload, env: Mapping[str, str], registered: str) -> str:
    """Return the agent that a payload comes from.

    Args:
        payload: The decoded payload.
        env: The markers that the hook program found in its environment.
        registered: The agent under whose name the hook was installed; the answer if the shape
            shows no other.

    Returns:
        An agent's name as `hook AGENT` spells it.
    """
    # The name under which a hook was installed comes last: a host that runs another's hook file
    # runs it with that name.
    by_shape = _by_own_shape(payload, registered)
    if by_shape is not None:
        return by_shape
    event = payload.text("hook_event_name")
    if event is None:
        return registered
    transcript = (payload.text("transcript_path") or "").replace("\\", "/")
    by_family = _by_family(payload, event, transcript, env, registered)
    # The last rule: a transcript in the folder of an agent.
    by_folder = next((name for folder, name in _FOLDERS if folder in transcript), None)
    return by_family or by_folder or registered


def _by_own_shape(payload: Payload, registered: str) -> str | None:
    """Apply the rules for hosts, plugins included, whose field names are their own."""
    keys = payload.names
    if "cursor_version" in keys or {"conversation_id", "generation_id"} <= keys:
        return "cursor"
    if {"agent_action_name", "trajectory_id"} <= keys:
        return "windsurf"
    if "sessionId" in keys:
        return _by_session_id(payload)
    if {"conversationId", "workspacePaths"} <= keys:
        return "antigravity"
    if {"hookName", "clineVersion"} <= keys:
        return "cline"
    if "hook" in keys:
        return _by_plugin(payload)
    if payload.text("event") is not None and "hook_event_name" not in keys:
        own = registered == "crush" and "working_dir" not in keys
        return "crush" if own or {"cwd", "tool_name"} <= keys else "goose"
    if {"event_type", "working_dir"} <= keys:
        return "openhands"
    if {"type", "thread-id", "turn-id"} <= keys:
        return "codex"
    return "acp" if "jsonrpc" in keys else None


def _by_session_id(payload: Payload) -> str | None:
    event = payload.text("hookEventName")
    if event is not None and event[0].islower() and "workspaceRoot" in payload:
        return "grok"
    if event is not None and event[0].isupper():
        return "vscode-copilot"
    stamp = payload.value("timestamp")
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        return "copilot"
    return None


def _by_plugin(payload: Payload) -> str | None:
    """Distinguish the plugins of gitshadow, which wrap what their host gives them."""
    if "input" in payload:
        return "opencode"
    if "event" not in payload:
        return None
    return "amp" if "." in (payload.text("hook") or "") else "pi"


def _by_family(
    payload: Payload,
    event: str,
    transcript: str,
    env: Mapping[str, str],
    registered: str,
) -> str | None:
    """Apply the rules for hosts that share the field `hook_event_name`."""
    keys = payload.names
    if "/.claude/" in transcript or "scratchpad_dir" in keys:
        return "claude-code"
    if {"turn_id", "model"} <= keys or "/.codex/" in transcript:
        return "codex"
    if event in _GEMINI_EVENTS:
        return "gemini"
    if "parent_session_id" in keys and event in _VIBE_EVENTS:
        return "vibe"
    if (payload.text("session_id") or "").startswith(_KIMI_SESSION):
        return "kimi"
    if "/.qwen/" in transcript or "tool_call_id" in keys:
        return "qwen"
    if "/.factory/" in transcript or payload.value("permission_mode") in _DROID_MODES:
        return "droid"
    if event[:1].islower():
        return "cursor" if "conversation_id" in keys else "kiro"
    if _is_devin(payload, env):
        return "devin"
    if _sends_times(registered, payload):
        return None
    if "T" in (payload.text("timestamp") or "") and not keys & _NOT_COPILOTS:
        return "copilot"
    return None


def _sends_times(registered: str, payload: Payload) -> bool:
    """Return whether the registered agent sends ISO times too: Qwen adds an id to each call."""
    if registered == "qwen":
        return "tool_name" not in payload or "tool_use_id" in payload
    return registered == "gemini"


def _is_devin(payload: Payload, env: Mapping[str, str]) -> bool:
    # Devin CLI sends neither field, and names its directory only in the environment.
    if "cwd" in payload or "transcript_path" in payload:
        return False
    return "DEVIN_PROJECT_DIR" in env and "CLAUDE_PROJECT_DIR" not in env


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
    # What the hook program sends in place of more than it reads.
    if decoded == {"too_large": True}:
        return BadPayload("the payload is too large to be read")
    return Payload(decoded)


def _text(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
