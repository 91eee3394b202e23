"""The shell text by which an agent calls the hook program, and how it is recognized.

Every text is guarded: it exits 0 if the program is missing or broken.
Invariant: `agent_of(for_project(a)) == a` and `agent_of(for_user(a, path)) == a`.
"""

import json
import re
import shlex

from gitshadow.attribution.markers import called_agents

PROGRAM = "git-agent-undo"

# A committed file runs on machines without gitshadow, and a program can be removed after its path
# was written: each text asks first whether the program exists.
_GUARDED = re.compile(
    r"if ! (?:command -v|test -x|\[ -x) .+?; then exit 0; fi; exec (.+)", re.DOTALL
)
# Some agents refuse a call on any exit code but 0, and most of them on 2, which an interpreter
# returns for a script that it cannot read. So a program whose Python is gone must not fail either.
_NEVER_FAILS = " || true"
_SHELLS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/sh"})
_TAILS = (["||", "true"], ["||", ":"], [";", "exit", "0"], ["2>/dev/null"])


def for_project(agent: str) -> str:
    """Return the text for a file that may be committed: the bare name, found on `PATH`."""
    return _wrapped(f"command -v {PROGRAM} >/dev/null 2>&1", PROGRAM, agent)


def for_user(agent: str, executable: str) -> str:
    """Return the text for a file of the user's own: an absolute path.

    An agent that was started by a desktop has a short `PATH`.
    """
    quoted = shlex.quote(executable)
    return _wrapped(f"test -x {quoted}", quoted, agent)


def _wrapped(test: str, program: str, agent: str) -> str:
    script = f"if ! {test}; then exit 0; fi; exec {program} hook {agent}"
    return f"sh -c {shlex.quote(script)}{_NEVER_FAILS}"


def for_status_line(executable: str | None) -> str:
    """Return the text of a status line's command: of a user, or of a project without a path."""
    if executable is None:
        return f"{PROGRAM} prompt 2>/dev/null || true"
    return f"{shlex.quote(executable)} prompt 2>/dev/null || true"


def is_status_line(command: str) -> bool:
    """Return whether a command is one that `for_status_line` returns."""
    words = _words(command)
    if not words or not _is_ours(words[0]):
        return False
    return command == for_status_line(words[0])


def agent_of(command: str) -> str | None:
    """Return the agent that a command reports for, if the command only runs our program.

    The guard may be missing, the path different and `|| true` appended, as in earlier or
    hand-written entries. A command line that runs our program among others is the user's: None.
    """
    program = _program_words(command)
    if program is None or len(program) != 3:
        return None
    name, verb, agent = program
    return agent if _is_ours(name) and verb == "hook" else None


def is_changed(command: str, agent: str) -> bool:
    """Return whether a command reports for an agent in a form that a person gave it.

    They add a word, a redirection or another command. It is theirs, and is never written.
    """
    if agent_of(command) is not None or _words(command) is None:
        return False
    return agent in called_agents(command.encode(), PROGRAM.encode())


def program_of(command: str) -> str | None:
    """Return the program that one of our commands runs: a bare name or an absolute path."""
    if agent_of(command) is None:
        return None
    program = _program_words(command)
    return program[0] if program else None


def _program_words(command: str) -> list[str] | None:
    """Unwrap `sh -c`, the guard and a harmless tail."""
    guarded = _GUARDED.fullmatch(command.strip())
    if guarded is not None:
        return _script_words(guarded[1])
    words = _words(command)
    if words is None:
        return None
    words = _without_tail(words)
    if len(words) == 3 and words[0] in _SHELLS and words[1] == "-c":
        return _script_words(words[2])
    return words


def _script_words(script: str) -> list[str] | None:
    guarded = _GUARDED.fullmatch(script.strip())
    words = _words(guarded[1] if guarded else script)
    return None if words is None else _without_tail(words)


def _without_tail(words: list[str]) -> list[str]:
    for tail in _TAILS:
        if len(words) > len(tail) and words[-len(tail) :] == tail:
            return words[: -len(tail)]
    return words


def _words(text: str) -> list[str] | None:
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _is_ours(word: str) -> bool:
    return word == PROGRAM or word.endswith(f"/{PROGRAM}")


def fill(template: str, suffix: str, agent: str, executable: str | None) -> str:
    """Replace the bare name by the executable in a packaged file.

    Args:
        template: The packaged text, as it may be committed.
        suffix: The file's suffix, which decides how the program is named in it.
        agent: Whose file it is.
        executable: An absolute path for the user's own file; None for the bare name.
    """
    if executable is None:
        return template
    if suffix == ".json":
        text = _in_string(for_user(agent, executable))
        return template.replace(_in_string(for_project(agent)), text)
    if suffix in (".md", ".toml"):
        # The texts that a model reads; with `git agent-undo` they name the command for a person.
        return template.replace(f"{PROGRAM} ", f"{shlex.quote(executable)} ")
    if suffix in (".ts", ".js"):
        return template.replace(f'= "{PROGRAM}"', f'= "{_in_string(executable)}"')
    if suffix == ".service":
        return template.replace(f"={PROGRAM} ", f'="{executable.replace("%", "%%")}" ')
    return template.replace(f"={PROGRAM}\n", f"={shlex.quote(executable)}\n")


def _in_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
