"""The hunks of a plan: all of them to read, or one by one to choose from, as in `git add -p`.

Invariant: nothing is changed here; a hunk whose question was not answered is not undone.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from gitshadow.messages.undo import FileUndoAnswer, Hunk, HunkChoice
from gitshadow.render.choosing import HELP, Choosing, question_line, questions
from gitshadow.render.style import View
from gitshadow.ui.dialogs import KeyHint, KeyLine
from gitshadow.ui.diffs import DiffView
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.patches import Patch, PatchHunk, PatchLine, of_hunk

_KEYS = (
    KeyHint("n", "next hunk", "pass_on('next(1)')"),
    KeyHint("N", "previous hunk", "pass_on('next(-1)')"),
    KeyHint("s", "side by side", "pass_on('toggle_side')"),
    KeyHint("Esc", "back to the plan", "leave"),
)
_BACK = (
    KeyHint("b", "previous question", "back"),
    KeyHint("Esc", "back to the plan", "turn_back"),
)


class HunkScreen(ModalScreen[HunkChoice | None]):
    """Ask for each hunk; the answer is the chosen parts, None after Esc."""

    DEFAULT_CSS = """
    HunkScreen { align: center middle; }
    HunkScreen > Vertical {
        width: 100%; max-width: 120; height: 100%; background: $surface; padding: 0 1;
    }
    HunkScreen #asked { height: auto; text-style: bold; }
    HunkScreen DiffView { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, show=False, priority=True)
        for keys, action in (
            *((key, f"answer('{key}')") for key in HELP),
            ("b,backspace", "back"),
            ("escape", "turn_back"),
        )
    ]

    def __init__(self, plan: FileUndoAnswer) -> None:
        super().__init__()
        self._plan = plan
        self._states = [questions(plan)]

    def compose(self) -> ComposeResult:
        """Make the question, its hunk and the keys."""
        with Vertical():
            yield Static(id="asked", markup=False)
            yield DiffView()
            yield KeyLine()

    def on_mount(self) -> None:
        """Ask the first question."""
        self.query_one(DiffView).focus()
        self._ask()

    @property
    def choosing(self) -> Choosing:
        """Return what is left to ask, and what was taken so far."""
        return self._states[-1]

    def _ask(self) -> None:
        choosing = self.choosing
        if not choosing.waiting:
            self.dismiss(choosing.choice_of(self._plan))
            return
        question = choosing.waiting[0]
        path = self._plan.items[question.item].path
        glyphs = glyphs_of(self)
        forward = self._plan.kind == "redo"
        asked = f"{question_line(choosing, forward=forward)}?  {View().path(path)}"
        self.query_one("#asked", Static).update(glyphs.text(asked))
        keys = [KeyHint(key, HELP[key], f"answer('{key}')") for key in choosing.keys]
        self.query_one(KeyLine).show([*keys, *_BACK])
        self.query_one(DiffView).show(of_hunk(path, question.hunk.lines))

    def action_answer(self, key: str) -> None:
        """Record an answer and ask the next question."""
        if key in self.choosing.keys:
            # Each state is kept, so that `b` can go back over any number of answers.
            self._states.append(self.choosing.answer(key))
            self._ask()

    def action_back(self) -> None:
        """Ask the question before again."""
        if len(self._states) > 1:
            self._states.pop()
            self._ask()

    def action_turn_back(self) -> None:
        """Keep the plan as it is."""
        self.dismiss(None)


def taking_back(plan: FileUndoAnswer, path: str, hunk: PatchHunk) -> HunkChoice | None:
    """Return the choice that undoes one hunk of a diff, and nothing else of the plan.

    Of several hunks with the same text, the one in the same line is chosen.

    Args:
        plan: A plan whose items have their hunks.
        path: The file, as documents spell it.
        hunk: The change that was made, which the plan reverses.

    Returns:
        The choice; None if the plan has no such hunk, because of later edits, or several
        and none in that line.
    """
    # Compared by the lines that change, not by the context: the plan shows the present file, the
    # diff shows an earlier one.
    asked = _alone(hunk)
    alike = [
        (_begin([line.old for line in offered], offered), choice)
        for offered, choice in _offered(plan, path)
        if _edits(offered, "+-") == _edits(asked, "-+")
    ]
    # The same change can be in a file several times; only the line number shows which is meant.
    if len(alike) > 1:
        begin = _begin([line.new for line in asked], asked)
        alike = [one for one in alike if one[0] == begin]
    return alike[0][1] if len(alike) == 1 else None


def _offered(
    plan: FileUndoAnswer, path: str
) -> Iterator[tuple[Sequence[PatchLine], HunkChoice]]:
    """Yield the lines of each hunk of a file that a plan offers, and the choice of it alone."""
    for number, item in enumerate(plan.items):
        for hunk in item.hunks if item.path == path else ():
            for one in _with_splits(hunk):
                lines = _lines(of_hunk(path, one.lines))
                parts = {str(number): tuple(sorted(one.parts))}
                yield lines, HunkChoice(plan.token, parts)


def _with_splits(hunk: Hunk) -> Iterator[Hunk]:
    yield hunk
    yield from hunk.split


def _alone(hunk: PatchHunk) -> Sequence[PatchLine]:
    lines = (line.sign + line.text for line in hunk.lines)
    return _lines(of_hunk("", [hunk.head, *lines]))


def _lines(patch: Patch) -> Sequence[PatchLine]:
    return [line for file in patch.files for one in file.hunks for line in one.lines]


def _edits(lines: Sequence[PatchLine], signs: str) -> list[list[str]]:
    """Return the text of the lines of each sign."""
    return [[line.text for line in lines if line.sign == sign] for sign in signs]


def _begin(numbers: Sequence[int | None], lines: Sequence[PatchLine]) -> int | None:
    """Return the number, of those of one side, at which lines begin to differ."""
    first = next((at for at, line in enumerate(lines) if line.sign != " "), 0)
    after = (number for number in numbers[first:] if number is not None)
    before = (number + 1 for number in numbers[:first][::-1] if number is not None)
    return next(after, next(before, None))


class ChangesScreen(ModalScreen[None]):
    """Show the changes that a plan would make."""

    DEFAULT_CSS = """
    ChangesScreen > Vertical { width: 100%; height: 100%; background: $surface; }
    ChangesScreen DiffView { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d,enter", "leave", show=False)
    ]

    def __init__(self, plan: FileUndoAnswer) -> None:
        super().__init__()
        self._changes = _changes_of(plan)

    def compose(self) -> ComposeResult:
        """Make the diff and the keys."""
        with Vertical():
            yield DiffView()
            yield KeyLine()

    def on_mount(self) -> None:
        """Show the changes."""
        diff = self.query_one(DiffView)
        diff.show(self._changes)
        diff.focus()
        self.query_one(KeyLine).show(_KEYS)

    async def action_pass_on(self, action: str) -> None:
        """Do what the key does in the diff."""
        await self.query_one(DiffView).run_action(action)

    def action_leave(self) -> None:
        """Go back to the plan."""
        self.dismiss(None)


def _changes_of(plan: FileUndoAnswer) -> Patch:
    """Return the changes of a plan whose items have their hunks, a file after the other."""
    found: list[Patch] = []
    for item in plan.items:
        lines = [line for hunk in item.hunks for line in hunk.lines]
        found += [of_hunk(item.path, lines)] if lines else []
    return Patch(
        tuple(file for one in found for file in one.files),
        sum(one.left_out for one in found),
    )
