"""The texts of Git's own hooks that call us: pure, each word for word as it is written.

Invariant: no call of ours fails a git command, whether the program is there or not, but for a push
that would send shadow refs and, where it was asked for, a commit that a policy refuses.
"""

import os
import shlex

from gitshadow.errors import ExitCode
from gitshadow.ipc.pushguard import NAMESPACES, REFUSED

EVENTS = (
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-rewrite",
    "pre-push",
)
BEFORE = ".before-gitshadow"
_WITH_INPUT = frozenset({"post-rewrite"})
MARKER = "# gitshadow-managed: git"
_PROGRAM = "gitshadow="
GUARD = "pre-push"
CHECKED = "pre-commit"
CHECK = "check"
CHECKING = f"""\
[ ! -x "$gitshadow" ] || "$gitshadow" check --quiet
[ $? -ne {int(ExitCode.REFUSED)} ]"""
# Any other end of it is a yes: a commit is never held up by a fault of ours.
_GUARDING = f"""\
input="$(cat; echo .)"
case $input in {" | ".join(f"*{namespace}*" for namespace in NAMESPACES)})
    [ ! -x "$gitshadow" ] || printf %s "${{input%.}}" | "$gitshadow" git-hook {GUARD} "$@"
    [ $? -ne {REFUSED} ] ;;
esac"""
# It keeps its input, and fails where we say no; any other end of ours, also that of a broken
# installation, is a yes.


def script(event: str, command: str, *, check: bool = False) -> str:
    """Return the hook file for one event: ours first, then the one that stood there.

    What git sends is kept in a variable, which no full disk cuts short; the full stop keeps
    its last line ends. A check comes before everything else, so that it sees no window of ours.
    """
    if event == GUARD:
        return _guard_script(command)
    guard = f"{{ {CHECKING}; }} || exit 1\n" if check else ""
    reads = event in _WITH_INPUT
    keep = 'input="$(cat; echo .)"\n' if reads else ""
    give = """printf '%s' "${input%.}" 2>/dev/null | """ if reads else ""
    return (
        f"#!/bin/sh\n{MARKER} {event}\n"
        "# Tells gitshadow, then runs the hook that stood here before.\n"
        f"{_PROGRAM}{shlex.quote(command)}\n"
        f'before="$(dirname "$0")/{event}{BEFORE}"\n{keep}'
        f"{guard}"
        'tell() { [ ! -x "$gitshadow" ] || "$gitshadow" git-hook "$@" || :; }\n'
        f'[ -x "$before" ] || {{ {give}tell {event} "$@"; exit 0; }}\n'
        f'{give}tell --chained {event} "$@"\n'
        f'{give}"$before" "$@"\nstatus=$?\n'
        "tell hooks-done </dev/null\nexit $status\n"
    )


def _guard_script(command: str) -> str:
    """Return the hook that looks at what a push sends; we are started for shadow refs alone."""
    return (
        f"#!/bin/sh\n{MARKER} {GUARD}\n"
        "# Stops a push of recorded history, else runs the hook that stood here before.\n"
        f"{_PROGRAM}{shlex.quote(command)}\n"
        f'before="$(dirname "$0")/{GUARD}{BEFORE}"\n'
        f"{_GUARDING} || exit 1\n"
        '[ -x "$before" ] || exit 0\n'
        """printf '%s' "${input%.}" 2>/dev/null | "$before" "$@"\n"""
    )


def configured_command(event: str, command: str) -> str:
    """Return the configured command of one event; git appends the hook's arguments."""
    word = shlex.quote(command)
    if event == GUARD:
        text = f"gitshadow={word}\n{_GUARDING}"
        return f"sh -c {shlex.quote(text)} {event}"
    text = f'if [ -x {word} ]; then {word} git-hook --beside {event} "$@" || :; fi'
    return f"sh -c {shlex.quote(text)} {event}"


def check_command(command: str) -> str:
    """Return the configured command of the check."""
    text = f"gitshadow={shlex.quote(command)}\n{CHECKING}"
    return f"sh -c {shlex.quote(text)} {CHECK}"


def is_ours(data: bytes, event: str) -> bool:
    """Tell whether a hook file is word for word what we write, with whatever program."""
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        if line.startswith(_PROGRAM):
            words = _words(line.removeprefix(_PROGRAM))
            ours = [
                script(event, word, check=on) for word in words for on in (False, True)
            ]
            return len(words) == 1 and data in map(os.fsencode, ours)
    return False


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
