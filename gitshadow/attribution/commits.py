"""Read from a commit which agents it names, and recognize a commit while its hooks run.

A named agent is noted and never decides who wrote a line.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gitshadow.attribution.process import ProcessId, command_line
from gitshadow.model import PathChange
from gitshadow.platform import current
from gitshadow.platform.port import ProcessTable

_TRAILER = re.compile(rb"^co-authored-by:([^\n]*)$", re.IGNORECASE | re.MULTILINE)
_MAIL = re.compile(rb"<([^<>]*)>\s*$")
# Anybody can set an author or co-author, and Aider first commits the user's own changes under its
# own committer name (`--dirty-commits`). So no write is attributed because of these names.
_MAILS: Mapping[bytes, str] = {
    b"aider@aider.chat": "aider",
    b"copilot@users.noreply.github.com": "copilot",
    b"cursoragent@cursor.com": "cursor",
    b"noreply@anthropic.com": "claude-code",
    b"noreply@openai.com": "codex",
}
_NAMES: Mapping[bytes, str] = {
    b"(aider)": "aider",
    b"copilot-swe-agent[bot]": "copilot",
    b"devin-ai-integration[bot]": "devin",
}
"""How the author's name of a commit ends that an agent made in its own name."""

AUTHOR_PATTERNS = tuple(sorted(word.decode() for word in (*_MAILS, *_NAMES)))
"""Fixed texts; the author of each commit by an agent contains one of them."""
MESSAGE_PATTERN = "^co-authored-by:"
"""What begins a line of every message that names an agent (extended, in any case)."""
AT_WORK = "commit hooks were running (pre-commit)"
BROUGHT_BACK = "commit hooks restored what they had removed (pre-commit)"
_COMMITTING = frozenset({b"commit", b"merge"})
_WITH_VALUE = frozenset({b"-c", b"-C", b"--git-dir", b"--work-tree", b"--namespace"})
_MESSAGE_FILE = b"COMMIT_EDITMSG"
_SIGNING = ((b"--status-fd=2", b"-bsau"), (b"-Y", b"sign"))
"""How git calls the program that signs, whatever its name (gpg-interface.c): gpg, ssh-keygen."""


def agent_named(author: bytes, message: bytes) -> str | None:
    """Return the agent that a commit names, None for none.

    Args:
        author: `name <email>`.
        message: The whole message; the first co-author that is an agent counts.
    """
    people = (author, *_TRAILER.findall(message))
    return next((found for one in people if (found := _agent(one)) is not None), None)


def _agent(person: bytes) -> str | None:
    mail = _MAIL.search(person)
    if mail is not None and mail[1].lower() in _MAILS:
        return _MAILS[mail[1].lower()]
    name = _MAIL.sub(b"", person).strip().lower()
    return next((who for end, who in _NAMES.items() if name.endswith(end)), None)


def is_by_hooks(event: PathChange) -> bool:
    """Return whether an event was put down to the hooks of a commit."""
    return event.attribution.reason in (AT_WORK, BROUGHT_BACK)


def hooks_at(root: str, table: ProcessTable) -> ProcessId | None:
    """Return the process that runs a hook of a commit in a worktree, None where none does.

    A person who writes the message in an editor is no hook. A table that is kept reads few
    processes again.
    """
    # Hook managers stash uncommitted changes, run formatters and restore the changes (pre-commit
    # 4.7, staged_files_only.py), partly before our own hook is called. No author gets those writes,
    # and git's processes are the only sign of them.
    found, directory_of = table.look().values(), current().process_facts().directory
    commits = {
        one.id.pid
        for one in found
        if one.name == "git"
        and _subcommand(command_line(one.id.pid)) in _COMMITTING
        # Git runs at the top of the worktree then.
        and directory_of(one.id.pid) == root
    }
    for one in found:
        if one.parent in commits and _is_hook(command_line(one.id.pid)):
            return one.id
    return None


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
    """Return whether a child of git is a hook, not an editor, a signer or one of git's helpers."""
    if not words or os.path.basename(words[0]) == b"git":
        return False
    # A signing program has any name, or that of a shell if it is a wrapper, so it is recognized by
    # the words with which git calls it.
    if any(pair in _SIGNING for pair in pairwise(words)):
        return False
    return not words[-1].endswith(_MESSAGE_FILE)
