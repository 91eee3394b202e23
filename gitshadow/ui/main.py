"""The main screen: the timeline, the files of the selected line, the diff of one of them.

Over it a file as it was, and the keys.

Invariant: a key changes no file here; it makes an intent, whose plan is shown first.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.events import DescendantFocus
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from gitshadow.errors import LockedError, ShadowError, UsageError
from gitshadow.messages.undo import FileUndoRequest
from gitshadow.render.hunks import PatchHunk
from gitshadow.ui import intents, keys
from gitshadow.ui.blame import BlameScreen
from gitshadow.ui.data_source import Answered, DataSource, Failed, Looked, Waiting, ask
from gitshadow.ui.detail import Detail
from gitshadow.ui.dialogs import LineScreen
from gitshadow.ui.filters import Filter, parse
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.history import History
from gitshadow.ui.layout import Bar, Foot, Pane, PaneLayout, shape_of, title
from gitshadow.ui.lines import Listing
from gitshadow.ui.page_loader import UNASKED, Loader
from gitshadow.ui.pins_and_ops import OpsScreen, PinsScreen
from gitshadow.ui.plans import PlanScreen
from gitshadow.ui.timeline import BlockKind, TimelineLine
from gitshadow.words import counted

_SEARCH = "search paths and prompts"
_FILTER = "filter: agent: session: file: kind: since: until: words"
_CLEAR = "Esc again clears the filter"
_MOMENT = "go to: 10m, 2h ago, yesterday, 2026-11-21 14:00"
_TAB = 8
_TWO_COLUMNS, _KEYS = 76, 14
_LEGEND = {
    "Signs": {
        "Y ? A B": "you, unsure, agents",
        "-": "Git, gaps, pins",
        "A M D": "added, modified, deleted",
        "R X": "renamed, mode only",
    }
}


class MainScreen(Screen[None]):
    """Show the history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(keys.LOOKING, keys.CHANGING, keys.OTHER)
    ]
    CSS = """
    MainScreen { layout: vertical; overflow: hidden; }
    MainScreen #heading { color: $text-muted; padding: 0 1; }
    MainScreen #body { height: 1fr; layout: vertical; }
    MainScreen Detail { height: 1fr; layout: vertical; }
    MainScreen #lower { height: 1fr; layout: horizontal; }
    MainScreen FileList { width: 30; }
    MainScreen DiffView { width: 1fr; height: 1fr; }
    MainScreen #body LineView {
        border: round $foreground 25%; border-title-color: $text-muted;
    }
    MainScreen #body LineView:focus {
        border: heavy $primary; border-title-color: $text;
        border-title-style: bold reverse;
    }
    MainScreen.ascii #body LineView { border: blank $foreground 25%; }
    MainScreen.ascii #body LineView:focus { border: ascii $primary; }
    MainScreen.wide #body { layout: horizontal; }
    MainScreen.wide History { width: 50%; }
    MainScreen.wide Detail { width: 1fr; height: 1fr; }
    MainScreen.wide #lower { layout: vertical; }
    MainScreen.wide FileList { width: 1fr; height: 30%; }
    MainScreen.wide #heading { height: 2; }
    MainScreen.broad #body { layout: horizontal; }
    MainScreen.broad History { width: 46%; }
    MainScreen.broad Detail { width: 1fr; height: 1fr; }
    MainScreen.broad FileList { width: 36; }
    MainScreen.broad #heading { height: 3; }
    MainScreen.single FileList { width: 1fr; }
    """

    def __init__(self, source: DataSource, name: str) -> None:
        super().__init__()
        self._repository = name
        self._title, self._foot = Bar(id="title"), Foot(id="foot")
        self._history = History(id=Pane.HISTORY.value)
        self._detail = Detail(source)
        self._loader = Loader(self._history, source)
        self._finder = Finder(self._history, self._loader, self._foot)
        self._pane, self._zoomed = Pane.HISTORY, False

    def compose(self) -> ComposeResult:
        """Make the panes."""
        yield self._title
        with Container(id="body"):
            yield self._history
            yield self._detail
        yield self._foot

    def on_mount(self) -> None:
        """Fetch the newest page, and watch the journal from then on."""
        self.set_class(not glyphs_of(self).unicode, "ascii")
        self._history.border_title = "Timeline"
        self._enter(Pane.HISTORY)
        self._loader.watch()
        self._loader.newest()

    def on_unmount(self) -> None:
        """Stop watching the journal."""
        self._loader.unwatch()

    def on_resize(self) -> None:
        """Lay the panes out for the new size."""
        self._arrange()
        self.call_after_refresh(self._entitle)

    def _arrange(self) -> None:
        shape = shape_of(self.app.size.width, self.app.size.height)
        for one in PaneLayout:
            self.set_class(shape is one, one.value)
        alone = shape is PaneLayout.SINGLE or self._zoomed
        self._history.display = not alone or self._pane is Pane.HISTORY
        self._detail.display = not alone or self._pane is not Pane.HISTORY
        self._detail.files.display = not alone or self._pane is Pane.FILES
        # Panes are hidden, not removed, so that each keeps its cursor and its scroll position.
        self._detail.diff.display = not alone or self._pane is Pane.DIFF

    def _enter(self, pane: Pane) -> None:
        self._pane = pane
        self._arrange()
        self._foot.enter(pane)
        self.query_one(f"#{pane.value}").focus()

    @on(DescendantFocus)
    def _focus_moved(self, event: DescendantFocus) -> None:
        """Follow the mouse into another pane."""
        if event.widget.id in {pane.value for pane in Pane}:
            self._pane = Pane(event.widget.id)
            self._foot.enter(self._pane)

    def _entitle(self) -> None:
        """Write the first line."""
        letters, glyphs = self._history.letters, glyphs_of(self)
        legend = [(letters[lane], said) for lane, said in self._history.legend()]
        shown, width = str(self._loader.source.filter), self.app.size.width
        self._title.show(title(self._repository, legend, shown, width, glyphs))

    def say(self, said: str, *, wrong: bool = False) -> None:
        """Show a text at the foot until the cursor moves."""
        self._foot.say(said, wrong=wrong)

    @on(Answered)
    def _answered(self, message: Answered) -> None:
        message.deliver()
        applying = self._loader.applying
        self._foot.forbid(f"undo {applying} is running" if applying else "")
        self._entitle()

    @on(Looked)
    def _looked(self, message: Looked) -> None:
        message.deliver()

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        error = message.error
        locked = isinstance(error, LockedError)
        self._loader.failed(message.about, locked=locked)
        if locked:
            self._foot.forbid("another process is running here")
            return
        hint = f" ({error.hint})" if error.hint else ""
        self.say(f"{error}{hint}", wrong=True)

    @on(Waiting)
    def _waited(self, message: Waiting) -> None:
        if message.about in UNASKED:
            return
        if message.begun:
            self._foot.asked(message.about, message.asked)
        else:
            self._foot.answered(message.about, message.asked)

    @on(History.Wanting)
    def _wanting(self, message: History.Wanting) -> None:
        self._loader.more(older=message.older)

    @on(History.Grown)
    def _grown(self, message: History.Grown) -> None:
        self._loader.grown(message.line)

    @on(History.Jumping)
    def _jumping(self, message: History.Jumping) -> None:
        if message.oldest:
            self._loader.oldest()
        else:
            self._loader.newest()

    @on(History.Selected)
    def _selected(self) -> None:
        self.say("")
        self._entitle()
        self._detail.show(self._history.line)

    def action_into(self) -> None:
        """Go into the next pane."""
        self._enter(self._pane.closer())

    def action_back(self) -> None:
        """Go back; on the timeline, clear the filter at the second time."""
        if self._zoomed:
            self.action_zoom()
        elif self._pane is not Pane.HISTORY:
            self._enter(self._pane.farther())
        else:
            self._finder.unfilter()

    def action_worktrees(self) -> None:
        """Show the changes of all worktrees, or of this one only."""
        source = self._loader.source
        names = tuple(source.engine.worktrees())
        if len(names) < 2:
            self.say("this is the only recorded worktree of the repository")
            return
        self._loader.show_worktrees(() if source.worktrees else names)
        shown = "this worktree" if source.worktrees else counted(len(names), "worktree")
        self._history.border_title = f"Timeline of {shown}"

    def action_pane(self, by: int) -> None:
        """Go to the next pane, or to the one before."""
        self._enter(self._pane.step(by))

    def action_zoom(self) -> None:
        """Show this pane alone, or all again."""
        self._zoomed = not self._zoomed
        self._arrange()

    def action_open(self) -> None:
        """Show the events of a block, or hide them."""
        line = self._history.line
        if line is not None and line.block.kind is not BlockKind.PIN:
            self._loader.toggle(line)

    def action_in_lane(self, by: int) -> None:
        """Go to the next older block in this lane, or to the next newer one."""
        if not self._history.along(by):
            where = "older" if by > 0 else "newer"
            self.say(f"no {where} block of this lane is loaded")

    def action_moment(self) -> None:
        """Show what differs from then to now, or what the block changed."""
        self._detail.turn()

    def action_content(self) -> None:
        """Show the file as it was."""
        try:
            line, file = self._detail.selected
        except UsageError as error:
            self.say(str(error))
            return
        title, source = f"{file.path} at that time", self._loader.source

        def show(data: str) -> None:
            self.app.push_screen(ContentScreen(title, data))

        ask(self, "the file", lambda: source.content(line, file.path), show)

    def action_blame(self) -> None:
        """Show who wrote each line of the file, and go to the change that is chosen there."""
        try:
            path = self._detail.file.path
        except UsageError as error:
            self.say(str(error))
            return
        line = self._detail.diff.line
        try:
            engine = self._loader.source.there(self._history.line)
        except ShadowError as error:
            self.say(str(error), wrong=True)
            return
        screen = BlameScreen(engine, path, line=line)
        self.app.push_screen(screen, self._blamed)

    def _blamed(self, seq: int | None) -> None:
        def missed() -> None:
            self.say(f"event {seq} is not listed here; w lists all worktrees")

        if seq is not None:
            self._loader.reach(seq, missed)

    def action_pins(self) -> None:
        """Show the pins."""
        self.app.push_screen(PinsScreen(self._loader.source.engine), self._changed)

    def action_ops(self) -> None:
        """Show what was undone."""
        self.app.push_screen(OpsScreen(self._loader.source.engine), self._changed)

    def action_reload(self) -> None:
        """Fetch everything again."""
        self._loader.newest()

    def action_search(self) -> None:
        """Ask for a text, and go to the next older block with it."""
        self._finder.ask(self)

    def action_match(self, older: bool) -> None:
        """Go to the next older match, or to the next newer one."""
        self._finder.find(older=older)

    def action_filter(self) -> None:
        """Ask for a filter."""
        self._finder.ask_filter(self)

    def action_go_to(self) -> None:
        """Ask for a moment, and go there."""
        self._finder.ask_moment(self)

    def _wish(
        self,
        make: Callable[[], FileUndoRequest],
        hunk: tuple[str, PatchHunk] | None = None,
    ) -> None:
        """Show the plan of an intent, unless nothing may be changed now."""
        # Another undo or process holds the writer lock; the plan would only fail later.
        if self._foot.state.read_only:
            self.say(f"not possible now: {self._foot.state.read_only}", wrong=True)
            return
        # It would be about the line where the cursor still is, not the one that is searched.
        if self._loader.is_going:
            self.say("still searching: press the key again when it is done")
            return
        line = self._history.line
        try:
            wish = make()
            engine = self._loader.source.there(line)
        except ShadowError as error:
            self.say(str(error))
            return
        where = ""
        if self._loader.source.worktrees and line is not None:
            where = f"in worktree {line.block.row.worktree}"
        screen = PlanScreen(engine, wish, hunk, where=where)
        self.app.push_screen(screen, self._undone)

    def _undone(self, report: object) -> None:
        self._changed(report is not None)

    def _changed(self, changed: bool | None) -> None:
        if changed:
            self._loader.news()
            self._detail.reload()

    @property
    def _path(self) -> str:
        """Return the selected path, which is empty on the timeline: all files are meant.

        Raises:
            UsageError: it is not on the screen yet.
        """
        return "" if self._pane is Pane.HISTORY else self._detail.file.path

    def action_undo(self) -> None:
        """Undo what is selected."""
        # The files listed there differ from now; they need not be files of the block.
        if self._pane is not Pane.HISTORY and self._detail.since:
            self.say("m shows the changes of the block; here R restores this file")
            return
        self._wish(lambda: intents.undo(self._history.line, self._path))

    def action_undo_hunk(self) -> None:
        """Undo the hunk under the cursor of the diff."""
        try:
            place = self._detail.place
        except UsageError as error:
            self.say(str(error))
            return
        hunk = (place.file.path, place.hunk) if place.hunk else None
        self._wish(lambda: intents.undo(self._history.line), hunk)

    def action_undo_turn(self) -> None:
        """Undo the turn."""
        self._wish(lambda: intents.undo_turn(self._history.line))

    def action_undo_session(self) -> None:
        """Undo the session."""
        self._wish(lambda: intents.undo_session(self._history.line))

    def action_oops(self) -> None:
        """Undo the newest agent burst."""
        self._wish(lambda: FileUndoRequest("oops"))

    def action_redo(self) -> None:
        """Redo what was undone."""
        self._wish(lambda: intents.redo(self._history.line))

    def action_restore(self) -> None:
        """Restore a moment."""
        self._wish(lambda: intents.restore(self._history.line, self._path))

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(HelpScreen())

    def action_dark(self) -> None:
        """Switch between dark and light."""
        dark = self.app.current_theme.dark
        self.app.theme = "textual-light" if dark else "textual-dark"

    def action_leave(self) -> None:
        """Leave the UI."""
        self.app.exit()


class Finder:
    """Find things on a timeline: first in the loaded rows, then by asking the backend."""

    def __init__(self, history: History, loader: Loader, foot: Foot) -> None:
        self._history, self._loader, self._foot = history, loader, foot
        self._wanted = ""

    def ask(self, screen: Screen[None]) -> None:
        """Ask for a text, and go to the next block with it, this one included."""

        def take(typed: str) -> None:
            self._wanted = typed.strip()
            if self._wanted:
                self.find(older=True, here=True)

        _ask_line(screen, _SEARCH, "", take)

    def find(self, *, older: bool, here: bool = False) -> None:
        """Go to the next block with the text that was asked for last."""
        wanted, line = self._wanted, self._history.line
        if not wanted:
            self._foot.say("nothing to search for: press / first")
            return
        # A key that was typed after the search must find the cursor there, so what is loaded is
        # searched at once.
        if self._history.find(wanted, older=older, here=here):
            self._foot.say("")
            return
        source, seq = self._loader.source, self._seq_of(line, older=older)
        where = "older" if older else "newer"
        self._loader.go_to(
            lambda: source.find(wanted, seq + here, older=older),
            lambda: self._foot.say(f"nothing {where} has {wanted}"),
            lambda: self._foot.say(""),
        )

    def _seq_of(self, line: TimelineLine | None, *, older: bool) -> int:
        """Return the number from which to search; a pin has none, but the row next to it."""
        if line is not None and line.block.row.seq:
            return line.block.row.seq
        return self._history.seq_near(older=older)

    def ask_filter(self, screen: Screen[None]) -> None:
        """Ask for a filter."""

        def take(typed: str) -> None:
            try:
                self._loader.filter(parse(typed))
            except UsageError as error:
                hint = f" ({error.hint})" if error.hint else ""
                self._foot.say(f"{error}{hint}", wrong=True)

        _ask_line(screen, _FILTER, str(self._loader.source.filter), take)

    def unfilter(self) -> None:
        """Show everything again, if asked for twice in a row."""
        if self._loader.source.filter == Filter():
            return
        if self._foot.state.said == _CLEAR:
            self._foot.say("")
            self._loader.filter(Filter())
        else:
            self._foot.say(_CLEAR)

    def ask_moment(self, screen: Screen[None]) -> None:
        """Ask for a moment, and go to the newest block up to it."""
        source = self._loader.source

        def take(typed: str) -> None:
            self._loader.go_to(
                lambda: source.at(typed),
                lambda: self._foot.say(f"nothing is older than {typed}"),
                lambda: self._foot.say(""),
            )

        _ask_line(screen, _MOMENT, "", take)


def _ask_line(
    screen: Screen[None], says: str, typed: str, then: Callable[[str], None]
) -> None:
    def take(given: str | None) -> None:
        if given is not None:
            then(given)

    screen.app.push_screen(LineScreen(says, typed), take)


class _FileLines(Listing):
    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = lines

    def on_mount(self) -> None:
        self.changed()

    def row_count(self) -> int:
        return len(self._lines)

    def draw(self, row: int, width: int) -> Iterable[Segment]:
        digits = len(str(len(self._lines)))
        room = width - digits - 2
        # Cut before tabs are expanded: a minified file has lines of megabytes.
        line = self._lines[row][: room * _TAB].expandtabs(_TAB)
        yield Segment(f"{row + 1:>{digits}}  ", self.faint())
        yield Segment(glyphs_of(self).cut(line, room))


class ContentScreen(ModalScreen[None]):
    """Show the lines of a file."""

    BINDINGS: ClassVar = [Binding("escape,q,v,h,left,ctrl+c", "dismiss", show=False)]
    DEFAULT_CSS = """
    ContentScreen > Static { height: 1; background: $panel; color: $text; }
    """

    def __init__(self, title: str, data_base64: str) -> None:
        super().__init__()
        self._title = title
        data = base64.b64decode(data_base64)
        # A NUL byte marks binary content, as in Git.
        self._lines = ["(binary)"] if b"\0" in data else _lines_of(data)

    def compose(self) -> ComposeResult:
        """Make the title and the lines."""
        width = self.app.size.width
        yield Static(Content(" " + glyphs_of(self).cut(self._title, width - 1)))
        yield _FileLines(self._lines)


def _lines_of(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n") if text else ["(empty)"]


class _HelpLine(NamedTuple):
    says: str
    keys: str = ""


def _help_lines(groups: Mapping[str, Mapping[str, str]]) -> list[_HelpLine]:
    found: list[_HelpLine] = []
    for heading, group in groups.items():
        found += [_HelpLine(heading)]
        found += [_HelpLine(says, named) for named, says in group.items()]
    return found


class _KeyLines(Listing):
    def __init__(self) -> None:
        super().__init__()
        self._left = _help_lines(keys.HELP_LEFT) + _help_lines(_LEGEND)
        self._right = _help_lines(keys.HELP_RIGHT)

    def on_mount(self) -> None:
        self.changed()

    def on_resize(self) -> None:
        self.changed()

    @property
    def _is_wide(self) -> bool:
        return self.size.width >= _TWO_COLUMNS

    def row_count(self) -> int:
        left, right = len(self._left), len(self._right)
        return max(left, right) if self._is_wide else left + right

    def draw(self, row: int, width: int) -> Iterable[Segment]:
        if not self._is_wide:
            yield from self._cell([*self._left, *self._right], row, width)
            return
        half = min(width // 2, 50)
        yield from self._cell(self._left, row, half)
        yield from self._cell(self._right, row, half)

    def _cell(
        self, lines: Sequence[_HelpLine], row: int, width: int
    ) -> Iterator[Segment]:
        glyphs = glyphs_of(self)
        line = lines[row] if row < len(lines) else _HelpLine("")
        if not line.keys:
            yield Segment(" " + glyphs.fit(line.says, width - 1), Style(bold=True))
            return
        yield Segment("  " + glyphs.fit(line.keys, _KEYS))
        yield Segment(glyphs.fit(line.says, width - _KEYS - 2))


class HelpScreen(ModalScreen[None]):
    """Show every key."""

    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark,f1,enter,h,left,ctrl+c", "dismiss", show=False)
    ]

    def compose(self) -> ComposeResult:
        """Make the list."""
        yield _KeyLines()
