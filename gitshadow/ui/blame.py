"""Who wrote each line of a file: class, name, and below the prompt of the line under the cursor.

Invariant: whether an agent, a person or an unknown author wrote is a letter, never only a colour.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from gitshadow.errors import ShadowError
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.blame import BLAME, BlameRequest, OwnerRow
from gitshadow.render.blame import BlameLine, lines_of, name_of
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.ui.dialogs import KeyHint, KeyLine
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.intents import undo_of
from gitshadow.ui.lines import Prose, TextView
from gitshadow.ui.patches import bounded
from gitshadow.ui.plans import PlanScreen

_LETTERS = {"agent": "A", "human": "H"}
_NAME = 12
_PROMPT_LINES = 40
_LOADING = "loading authors ..."
_KEYS = (
    KeyHint("Enter", "go to this change", "go_to"),
    KeyHint("u", "undo this change", "undo"),
    KeyHint("F", "find", "find"),
    KeyHint("Esc", "leave", "leave"),
)
_CLASSES = "A agent, H human, U unknown"
_OLDER = "nothing to show or undo: this change was not recorded here"


class BlameView(TextView):
    """Show lines, each after the letter and the name of who wrote it."""

    class Moved(Message):
        """The cursor is on another line."""

    DEFAULT_CSS = """
    BlameView { background: $surface; color: $foreground; height: 1fr; }
    BlameView > .blame--agent { color: $text-warning; text-style: bold; }
    BlameView > .blame--human { color: $text-success; }
    BlameView > .blame--unknown { color: $text-muted; }
    BlameView > .blame--number { color: $text-muted; }
    BlameView > .line--cursor { background: $primary-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "blame--agent",
        "blame--human",
        "blame--unknown",
        "blame--number",
    }

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[BlameLine] = ()
        self._owners: Sequence[OwnerRow] = ()
        self._reported = 0

    def show(self, lines: Sequence[BlameLine], owners: Sequence[OwnerRow]) -> None:
        """Show other lines; the cursor stays where it was."""
        self._lines, self._owners = lines, owners
        self.changed(self.cursor)

    @property
    def owner(self) -> OwnerRow | None:
        """Return whose the line is that the cursor is on."""
        if not self._lines:
            return None
        return self._owners[self._lines[self.cursor].owner]

    def row_count(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    def said(self, row: int) -> str:
        """Return the text of a line."""
        return self._lines[row].data.decode("utf-8", "backslashreplace")

    def draw(self, row: int, width: int) -> Iterator[Segment]:
        """Draw one line."""
        line = self._lines[row]
        owner = self._owners[line.owner]
        letter = letter_of(owner)
        kind = {"A": "agent", "H": "human"}.get(letter, "unknown")
        whose = self.get_component_rich_style(f"blame--{kind}", partial=True)
        number = self.get_component_rich_style("blame--number", partial=True)
        digits = len(str(self._lines[-1].number))
        name = glyphs_of(self).fit(name_of(owner), _NAME)
        head = f"{'>' if row == self.cursor else ' '}{letter} {name} "
        yield Segment(head, whose)
        yield Segment(f"{line.number:>{digits}} ", number)
        said, left_out = bounded(self.said(row))
        parts = [Segment(glyphs_of(self).text(said))]
        if left_out:
            parts.append(Segment(f" [{left_out} more characters]", number))
        room = max(0, width - len(head) - digits - 1)
        yield from self.shifted(parts, room, Style.null())

    def moved(self) -> None:
        """Report that the cursor is on another line."""
        if self.cursor != self._reported:
            self._reported = self.cursor
            self.post_message(self.Moved())


class BlameScreen(ModalScreen[int | None]):
    """Show a file's lines and their writers; the answer is the event that one goes to."""

    DEFAULT_CSS = """
    BlameScreen > Vertical { background: $surface; height: 100%; width: 100%; }
    BlameScreen #title { height: 1; text-style: bold; background: $panel; }
    BlameScreen.-ascii Prose { border-top: ascii $primary; }
    BlameScreen Prose { height: 6; border-top: solid $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_to", "go to this change", show=False, priority=True),
        Binding("u", "undo", "undo this change", show=False),
        Binding("escape,q", "leave", "leave", show=False),
    ]

    def __init__(
        self,
        engine: HistoryBackend,
        path: str,
        at: int | str | None = None,
        line: int | None = None,
    ) -> None:
        """Begin with a file.

        Args:
            engine: What answers.
            path: The file, as documents spell it.
            at: The moment at which its content is meant, None for the present one.
            line: The number of the line to begin at.
        """
        super().__init__()
        self._engine = engine
        self._path = path
        self._at = at
        self._line = line or 1

    def compose(self) -> ComposeResult:
        """Make the lines, and below them what is known about the line under the cursor."""
        with Vertical():
            yield Static(id="title", markup=False)
            yield BlameView()
            yield Prose()
            yield KeyLine()

    def on_mount(self) -> None:
        """Ask who wrote."""
        self.set_class(not glyphs_of(self).unicode, "-ascii")
        self.query_one(KeyLine).show(_KEYS)
        title = View().path(self._path)
        if self._at is not None:
            title += f", at {printable(str(self._at))}"
        title += f"   ({_CLASSES})"
        self.query_one("#title", Static).update(glyphs_of(self).text(title))
        self.query_one(Prose).can_focus = False
        self.query_one(BlameView).focus()
        self._ask()

    def _ask(self) -> None:
        self.query_one(Prose).show([_LOADING])
        self.run_worker(self._asked(), exclusive=True)

    async def _asked(self) -> None:
        request = BlameRequest(self._path, at=self._at)
        try:
            answer = await asyncio.to_thread(self._engine.send, BLAME, request)
            lines = await asyncio.to_thread(lines_of, answer)
        except ShadowError as error:
            said = [f"error: {printable(error.message)}"]
            hint = [f"hint: {printable(error.hint)}"] if error.hint else []
            self.query_one(Prose).show([*said, *hint])
            return
        view = self.query_one(BlameView)
        view.show(lines, answer.owners)
        # After an undo the file is shown again at the same line.
        view.go(self._line - 1)
        self._tell()

    def on_blame_view_moved(self) -> None:
        """Describe the line under the cursor."""
        self._tell()

    def _tell(self) -> None:
        owner = self.query_one(BlameView).owner
        said = ["the file is empty"] if owner is None else told_of(owner)
        self.query_one(Prose).show(said)

    def _seq(self) -> int | None:
        """Return the event that wrote the line; show the reason if there is none."""
        owner = self.query_one(BlameView).owner
        if owner is not None and owner.seq is not None and not owner.machine:
            return owner.seq
        known = [] if owner is None else told_of(owner)
        self.query_one(Prose).show([_OLDER, *known])
        return None

    def action_go_to(self) -> None:
        """Leave for the event that wrote the line."""
        seq = self._seq()
        if seq is not None:
            self._leave(seq)

    def action_find(self) -> None:
        """Find a text in the lines."""
        self.query_one(BlameView).action_find()

    def action_undo(self) -> None:
        """Plan to undo the change that wrote the line."""
        seq = self._seq()
        if seq is not None:
            screen = PlanScreen(self._engine, undo_of(str(seq)))
            self.app.push_screen(screen, self._undone)

    def _undone(self, report: object) -> None:
        # The file at an earlier moment does not change by an undo.
        if report is not None and self._at is None:
            self._line = self.query_one(BlameView).cursor + 1
            self._ask()

    def action_leave(self) -> None:
        """Go back."""
        self._leave(None)

    def _leave(self, seq: int | None) -> None:
        # An answer that is still awaited has nowhere to be shown.
        self.workers.cancel_node(self)
        self.dismiss(seq)


def letter_of(owner: OwnerRow) -> str:
    """Return the class of a writer as a letter: agent, human, unknown, or `?` for several."""
    if owner.confidence == "ambiguous":
        return "?"
    return _LETTERS.get(owner.actor, "U")


def told_of(owner: OwnerRow) -> list[str]:
    """Return what is known of a line's writer, the prompt last."""
    written = [name_of(owner), f"event {owner.seq}" if owner.seq is not None else ""]
    written += [local_time(owner.ts) if owner.ts else ""]
    written += [printable(owner.confidence)]
    named = {
        "session": owner.session,
        "turn": owner.turn,
        "tool": owner.tool,
        "commit": owner.commit,
    }
    where = [f"{name} {printable(value)}" for name, value in named.items() if value]
    prompt = (owner.prompt or "").split("\n")[:_PROMPT_LINES]
    return [
        ", ".join(one for one in written if one),
        *([f"prompt: {printable(prompt[0])}"] if any(prompt) else []),
        *(f"        {printable(line)}" for line in prompt[1:]),
        *([f"why: {printable(owner.reason)}"] if owner.reason else []),
        ", ".join(where),
    ]
