"""Words and values of choosing hunks, for whoever asks: line by line, or on a whole screen.

Invariant: pure; what may be answered is `undo.hunk_selection`'s to say.
"""

from collections.abc import Mapping

from gitshadow.render.document import rows
from gitshadow.undo.hunk_selection import Choosing, HunkKind, HunkQuestion, hunk_of_json

HELP: Mapping[str, str] = {
    "y": "include it",
    "n": "skip it",
    "q": "skip it and everything after it",
    "a": "include it and the rest of this file",
    "d": "skip it and the rest of this file",
    "s": "split it into smaller hunks",
}
_NOUNS: Mapping[HunkKind, str] = {
    HunkKind.LINES: "this hunk",
    HunkKind.MODE: "this mode change",
    HunkKind.FILE: "this file",
}


def questions(plan: Mapping[str, object]) -> Choosing:
    """Return what there is to choose in a plan whose items have their hunks."""
    return Choosing(
        tuple(
            HunkQuestion(number, hunk_of_json(hunk))
            for number, item in enumerate(rows(plan, "items"))
            for hunk in rows(item, "hunks")
        )
    )


def question_line(choosing: Choosing, *, forward: bool) -> str:
    """Return what the next question asks, and how many its file has left."""
    question = choosing.waiting[0]
    mine = [one for one in choosing.waiting if one.item == question.item]
    noun = _NOUNS[question.hunk.kind]
    act = f"redo {noun}" if forward else f"undo {noun}"
    return f"({len(mine)} to go) {act}"


def taken(choosing: Choosing) -> dict[str, list[int]]:
    """Return the numbers of the parts that were taken, by the number of their item."""
    return {str(item): sorted(parts) for item, parts in choosing.taken.items()}
