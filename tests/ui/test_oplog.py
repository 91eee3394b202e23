"""What was undone, on a screen."""

import pytest

from gitshadow.ui.pins_and_ops import OpsScreen
from tests.support.repo import Repo, ten_lines
from tests.support.screens import Direct, Play, direct, play
from tests.support.studio import studio_of


@pytest.fixture
def undone(repo: Repo) -> Direct:
    """Return the engine of R after an agent's write was undone."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "wrong\n")
        studio.stop("S1")
        studio.run("undo", verb="oops", yes=True)
    return direct(repo)


def test_an_op_shows_its_report(undone: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("> op-", "oops", "Enter its report")
        await on.press("enter")
        await on.seen("restored 1 file", "reverted  a")

    play(OpsScreen(undone), steps)


def test_an_op_is_redone_by_its_plan(repo: Repo, undone: Direct) -> None:
    async def steps(on: Play) -> None:
        await on.seen("> op-")
        await on.press("r")
        await on.seen("will redo changes to 1 file", "redo      a")
        assert repo.read("a") == ten_lines("a").encode()
        await on.press("y")
        await on.seen("undo this with")
        await on.press("enter")
        await on.seen("oops      undone      b-")
        await on.press("q")

    assert play(OpsScreen(undone), steps) == [True]
    assert repo.read("a") == b"wrong\n"


def test_a_redo_is_taken_back_from_the_list(repo: Repo, undone: Direct) -> None:
    undone.ask("undo", {"verb": "redo", "yes": True})

    async def steps(on: Play) -> None:
        await on.seen("> op-", "redo")
        await on.press("u")
        await on.seen("will restore 1 file")
        await on.press("y")
        await on.seen("undo this with")

    play(OpsScreen(undone), steps)
    assert repo.read("a") == ten_lines("a").encode()


def test_nothing_undone_yet_is_said(repo: Repo) -> None:
    with studio_of(repo):
        pass

    async def steps(on: Play) -> None:
        await on.seen("nothing has been undone yet")
        await on.press("enter", "r", "u", "j", "escape")

    assert play(OpsScreen(direct(repo)), steps, size=(60, 16)) == [False]


def test_ascii_alone_is_drawn_where_there_is_no_more(undone: Direct) -> None:
    async def steps(on: Play) -> None:
        assert (await on.seen("> op-")).isascii()

    play(OpsScreen(undone), steps, unicode=False)
