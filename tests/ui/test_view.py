"""The whole view over a real repository, driven by keys and read from its screen."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from textual.containers import Vertical
from textual.widget import Widget
from textual.worker import Worker

from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.codec import A, Q, Verb
from gitshadow.messages.lists import PINS
from gitshadow.messages.rows import EventRow
from gitshadow.messages.undo import FileUndoAnswer, FileUndoRequest
from gitshadow.store.lock import WriterLock
from gitshadow.ui import data_source, page_loader
from gitshadow.ui.app import UiSettings
from gitshadow.ui.blame import BlameScreen
from gitshadow.ui.filters import Filter
from gitshadow.ui.history import History
from gitshadow.ui.lines import LineView
from gitshadow.ui.pins_and_ops import PinsScreen
from gitshadow.ui.plans import PlanScreen
from gitshadow.ui.timeline import TimelineLine
from tests.support.repo import Repo
from tests.support.screens import Direct, Play, direct, play, view, wish_of
from tests.support.studio import studio_of
from tests.support.waiting import HANGS_S


@pytest.fixture
def engine(repo: Repo) -> Direct:
    """Return the engine of a history: two turns of one agent, one of another, a hand's write."""
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", "Make the parser strict")
        studio.write("S1", "src/parser.py", "strict\n")
        studio.write("S1", "src/errors.py", "errors\n")
        studio.stop("S1")
        studio.write("S2", "docs/guide.md", "guide\n")
        studio.stop("S2")
        studio.hand("README.md", "mine\n")
        studio.prompt("S1", "Tidy up")
        studio.write("S1", "src/parser.py", "tidy\n")
        studio.stop("S1")
    return direct(repo)


@contextmanager
def locked(engine: Direct) -> Iterator[None]:
    """Hold the lock of the worktree, as another process that undoes does."""
    lock = WriterLock(engine.layout.lock)
    lock.acquire(timeout_s=HANGS_S)
    try:
        yield
    finally:
        lock.release()


def rows_of(shown: str, *words: str) -> list[int]:
    """Return the numbers of the lines that show each of some words first."""
    lines = shown.split("\n")
    return [next(at for at, line in enumerate(lines) if word in line) for word in words]


def test_blocks_stand_newest_first_with_agent_files_and_prompt(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        shown = await on.seen("Tidy up", "README.md", "prompt of S2", "Make the parser")
        found = rows_of(
            shown, "Tidy up", "README.md", "prompt of S2", "Make the parser"
        )
        assert found == sorted(found)
        assert "claude-code  2 files  +2 -0" in shown

    view(engine, steps)


def test_files_and_diff_of_what_is_selected_are_shown(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press("G")
        await on.seen("2 files of turn t1", "src/", "errors.py", "parser.py", "+errors")
        await on.press("enter", "j")
        await on.seen("+strict")

    view(engine, steps)


def test_search_finds_the_turn_and_u_y_undoes_it(repo: Repo, engine: Direct) -> None:
    """Found and undone within ten keystrokes."""
    keys = ("slash", "s", "t", "r", "i", "enter", "u", "y")

    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press(*keys[:6])
        await on.seen("2 files of turn t1")
        await on.press("u")
        await on.seen("will restore", "y apply")
        await on.press("y")
        await on.seen("restored 1 file")

    view(engine, steps)
    assert not repo.exists("src/errors.py")
    assert repo.read("src/parser.py") == b"tidy\n"


def test_keys_typed_in_one_go_reach_the_prompt_that_the_first_opens(
    engine: Direct,
) -> None:
    """The word is searched, and the keys behind Enter are the time line's again."""

    async def steps(on: Play) -> None:
        await on.seen("Tidy up", "Make the parser")
        on.type("j", "slash", "s", "t", "r", "i", "c", "t", "enter", "u")
        await on.seen("y apply", "src/errors.py", "src/parser.py")

    view(engine, steps)


def test_keys_typed_in_one_go_open_and_close_one_screen_after_the_other(
    engine: Direct,
) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        on.type("p", "escape", "question_mark", "escape", "f", "k", "i", "n", "d")
        await on.seen("filter: agent:", "kind")
        on.type("escape", "G")
        await on.seen("2 files of turn t1")

    view(engine, steps)


@pytest.mark.parametrize(
    "screen_of",
    [
        PinsScreen,
        lambda engine: BlameScreen(engine, "README.md"),
        lambda engine: PlanScreen(engine, wish_of("oops")),
    ],
)
def test_a_screen_that_is_left_awaits_no_answer(
    engine: Direct, screen_of: Callable[[Direct], PinsScreen | BlameScreen | PlanScreen]
) -> None:
    """An answer that came while its lines were being removed ended the whole UI."""
    shown = screen_of(engine)

    async def unanswered() -> None:
        await asyncio.Event().wait()

    async def steps(on: Play) -> None:
        await on.until(lambda: shown.is_current)
        question: Worker[None] = shown.run_worker(unanswered)
        shown.action_leave()
        assert question.is_cancelled

    play(shown, steps)


def test_u_in_the_files_undoes_that_file_alone(repo: Repo, engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press("G")
        await on.seen("errors.py")
        await on.press("enter", "u")
        await on.seen("will restore 1 file", "errors.py", "y apply")
        await on.press("y")
        await on.seen("undo this with")
        await on.press("enter")
        await on.seen("undo ", ": 1 file", "1/2")

    view(engine, steps)
    assert not repo.exists("src/errors.py")
    assert repo.read("src/parser.py") == b"tidy\n"


def test_what_was_undone_is_marked_and_r_brings_it_back(
    repo: Repo, engine: Direct
) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("u")
        await on.seen("y apply")
        await on.press("y")
        await on.seen("undo this with")
        await on.press("enter")
        shown = await on.seen("undo t3: 1 file", "undone")
        assert "undone" in shown.split("\n")[rows_of(shown, "Tidy up")[0]]
        assert repo.read("src/parser.py") == b"strict\n"
        await on.press("r")
        await on.seen("y apply")
        await on.press("y", "enter")
        await on.until(lambda: repo.read("src/parser.py") == b"tidy\n")

    view(engine, steps)


def test_restore_brings_all_files_back_to_the_moment(
    repo: Repo, engine: Direct
) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press("G", "R")
        await on.seen("y apply", "src/parser.py")
        await on.press("y")
        await on.until(lambda: repo.read("src/parser.py") == b"strict\n")

    view(engine, steps)


def test_m_shows_what_differs_from_then_to_now(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press("G", "m")
        await on.seen("differ between", "guide.md", "README.md", "+1 -1")

    view(engine, steps)


def test_u_undoes_nothing_where_what_differs_since_is_listed(
    repo: Repo, engine: Direct
) -> None:
    """The files there are not those of the block: another one's would be meant."""

    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press("G", "m")
        await on.seen("differ between", "guide.md")
        await on.press("enter", "u")
        await on.seen("here R restores this file")
        await on.press("R")
        await on.seen("y apply", "README.md")

    view(engine, steps)


def test_v_shows_the_file_as_it_was(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press("G")
        await on.seen("parser.py")
        await on.press("enter", "j", "v")
        await on.seen("src/parser.py at that time", "1  strict")

    view(engine, steps)


def test_what_comes_in_appears_and_the_cursor_stays(repo: Repo, engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        await on.press("G")
        await on.seen("2 files of turn t1")
        with studio_of(repo) as studio:
            studio.prompt("S2", "Add a page")
            studio.write("S2", "docs/page.md", "new\n")
        shown = await on.seen("Make the parser", "Add a page", "2 files of turn t1")
        assert rows_of(shown, "Add a page") < rows_of(shown, "Tidy up")

    view(engine, steps)


@dataclass(slots=True)
class Slow:
    """Answer as another engine does, but one verb only when it is let go, where that is wanted."""

    engine: Direct
    verb: str
    waits: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)
    looks: int = 0

    def send(self, verb: Verb[Q, A], request: Q, /) -> A:
        """Answer what was true before the wait."""
        answer = self.engine.send(verb, request)
        if verb.name == self.verb and self.waits.is_set():
            self.entered.set()
            assert self.let_go.wait(HANGS_S)
        return answer

    def plan(self, wish: FileUndoRequest, /) -> FileUndoAnswer:
        """Plan."""
        return self.engine.plan(wish)

    def apply(self, wish: FileUndoRequest, token: str, /) -> FileUndoAnswer:
        """Apply."""
        return self.engine.apply(wish, token)

    def mark(self) -> object:
        """Say how the journal's file stands, and count."""
        self.looks += 1
        return self.engine.mark()

    def worktrees(self) -> Sequence[str]:
        """Name the worktrees."""
        return self.engine.worktrees()

    def there(self, worktree: str, /) -> HistoryBackend:
        """Answer for this worktree only."""
        assert worktree == self.engine.layout.worktree
        return self


def test_what_comes_in_while_a_page_is_fetched_appears_too(
    repo: Repo, engine: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_loader, "_LOOKS_S", 0.02)
    slow = Slow(engine, "history")

    async def steps(on: Play) -> None:
        await on.seen("Make the parser")
        slow.waits.set()
        await on.press("ctrl+r")
        await on.until(slow.entered.is_set)
        with studio_of(repo) as studio:
            studio.prompt("S2", "Add a page")
            studio.write("S2", "docs/page.md", "new\n")
        seen = slow.looks
        await on.until(lambda: slow.looks > seen + 2)
        slow.let_go.set()
        await on.seen("Add a page")

    view(slow, steps)


def test_i_does_not_undo_in_the_diff_of_another_block(engine: Direct) -> None:
    slow = Slow(engine, "diff")

    async def steps(on: Play) -> None:
        await on.seen("Make the parser", "+tidy")
        await on.press("enter", "enter", "n")
        slow.waits.set()
        on.app.screen.query_one(History).action_last()
        await on.until(slow.entered.is_set)
        await on.press("i")
        await on.seen("the diff is not shown yet")
        slow.let_go.set()

    view(slow, steps)


def test_filter_shows_what_fits_and_the_second_escape_shows_all(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up", "prompt of S2")
        await on.press("f", *"file:docs", "enter")
        await on.seen("filter: file:docs", "prompt of S2")
        await on.until(lambda: "Tidy up" not in on.text())
        await on.press("escape")
        await on.seen("Esc again clears the filter", "filter: file:docs")
        await on.press("escape")
        await on.seen("Tidy up", "prompt of S2")

    view(engine, steps)


def test_unknown_filter_is_refused_with_the_known_ones(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("f", *"foo:bar", "enter")
        await on.seen("no such filter: foo: (filters: agent, session, file", "Tidy up")

    view(engine, steps, size=(120, 24))


def test_filter_that_cannot_be_asked_says_why_and_no_pin_takes_it_away(
    engine: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given on the command line; a pin alone would look like the answer to it."""
    asked: list[str] = []
    send = Direct.send

    def noted(self: Direct, verb: Verb[Q, A], request: Q, /) -> A:
        asked.append(verb.name)
        return send(self, verb, request)

    async def steps(on: Play) -> None:
        await on.seen("could not be read", "no such kind: zz")
        assert PINS.name not in asked

    monkeypatch.setattr(Direct, "send", noted)
    setting = UiSettings("r", lambda words: 0, filter=Filter(kind="zz"))
    view(engine, steps, setting=setting)


def test_filter_that_fits_nothing_says_so(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("no matching changes")

    wanted = UiSettings("r", lambda words: 0, filter=Filter(agent="codex"))
    view(engine, steps, setting=wanted)


def test_history_without_changes_says_so(repo: Repo) -> None:
    async def steps(on: Play) -> None:
        await on.seen("nothing is recorded here yet")

    with studio_of(repo):
        pass
    view(direct(repo), steps)


def test_search_that_finds_nothing_says_so_and_stays(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("slash", "x", "y", "z", "enter")
        await on.seen("nothing older has xyz", "1 file of turn")

    view(engine, steps)


def test_error_is_said_with_its_hint(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("f", *"kind:nonsense", "enter")
        await on.seen("no such kind: nonsense")

    view(engine, steps)


def test_what_cannot_be_undone_says_why(repo: Repo, engine: Direct) -> None:
    with studio_of(repo) as studio:
        studio.run("journal_gap", why="the daemon was killed")

    async def steps(on: Play) -> None:
        await on.seen("gap: the daemon was killed")
        await on.press("u")
        await on.seen("nothing to undo here: no file was changed")

    view(engine, steps)


def focused(on: Play) -> Widget:
    """Return the pane with the focus."""
    assert on.app.focused is not None
    return on.app.focused


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (140, 40), (20, 5)])
def test_every_size_shows_the_pane_with_the_focus(
    engine: Direct, size: tuple[int, int]
) -> None:
    """The panes lie side by side, below each other, or one at a time; it may change any time."""

    async def steps(on: Play) -> None:
        await on.until(lambda: " A " in on.text())
        for _ in range(4):
            await on.press("tab")
            await on.pilot.pause()
            assert focused(on).region.area > 0
        for other in ((30, 10), (200, 50), size):
            await on.pilot.resize_terminal(*other)
            await on.pilot.pause()
            assert focused(on).region.area > 0

    view(engine, steps, size=size)


def test_narrow_terminal_shows_one_pane_at_a_time(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        shown = await on.seen("Tidy up")
        assert "parser.py" not in shown
        await on.press("enter")
        shown = await on.seen("parser.py")
        assert "prompt of S2" not in shown
        await on.press("enter")
        await on.seen("+tidy")
        await on.press("escape", "escape")
        await on.seen("prompt of S2")

    view(engine, steps, size=(60, 20))


def test_without_unicode_only_ascii_is_drawn(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("space", "G")
        shown = await on.seen("errors.py", "+errors")
        assert shown.isascii()

    view(engine, steps, setting=UiSettings("r", lambda words: 0, unicode=False))


def test_changes_that_come_late_do_not_take_the_cursor_back(
    engine: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, answered = data_source.DataSource.events, threading.Event()

    def late(
        source: data_source.DataSource, line: TimelineLine
    ) -> tuple[EventRow, ...]:
        assert answered.wait(HANGS_S)
        return found(source, line)

    monkeypatch.setattr(data_source.DataSource, "events", late)

    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("space", "G")
        await on.seen("2 files of turn t1")
        answered.set()
        await on.seen("modify")
        assert (line := on.app.screen.query_one(History).line) is not None
        assert line.block.holds("parser strict")

    view(engine, steps)


def test_help_shows_the_keys_and_leaves(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("question_mark")
        await on.seen("Timeline", "search, older, newer", "hunk, in the diff")
        await on.seen("renamed, mode only")
        await on.press("q")
        await on.seen("Tidy up")

    view(engine, steps)


def test_b_leads_from_a_line_to_the_write_of_it(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("G")
        await on.seen("2 files of turn t1", "errors.py")
        await on.press("enter", "b")
        await on.seen("A claude-code  1 errors", "prompt: Make the parser strict")
        await on.press("enter")
        await on.seen("2 files of turn t1")

    view(engine, steps)


def test_b_leads_to_a_write_that_the_filter_hides(repo: Repo) -> None:
    """The filter goes, rather than that the jump leads nowhere."""
    with studio_of(repo) as studio:
        studio.write("S1", "x.py", "one\n")
        studio.write("S2", "x.py", "one\ntwo\n")

    async def steps(on: Play) -> None:
        assert "prompt of S1" not in await on.seen("prompt of S2", "+two")
        await on.press("b")
        await on.seen("1 one", "prompt: prompt of S1")
        await on.press("enter")
        assert "prompt of S2" in await on.seen("prompt of S1", "x.py")

    setting = UiSettings("r", lambda words: 0, filter=Filter(text="prompt of S2"))
    view(direct(repo), steps, setting=setting)


def test_p_and_o_open_pins_and_ops(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("p")
        await on.seen("no pins yet")
        await on.press("escape", "O")
        await on.seen("nothing has been undone yet")
        await on.press("escape")
        await on.seen("Tidy up")

    view(engine, steps)


def test_while_another_process_is_at_work_nothing_can_be_changed(
    repo: Repo, engine: Direct
) -> None:
    """Read-only, with the reason; it ends by itself when the other one is done."""

    async def steps(on: Play) -> None:
        await on.seen("Tidy up", "1 file of turn", "+tidy")
        engine.lock_s = 0.05
        with locked(engine):
            await on.press("ctrl+r")
            await on.seen("read-only: another process is running here")
            await on.press("u")
            await on.seen("not possible now: another process is running here")
        engine.lock_s = HANGS_S
        await on.press("j")
        await on.until(lambda: "is running" not in on.text())

    view(engine, steps)
    assert repo.read("src/parser.py") == b"tidy\n"


def test_hostile_names_and_long_lines_act_on_nothing(repo: Repo) -> None:
    """A name full of escape codes and markup, a prompt with them, a line of a megabyte."""
    name = "[red]\x1b[2J\u202eevil.txt"
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", "[bold]\x1b]0;title\x07 do it")
        studio.write("S1", name, "x" * 1_000_000 + "\n")
        studio.write("S1", b"\xff\xfe.bin", b"\0\x1b")
        studio.stop("S1")

    async def steps(on: Play) -> None:
        await on.seen("[bold]\\x1b]0;title\\x07 do it", "[red]\\x1b[2J\\u202e")
        await on.press("space", "tab", "j")
        await on.seen("+xxx")
        await on.press("v")
        await on.seen("at that time", "1  xxx")
        assert "\x1b" not in on.text()

    view(direct(repo), steps, size=(180, 30))


def test_history_of_many_pages_is_walked_to_its_end_and_back(repo: Repo) -> None:
    """Pages are fetched as they are needed; no more than a window of them is held."""
    with studio_of(repo) as studio:
        for number in range(30):
            studio.prompt("S1", f"turn {number:02}")
            for part in range(20):
                repo.write(f"d/{number}-{part}", f"{number}\n")
            studio.write("S1", "a", f"{number}\n")
            studio.stop("S1")

    async def steps(on: Play) -> None:
        await on.seen("turn 29")
        await on.press("G")
        await on.seen("turn 00")
        await on.press("g")
        await on.seen("turn 29")
        await on.press("slash", *"turn 03", "enter")
        await on.seen("turn 03", "of turn")

    view(direct(repo), steps)


def test_search_is_answered_although_an_older_page_comes_late(
    engine: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next page is asked for, which cancels the search."""
    answers: list[Callable[[], None]] = []
    real = data_source.ask

    def ask(
        asker: Widget,
        about: str,
        question: Callable[[], object],
        then: Callable[[object], None],
    ) -> None:
        if about == page_loader._PAGE:
            answers.append(lambda: then(question()))
        else:
            real(asker, about, question, then)

    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        monkeypatch.setattr(page_loader, "ask", ask)
        history = on.app.screen.query_one(History)
        on.app.screen.post_message(History.Jumping(oldest=True))
        await on.until(lambda: len(answers) == 1, "a page asked for")
        await on.press("slash", *"nowhere", "enter")
        await on.until(lambda: len(answers) == 2, "a search asked for")
        before = history.window
        answers[0]()
        assert history.window is before
        answers[1]()
        await on.seen("nothing older has nowhere")

    view(engine, steps)


def test_turn_of_thousands_of_files_is_one_line_of_a_full_screen(
    repo: Repo, engine: Direct
) -> None:
    with studio_of(repo) as studio:
        for turn in ("first", "second", "third"):
            studio.prompt("S1", f"generate the {turn}")
            for number in range(400):
                repo.write(f"gen/{turn}{number:03}", "x\n")
            studio.write("S1", "a", f"{turn}\n")
            studio.stop("S1")
    turns = [f"generate the {one}" for one in ("third", "second", "first")]

    async def steps(on: Play) -> None:
        shown = await on.seen("401 files", *turns, "Tidy up", "Make the parser")
        assert rows_of(shown, *turns) == sorted(rows_of(shown, *turns))
        await on.seen("401 files (400 unsure) of turn t6")

    view(engine, steps)


def test_files_fill_a_screen_that_has_grown(repo: Repo, engine: Direct) -> None:
    with studio_of(repo) as studio:
        studio.prompt("S1", "many")
        for number in range(11):
            repo.write(f"n{number:02}", "x\n")
        studio.write("S1", "n11", "x\n")
        studio.stop("S1")

    async def steps(on: Play) -> None:
        await on.seen("many", "n00")
        await on.press("enter", "G")
        await on.seen("n11", "n05")
        await on.until(lambda: "n00" not in on.text())
        await on.pilot.resize_terminal(140, 60)
        await on.seen("n00", "n11")

    view(engine, steps)


def test_single_changes_of_a_block_follow_while_they_are_shown(
    repo: Repo, engine: Direct
) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up", "+tidy")
        await on.press("space")
        await on.seen("modify  src/parser.py")
        with studio_of(repo) as studio:
            studio.turns["S1"] = turn
            studio.write("S1", "src/more.py", "more\n")
        await on.seen("create  src/more.py", "modify  src/parser.py", "2 files")

    with studio_of(repo) as studio:
        studio.prompt("S1", "Tidy up again")
        studio.write("S1", "src/parser.py", "tidy again\n")
        turn = studio.turns["S1"]
    view(engine, steps)


def test_u_undoes_nothing_while_a_search_is_on_its_way(engine: Direct) -> None:
    """The cursor is still on a line that is not the one that is searched."""
    slow = Slow(engine, "history")

    async def steps(on: Play) -> None:
        await on.seen("Tidy up", "+tidy")
        slow.waits.set()
        await on.press("slash", *"nowhere", "enter")
        await on.until(slow.entered.is_set)
        await on.press("u")
        await on.seen("still searching")
        slow.waits.clear()
        slow.let_go.set()
        await on.seen("nothing older has nowhere")

    view(slow, steps)


@pytest.fixture
def linked(repo: Repo, engine: Direct, tmp_path: Path) -> Repo:
    """Return a linked worktree in which an agent worked last."""
    made = Repo(tmp_path / "linked")
    repo.git("worktree", "add", "-q", "-b", "side", str(made.root))
    with studio_of(made) as studio:
        studio.prompt("S3", "Try it elsewhere")
        studio.write("S3", "try.py", "try\n")
        studio.stop("S3")
    return made


def test_w_shows_the_turns_of_other_worktrees_and_u_undoes_there(
    repo: Repo, engine: Direct, linked: Repo
) -> None:
    async def steps(on: Play) -> None:
        assert "Try it elsewhere" not in await on.seen("Tidy up")
        await on.press("w")
        shown = await on.seen("Timeline of 2 worktrees", "Try it elsewhere", "Tidy up")
        assert any("linked" in one and "Try it" in one for one in shown.split("\n"))
        await on.press("g", "u")
        await on.seen("in worktree linked: plan", "try.py", "y apply")
        await on.press("y")
        await on.seen("undo this with", "all of this is in worktree linked")
        await on.press("enter")
        await on.until(lambda: not linked.exists("try.py"))
        await on.press("w")
        await on.seen("Timeline of this worktree")
        await on.until(lambda: "Try it elsewhere" not in on.text())

    view(engine, steps)
    assert repo.read("src/parser.py") == b"tidy\n"


def test_w_without_other_worktrees_says_so(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("w")
        await on.seen("this is the only recorded worktree")

    view(engine, steps)


def test_pane_with_the_focus_is_marked_and_the_foot_has_its_keys(
    engine: Direct,
) -> None:
    """By the form of its border, not by colour alone."""

    async def steps(on: Play) -> None:
        shown = await on.seen("Tidy up", "Timeline", "Files", "Diff of src/parser.py")
        assert "\u250f\u2501 Timeline" in shown
        await on.seen("Enter files", "? help", "q quit")
        await on.press("enter")
        await on.seen("u undo file", "\u250f\u2501 Files", "\u256d\u2500 Timeline")
        await on.press("enter")
        await on.seen("i undo hunk", "\u250f\u2501 Diff of")

    view(engine, steps)


@pytest.mark.parametrize(
    ("size", "columns"), [((80, 24), 2), ((120, 40), 2), ((200, 60), 3)]
)
def test_panes_use_the_size_of_the_terminal(
    engine: Direct, size: tuple[int, int], columns: int
) -> None:
    """At 200 columns three panes are side by side."""

    async def steps(on: Play) -> None:
        await on.seen("Tidy up", "Files", "Diff of")
        panes = list(on.app.screen.query(LineView))
        assert all(pane.size.height >= 6 for pane in panes)
        assert len({pane.region.x for pane in panes}) == columns

    view(engine, steps, size=size)


def test_i_on_the_line_of_the_file_takes_its_first_hunk(
    repo: Repo, engine: Direct
) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up", "+tidy")
        await on.press("enter", "enter", "i")
        await on.seen("will restore 1 file", "src/parser.py", "y apply")
        await on.press("y")
        await on.until(lambda: repo.read("src/parser.py") == b"strict\n")

    view(engine, steps)


def test_short_plan_is_a_small_frame(engine: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("Tidy up")
        await on.press("u")
        await on.seen("will restore 1 file", "y apply")
        frame = on.app.screen.query_one(Vertical)
        await on.until(lambda: frame.outer_size.height == 8)

    view(engine, steps, size=(120, 40))
