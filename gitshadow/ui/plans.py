"""What an undo would do, its hunks to read or to choose from, the question, and the report.

Invariant: only the plan on the screen is applied, by its token; while it is applied
the screen cannot be left. A hunk whose question was not answered is not undone.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gitshadow.errors import LockedError, RefusedError, ShadowError
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.codec import decode
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest, Hunk, HunkChoice
from gitshadow.render.choosing import HELP, Choosing, question_line, questions
from gitshadow.render.hunks import PatchHunk, PatchLine
from gitshadow.render.report import plan_lines, report_lines, would_overwrite
from gitshadow.render.style import View, printable
from gitshadow.ui.dialogs import KeyHint, KeyLine
from gitshadow.ui.diffs import DiffView
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import Prose
from gitshadow.ui.patches import Patch, of_hunk

_KEYS = (
    KeyHint("n", "next hunk", "pass_on('next(1)')"),
    KeyHint("N", "previous hunk", "pass_on('next(-1)')"),
    KeyHint("s", "side by side", "pass_on('toggle_side')"),
    KeyHint("Esc", "back to the plan", "dismiss"),
)
_BACK = (
    KeyHint("b", "previous question", "back"),
    KeyHint("Esc", "back to the plan", "dismiss"),
)
_VIEW = View(colour=True)
_NOTHING_YET = decode(FileUndoAnswer, {})
_LOW = "i includes them"
_NOT_ALONE = (
    "later edits changed these lines, so this hunk cannot be undone alone; this plan "
    "undoes what the block changed in the whole file, as far as the later edits allow; "
    "h chooses among its hunks"
)
_NOT_AT_ALL = "later edits changed these lines, so this hunk cannot be undone"
_FRAME, _LEAST = 2, 8
"""Lines of the border, and the least lines of the frame."""
_CONFLICTS = {"skip": "overwrite", "overwrite": "markers", "markers": "skip"}
_CONFLICT_WORDS = {
    "skip": "skip",
    "overwrite": "use the old lines",
    "markers": "both, with conflict markers",
}
_DONE = {"reversed": "done", "compensated": "done"}
_VERBS = {"oops": "undo", "redo": "redo", "restore": "restore"}


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
            ("escape", "dismiss"),
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
    asked = hunk.lines
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
        Binding("escape,q,d,enter", "dismiss", show=False)
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


class PlanStage(Enum):
    """How far a plan is."""

    ASKING = auto()
    PLAN = auto()
    APPLYING = auto()
    REPORT = auto()
    STUCK = auto()


class PlanScreen(ModalScreen[FileUndoAnswer | None]):
    """Show a plan, ask, apply, report; the answer is the report if something was changed."""

    DEFAULT_CSS = """
    PlanScreen { align: center middle; }
    PlanScreen > Vertical {
        width: 100%; max-width: 110; height: 8; max-height: 100%;
        background: $surface; border: round $primary; padding: 0 1;
    }
    PlanScreen #banner { height: auto; color: $text-warning; display: none; }
    PlanScreen Prose { height: 1fr; }
    PlanScreen.-done > Vertical { border: round $success; }
    PlanScreen.-partial > Vertical { border: heavy $warning; }
    PlanScreen.-stuck > Vertical { border: heavy $error; }
    PlanScreen.-ascii > Vertical { border: ascii $primary; }
    PlanScreen.-ascii.-partial > Vertical { border: ascii $warning; }
    PlanScreen.-ascii.-stuck > Vertical { border: ascii $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, show=False, priority=True)
        for keys, action in (
            ("y", "apply"),
            ("n,escape,q", "leave"),
            ("enter", "close"),
            ("c", "conflicts"),
            ("i", "include_low"),
            ("h", "hunks"),
            ("d", "changes"),
            ("r", "retry"),
        )
    ]

    def __init__(
        self,
        engine: HistoryBackend,
        wish: FileUndoRequest,
        hunk: tuple[str, PatchHunk] | None = None,
        where: str = "",
    ) -> None:
        """Begin with an intent.

        Args:
            engine: What answers.
            wish: What to undo, redo or restore.
            hunk: The path and the hunk of a diff, to undo only this one.
            where: The worktree for the title, if there are several on the screen.
        """
        super().__init__()
        self.stage = PlanStage.ASKING
        self._shown = _NOTHING_YET
        self._engine = engine
        self._wish = wish
        self._hunk = hunk
        self._where = where
        self._is_whole = False
        self._report: FileUndoAnswer | None = None

    def compose(self) -> ComposeResult:
        """Make the warning, the plan or report, and the keys."""
        with Vertical():
            yield Static(id="banner", markup=False)
            yield Prose()
            yield KeyLine()

    def on_mount(self) -> None:
        """Ask for the plan."""
        self.set_class(not glyphs_of(self).unicode, "-ascii")
        # The focus is on the text, so that the keys of the text scroll a long plan.
        self.query_one(Prose).focus()
        self._plan()

    def _plan(self) -> None:
        self._enter(PlanStage.ASKING)
        self.run_worker(self._planned(), exclusive=True)

    async def _planned(self) -> None:
        try:
            if self._hunk is not None:
                await self._choose_the_hunk(*self._hunk)
            plan = await asyncio.to_thread(self._engine.plan, self._wish)
        except RefusedError as error:
            # Without a choice a refusal is about the files, not about a plan that is old.
            if self._wish.choice is None:
                self._stop(error)
            else:
                self._begin_anew(error)
            return
        except ShadowError as error:
            self._stop(error)
            return
        self._shown = plan
        if self._is_whole:
            self._is_whole = False
            said = _NOT_ALONE if plan.status == "planned" else _NOT_AT_ALL
            # What is undone already has no items: later edits are not the reason then.
            self._warn(said if plan.items else "")
        self._enter(PlanStage.PLAN)

    def _begin_anew(self, error: RefusedError) -> None:
        """Warn that the plan is out of date, and show the new one."""
        which = "this is the new plan:"
        if self._wish.choice is not None:
            which = "your choice of hunks no longer applies; this is the whole plan:"
        self._warn(f"{error.message}. Nothing was changed; {which}")
        self._wish = self._wish._replace(choice=None)
        self._plan()

    async def _choose_the_hunk(self, path: str, hunk: PatchHunk) -> None:
        """Narrow the intent to one hunk; if it is not found, a person chooses."""
        self._hunk = None
        wish = self._wish._replace(only=(path,), offer=True)
        plan = await asyncio.to_thread(self._engine.plan, wish)
        choice = taking_back(plan, path, hunk)
        self._wish = self._wish._replace(only=(path,), choice=choice)
        self._is_whole = choice is None

    def action_hunks(self) -> None:
        """Choose among the hunks of the plan."""
        if self._is_open():
            # Hunks are chosen from the whole plan, whatever was chosen before.
            whole = self._wish._replace(offer=True, choice=None)
            self.run_worker(self._offered(whole, self._choose), exclusive=True)

    def action_changes(self) -> None:
        """Show what the plan would do to the lines."""
        if self._is_open():
            wish = self._wish._replace(offer=True)
            self.run_worker(self._offered(wish, self._look), exclusive=True)

    async def _offered(
        self, wish: FileUndoRequest, then: Callable[[FileUndoAnswer], None]
    ) -> None:
        """Ask for a plan with its hunks."""
        try:
            plan = await asyncio.to_thread(self._engine.plan, wish)
        except ShadowError as error:
            self._stop(error)
            return
        if any(item.hunks for item in plan.items):
            then(plan)
        else:
            self._warn("there are no lines to show")

    def _look(self, plan: FileUndoAnswer) -> None:
        if plan.token != self._shown.token:
            self._warn("the files have changed; this is the new plan:")
            self._plan()
        self.app.push_screen(ChangesScreen(plan))

    def _choose(self, plan: FileUndoAnswer) -> None:
        self.app.push_screen(HunkScreen(plan), self._chosen)

    def _chosen(self, choice: HunkChoice | None) -> None:
        if choice is None:
            return
        if not choice.taken:
            self._warn("no hunk was selected: this is the whole plan again")
        self._wish = self._wish._replace(choice=choice if choice.taken else None)
        self._plan()

    def action_conflicts(self) -> None:
        """Change what happens to conflicts, and plan again."""
        if self._is_open() and self._has_conflicts():
            on = _CONFLICTS[self._wish.on_conflict]
            # A choice is made on one plan; another policy makes another plan.
            self._wish = self._wish._replace(on_conflict=on, choice=None)
            self._plan()

    def action_include_low(self) -> None:
        """Include uncertain changes, or skip them, and plan again."""
        if self._is_open() and self._has_low():
            low = not self._wish.include_low
            self._wish = self._wish._replace(include_low=low, choice=None)
            self._plan()

    def action_retry(self) -> None:
        """Plan again after a failure."""
        if self.stage is PlanStage.STUCK and self._report is None:
            self._plan()

    def _is_open(self) -> bool:
        return self.stage is PlanStage.PLAN

    def _is_nothing(self) -> bool:
        return self._is_open() and self._shown.status != "planned"

    def _has_conflicts(self) -> bool:
        return would_overwrite(self._shown) or self._wish.on_conflict != "skip"

    def _has_low(self) -> bool:
        return bool(self._shown.maybe) or self._wish.include_low

    def action_apply(self) -> None:
        """Apply the plan on the screen."""
        if self._is_open() and not self._is_nothing():
            self._enter(PlanStage.APPLYING)
            self.run_worker(self._applied(), exclusive=True)

    async def _applied(self) -> None:
        token = self._shown.token
        try:
            # The token makes sure that exactly the plan on the screen is applied.
            report = await asyncio.to_thread(self._engine.apply, self._wish, token)
        except RefusedError as error:
            self._begin_anew(error)
            return
        except ShadowError as error:
            self._stop(error)
            return
        self._shown = report
        # Without an op nothing was changed, so the timeline need not be read again.
        if report.op_id:
            self._report = report
        self._enter(PlanStage.REPORT)

    def action_leave(self) -> None:
        """Leave; nothing more is applied."""
        if self.stage is not PlanStage.APPLYING:
            self._leave()

    def action_close(self) -> None:
        """Leave if no answer is needed."""
        if self.stage in (PlanStage.REPORT, PlanStage.STUCK) or self._is_nothing():
            self._leave()

    def _leave(self) -> None:
        # An answer that is still awaited has nowhere to be shown.
        self.workers.cancel_node(self)
        self.dismiss(self._report)

    def _enter(self, stage: PlanStage) -> None:
        self.stage = stage
        status = self._shown.status
        done = stage is PlanStage.REPORT
        self.set_class(done and status in ("reversed", "compensated"), "-done")
        self.set_class(done and status in ("partial", "refused"), "-partial")
        self.set_class(stage is PlanStage.STUCK, "-stuck")
        if stage in (PlanStage.APPLYING, PlanStage.REPORT):
            self._warn("")
        if stage is PlanStage.PLAN:
            self._show(plan_lines(self._shown, _VIEW, low=_LOW))
        elif stage is PlanStage.REPORT:
            lines = list(report_lines(self._shown, _VIEW))
            # The command that the report names works on the worktree that it runs in.
            lines += [f"all of this is {self._where}"] if self._where else []
            self._show(lines)
        elif stage is PlanStage.ASKING:
            self._show(["checking the files on disk ..."])
        elif stage is PlanStage.APPLYING:
            self._show(
                ["applying ...", "if you stop now, it is finished or rolled back later"]
            )
        self._title(stage)
        self.query_one(KeyLine).show(self._keys())

    def _stop(self, error: ShadowError) -> None:
        """Show what failed, and how to continue."""
        # Nothing was changed; the plan can be made again when the other command has ended.
        if isinstance(error, LockedError):
            self._warn("another command is running here: read-only until it ends")
        said = [f"error: {printable(error.message)}"]
        if error.__cause__ is not None:
            said.append(f"caused by: {printable(str(error.__cause__))}")
        if error.hint:
            said.append(f"hint: {printable(error.hint)}")
        if self.stage is PlanStage.APPLYING:
            # The error does not say whether the op was applied or rolled back.
            said += ["", "to see what was done: git agent-undo ops"]
        self._enter(PlanStage.STUCK)
        self._show(said)

    def _show(self, lines: Iterator[str] | list[str]) -> None:
        self.query_one(Prose).show(lines)
        self.call_after_refresh(self._fit)

    def on_resize(self) -> None:
        """Fit the frame to its text again."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Make the frame as high as its text, up to its limits: a short plan is a small one."""
        border, prose = self.query_one(Vertical), self.query_one(Prose)
        around = self.query_one("#banner").outer_size.height
        around += self.query_one(KeyLine).outer_size.height + _FRAME
        border.styles.height = max(_LEAST, prose.row_count() + around)

    def _warn(self, said: str) -> None:
        banner = self.query_one("#banner", Static)
        banner.update(glyphs_of(self).text(said))
        banner.display = bool(said)

    def _title(self, stage: PlanStage) -> None:
        status = self._shown.status
        verb = _VERBS.get(self._wish.verb, "undo")
        targets = (target.text for target in self._wish.targets)
        named = " ".join(filter(None, (*targets, self._wish.pin, self._where)))
        said = {
            PlanStage.REPORT: _DONE.get(status, status.replace("_", " ")),
            PlanStage.STUCK: "failed",
            PlanStage.APPLYING: "running",
        }.get(stage, "plan")
        title = glyphs_of(self).cut(f"{verb} {named}".strip(), 60)
        border = self.query_one(Vertical)
        border.border_title = Content(f"{title}: {said}")

    def _keys(self) -> Iterator[KeyHint]:
        """Yield the keys that do something now."""
        if self.stage is PlanStage.PLAN:
            if not self._is_nothing():
                yield KeyHint("y", "apply", "apply")
                yield KeyHint("d", "show the lines", "changes")
                yield KeyHint("h", "choose hunks", "hunks")
            if self._has_conflicts():
                words = _CONFLICT_WORDS[self._wish.on_conflict]
                yield KeyHint("c", f"conflicts: {words}", "conflicts")
            if self._has_low():
                words = "taken" if self._wish.include_low else "left"
                yield KeyHint("i", f"uncertain changes: {words}", "include_low")
        if self.stage is PlanStage.STUCK and self._report is None:
            yield KeyHint("r", "try again", "retry")
        if self.stage is PlanStage.REPORT:
            yield KeyHint("Enter", "close", "close")
        elif self.stage is not PlanStage.APPLYING:
            yield KeyHint("n", "leave", "leave")
