"""Asking for each hunk of a plan whether it is to be taken back, as `git add -p` asks.

Invariant: nothing is changed here; the end of the input means that nothing is chosen.
"""

import sys
from collections.abc import Mapping

from gitshadow.commands.viewing import Screen
from gitshadow.render import output
from gitshadow.render.document import Document, rows, text
from gitshadow.render.report import hunk_lines, item_line, left_lines
from gitshadow.undo.selecting import Choosing, Kind, Question, hunk_of_json

_NOUNS: Mapping[Kind, str] = {
    Kind.LINES: "this hunk",
    Kind.MODE: "this change of mode",
    Kind.FILE: "this file",
}
_HELP: Mapping[str, str] = {
    "y": "take it",
    "n": "leave it",
    "q": "leave it and everything from here on",
    "a": "take it and the rest of this file",
    "d": "leave it and the rest of this file",
    "s": "split it into smaller hunks",
}


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
    waiting = tuple(
        Question(number, hunk_of_json(hunk))
        for number, item in enumerate(items)
        for hunk in rows(item, "hunks")
    )
    output.show(left_lines(items, shown.view))
    forward = text(plan, "kind") == "redo"
    choosing, announced = Choosing(waiting), -1
    while choosing.waiting:
        question = choosing.waiting[0]
        if question.item != announced:
            announced = question.item
            output.show([item_line(items[announced], shown.view)])
        output.show(hunk_lines(question.hunk.lines, shown.view))
        key = _answer(choosing, forward=forward)
        if key is None:
            return {}
        choosing = choosing.answer(key)
    return {str(item): sorted(parts) for item, parts in choosing.taken.items()}


def _answer(choosing: Choosing, *, forward: bool) -> str | None:
    """Return one of the keys that are allowed now; None at the end of the input."""
    question = choosing.waiting[0]
    mine = [one for one in choosing.waiting if one.item == question.item]
    keys = ",".join(choosing.keys)
    noun = _NOUNS[question.hunk.kind]
    act = f"bring {noun} forward" if forward else f"take {noun} back"
    asked = f"({len(mine)} to go) {act} [{keys},?]?"
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
        output.show(f"{key} - {_HELP[key]}" for key in choosing.keys)
