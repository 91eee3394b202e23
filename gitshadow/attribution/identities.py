"""Agents that a commit names: in its author, or as a co-author.

Everybody can set both, and a commit holds what somebody wrote before it was made: Aider first
commits the user's own changes under its committer's name (`--dirty-commits`). So this is noted
beside a commit and decides nothing (spec/agents.md 6.4, 2026-09).
Invariant: pure, and no write is ever attributed by it.
"""

import re
from collections.abc import Mapping

_TRAILER = re.compile(rb"^co-authored-by:([^\n]*)$", re.IGNORECASE | re.MULTILINE)
_MAIL = re.compile(rb"<([^<>]*)>\s*$")
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
"""Fixed texts of which one stands in the author of every commit whose author is an agent."""
MESSAGE_PATTERN = "^co-authored-by:"
"""What begins a line of every message that names an agent (extended, in any case)."""


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
