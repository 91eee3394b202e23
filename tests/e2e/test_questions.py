"""The page of everyday questions, typed into a real terminal: each answer is what it says.

tests/test_docs.py runs the same page without a terminal.
"""

import re
from collections.abc import Callable
from pathlib import Path

from tests.support import console
from tests.support.kinds import only_on
from tests.support.panes import Terminal, terminal
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs/questions.md"
SHELL = ("bash", "--norc", "--noprofile")
_PROMPT = re.compile(r"^<([0-9]+)>$")


def answered(shown: Terminal, step: console.Step) -> tuple[list[str], int]:
    """Type a command; return the lines that it printed, and its exit code."""
    typed = step.command.split("\n")
    shown.press("C-l")
    # What is cleared from the screen goes into the history, which is cleared next.
    until(lambda: _PROMPT.match(shown.shown().strip()) is not None)
    shown.run("clear-history", "-t", "0")
    for line in typed:
        shown.press("-l", line)
        shown.press("Enter")
    lines: list[str] = []

    def is_done() -> bool:
        nonlocal lines
        whole = shown.shown("-J", "-S", "-").rstrip().split("\n")
        lines = [line.rstrip() for line in whole]
        return len(lines) > len(typed) and _PROMPT.match(lines[-1]) is not None

    until(is_done)
    prompt = _PROMPT.match(lines[-1])
    assert prompt is not None
    return lines[len(typed) : -1], int(prompt[1])


@only_on(hash="sha1", reason="the page shows ids of objects")
def test_each_question_has_the_answer_of_the_page(
    repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    steps = [step for block in console.parse(text) for step in block]
    assert text.count("\n## ") >= 10
    shadow = make_shadow(repo)
    env = {**shadow.environment(), "PS1": "<$?>", "PS2": "", "GIT_PAGER": "cat"}
    wrong: list[str] = []
    with terminal(tmp_path, SHELL, repo.root, columns=150, lines=50, env=env) as shown:
        shown.sees("<0>")
        for step in steps:
            lines, code = answered(shown, step)
            if code != step.code or not console.matches(step.output, lines):
                wrong.append("\n".join((f"$ {step.command}", *lines, f"[exit {code}]")))
    assert not wrong, "\n\n".join(wrong)


def test_last_turn_is_undone_by_one_command_and_one_key(
    shadow: Shadow, tmp_path: Path
) -> None:
    """The question says whose work it is, and Enter is yes."""
    shadow.ok("exec", "--agent", "helper", "--", "sh", "-c", "echo x >new; rm a")
    root = shadow.repo.root
    command = ("git", "agent-undo", "oops")
    env = {"GITSHADOW_CONFIRM": "true"}
    with terminal(tmp_path, SHELL, root, env={**shadow.environment(), **env}) as shown:
        shown.press("-l", " ".join(command))
        shown.press("Enter")
        shown.sees("helper", "sh -c", "2 files", "apply this? [Y/n]")
        assert (root / "new").exists()
        shown.press("Enter")
        shown.sees("restored 2 files", "undo this with: git agent-undo redo")
    assert not (root / "new").exists()
    assert (root / "a").exists()
