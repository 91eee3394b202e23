"""Who wrote each line, on a screen."""

import pytest

from gitshadow.messages.blame import OwnerRow
from gitshadow.messages.codec import decode
from gitshadow.ui.blame import BlameScreen, letter_of, told_of
from tests.support.repo import Repo
from tests.support.screens import Direct, Play, direct, play
from tests.support.studio import studio_of


@pytest.fixture
def written(repo: Repo) -> Direct:
    """Return the engine of R where an agent wrote one line of `a`, and a person one."""
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", "Make it better.\nMuch better.")
        studio.write("S1", "a", "one\ntwo\n")
        studio.stop("S1")
        studio.hand("a", "one\ntwo\nthree\x1b[2J\n")
    return direct(repo)


def test_each_line_has_the_letter_and_name_of_its_writer(written: Direct) -> None:
    """Agent and prompt are named; classes are told apart without colour."""

    async def steps(on: Play) -> None:
        shown = await on.seen(
            "A claude-code  1 one",
            "A claude-code  2 two",
            r"U unknown      3 three\x1b[2J",
            "prompt: Make it better.",
            "Much better.",
        )
        assert "certain" in shown

    assert play(BlameScreen(written, "a"), steps) == []


def test_enter_goes_to_the_write_of_the_line(written: Direct) -> None:
    rows = written.ask("log", {"paths": ["a"]})["rows"]
    assert isinstance(rows, list)
    newest, agents = rows[0]["seq"], rows[1]["seq"]

    async def first(on: Play) -> None:
        await on.seen("claude-code  1 one")
        await on.press("enter")

    async def last(on: Play) -> None:
        await on.seen("claude-code  1 one")
        await on.press("G", "enter")

    assert play(BlameScreen(written, "a"), first) == [agents]
    assert play(BlameScreen(written, "a"), last) == [newest]


def test_a_line_that_git_alone_knows_leads_nowhere(repo: Repo) -> None:
    with studio_of(repo):
        pass

    async def steps(on: Play) -> None:
        await on.seen("1 b line 1")
        await on.press("enter")
        await on.seen("nothing to show or undo")
        await on.press("q")

    assert play(BlameScreen(direct(repo), "b"), steps) == [None]


def test_u_takes_back_what_wrote_the_line(repo: Repo, written: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("3 three")
        await on.press("G", "u")
        await on.seen("will restore 1 file", "y apply")
        await on.press("y")
        await on.seen("undo this with")
        await on.press("enter")
        await on.until(lambda: "three" not in on.text())

    play(BlameScreen(written, "a"), steps)
    assert repo.read("a") == b"one\ntwo\n"


def test_it_begins_at_the_line_that_is_given(written: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen(">U unknown      3 three", "event")

    play(BlameScreen(written, "a", line=3), steps)


def test_a_file_is_blamed_as_it_was(written: Direct) -> None:
    rows = written.ask("log", {"paths": ["a"]})["rows"]
    assert isinstance(rows, list)

    async def steps(on: Play) -> None:
        shown = await on.seen("2 two", "a, at ")
        assert "three" not in shown

    play(BlameScreen(written, "a", at=str(rows[1]["seq"])), steps)


def test_a_file_that_is_not_there_is_said(written: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("error: cannot find file nothing")
        await on.press("enter", "u", "j", "escape")

    assert play(BlameScreen(written, "nothing"), steps) == [None]


@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
def test_it_fits_a_small_screen(written: Direct, size: tuple[int, int]) -> None:
    async def steps(on: Play) -> None:
        shown = await on.seen("A claude-code  1 one", "prompt:", "Esc leave")
        assert max(map(len, shown.splitlines())) <= size[0]

    play(BlameScreen(written, "a"), steps, size=size)


@pytest.mark.parametrize(
    ("owner", "letter"),
    [
        ({"actor": "agent", "confidence": "certain"}, "A"),
        ({"actor": "human"}, "H"),
        ({"actor": "unknown"}, "U"),
        ({"actor": "unknown", "confidence": "ambiguous"}, "?"),
        ({}, "U"),
    ],
)
def test_classes_are_letters(owner: dict[str, object], letter: str) -> None:
    assert letter_of(decode(OwnerRow, owner)) == letter


def test_what_is_told_of_a_writer_is_printable() -> None:
    row = {"actor": "agent", "agent": "x\x1b", "seq": 7, "prompt": "a\x1b\nb"}
    owner = decode(OwnerRow, row)
    assert told_of(owner)[:3] == [
        r"x\x1b, event 7",
        r"prompt: a\x1b",
        "        b",
    ]


def test_ascii_alone_is_drawn_where_there_is_no_more(written: Direct) -> None:
    async def steps(on: Play) -> None:
        assert (await on.seen("A claude-code  1 one", "prompt:")).isascii()

    play(BlameScreen(written, "a"), steps, unicode=False)
