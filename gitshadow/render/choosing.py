"""Choosing hunks one by one, as in `git add -p`: the questions, and how answers make a choice.

Invariant: pure; the command asks line by line, the terminal UI on a whole screen.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitshadow.messages.undo import FileUndoAnswer, Hunk, HunkChoice

HELP: Mapping[str, str] = {
    "y": "include it",
    "n": "skip it",
    "q": "skip it and everything after it",
    "a": "include it and the rest of this file",
    "d": "skip it and the rest of this file",
    "s": "split it into smaller hunks",
}
_NOUNS: Mapping[str, str] = {
    "lines": "this hunk",
    "mode": "this mode change",
    "file": "this file",
}


class HunkQuestion(NamedTuple):
    """One hunk that waits for an answer, and the number of its item."""

    item: int
    hunk: Hunk


class Choosing(NamedTuple):
    """The questions that are left, the next one first, and what was included so far."""

    waiting: tuple[HunkQuestion, ...]
    taken: Mapping[int, frozenset[int]] = {}

    @property
    def keys(self) -> str:
        """Return the answers that the next question allows."""
        # As in `git add -p`, a key is offered only where it does something.
        splits = "s" if self.waiting and self.waiting[0].hunk.split else ""
        return f"ynqad{splits}"

    def answer(self, key: str) -> "Choosing":
        """Return what is left to ask after an answer out of `keys`.

        `y` includes the hunk, `n` skips it; `a` and `d` do so with the rest of its file too, `q`
        skips everything from here on; `s` asks for its parts one by one.
        """
        first, rest = self.waiting[0], self.waiting[1:]
        if key == "s":
            parts = tuple(HunkQuestion(first.item, hunk) for hunk in first.hunk.split)
            return self._replace(waiting=parts + rest)
        if key == "q":
            return self._replace(waiting=())
        if key in "yn":
            return self._include([first] if key == "y" else [], rest)
        mine = [one for one in self.waiting if one.item == first.item]
        others = tuple(one for one in rest if one.item != first.item)
        return self._include(mine if key == "a" else [], others)

    def choice_of(self, plan: FileUndoAnswer) -> HunkChoice:
        """Return what was included of a plan."""
        parts = {str(item): tuple(sorted(of)) for item, of in self.taken.items()}
        return HunkChoice(plan.token, parts)

    def _include(
        self, questions: Sequence[HunkQuestion], waiting: tuple[HunkQuestion, ...]
    ) -> "Choosing":
        taken = dict(self.taken)
        for one in questions:
            taken[one.item] = taken.get(one.item, frozenset()) | set(one.hunk.parts)
        return Choosing(waiting, taken)


def questions(plan: FileUndoAnswer) -> Choosing:
    """Return what there is to choose in a plan whose items have their hunks."""
    return Choosing(
        tuple(
            HunkQuestion(number, hunk)
            for number, item in enumerate(plan.items)
            for hunk in item.hunks
        )
    )


def question_line(choosing: Choosing, *, forward: bool) -> str:
    """Return what the next question asks, and how many its file has left."""
    question = choosing.waiting[0]
    mine = [one for one in choosing.waiting if one.item == question.item]
    noun = _NOUNS[question.hunk.kind]
    act = f"redo {noun}" if forward else f"undo {noun}"
    return f"({len(mine)} to go) {act}"
