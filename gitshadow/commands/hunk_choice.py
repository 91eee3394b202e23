"""Asking for each hunk of a plan whether it is to be taken back, as `git add -p` asks.

Invariant: nothing is changed here; the end of the input means that nothing is chosen.
"""

import sys

from gitshadow.commands.terminal import Screen
from gitshadow.render import output
from gitshadow.render.choosing import HELP, question_line, questions, taken
from gitshadow.render.document import Document, rows, text
from gitshadow.render.report import hunk_lines, item_line, left_lines
from gitshadow.undo.hunk_selection import Choosing


def choose(plan: Document, shown: Screen) -> dict[str, list[int]]:
    """Ask for every hunk of a plan.

    Args:
        plan: A plan whose items have their hunks.
        shown: How to show them.

    Returns:
        The numbers of the parts that were taken, by the number of their item; empty where
        nothing was taken, or the input ended.
    """
    items = rows(plan, "items")
    output.show(left_lines(items, shown.view))
    forward = text(plan, "kind") == "redo"
    choosing, announced = questions(plan), -1
    while choosing.waiting:
        question = choosing.waiting[0]
        if question.item != announced:
            announced = question.item
            output.show([item_line(items[announced], shown.view, redo=forward)])
        output.show(hunk_lines(question.hunk.lines, shown.view))
        key = _answer(choosing, forward=forward)
        if key is None:
            return {}
        choosing = choosing.answer(key)
    return taken(choosing)


def _answer(choosing: Choosing, *, forward: bool) -> str | None:
    """Return one of the keys that are allowed now; None at the end of the input."""
    asked = question_line(choosing, forward=forward)
    asked += f" [{','.join(choosing.keys)},?]?"
    while True:
        sys.stdout.write(f"{asked} ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stdout.write("\n")
            return None
        key = line.strip()[:1].lower()
        if key and key in choosing.keys:
            return key
        output.show(f"{key} - {HELP[key]}" for key in choosing.keys)
