"""What a person sees in an agent's own terminal: our command in its menu, our status line."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agents.studio import AgentStudio
from tests.support.panes import Terminal, terminal


class Hands(NamedTuple):
    """How a person starts an agent, answers what it asks first, and calls a command of ours.

    `questions` are what it shows and the keys for it; `ready` is shown where a prompt can be typed,
    `status` is our line below it after a turn.
    """

    words: Sequence[str]
    ready: str
    questions: Sequence[tuple[str, str]] = ()
    sign: str = "/"
    status: str = ""


HANDS: Mapping[str, Hands] = {
    "claude-code": Hands(
        ("--dangerously-skip-permissions",),
        "bypass permissions on",
        (("\u276f No, exit", "Down"), ("\u276f Yes, I accept", "Enter")),
        status="⟲ claude-code 6",
    ),
    "codex": Hands(
        ("--dangerously-bypass-approvals-and-sandbox", "-m", "fake-model"),
        "Ask Codex to do anything",
        (("\u203a 1. Review hooks", "2"), ("\u203a 2. Trust all", "Enter")),
        sign="$",
    ),
    "gemini": Hands(("--yolo", "-m", "gemini-2.5-pro"), "for shortcuts"),
    "opencode": Hands((), "fake-model fake"),
    "pi": Hands(("--provider", "fake", "--model", "fake-model"), "fake-model"),
    "droid": Hands(
        ("--auto", "high"),
        "Auto (High)",
        (("Trust this folder?", "Enter"),),
    ),
}


@pytest.mark.parametrize("agent", sorted(HANDS))
def test_its_last_turn_is_undone_by_a_command_in_its_terminal(
    agent: str, studio: AgentStudio, tmp_path: Path
) -> None:
    hands = HANDS[agent]
    studio.prepare()
    studio.command("hooks", "install", agent, "--with", "all", "--yes")
    if agent == "claude-code":
        _know_claude(studio)
    words = [studio.surroundings().program, *hands.words]
    size = {"columns": 120, "lines": 50}
    with terminal(
        tmp_path, words, studio.repo.root, env=studio.environment(), **size
    ) as shown:
        for question, key in hands.questions:
            shown.sees(question)
            shown.press_until(partial(_lacks, question), key)
        shown.sees(hands.ready)
        _ask(shown, studio.prompt("basic"), "All done.")
        shown.sees(hands.status)
        assert studio.changes()
        shown.press(*f"{hands.sign}oo")
        shown.sees("Undo the files that you changed in your last turn")
        shown.press(*["BSpace"] * 3)
        shown.sees(hands.ready, without="your last turn")
        command = f"{hands.sign}oops yes {studio.prompt('oops')}"
        _ask(shown, command, "It is undone.")
    assert studio.changes() == set()


def _lacks(question: str, text: str) -> bool:
    return question not in text


def _ask(shown: Terminal, prompt: str, answer: str) -> None:
    """Type a prompt, and press Enter until it is answered.

    The first Enter may only close a menu; where nothing is typed it does nothing.
    """
    shown.press(prompt)
    shown.sees(prompt[-12:])
    shown.press_until(lambda text: answer in text, "Enter")


def _know_claude(studio: AgentStudio) -> None:
    """Have Claude Code know its person, who has trusted the directory and entered a key."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["sk-dummy"], "rejected": []},
        "projects": {str(studio.repo.root): project},
    }
    (studio.home / ".claude.json").write_text(json.dumps(known))
