"""Choosing hunks: what is offered, and how answers add up to a choice, as in `git add -p`.

Invariant: pure and light; whoever asks keeps the state and prints, nothing here does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum


class HunkKind(StrEnum):
    """Store what a hunk is a part of: lines, the mode, or the file as a whole."""

    LINES = "lines"
    MODE = "mode"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Store what is taken or left with one answer.

    `parts` are its numbers within the item, `lines` how it is shown, `split` what it falls
    into where it can be split.
    """

    kind: HunkKind
    parts: tuple[int, ...]
    lines: tuple[str, ...]
    split: tuple["Hunk", ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the hunk as a JSON object."""
        return {
            "kind": self.kind.value,
            "parts": list(self.parts),
            "lines": list(self.lines),
            "split": [hunk.to_json() for hunk in self.split],
        }


def hunk_of_json(row: Mapping[str, object]) -> Hunk:
    """Return the hunk that `to_json` gave.

    Raises:
        ValueError: it is not one.
    """
    return Hunk(
        HunkKind(str(row.get("kind"))),
        tuple(int(str(part)) for part in _list(row, "parts")),
        tuple(str(line) for line in _list(row, "lines")),
        tuple(
            hunk_of_json(one) for one in _list(row, "split") if isinstance(one, dict)
        ),
    )


def _list(row: Mapping[str, object], key: str) -> Sequence[object]:
    value = row.get(key)
    return value if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Store which parts of which items of a plan are to be taken back.

    `of` is the token of the plan that was looked at; an item without an entry is left.
    """

    of: str
    taken: Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class HunkQuestion:
    """Store one hunk that waits for an answer, and the number of its item."""

    item: int
    hunk: Hunk


@dataclass(frozen=True, slots=True)
class Choosing:
    """Store the questions that are left, the next one first, and what was taken so far."""

    waiting: tuple[HunkQuestion, ...]
    taken: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @property
    def keys(self) -> str:
        """Return the answers that the next question allows."""
        splits = "s" if self.waiting and self.waiting[0].hunk.split else ""
        return f"ynqad{splits}"

    def answer(self, key: str) -> "Choosing":
        """Return what is left to ask after an answer out of `keys`.

        `y` takes the hunk, `n` leaves it; `a` and `d` do so with the rest of its file too, `q`
        leaves everything from here on; `s` asks for its parts one by one.
        """
        first, rest = self.waiting[0], self.waiting[1:]
        if key == "s":
            parts = tuple(HunkQuestion(first.item, hunk) for hunk in first.hunk.split)
            return replace(self, waiting=parts + rest)
        if key == "q":
            return replace(self, waiting=())
        if key in "yn":
            return self._take([first] if key == "y" else [], rest)
        mine = [one for one in self.waiting if one.item == first.item]
        others = tuple(one for one in rest if one.item != first.item)
        return self._take(mine if key == "a" else [], others)

    def _take(
        self, questions: Sequence[HunkQuestion], waiting: tuple[HunkQuestion, ...]
    ) -> "Choosing":
        taken = dict(self.taken)
        for one in questions:
            taken[one.item] = taken.get(one.item, frozenset()) | set(one.hunk.parts)
        return Choosing(waiting, taken)
