"""Read from variables and command lines which agent runs a process, and whose session it is in.

Variables are inherited, by agents inside agents too. So they show that an agent is among the
ancestors, but not that it is the nearest one. `owners` ranks variables and ancestry together. Pure.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gitshadow.model import Actor, Session

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
    "kimi": "kimi",
    "vibe": "vibe",
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
    ("vibe", "VIBE_APP_SERVER_BIN", _ANY),
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
    # Kimi Code and Vibe name their processes themselves; `kimi` and `vibe` start them.
    "kimi": "kimi",
    "kimi-code": "kimi",
    "vibe": "vibe",
    "vibe-rs": "vibe",
    "vibe-app-server": "vibe",
}
# Editors in which an agent may live and a person may type, and names that several programs have:
# one of them alone names no agent.
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
# What a process gives its children is nearer to them than the process itself, and farther than the
# next process below it.
_GIVEN = 0.5


class AgentMark(NamedTuple):
    """The agent that the variables of a process name.

    `session` is ours and comes with `GITSHADOW_SESSION` alone, `native` is the agent's own id.
    """

    agent: str
    native: str | None = None
    session: str | None = None


def read_variables(raw: bytes) -> dict[str, str]:
    """Return what says something in the bytes of an environment; the first of a name."""
    found: dict[str, str] = {}
    for item in raw.split(b"\0"):
        name, equals, value = item.partition(b"=")
        if equals and name in VARIABLES:
            found.setdefault(name.decode(), value.decode("utf-8", "replace"))
    return found


def detect(env: Mapping[str, str]) -> AgentMark | None:
    """Return the agent in whose environment a process runs.

    Args:
        env: Its variables; others than `VARIABLES` are not looked at.

    Returns:
        None when no variable names a known agent.
    """
    session = env.get(SESSION_VARIABLE)
    # A declaration of the user's is stronger than any trace that an agent leaves.
    declared = env.get(AGENT_VARIABLE) or ("generic" if session else None)
    agent = declared or _by_slug(env.get("AI_AGENT", "")) or _by_sign(env)
    if agent is None:
        return None
    named = (env.get(name) for name, owner in NATIVE_MARKERS.items() if owner == agent)
    native = next((value for value in named if value), None)
    return AgentMark(agent, native, session or None)


def _by_slug(text: str) -> str | None:
    return _SLUGS.get(text.partition("@")[0])


def _by_sign(env: Mapping[str, str]) -> str | None:
    found = [agent for agent, name, value in _SIGNS if _fits(env.get(name), value)]
    # Other agents set Claude Code's variables for compatibility (Amp, CLAUDECODE=1), so its signs
    # count only after all others.
    if found and found[0] != "claude-code":
        return found[0]
    return _by_slug(env.get("AGENT", "")) or next(iter(found), None)


def _fits(value: str | None, wanted: str | None) -> bool:
    return bool(value) and wanted in (_ANY, value)


class ProgramName(NamedTuple):
    """The program of a process, as far as it matters for who writes.

    `agent` is None if the name is no agent's. `unsure` marks an editor, which an agent may
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
    # Whole names only: a word somewhere in the arguments is no evidence, because a person may edit
    # a file of that name.
    names = [_base(executable), *(_base(word) for word in arguments[:1])]
    plain = {name.rstrip("0123456789.") for name in names}
    if not _INTERPRETERS.isdisjoint(names) or plain & {"python", "pypy"}:
        names += _script(arguments)
    agents = [_PROGRAMS[name] for name in names if name in _PROGRAMS]
    if agents:
        return ProgramName(agents[0])
    return ProgramName(unsure=any(name in _UNSURE for name in names))


def _script(arguments: Sequence[str]) -> list[str]:
    """Return the name of an interpreter's script, or of the module after `-m`."""
    words = iter(arguments[1:])
    for word in words:
        if word == "-m":
            return [next(words, "")]
        # What follows is program text, not a file.
        if word in ("-c", "-e", "-p", "--eval", "--print", "-"):
            return []
        if not word.startswith("-"):
            return [_base(word)]
    return []


def _base(path: str) -> str:
    return path.removesuffix(" (deleted)").rpartition("/")[2].removeprefix("-")


class AncestorProcess(NamedTuple):
    """Store one process of a chain from a process to its ancestors.

    `sessions` are those whose agent it is. `variables` are None where they cannot be read.
    """

    sessions: tuple[str, ...]
    variables: Mapping[str, str] | None


class _Claim(NamedTuple):
    """One claim, and between which distances its maker is.

    `sessions` are empty for one that is not recorded here: it claims for nobody, but what is
    farther has no claim either.
    """

    sessions: tuple[str, ...]
    least: float
    most: float


class KnownSessions:
    """Find recorded sessions of agents by what processes show of them."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        agents = [one for one in sessions if one.actor is Actor.AGENT]
        self._natives = {(one.agent, one.native_id): one.id for one in agents}
        self._agents = {one.id: one.agent for one in agents}
        self._parents = {one.id: one.parent for one in agents}

    def has(self, session: str) -> bool:
        """Return whether a session is one of these."""
        return session in self._agents

    def agent(self, session: str) -> str | None:
        """Return the agent of a session."""
        return self._agents.get(session)

    def native(self, agent: str, native: str) -> str | None:
        """Return the session that an agent calls so."""
        return self._natives.get((agent, native))

    def of(self, agent: str) -> tuple[str, ...]:
        """Return the sessions of an agent, those of a family from the outside in."""
        return self.sorted(one for one, name in self._agents.items() if name == agent)

    def sorted(self, sessions: Iterable[str]) -> tuple[str, ...]:
        """Return sessions in order, those of a family from the outside in."""
        return tuple(sorted(sessions, key=lambda one: (len(self.line(one)), one)))

    def line(self, session: str) -> tuple[str, ...]:
        """Return a session and those above it, nearest first."""
        found: list[str] = []
        here: str | None = session
        while here is not None and here not in found:
            found.append(here)
            here = self._parents.get(here)
        return tuple(found)

    def root(self, session: str) -> str:
        """Return the topmost session above one."""
        return self.line(session)[-1]


def owners(chain: Sequence[AncestorProcess], known: KnownSessions) -> tuple[str, ...]:
    """Return the sessions to which a process may belong.

    Args:
        chain: The process itself and its ancestors as far as they are seen, nearest first.
        known: The recorded sessions.

    Returns:
        Those of one family, the innermost last, when it is clear whose it is; those of several
        when it is not; nothing when nobody recorded owns it.
    """
    claims = [*_by_process(chain), *_by_variables(chain, known)]
    if not claims:
        return _of_orphan(chain, known)
    # A claim counts unless another one is surely nearer. If several may be the nearest, the caller
    # gets all of them and names nobody.
    nearest = [
        one for one in claims if not any(other.most < one.least for other in claims)
    ]
    # The nearest agent is not recorded here: what it started is not the work of a recorded one
    # farther up.
    if any(not one.sessions for one in nearest):
        return ()
    found = {session for one in nearest for session in one.sessions}
    return known.sorted(found)


def _of_orphan(
    chain: Sequence[AncestorProcess], known: KnownSessions
) -> tuple[str, ...]:
    """Return the sessions of the agent that started the topmost process, which is gone."""
    # Agents that tell their children no session id tell them their name at least. Where the topmost
    # process that is left has it, an agent has started it: no terminal of a person has.
    mark = detect(chain[-1].variables or {}) if chain else None
    if mark is None or mark.native is not None or mark.session is not None:
        return ()
    return known.of(mark.agent)


def _by_process(chain: Sequence[AncestorProcess]) -> Iterator[_Claim]:
    for distance, link in enumerate(chain):
        if link.sessions:
            yield _Claim(link.sessions, distance, distance)


def _by_variables(
    chain: Sequence[AncestorProcess], known: KnownSessions
) -> Iterator[_Claim]:
    carried = (chain[0].variables if chain else None) or {}
    declared = carried.get(SESSION_VARIABLE)
    if declared:
        sessions = (declared,) if known.has(declared) else ()
        yield _placed(chain, SESSION_VARIABLE, sessions)
    for agent in dict.fromkeys(NATIVE_MARKERS.values()):
        markers = [n for n, owner in NATIVE_MARKERS.items() if owner == agent]
        names = [name for name in markers if carried.get(name)]
        if names:
            yield from _by_native(chain, known, agent, names)


def _by_native(
    chain: Sequence[AncestorProcess],
    known: KnownSessions,
    agent: str,
    names: Sequence[str],
) -> Iterator[_Claim]:
    """Claim for the session that an agent's own variables name.

    One that is not recorded claims nothing, but its agent did not start the process for the
    session that it runs now.
    """
    carried = chain[0].variables or {}
    for name in names:
        session = known.native(agent, carried[name])
        if session is not None:
            yield _placed(chain, name, (session,))
            return
    for name in names:
        found = _placed(chain, name, ())
        maker = int(found.most + 1) if found.most < len(chain) - 1 else None
        if maker is not None and agent in map(known.agent, chain[maker].sessions):
            yield found


def _placed(
    chain: Sequence[AncestorProcess], name: str, sessions: tuple[str, ...]
) -> _Claim:
    """Return how far away the process is that gave its children a variable.

    Two variables from one process are equally near, because the process that adopts an orphan looks
    like the one that set them.
    """
    value = (chain[0].variables or {})[name]
    least, most = 1, math.inf
    # The maker of the variable does not have it in its own environment. So the maker is the nearest
    # ancestor without it; an unreadable environment may be the maker's, and widens the range.
    for distance, link in enumerate(chain[1:], start=1):
        if link.variables is None:
            continue
        if link.variables.get(name) != value:
            most = distance
            break
        least = distance + 1
    return _Claim(sessions, least - _GIVEN, most - _GIVEN)


_TOKEN = re.compile(
    rb"""
    (?P<nothing>\s*\#[^\n]*|[^\S\n]+|\\\n)
    |(?P<redirection>[0-9]*(?:&>>?|<<<|<<-?|[<>][&>|]?)[^\S\n]*)
    |(?P<operator>[;|&()\n]+)
    |(?P<word>(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s;|&()<>'"\\])+)
    |(?P<unknown>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(rb"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)""", re.DOTALL)
_ESCAPE = re.compile(rb"\\([\"\\$`\n])")
_HERE_DOCUMENT = re.compile(
    rb"""(<<-?[^\S\n]*(["']?)(\w+)\2[^\n]*\n)(?:.*?\n)??[^\S\n]*\3[^\S\n]*$""",
    re.DOTALL | re.MULTILINE,
)
_RESERVED = re.compile(rb"[{}!]|then|else|elif|if|do|done|fi|esac|\w+=.*", re.DOTALL)
_HARMLESS = frozenset(
    b"true false : exit return wait test [ [[ echo printf cat tee date logger unset rm".split()
)
"""What people let follow a hook: it answers the agent, writes a log, removes the hook's input."""
_AGENT_NAME = re.compile(rb"\w[\w-]*")


def runs_hook_alone(text: bytes) -> bool:
    """Return whether a shell text calls the hook program and does no work of its own after it.

    A shell that goes on after a hook may be an agent itself. Before the hook there may be anything.
    After it, people write options, redirections, filters of its answer, logs and exit codes. What
    follows `||` is not run, because the hook never fails.
    """
    if b"hook" not in text:
        return False
    hook_came = False
    for operator, words in _commands(_HERE_DOCUMENT.sub(rb"\1", text)):
        if _calls_hook(words):
            hook_came = True
        elif hook_came and operator not in (b"|", b"|&", b"||"):
            first = next((one for one in words if not _RESERVED.fullmatch(one)), b":")
            hook_came = first in _HARMLESS
    return hook_came


def called_agents(text: bytes, program: bytes) -> frozenset[str]:
    """Return the agents for which a shell text calls the hook program, among other commands too.

    Args:
        text: The shell text.
        program: The name of the hook program.
    """
    if program not in text:
        return frozenset()
    found: set[str] = set()
    for _, words in _commands(_HERE_DOCUMENT.sub(rb"\1", text)):
        plain = [_unquoted(one) for one in words]
        if plain[0] in _HARMLESS:
            continue
        for name, verb, agent in zip(plain, plain[1:], plain[2:], strict=False):
            is_call = name.rpartition(b"/")[2] == program and verb == b"hook"
            if is_call and _AGENT_NAME.fullmatch(agent):
                found.add(agent.decode())
        for word, one in zip(words, plain, strict=True):
            found |= called_agents(one, program) if one != word else frozenset()
    return frozenset(found)


def _commands(text: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield the commands of a shell text, each with the operator before it."""
    operator, words, is_target = b"", list[bytes](), False
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "operator":
            if words:
                yield operator, words
            operator, words, is_target = match[0].strip(b"()\n"), [], False
        elif match.lastgroup == "redirection":
            is_target = True
        elif match.lastgroup != "nothing":
            words += [] if is_target else [match[0]]
            is_target = False
    if words:
        yield operator, words


def _calls_hook(words: Sequence[bytes]) -> bool:
    """Return whether one command is `PROGRAM hook AGENT`, or a shell with a text that calls it."""
    plain = [_unquoted(one) for one in words]
    if any(
        verb == b"hook" and _AGENT_NAME.fullmatch(agent)
        for verb, agent in pairwise(plain[1:])
    ):
        return True
    return any(
        one != word and runs_hook_alone(one)
        for word, one in zip(words, plain, strict=True)
    )


def _unquoted(word: bytes) -> bytes:
    def content(match: re.Match[bytes]) -> bytes:
        single, double, escaped = match.groups()
        if double is not None:
            return _ESCAPE.sub(rb"\1", double)
        return single if single is not None else escaped

    return _QUOTED.sub(content, word)
