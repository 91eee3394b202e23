"""Names and prompts with control characters, looked at on a terminal."""

import re

import pytest

from tests.support.claude import Claude
from tests.support.shadow import Shadow
from tests.support.terminal import on_a_terminal

_NAME = "up\x1b]0;owned\x07\nx"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_VERBS = (
    ("log",),
    ("status",),
    ("sessions",),
    ("turns",),
    ("show", "3"),
    ("diff", "--session", "{session}"),
    ("diff", "--session", "{session}", "--stat"),
    ("blame", _NAME),
    ("stats",),
    ("prompt", "3"),
    ("undo", "3", "--dry-run"),
    ("restore", _NAME, "--at", "1", "--dry-run"),
    ("restore", f"no {_NAME}"),
    ("undo", _NAME + "no"),
    ("check",),
    ("review",),
    ("review", "--list"),
    ("doctor",),
    ("pin", _NAME),
    ("oops", "--yes"),
    ("ops",),
    ("redo", "--yes"),
)


@pytest.fixture
def wronged(shadow_n: Shadow) -> Shadow:
    """Return R after a turn whose prompt and files have such names; one file is staged."""
    agent = Claude(shadow_n)
    agent.prompt(f"do {_NAME}")
    agent.write(_NAME, "agent\n")
    agent.stop()
    shadow_n.repo.git("add", "--", _NAME)
    return shadow_n


def test_no_verb_prints_a_name_raw_on_a_terminal(wronged: Shadow) -> None:
    """ROB-12: neither escape codes nor newlines of names, prompts and arguments."""
    session = str(wronged.log()[0]["session"])
    named = 0
    for words in _VERBS:
        args = [word.replace("{session}", session) for word in words]
        text = _COLOUR.sub("", on_a_terminal(wronged, *args).text)
        assert not set("\x1b\x07") & set(text), (words, text)
        assert "owned" not in text or "\nx" not in text, (words, text)
        named += "owned" in text
    assert named > len(_VERBS) / 2
