"""The hooks of a commit at work: what they write is nobody's, and how such a commit is seen.

Hook managers take uncommitted changes back to the index, run formatters and bring the changes back
(pre-commit 4.7, staged_files_only.py), the first of it before any hook of ours is called. So where
a write could be put down to somebody, git's own processes are looked at as well.
Invariant: /proc is read only; a process is named with its start time.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gitshadow.attribution.process import (
    ProcessId,
    Relation,
    command_line,
    relations,
)
from gitshadow.model import Event

AT_WORK = "commit hooks were running (pre-commit)"
BROUGHT_BACK = "commit hooks restored what they had removed (pre-commit)"
_REASONS = frozenset(
    {
        AT_WORK,
        BROUGHT_BACK,
        # Reasons as version 0.1.0 stored them.
        "hooks of a commit were at work (pre-commit)",
        "hooks of a commit brought back what they had taken away (pre-commit)",
    }
)
_COMMANDS = frozenset({b"commit", b"merge"})
_WITH_VALUE = frozenset({b"-c", b"-C", b"--git-dir", b"--work-tree", b"--namespace"})
_MESSAGE = b"COMMIT_EDITMSG"
_SIGNING = ((b"--status-fd=2", b"-bsau"), (b"-Y", b"sign"))
"""How git calls the program that signs, whatever its name (gpg-interface.c): gpg, ssh-keygen."""


def is_by_hooks(event: Event) -> bool:
    """Tell whether an event was put down to the hooks of a commit."""
    who = event.attribution
    return who is not None and who.reason in _REASONS


def hooks_at(root: str, proc: str = "/proc") -> ProcessId | None:
    """Return the process that runs a hook of a commit in a worktree, None where none does.

    A person who writes the message in an editor is no hook.
    """
    found = list(relations(proc))
    commits = {
        one.id.pid
        for one in found
        if one.name == "git" and _commits_at(one, root, proc)
    }
    for one in found:
        if one.parent in commits and _is_hook(command_line(one.id.pid, proc)):
            return one.id
    return None


def _commits_at(one: Relation, root: str, proc: str) -> bool:
    """Tell whether a git process makes a commit; git runs at the top of the worktree then."""
    if _subcommand(command_line(one.id.pid, proc)) not in _COMMANDS:
        return False
    try:
        return os.readlink(f"{proc}/{one.id.pid}/cwd") == root
    except OSError:
        return False


def _subcommand(words: Sequence[bytes]) -> bytes | None:
    """Return git's command behind its options (git(1))."""
    rest: Iterator[bytes] = iter(words[1:])
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith(b"-"):
            return word
    return None


def _is_hook(words: Sequence[bytes]) -> bool:
    """Tell a hook from an editor, from what signs and from git's own helpers."""
    if not words or os.path.basename(words[0]) == b"git" or _signs(words):
        return False
    return not words[-1].endswith(_MESSAGE)


def _signs(words: Sequence[bytes]) -> bool:
    return any(pair in _SIGNING for pair in pairwise(words))
