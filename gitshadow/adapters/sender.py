"""Which program really sent a payload: hosts run each other's hook files.

Cursor, Copilot, VS Code, Devin and Grok run the commands of `.claude/settings.json` too, so the
sender is found from the payload before anything is recorded (as seen in 2026-09).
Invariant: pure; the rules have an order, and the first that fits decides.
"""

from collections.abc import Mapping

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
    return by_family or _by_folder(transcript) or registered


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


def _by_folder(transcript: str) -> str | None:
    """Apply the last rule: a transcript in the folder of an agent."""
    for folder, agent in _FOLDERS:
        if folder in transcript:
            return agent
    return None
