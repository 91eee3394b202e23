"""What a process shows of the agent behind it: its variables and the name of its program.

Variables are inherited, by agents inside agents too, so what they say is where somebody above
stands, not who is nearest: `process` ranks them with the ancestry (spec/agents.md 6.1 and 6.2,
2026-09).
Invariant: pure. Names are matched whole; a word somewhere in the arguments is no evidence, and
a name that people use for something else is none by itself.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

SESSION_VARIABLE = "GITSHADOW_SESSION"
AGENT_VARIABLE = "GITSHADOW_AGENT"

MANAGED_MARK = "gitshadow-managed:"
"""A line of every script and plug-in that `hooks install` writes holds this."""

NATIVE_MARKERS: Mapping[str, str] = {
    "AMP_CURRENT_THREAD_ID": "amp",
    "AGENT_THREAD_ID": "amp",
    "QWEN_CODE_SESSION_ID": "qwen",
    "CODEX_SESSION_ID": "codex",
    "CODEX_THREAD_ID": "codex",
    "CURSOR_CONVERSATION_ID": "cursor",
    "COPILOT_AGENT_SESSION_ID": "copilot",
    "PI_SESSION_ID": "pi",
    "GROK_SESSION_ID": "grok",
    "OPENHANDS_SESSION_ID": "openhands",
    "CLAUDE_CODE_SESSION_ID": "claude-code",
    "GITSHADOW_OPENCODE_SESSION": "opencode",
}
"""Variables in which an agent gives its children its own session id; of one agent the first wins.

opencode publishes none: our plug-in does it in its name. Cline, Gemini, goose, Crush, Aider and
Droid publish none.
"""

PID_MARKERS: Mapping[str, str] = {
    "claude-code": "CLAUDE_PID",
    "opencode": "OPENCODE_PID",
}
"""Variables in which an agent gives its children its own pid."""

_SLUGS: Mapping[str, str] = {
    "claude": "claude-code",
    "claude-code": "claude-code",
    "codex": "codex",
    "cursor": "cursor",
    "cursor-cli": "cursor",
    "gemini": "gemini",
    "gemini-cli": "gemini",
    "copilot": "copilot",
    "github-copilot": "copilot",
    "github_copilot_vscode_agent": "vscode-copilot",
    "windsurf": "windsurf",
    "devin": "devin",
    "droid": "droid",
    "goose": "goose",
    "crush": "crush",
    "qwen": "qwen",
    "qwen-code": "qwen",
    "kiro": "kiro",
    "cline": "cline",
    "opencode": "opencode",
    "amp": "amp",
    "pi": "pi",
    "grok": "grok",
    "antigravity": "antigravity",
    "openhands": "openhands",
    "aider": "aider",
}
"""What `AI_AGENT` and `AGENT` may say; `<slug>@<version>` too."""

_ANY = None
_SIGNS: Sequence[tuple[str, str, str | None]] = (
    ("amp", "AGENT", "amp"),
    ("amp", "AMP_CURRENT_THREAD_ID", _ANY),
    ("qwen", "QWEN_CODE_SESSION_ID", _ANY),
    ("qwen", "QWEN_CODE_PROMPT_ID", _ANY),
    ("qwen", "QWEN_CODE", "1"),
    ("codex", "CODEX_THREAD_ID", _ANY),
    ("codex", "CODEX_SESSION_ID", _ANY),
    ("codex", "CODEX_SANDBOX", _ANY),
    ("codex", "CODEX_SANDBOX_NETWORK_DISABLED", _ANY),
    ("codex", "CODEX_CI", _ANY),
    ("codex", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "codex_web_agent"),
    ("cursor", "CURSOR_AGENT", "1"),
    ("cursor", "CURSOR_CONVERSATION_ID", _ANY),
    ("cursor", "CURSOR_EXTENSION_HOST_ROLE", "agent-exec"),
    ("copilot", "COPILOT_CLI", "1"),
    ("copilot", "COPILOT_AGENT_SESSION_ID", _ANY),
    ("opencode", "OPENCODE", "1"),
    ("opencode", "AGENT", "1"),
    ("opencode", "OPENCODE_PID", _ANY),
    ("goose", "GOOSE_TERMINAL", "1"),
    ("goose", "AGENT", "goose"),
    ("crush", "CRUSH", "1"),
    ("crush", "AGENT", "crush"),
    ("gemini", "GEMINI_CLI", "1"),
    ("cline", "CLINE_ACTIVE", "true"),
    ("aider", "OR_APP_NAME", "Aider"),
    ("pi", "PI_SESSION_ID", _ANY),
    ("pi", "PI_CODING_AGENT", _ANY),
    ("grok", "GROK_SESSION_ID", _ANY),
    ("grok", "GROK_HOOK_EVENT", _ANY),
    ("grok", "GROK_AGENT", _ANY),
    ("openhands", "OPENHANDS_SESSION_ID", _ANY),
    ("antigravity", "ANTIGRAVITY_AGENT", _ANY),
    ("devin", "DEVIN_PROJECT_DIR", _ANY),
    ("droid", "FACTORY_PROJECT_DIR", _ANY),
    ("claude-code", "CLAUDE_CODE_SESSION_ID", _ANY),
    ("claude-code", "CLAUDE_CODE_CHILD_SESSION", "1"),
    ("claude-code", "CLAUDECODE", "1"),
)
"""Agent, variable, value; the first that fits decides. Amp sets CLAUDECODE, Qwen GEMINI_CLI.

Left out is what people's own terminals have too: CURSOR_TRACE_ID, TERM_PROGRAM, REPL_ID and the
like.
"""

VARIABLES: frozenset[bytes] = frozenset(
    name.encode()
    for name in (
        SESSION_VARIABLE,
        AGENT_VARIABLE,
        "AI_AGENT",
        *NATIVE_MARKERS,
        *(variable for _, variable, _ in _SIGNS),
    )
)
"""All variables that say something here."""


class AgentMark(NamedTuple):
    """Say which agent the variables of a process name.

    `session` is ours and comes with `GITSHADOW_SESSION` alone, `native` is the agent's own id.
    `inherited` tells that the nearest agent above is another one, which let the variables of
    an outer agent through.
    """

    agent: str
    native: str | None = None
    session: str | None = None
    inherited: bool = False


def read_variables(raw: bytes) -> dict[str, str]:
    """Return what says something in the bytes of `/proc/PID/environ`; the first of a name."""
    found: dict[str, str] = {}
    for item in raw.split(b"\0"):
        name, equals, value = item.partition(b"=")
        if equals and name in VARIABLES:
            found.setdefault(name.decode(), value.decode("utf-8", "replace"))
    return found


def detect(env: Mapping[str, str], nearest: str | None = None) -> AgentMark | None:
    """Name the agent in whose environment a process runs.

    Args:
        env: Its variables; others than `VARIABLES` are not looked at.
        nearest: The agent that is the process's nearest ancestor, where one is known.

    Returns:
        None when no variable names a known agent.
    """
    session = env.get(SESSION_VARIABLE)
    declared = env.get(AGENT_VARIABLE) or ("generic" if session else None)
    agent = declared or _by_slug(env.get("AI_AGENT", "")) or _by_sign(env)
    if agent is None:
        return None
    inherited = nearest is not None and nearest != agent
    return AgentMark(agent, _native(env, agent), session or None, inherited)


def _by_slug(text: str) -> str | None:
    return _SLUGS.get(text.partition("@")[0])


def _by_sign(env: Mapping[str, str]) -> str | None:
    found = [agent for agent, name, value in _SIGNS if _fits(env.get(name), value)]
    if found and found[0] != "claude-code":
        return found[0]
    return _by_slug(env.get("AGENT", "")) or next(iter(found), None)


def _fits(value: str | None, wanted: str | None) -> bool:
    return bool(value) and wanted in (_ANY, value)


def _native(env: Mapping[str, str], agent: str) -> str | None:
    named = (env.get(name) for name, owner in NATIVE_MARKERS.items() if owner == agent)
    return next((value for value in named if value), None)


# Programs

_PROGRAMS: Mapping[str, str] = {
    "claude": "claude-code",
    "codex": "codex",
    "cursor-agent": "cursor",
    "gemini": "gemini",
    "agy": "antigravity",
    "qwen": "qwen",
    "copilot": "copilot",
    "droid": "droid",
    "opencode": "opencode",
    "opencode2": "opencode",
    "amp": "amp",
    "goose": "goose",
    "goosed": "goose",
    "crush": "crush",
    "kiro-cli": "kiro",
    "devin": "devin",
    "grok": "grok",
    "aider": "aider",
    "openhands": "openhands",
    "pi": "pi",
    "cline": "cline",
}
_UNSURE = frozenset(
    (
        *("agent", "code", "Code", "code-oss", "codium", "cursor", "Cursor"),
        *("windsurf", "Windsurf", "kiro", "Kiro", "zed", "zeditor", "subl"),
        *("vi", "vim", "vim.basic", "vim.tiny", "nvim", "gvim", "view", "ex"),
        *("nano", "pico", "emacs", "emacsclient", "hx", "helix", "kak", "joe"),
        *("mcedit", "micro", "gedit", "kate", "sublime_text"),
        *("idea", "pycharm", "webstorm", "goland", "clion", "rider"),
    )
)
_INTERPRETERS = frozenset({"node", "bun", "deno", "nodejs"})


class ProgramName(NamedTuple):
    """Say what a process runs, as far as it matters who writes.

    `agent` is None where the name says no agent. `unsure` tells of an editor, which an agent may
    live in and a person may type in, or a name that several programs have.
    """

    agent: str | None = None
    unsure: bool = False


def program_of(executable: str, arguments: Sequence[str]) -> ProgramName:
    """Recognise a program by whole names.

    Args:
        executable: The path of what is executed, empty where it cannot be read. A release is
            often a file named by its version, behind a link with the agent's name.
        arguments: The command line; of an interpreter the script is looked at as well.
    """
    names = [_base(executable), *(_base(word) for word in arguments[:1])]
    if any(_is_interpreter(name) for name in names):
        names += _script(arguments)
    agents = [_PROGRAMS[name] for name in names if name in _PROGRAMS]
    if agents:
        return ProgramName(agents[0])
    return ProgramName(unsure=any(name in _UNSURE for name in names))


def _is_interpreter(name: str) -> bool:
    return name in _INTERPRETERS or name.rstrip("0123456789.") in ("python", "pypy")


def _script(arguments: Sequence[str]) -> list[str]:
    """Return the name of an interpreter's script, or of the module after `-m`."""
    words = iter(arguments[1:])
    for word in words:
        if word == "-m":
            return [next(words, "")]
        if word in ("-c", "-e", "-p", "--eval", "--print", "-"):
            return []
        if not word.startswith("-"):
            return [_base(word)]
    return []


def _base(path: str) -> str:
    return path.removesuffix(" (deleted)").rpartition("/")[2].removeprefix("-")
