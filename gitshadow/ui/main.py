"""The main screen: the time line, the files of what is selected in it, the diff of one of them.

Invariant: a key changes no file here; it makes a wish, and the plan of it asks.
"""

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.events import DescendantFocus
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from gitshadow.errors import LockedError, UsageError
from gitshadow.ui import keys, wishes
from gitshadow.ui.asking import Answered, Failed, Waiting, ask
from gitshadow.ui.blame import BlameScreen
from gitshadow.ui.content import ContentScreen
from gitshadow.ui.diffs import DiffView
from gitshadow.ui.files import FileList
from gitshadow.ui.filters import Filter, parse
from gitshadow.ui.frame import Pane, Shape, State, foot, shape_of, title
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.help import HelpScreen
from gitshadow.ui.history import History
from gitshadow.ui.loading import Loader
from gitshadow.ui.oplog import OpsScreen
from gitshadow.ui.patches import Hunk
from gitshadow.ui.pins import PinsScreen
from gitshadow.ui.plans import PlanScreen
from gitshadow.ui.ports import Wish
from gitshadow.ui.prompting import LineScreen
from gitshadow.ui.rows import FileRow
from gitshadow.ui.source import Source
from gitshadow.ui.telling import heading

_SETTLES_S = 0.06
"""So long the cursor stands still before what it stands on is asked for."""
_LOOKS_S = 1.0
"""So often the journal is looked at for what came in."""
_WAITS_S = 0.7
"""So long an answer may take before the foot says that it is waited for."""
_HINT = "? help  / search  f filter  u undo  r redo  q quit"
_FILES, _DIFF, _FILE = "the files", "the diff", "the file"


class MainScreen(Screen[None]):
    """Show the history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(keys.LOOKING, keys.CHANGING, keys.OTHER)
    ]
    CSS = """
    MainScreen { layout: vertical; overflow: hidden; }
    MainScreen #title, MainScreen #foot { height: 1; background: $panel; color: $text; }
    MainScreen #heading { height: 1; background: $panel; color: $text-muted; }
    MainScreen #foot.wrong { background: $error; color: $text; }
    MainScreen #foot.read-only { background: $warning; color: $text; }
    MainScreen #body { height: 1fr; layout: vertical; }
    MainScreen #detail { height: 1fr; layout: vertical; }
    MainScreen #lower { height: 1fr; layout: horizontal; }
    MainScreen FileList { width: 28; }
    MainScreen DiffView { width: 1fr; height: 1fr; }
    MainScreen.wide #body { layout: horizontal; }
    MainScreen.wide History { width: 45%; }
    MainScreen.wide #detail { width: 1fr; height: 1fr; }
    MainScreen.wide #lower { layout: vertical; }
    MainScreen.wide FileList { width: 1fr; height: 30%; }
    MainScreen.single FileList { width: 1fr; }
    """

    def __init__(self, source: Source, name: str) -> None:
        super().__init__()
        self._repository = name
        self._history = History(id=Pane.HISTORY.value)
        self._files = FileList(id=Pane.FILES.value)
        self._diff = DiffView(id=Pane.DIFF.value)
        self._loader = Loader(self._history, source)
        self._pane, self._zoomed, self._moment = Pane.HISTORY, False, False
        self._state = State()
        self._waited_for = 0
        self._search = ""
        self._settling: Timer | None = None

    # -- frame -------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Make the panes."""
        yield Static(id="title")
        with Container(id="body"):
            yield self._history
            with Container(id="detail"):
                yield Static(id="heading")
                with Container(id="lower"):
                    yield self._files
                    yield self._diff
        yield Static(id="foot")

    def on_mount(self) -> None:
        """Fetch the newest page, and look for news from then on."""
        self._enter(Pane.HISTORY)
        self._loader.newest(self._loader.look)
        self.set_interval(_LOOKS_S, self._loader.look)

    def on_resize(self) -> None:
        """Lay the panes out for the new size."""
        self._arrange()
        self.call_after_refresh(self._tell)

    def _arrange(self) -> None:
        shape = shape_of(self.app.size.width, self.app.size.height)
        for one in Shape:
            self.set_class(shape is one, one.value)
        alone = shape is Shape.SINGLE or self._zoomed
        self._history.display = not alone or self._pane is Pane.HISTORY
        self.query_one("#detail").display = not alone or self._pane is not Pane.HISTORY
        self._files.display = not alone or self._pane is Pane.FILES
        self._diff.display = not alone or self._pane is Pane.DIFF

    def _enter(self, pane: Pane) -> None:
        self._pane = pane
        self._arrange()
        self.query_one(f"#{pane.value}").focus()

    @on(DescendantFocus)
    def _focus_moved(self, event: DescendantFocus) -> None:
        """Follow the mouse into another pane."""
        if event.widget.id in {pane.value for pane in Pane}:
            self._pane = Pane(event.widget.id)

    def _tell(self, **changes: object) -> None:
        """Write what the lines at the top and at the foot say."""
        self._state = self._state._replace(**changes)  # type: ignore[arg-type]
        if not self.is_mounted:
            return
        width, glyphs = self.app.size.width, glyphs_of(self)
        letters = self._history.letters
        legend = [(letters[lane], said) for lane, said in self._history.legend()]
        shown = str(self._loader.source.filter)
        first = title(self._repository, legend, shown, width, glyphs)
        self.query_one("#title", Static).update(Content(first))
        line = self._history.line
        said = heading(line, self._files.files, moment=self._moment) if line else ""
        self.query_one("#heading", Static).update(
            Content(glyphs.cut(" " + said, width))
        )
        line_below = foot(self._state, _HINT, width, glyphs)
        below = self.query_one("#foot", Static)
        below.update(Content(line_below))
        below.set_class(self._state.wrong, "wrong")
        below.set_class(
            bool(self._state.read_only) and not self._state.wrong, "read-only"
        )

    def say(self, said: str, *, wrong: bool = False) -> None:
        """Say something at the foot until the next key that says something else."""
        self._tell(said=said, wrong=wrong)

    # -- answers -----------------------------------------------------------------------------

    @on(Answered)
    def _answered(self, message: Answered) -> None:
        message.deliver()
        read_only = ""
        if self._loader.applying:
            read_only = f"undo {self._loader.applying} is at work"
        self._tell(read_only=read_only)

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        self._loader.failed(message.about)
        error = message.error
        if isinstance(error, LockedError):
            self._tell(read_only="another process is at work here")
            return
        hint = f" ({error.hint})" if error.hint else ""
        self.say(f"{error}{hint}", wrong=True)

    @on(Waiting)
    def _waiting(self, message: Waiting) -> None:
        self._waited_for += 1 if message.begun else -1
        if not message.begun:
            self._tell(waiting=False)
        else:
            count = self._waited_for
            self.set_timer(_WAITS_S, lambda: self._still(count))

    def _still(self, count: int) -> None:
        if self._waited_for >= count > 0:
            self._tell(waiting=True)

    @on(History.Wanting)
    def _wanting(self, message: History.Wanting) -> None:
        self._loader.more(older=message.older)

    @on(History.Jumping)
    def _jumping(self, message: History.Jumping) -> None:
        if message.oldest:
            self._loader.oldest()
        else:
            self._loader.newest()

    # -- what is selected --------------------------------------------------------------------

    @on(History.Selected)
    def _selected(self) -> None:
        self._tell(said="", wrong=False)
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(_SETTLES_S, self._show_files)

    def _show_files(self) -> None:
        line = self._history.line
        if line is None or line.block is None:
            self._files.hold((), "", "")
            self._diff.show("", title="")
            return
        source = self._loader.source
        since = self._since
        question = source.since if since else source.files
        empty = "nothing differs" if since else "no files"

        def hold(files: tuple[FileRow, ...]) -> None:
            self._files.hold(files, line.key, empty)
            self._tell()
            self._show_diff()

        ask(self, _FILES, lambda: question(line), hold)

    @on(FileList.Selected)
    def _show_diff(self) -> None:
        line, file = self._history.line, self._files.file
        if line is None or line.block is None or file is None:
            self._diff.show("", title="")
            return
        source = self._loader.source
        question = source.patch_since if self._since else source.patch

        def hold(patch: str) -> None:
            self._diff.show(patch, title=file.path)

        ask(self, _DIFF, lambda: question(line, file.path), hold)

    @property
    def _since(self) -> bool:
        """Tell whether what differs from then to now is shown; of a pin nothing else can be."""
        block = self._history.block
        return self._moment or (block is not None and block.pin is not None)

    @property
    def _path(self) -> str:
        """Return the path that is meant: none on the time line, where all files are.

        Raises:
            UsageError: it is not on the screen yet.
        """
        if self._pane is Pane.HISTORY:
            return ""
        line, file = self._history.line, self._files.file
        if line is None or file is None or self._files.of != line.key:
            raise UsageError("no file is selected yet")
        return file.path

    # -- looking -----------------------------------------------------------------------------

    def action_into(self) -> None:
        """Go into the next pane."""
        self._enter(self._pane.closer())

    def action_back(self) -> None:
        """Go back; from the time line out of the filter."""
        if self._zoomed:
            self.action_zoom()
        elif self._pane is not Pane.HISTORY:
            self._enter(self._pane.farther())
        elif self._loader.source.filter != Filter():
            self._filter(Filter())

    def action_next_pane(self) -> None:
        """Go to the next pane."""
        self._enter(self._pane.step(1))

    def action_previous_pane(self) -> None:
        """Go to the pane before."""
        self._enter(self._pane.step(-1))

    def action_zoom(self) -> None:
        """Show this pane alone, or all again."""
        self._zoomed = not self._zoomed
        self._arrange()

    def action_open(self) -> None:
        """Show the events of a block, or hide them."""
        self._history.toggle()

    def action_older_in_lane(self) -> None:
        """Go to the next older block of this lane."""
        if not self._history.along(1):
            self.say("no older block of this lane is loaded")

    def action_newer_in_lane(self) -> None:
        """Go to the next newer block of this lane."""
        if not self._history.along(-1):
            self.say("no newer block of this lane is loaded")

    def action_moment(self) -> None:
        """Show what differs from then to now, or what the block changed."""
        self._moment = not self._moment
        self._show_files()

    def action_content(self) -> None:
        """Show the file as it was."""
        line, file = self._history.line, self._files.file
        if line is None or line.block is None or file is None:
            return self.say("no file is selected yet")
        title = f"{file.path} as it was"

        def show(data: str) -> None:
            self.app.push_screen(ContentScreen(title, data))

        return ask(
            self, _FILE, lambda: self._loader.source.content(line, file.path), show
        )

    def action_blame(self) -> None:
        """Show who wrote each line of the file, and go to the write that is chosen there."""
        file = self._files.file
        if self._history.line is None or file is None:
            return self.say("no file is selected yet")
        engine, line = self._loader.source.engine, self._diff.line
        screen = BlameScreen(engine, file.path, line=line)
        self.app.push_screen(screen, self._blamed)
        return None

    def _blamed(self, seq: int | None) -> None:
        if seq is None or self._history.select_event(seq):
            return
        source = self._loader.source._replace(filter=Filter())
        self._loader.source = source
        self._loader.go_to(lambda: source.of(seq), lambda: None)

    def action_pins(self) -> None:
        """Show the pins."""
        self.app.push_screen(PinsScreen(self._loader.source.engine), self._changed)

    def action_ops(self) -> None:
        """Show what was undone."""
        self.app.push_screen(OpsScreen(self._loader.source.engine), self._changed)

    def action_reload(self) -> None:
        """Fetch everything anew."""
        self._loader.newest()

    # -- finding -----------------------------------------------------------------------------

    def action_search(self) -> None:
        """Ask for a text, and go to the next older block with it."""
        self._ask_line("search paths and prompts", "", self._begin_search)

    def _begin_search(self, typed: str) -> None:
        self._search = typed.strip()
        if self._search:
            self._find(older=True, here=True)

    def action_search_on(self) -> None:
        """Go to the next older find."""
        self._find(older=True)

    def action_search_back(self) -> None:
        """Go to the next newer find."""
        self._find(older=False)

    def _find(self, *, older: bool, here: bool = False) -> None:
        wanted, window = self._search, self._history.window
        if not wanted:
            return self.say("nothing to search for: / asks")
        if self._history.find(wanted, older=older, here=here):
            return self.say("")
        source = self._loader.source
        where = "older" if older else "newer"
        self.say("searching" + glyphs_of(self).more)
        return self._loader.go_to(
            lambda: source.find(wanted, window, older=older),
            lambda: self.say(f"nothing {where} has {wanted}"),
        )

    def action_filter(self) -> None:
        """Ask for a filter."""
        says = "filter: agent: session: file: kind: since: until: words"
        self._ask_line(says, str(self._loader.source.filter), self._read_filter)

    def _read_filter(self, typed: str) -> None:
        try:
            self._filter(parse(typed))
        except UsageError as error:
            self.say(str(error), wrong=True)

    def _filter(self, wanted: Filter) -> None:
        self._loader.source = self._loader.source._replace(filter=wanted)
        self._loader.newest()

    def action_go_to(self) -> None:
        """Ask for a moment, and go there."""
        says = "go to: 10m, 2h ago, yesterday, 2026-11-21 14:00"
        self._ask_line(says, "", self._go_to)

    def _go_to(self, typed: str) -> None:
        source = self._loader.source
        self._loader.go_to(
            lambda: source.at(typed), lambda: self.say(f"nothing is older than {typed}")
        )

    def _ask_line(self, says: str, typed: str, then: Callable[[str], None]) -> None:
        def take(given: str | None) -> None:
            if given is not None:
                then(given)

        self.app.push_screen(LineScreen(says, typed), take)

    # -- changing ----------------------------------------------------------------------------

    def _wish(
        self, make: Callable[[], Wish], hunk: tuple[str, Hunk] | None = None
    ) -> None:
        """Show the plan of a wish, unless nothing may be changed now."""
        if self._state.read_only:
            self.say(f"not now: {self._state.read_only}", wrong=True)
            return
        try:
            wish = make()
        except UsageError as error:
            self.say(str(error))
            return
        screen = PlanScreen(self._loader.source.engine, wish, hunk)
        self.app.push_screen(screen, self._undone)

    def _undone(self, report: object) -> None:
        self._changed(report is not None)

    def _changed(self, changed: bool | None) -> None:
        if changed:
            self._loader.news()
            self._show_files()

    def action_undo(self) -> None:
        """Undo what is selected."""
        self._wish(lambda: wishes.undo(self._history.line, self._path))

    def action_undo_hunk(self) -> None:
        """Undo the hunk that the diff stands on."""
        place = self._diff.place if self._pane is Pane.DIFF else None
        if place is None or place.hunk is None or self._since:
            self.say("i undoes the hunk that the diff of a block stands on")
            return
        hunk = (place.file.path, place.hunk)
        self._wish(lambda: wishes.undo(self._history.line), hunk)

    def action_undo_turn(self) -> None:
        """Undo the turn."""
        self._wish(lambda: wishes.undo_turn(self._history.line))

    def action_undo_session(self) -> None:
        """Undo the session."""
        self._wish(lambda: wishes.undo_session(self._history.line))

    def action_oops(self) -> None:
        """Undo the newest agent burst."""
        self._wish(lambda: Wish("oops"))

    def action_redo(self) -> None:
        """Redo what was taken back."""
        self._wish(lambda: wishes.redo(self._history.line, self._history.marks))

    def action_restore(self) -> None:
        """Restore a moment."""
        self._wish(lambda: wishes.restore(self._history.line, self._path))

    # -- other -------------------------------------------------------------------------------

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(HelpScreen())

    def action_dark(self) -> None:
        """Change from dark to light, or back."""
        dark = self.app.current_theme.dark
        self.app.theme = "textual-light" if dark else "textual-dark"

    def action_leave(self) -> None:
        """Leave the view."""
        self.app.exit()
