"""Which of a hook's ancestors is the agent: the one whose death ends the session.

Agents start hooks through shells and wrappers that live as long as the hook alone; the session
must not end with one of those.
Invariant: a process is named with its start time, and only one that lived when it was asked.
"""

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from gitshadow.attribution.markers import MANAGED_MARK, PID_MARKERS
from gitshadow.attribution.process import (
    PROGRAM,
    ProcessId,
    command_line,
    is_alive,
    program_at,
)

_SHELLS = frozenset({b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"fish"})
_WRAPPERS = frozenset(
    {
        b"env",
        b"git",  # `git agent-undo hook` waits for the command that it finds
        b"timeout",
        b"nice",
        b"nohup",
        b"setsid",
        b"stdbuf",
        b"time",
        b"uv",
        b"uvx",
    }
)
_ENDS_WITH_HOOK = re.compile(
    rb"""\bhook\s+[\w-]+["']?          # the command, with the agent's name
    (\s*[0-9]*[<>]+&?\s*[^\s;|&<>]+)*  # redirections
    (\s*(\|\||&&|;|\n)?\s*(fi|true|:|exit(\s+(0|\$\?))?|done|\}))*
    [\s;]*$""",
    re.VERBOSE,
)
_ANSWERS = re.compile(rb"^\s*(echo|printf)\s[^;|&\n]*$", re.MULTILINE)
"""A line of a script that prints an answer for the agent, as Cline wants one."""
_MOST_SCRIPT_BYTES = 64 * 1024


def agent_process(
    agent: str, pids: Sequence[ProcessId], env: Mapping[str, str]
) -> ProcessId | None:
    """Choose the agent among the ancestors of a hook.

    Args:
        agent: The agent's name.
        pids: The ancestors of the hook program, nearest first.
        env: The markers that the hook program found in its environment.

    Returns:
        The process that the agent names itself, where it is an ancestor and no nearer one runs
        the same agent: then the variable is an outer agent's, let through. Else the nearest
        living one that is no mere wrapper around the hook; None when none of them lives.
    """
    nearest = _nearest(pids)
    named = env.get(PID_MARKERS.get(agent, ""), "")
    for number, process in enumerate(pids):
        if named == str(process.pid) and is_alive(process):
            inner = pids.index(nearest) if nearest is not None else number
            return nearest if _is_nested(pids[inner:number], agent) else process
    return nearest


def _nearest(pids: Sequence[ProcessId]) -> ProcessId | None:
    for number, process in enumerate(pids):
        above = pids[number + 1] if number + 1 < len(pids) else None
        if is_alive(process) and not _is_wrapper(process, above):
            return process
    return None


def _is_nested(between: Sequence[ProcessId], agent: str) -> bool:
    """Tell whether the first of some processes is an agent that a tool of another one started.

    An agent's own workers run its program too, but stand right below it.
    """
    agents = [program_at(process.pid).agent for process in between]
    return agents[:1] == [agent] and any(one != agent for one in agents)


def _is_wrapper(process: ProcessId, above: ProcessId | None) -> bool:
    arguments = command_line(process.pid)
    if not arguments or not arguments[0]:
        return False
    name = arguments[0].rsplit(b"/", 1)[-1].removeprefix(b"-")
    if name in _WRAPPERS:
        return True
    if name not in _SHELLS:
        return False
    # A subshell is a copy of its shell, without a program of its own.
    if above is not None and command_line(above.pid) == arguments:
        return True
    return _runs_hook_alone(process, arguments[1:])


def _runs_hook_alone(process: ProcessId, arguments: Sequence[bytes]) -> bool:
    """Return whether a shell runs the hook's shim, its script, or a text that ends with it."""
    for option, text in pairwise(arguments):
        if re.fullmatch(rb"-[a-z]*c[a-z]*", option):
            return _ENDS_WITH_HOOK.search(text) is not None
    script, *words = [one for one in arguments if not one.startswith(b"-")] or [b""]
    name = script.rsplit(b"/", 1)[-1]
    if name == PROGRAM.encode() and words[:1] == [b"hook"]:
        return True
    return _is_hook_script(_script_text(process, script))


def _is_hook_script(text: bytes) -> bool:
    """Return whether a script is one of ours, or ends with the hook and its answer.

    Some agents run a script per event by its path (Cline), so the hook is in no `-c` text. People
    may call us from a script of their own in that place.
    """
    if MANAGED_MARK.encode() in text:
        return True
    return _ENDS_WITH_HOOK.search(_ANSWERS.sub(b"", text)) is not None


def _script_text(process: ProcessId, script: bytes) -> bytes:
    """Return a script's text, nothing where it cannot be read; its path may be relative."""
    where = os.path.join(f"/proc/{process.pid}/cwd".encode(), script)
    try:
        descriptor = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, _MOST_SCRIPT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
