"""Which agent a commit names, as the agents sign theirs."""

import pytest

from gitshadow.attribution.commits import agent_named

PERSON = b"Test User <test@example.com>"


@pytest.mark.parametrize(
    ("author", "message", "agent"),
    [
        (
            PERSON,
            b"feat: x\n\nCo-authored-by: aider (gpt-5) <aider@aider.chat>\n",
            "aider",
        ),
        (b"Test User (aider) <test@example.com>", b"x\n", "aider"),
        (
            PERSON,
            b"x\n\nCo-Authored-By: Claude <noreply@anthropic.com>\n",
            "claude-code",
        ),
        (b"devin-ai-integration[bot] <1+d@users.noreply.github.com>", b"x", "devin"),
        (b"Cursor Agent <CursorAgent@cursor.com>", b"x", "cursor"),
        (PERSON, b"x\n\nCo-authored-by: Friend <friend@example.com>\n", None),
        (PERSON, b"thank aider <aider@aider.chat> for this\n", None),
        (b"", b"", None),
        (b"\xff <", b"Co-authored-by:\xff\n", None),
    ],
)
def test_agent_is_named_by_author_or_co_author(
    author: bytes, message: bytes, agent: str | None
) -> None:
    assert agent_named(author, message) == agent
