"""The plan on the screen: shown, agreed to, applied, reported; nothing else changes a file."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitshadow.messages.states import SHOW, ShowRequest
from gitshadow.messages.undo import FileUndoAnswer
from gitshadow.store.lock import WriterLock
from gitshadow.ui.patches import FilePatch, patch_of
from gitshadow.ui.plans import PlanScreen, PlanStage
from tests.support.repo import Repo, ten_lines
from tests.support.screens import Direct, Play, direct, play, view, wish_of
from tests.support.studio import studio_of

OOPS = wish_of("oops")
WRONG = ten_lines("a").replace("a line 2\n", "wrong 2\n")


@pytest.fixture
def wronged(repo: Repo) -> Direct:
    """Return the engine of R after an agent's one burst: `a` is changed, `new` made."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", WRONG)
        studio.write("S1", "new", "new\n")
        studio.stop("S1")
    return direct(repo)


def test_the_plan_is_shown_and_y_applies_it(repo: Repo, wronged: Direct) -> None:
    """UX-04: what comes back is read before it is done, and the report says how to go back."""

    async def steps(on: Play) -> None:
        shown = await on.seen(
            "will restore 2 files", "revert    a", "delete    new", "y apply"
        )
        assert "+1 -1" in shown
        await on.press("y")
        await on.seen("restored 2 files", "undo this with: git agent-undo redo")
        await on.press("enter")

    (report,) = play(PlanScreen(wronged, OOPS), steps)
    assert repo.read("a") == ten_lines("a").encode()
    assert not repo.exists("new")
    assert isinstance(report, FileUndoAnswer)
    assert report.status == "reversed"


def test_i_takes_the_first_hunk_on_the_line_of_the_file(wronged: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("prompt of S1", "+wrong 2")
        await on.press("enter", "enter", "i")
        await on.seen("will restore", "y apply")

    view(wronged, steps)


@pytest.mark.parametrize("key", ["n", "escape", "q"])
def test_leaving_the_plan_changes_nothing(
    repo: Repo, wronged: Direct, key: str
) -> None:
    async def steps(on: Play) -> None:
        await on.seen("y apply")
        await on.press(key)

    assert play(PlanScreen(wronged, OOPS), steps) == [None]
    assert (repo.read("a"), repo.exists("new")) == (WRONG.encode(), True)


def test_a_world_that_changed_gives_a_new_plan(repo: Repo, wronged: Direct) -> None:
    """UNDO-28: the token belongs to the plan on the screen only."""

    async def steps(on: Play) -> None:
        await on.seen("will restore 2 files")
        repo.write("a", WRONG + "mine\n")
        await on.press("y")
        shown = await on.seen("Nothing was changed", "later edits kept")
        assert "y apply" in shown
        assert repo.read("a") == (WRONG + "mine\n").encode()
        await on.press("y")
        await on.seen("undo this with")

    play(PlanScreen(wronged, OOPS), steps)
    assert repo.read("a") == (ten_lines("a") + "mine\n").encode()


def test_a_conflict_is_left_and_looks_different(repo: Repo, wronged: Direct) -> None:
    """LAW-05: partial is called partial."""
    repo.write("a", WRONG.replace("wrong 2", "mine 2"))

    async def steps(on: Play) -> None:
        await on.seen(
            "skip      a: the same lines were edited later",
            "c conflicts: skip",
        )
        await on.press("y")
        await on.seen(": partial", "restored 1 file, skipped 1")
        assert on.app.screen.has_class("-partial")

    play(PlanScreen(wronged, OOPS), steps)
    assert repo.read("a") == WRONG.replace("wrong 2", "mine 2").encode()


def test_a_conflict_is_overwritten_where_that_is_chosen(
    repo: Repo, wronged: Direct
) -> None:
    repo.write("a", WRONG.replace("wrong 2", "mine 2"))

    async def steps(on: Play) -> None:
        await on.seen("c conflicts: skip")
        await on.press("c")
        await on.seen("will restore 2 files", "c conflicts: use the old lines")
        await on.press("y")
        await on.seen("undo this with")
        assert on.app.screen.has_class("-done")

    play(PlanScreen(wronged, OOPS), steps)
    assert repo.read("a") == ten_lines("a").encode()


def test_conflict_markers_are_written_where_that_is_chosen(
    repo: Repo, wronged: Direct
) -> None:
    repo.write("a", WRONG.replace("wrong 2", "mine 2"))

    async def steps(on: Play) -> None:
        await on.seen("c conflicts: skip")
        await on.press("c")
        await on.seen("c conflicts: use the old lines")
        await on.press("c")
        await on.seen("c conflicts: both, with conflict markers")
        await on.press("y")
        await on.seen("undo this with")

    play(PlanScreen(wronged, OOPS), steps)
    assert b"<<<<<<<" in repo.read("a")


TWICE = ten_lines("a").replace("a line 1\n", "one\n").replace("a line 10\n", "ten\n")


@pytest.fixture
def twice(repo: Repo) -> Direct:
    """Return the engine of R after an agent changed the first and the last line of `a`."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", TWICE)
        studio.stop("S1")
    return direct(repo)


def test_hunks_are_chosen_one_by_one(repo: Repo, twice: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("h choose hunks")
        await on.press("h")
        await on.seen("(2 to go) undo this hunk?  a", "+a line 1")
        await on.press("n")
        await on.seen("(1 to go)", "+a line 10")
        await on.press("y")
        await on.seen("1 of 2 changes chosen", "y apply")
        await on.press("y")
        await on.seen("undo this with")

    play(PlanScreen(twice, OOPS), steps)
    assert repo.read("a") == ten_lines("a").replace("a line 1\n", "one\n").encode()


def test_a_question_can_be_asked_again(repo: Repo, twice: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("h choose hunks")
        await on.press("h")
        await on.seen("(2 to go)")
        await on.press("n")
        await on.seen("(1 to go)")
        await on.press("b")
        await on.seen("(2 to go)")
        await on.press("y", "n")
        await on.seen("1 of 2 changes chosen")
        await on.press("y")
        await on.seen("undo this with")

    play(PlanScreen(twice, OOPS), steps)
    assert repo.read("a") == ten_lines("a").replace("a line 10\n", "ten\n").encode()


def test_turning_back_from_the_hunks_shows_the_plan_again(twice: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("h choose hunks")
        await on.press("h")
        await on.seen("(2 to go)")
        await on.press("escape")
        await on.seen("will restore 1 file", "y apply")

    assert play(PlanScreen(twice, OOPS), steps) == []


def test_a_choice_that_does_not_fit_any_more_is_said(repo: Repo, twice: Direct) -> None:
    """What y would do now is more than what was chosen, so nobody presses it by habit."""

    async def steps(on: Play) -> None:
        await on.seen("h choose hunks")
        await on.press("h")
        await on.seen("(2 to go)")
        await on.press("n", "y")
        await on.seen("1 of 2 changes chosen")
        repo.write("a", TWICE + "mine\n")
        await on.press("y")
        await on.seen("no longer applies", "will restore 1 file", "y apply")

    play(PlanScreen(twice, OOPS), steps)
    assert repo.read("a") == (TWICE + "mine\n").encode()


def test_the_hunk_that_one_stands_on_is_taken_back_alone(
    repo: Repo, twice: Direct
) -> None:
    (file,) = _files(twice, _burst(twice))

    async def steps(on: Play) -> None:
        await on.seen("1 of 2 changes chosen", "y apply")
        await on.press("y")
        await on.seen("undo this with")

    wish = wish_of("undo", targets=(_burst(twice),))
    play(PlanScreen(twice, wish, hunk=("a", file.hunks[1])), steps)
    assert repo.read("a") == ten_lines("a").replace("a line 1\n", "one\n").encode()


def test_a_hunk_that_is_there_no_more_is_not_guessed_at(
    repo: Repo, twice: Direct
) -> None:
    burst = _burst(twice)
    (file,) = _files(twice, burst)
    repo.write("a", TWICE.replace("one\n", "mine\n"))

    async def steps(on: Play) -> None:
        await on.seen(
            "later edits changed these lines, so this hunk cannot be undone",
            "skip      a: the same lines were edited later",
        )

    wish = wish_of("undo", targets=(burst,))
    play(PlanScreen(twice, wish, hunk=("a", file.hunks[0])), steps)
    assert repo.read("a") == TWICE.replace("one\n", "mine\n").encode()


def test_of_hunks_that_read_the_same_the_one_that_one_stands_on_is_taken_back(
    repo: Repo,
) -> None:
    before = "".join(f"a line {number}\n" for number in range(30)).replace(
        "9\n", "9\n=\n"
    )
    after = before.replace("=\n", "+\n")
    with studio_of(repo) as studio:
        studio.hand("a", before)
        studio.write("S1", "a", after)
        studio.stop("S1")
    engine = direct(repo)
    burst = _burst(engine)
    (file,) = _files(engine, burst)

    async def steps(on: Play) -> None:
        await on.seen("1 of 3 changes chosen", "y apply")
        await on.press("y")
        await on.seen("undo this with")

    wish = wish_of("undo", targets=(burst,))
    play(PlanScreen(engine, wish, hunk=("a", file.hunks[1])), steps)
    assert repo.read("a") == after.replace("19\n+", "19\n=").encode()


def _files(engine: Direct, id: str) -> tuple[FilePatch, ...]:
    return patch_of(
        engine.send(SHOW, ShowRequest(id, hunks=True)).file_diffs or ()
    ).files


def _burst(engine: Direct) -> str:
    rows = engine.ask("log", {"limit": 1})["rows"]
    assert isinstance(rows, list)
    return str(rows[0]["burst"])


def test_d_shows_what_the_plan_does_to_the_lines(repo: Repo, wronged: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("d show the lines")
        await on.press("d")
        await on.seen("-wrong 2", "+a line 2", "Esc back to the plan")
        await on.press("n", "escape")
        await on.seen("will restore 2 files", "y apply")

    play(PlanScreen(wronged, OOPS), steps)
    assert repo.read("a") == WRONG.encode()


def test_d_shows_the_lines_of_the_chosen_hunks_alone(twice: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("h choose hunks")
        await on.press("h")
        await on.seen("(2 to go)")
        await on.press("n", "y")
        await on.seen("1 of 2 changes chosen")
        await on.press("d")
        assert "a line 1\n" not in await on.seen("+a line 10")

    play(PlanScreen(twice, OOPS), steps)


def test_d_shows_the_new_plan_where_the_world_changed(
    repo: Repo, wronged: Direct
) -> None:
    async def steps(on: Play) -> None:
        await on.seen("d show the lines")
        repo.write("a", WRONG + "mine\n")
        await on.press("d")
        await on.seen("+a line 2")
        await on.press("escape")
        await on.seen("the files have changed", "later edits kept")

    play(PlanScreen(wronged, OOPS), steps)


def test_a_file_is_restored_as_it_was_at_a_moment(repo: Repo) -> None:
    with studio_of(repo) as studio:
        studio.write("S1", "a", "first\n")
        studio.write("S1", "a", "second\n")
        studio.write("S1", "b", "other\n")
    engine = direct(repo)
    rows = engine.ask("log", {"paths": ["a"]})["rows"]
    assert isinstance(rows, list)
    first = rows[1]["seq"]

    async def steps(on: Play) -> None:
        await on.seen("restore a: plan", "revert    a")
        await on.press("y")
        await on.seen("undo this with")

    play(PlanScreen(engine, wish_of("restore", paths=("a",), at=str(first))), steps)
    assert (repo.read("a"), repo.read("b")) == (b"first\n", b"other\n")


@contextmanager
def _at_work(engine: Direct) -> Iterator[None]:
    """Hold the writer lock, as an undo of somebody else does."""
    lock = WriterLock(engine.layout.lock)
    lock.acquire(timeout_s=0.0)
    try:
        yield
    finally:
        lock.release()


def test_it_only_looks_while_another_undo_is_at_work(
    repo: Repo, wronged: Direct
) -> None:
    wronged.lock_s = 0.0

    async def steps(on: Play) -> None:
        await on.seen("y apply")
        with _at_work(wronged):
            await on.press("y")
            await on.seen("another command is running here", "r try again")
            await on.press("y")
            assert repo.exists("new")
        await on.press("r")
        await on.seen("will restore 2 files", "y apply")

    play(PlanScreen(wronged, OOPS), steps)
    assert repo.exists("new")


def test_an_error_is_shown_with_its_hint(wronged: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("error: cannot find", "hint: ")
        await on.press("y", "escape")

    wish = wish_of("undo", targets=("nothing-like-it",))
    assert play(PlanScreen(wronged, wish), steps) == [None]


def test_nothing_to_do_is_said_and_cannot_be_applied(repo: Repo) -> None:
    with studio_of(repo):
        pass

    async def steps(on: Play) -> None:
        shown = await on.seen("nothing to", "n leave")
        assert "y apply" not in shown
        await on.press("y", "enter")

    assert play(PlanScreen(direct(repo), OOPS), steps) == [None]


def test_it_cannot_be_left_while_it_applies(repo: Repo, wronged: Direct) -> None:
    """A resize and every key in the middle of it change nothing of what is done."""
    wronged.held = threading.Event()

    async def steps(on: Play) -> None:
        await on.seen("y apply")
        await on.press("y")
        await on.until(wronged.entered.is_set)
        await on.press("escape", "q", "n", "enter", "y", "h", "c")
        await on.pilot.resize_terminal(60, 12)
        await on.seen("running", "applying")
        wronged.held = wronged.held or threading.Event()
        wronged.held.set()
        await on.seen("undo this with")

    play(PlanScreen(wronged, OOPS), steps)
    assert not repo.exists("new")


def test_the_app_ends_only_after_what_it_began(repo: Repo, wronged: Direct) -> None:
    """LAW-09: closing the view in the middle of an undo leaves no half of it."""
    held = wronged.held = threading.Event()

    async def steps(on: Play) -> None:
        await on.seen("y apply")
        await on.press("y")
        await on.until(wronged.entered.is_set)
        threading.Timer(0.05, held.set).start()
        on.app.exit()

    play(PlanScreen(wronged, OOPS), steps)
    assert (repo.read("a"), repo.exists("new")) == (ten_lines("a").encode(), False)


def test_a_long_line_is_wrapped_and_loses_nothing(repo: Repo) -> None:
    name = "word-" * 20 + "end"
    with studio_of(repo) as studio:
        studio.write("S1", name, "new\n")

    async def steps(on: Play) -> None:
        shown = await on.seen("(-1)")
        assert (
            shown.replace("│", "").replace("\n", "").replace(" ", "").count("word-")
            == 20
        )

    play(PlanScreen(direct(repo), OOPS), steps, size=(60, 20))


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
def test_the_question_is_on_a_small_screen(
    wronged: Direct, size: tuple[int, int]
) -> None:
    async def steps(on: Play) -> None:
        shown = await on.seen(
            "will restore 2 files", "delete    new", "y apply", "n leave"
        )
        assert max(map(len, shown.splitlines())) <= size[0]

    play(PlanScreen(wronged, OOPS), steps, size=size)


def test_a_click_on_a_key_does_the_same(repo: Repo, wronged: Direct) -> None:
    async def steps(on: Play) -> None:
        row = (await on.seen("y apply")).splitlines()
        y = next(number for number, line in enumerate(row) if "y apply" in line)
        await on.pilot.click(offset=(row[y].index("y apply") + 3, y))
        await on.seen("undo this with")

    play(PlanScreen(wronged, OOPS), steps)
    assert not repo.exists("new")


def test_the_plan_stays_through_a_resize(repo: Repo, wronged: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("y apply")
        await on.pilot.resize_terminal(20, 5)
        await on.pilot.resize_terminal(120, 40)
        await on.seen("will restore 2 files", "delete    new", "y apply")
        await on.press("y")
        await on.seen("undo this with")

    play(PlanScreen(wronged, OOPS), steps)
    assert not repo.exists("new")


def test_names_with_escape_codes_do_not_act(repo: Repo) -> None:
    """ROB-12: they are shown escaped, whatever they hold; brackets are no markup."""
    with studio_of(repo) as studio:
        studio.write("S1", "[red]\x1b[2Jx[/]", "new\n")

    async def steps(on: Play) -> None:
        await on.seen(r"[red]\033[2Jx[/]")

    play(PlanScreen(direct(repo), OOPS), steps)


def test_ascii_alone_is_drawn_where_there_is_no_more(repo: Repo) -> None:
    """Without a Unicode locale: plan, lines, hunks and report."""
    with studio_of(repo) as studio:
        studio.write("S1", "größe.py", "x = 'ü'\n")

    async def steps(on: Play) -> None:
        assert (await on.seen("y apply")).isascii()
        await on.press("d")
        assert (await on.seen("Esc back to the plan")).isascii()
        await on.press("escape", "h")
        assert (await on.seen("(1 to go)")).isascii()
        await on.press("escape")
        await on.seen("y apply")
        await on.press("y")
        assert (await on.seen("undo this with")).isascii()

    play(PlanScreen(direct(repo), OOPS), steps, unicode=False)


def test_without_colour_the_words_are_the_same(
    wronged: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = PlanScreen(wronged, OOPS)

    async def steps(on: Play) -> None:
        await on.seen("will restore 2 files", "delete    new", "y apply")
        assert screen.stage is PlanStage.PLAN

    play(screen, steps)
