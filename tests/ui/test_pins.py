"""Pins on a screen."""

from gitshadow.ui.pins_and_ops import PinsScreen
from tests.support.repo import Repo, ten_lines
from tests.support.screens import Direct, Play, direct, play
from tests.support.studio import studio_of


def _pinned(repo: Repo) -> Direct:
    """Pin R as it is, then have an agent write."""
    with studio_of(repo) as studio:
        studio.run("pin", name="good")
        studio.write("S1", "a", "wrong\n")
    return direct(repo)


def test_a_pin_is_made_of_the_present(repo: Repo) -> None:
    with studio_of(repo):
        pass
    engine = direct(repo)

    async def steps(on: Play) -> None:
        await on.seen("no pins yet")
        await on.press("a")
        await on.seen("a name for the current state")
        await on.press(*"v1", "enter")
        await on.seen("> v1")
        await on.press("q")

    assert play(PinsScreen(engine), steps) == [True]
    rows = engine.ask("pins", {})["rows"]
    assert isinstance(rows, list)
    assert [row["name"] for row in rows] == ["v1"]


def test_a_name_that_cannot_be_one_is_said(repo: Repo) -> None:
    engine = _pinned(repo)

    async def steps(on: Play) -> None:
        await on.seen("> good")
        await on.press("a")
        await on.seen("a name for the current state")
        await on.press(*"good", "enter")
        await on.seen("cannot pin good: a pin with that name exists")
        await on.press("escape")

    assert play(PinsScreen(engine), steps) == [False]


def test_a_pin_is_restored_by_its_plan(repo: Repo) -> None:
    engine = _pinned(repo)

    async def steps(on: Play) -> None:
        await on.seen("> good")
        await on.press("enter")
        await on.seen("restore good: plan", "revert    a")
        assert repo.read("a") == b"wrong\n"
        await on.press("y")
        await on.seen("undo this with")
        await on.press("enter", "escape")

    assert play(PinsScreen(engine), steps) == [True]
    assert repo.read("a") == ten_lines("a").encode()


def test_a_pin_is_deleted_after_a_yes_alone(repo: Repo) -> None:
    engine = _pinned(repo)

    async def steps(on: Play) -> None:
        await on.seen("> good")
        await on.press("x")
        await on.seen("delete pin good? No file changes.")
        await on.press("enter")
        await on.seen("> good")
        await on.press("x")
        await on.seen("delete pin good?")
        await on.press("y")
        await on.seen("no pins yet")

    play(PinsScreen(engine), steps, size=(60, 16))
    assert engine.ask("pins", {})["rows"] == []
    assert repo.read("a") == b"wrong\n"


def test_ascii_alone_is_drawn_where_there_is_no_more(repo: Repo) -> None:
    engine = _pinned(repo)

    async def steps(on: Play) -> None:
        assert (await on.seen("> good")).isascii()
        await on.press("x")
        assert (await on.seen("delete pin good?")).isascii()

    play(PinsScreen(engine), steps, unicode=False)
