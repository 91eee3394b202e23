"""A process that was forked in a turn has a copy of it, and changes nothing."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo, Turn
from tests.sdk.turns.test_savepoints import HostUndo
from tests.sdk.turns.world import BoomError, undone_by


def opened(place: Path, host: Host | None = None) -> AgentUndo:
    """Return a session whose tool writes lines, and whose inverse does so too."""
    tools, world = ToolRegistry(), place / "world"

    def write(line: str) -> None:
        with world.open("a") as stream:
            stream.write(f"{line}\n")

    tools.handler("line.undo", idempotent=True)(lambda: write("undone"))
    tools.tool("line.do", **undone_by("line.undo"))(lambda: write("done"))
    return AgentUndo.open(place, session="s", tools=tools, host=host)


def in_child(work: Callable[[], object]) -> str:
    """Run a function in a forked process; return what it raised, in words."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            notes = getattr(error, "__notes__", ())
            lines = [f"{type(error).__name__}: {error}", *notes]
            os.write(write, "\n".join(lines).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


def leave(turn: Turn, error: BaseException | None) -> None:
    """Leave the block of a turn, as an exception that passes does."""
    try:
        if error is not None:
            raise error
    except BaseException as raised:
        turn.__exit__(type(raised), raised, None)
        raise
    else:
        turn.__exit__(None, None, None)


@pytest.mark.parametrize("error", [None, BoomError("x"), SystemExit(0)])
def test_a_child_ends_no_turn(place: Path, error: BaseException | None) -> None:
    """H10: the parent commits, and its effect is there."""
    host = HostUndo()
    with opened(place, Host(undo=host)) as au:
        with au.turn("go") as turn:
            turn.call("line.do")
            said = in_child(lambda: leave(turn, error))
            assert "cannot use session s in a child process" in said
            assert said.startswith(
                "UsageError" if error is None else type(error).__name__
            )
            turn.call("line.do")
        assert au.turns()[0].status == "committed"
        assert (place / "world").read_text() == "done\ndone\n"
        assert host.calls == ["t-1.1", "t-1.2", "commit"]


WRITES: dict[str, Callable[[AgentUndo, Turn], object]] = {
    "call": lambda au, turn: turn.call("line.do"),
    "say": lambda au, turn: turn.say("a", "b"),
    "state": lambda au, turn: turn.set_state({"k": 1}),
    "artifact": lambda au, turn: turn.save_artifact("a", b"x"),
    "turn": lambda au, turn: au.turn("again").__enter__(),
    "undo": lambda au, turn: au.undo("t-1"),
    "rewind": lambda au, turn: au.rewind("t-1"),
    "recover": lambda au, turn: au.recover(),
    "read": lambda au, turn: au.turns(),
    "create": lambda au, turn: au.create({}),
    "fork": lambda au, turn: au.fork("t-1", "s2"),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_child_uses_nothing_of_a_session(place: Path, name: str) -> None:
    """H10: least of all its connection to SQLite."""
    with opened(place) as au, au.turn("go") as turn:
        turn.call("line.do")
        said = in_child(lambda: WRITES[name](au, turn))
        assert said.startswith("UsageError: cannot use session s in a child process")
        assert len(au.calls("t-1")) == 1


def test_a_child_undoes_no_savepoint(place: Path) -> None:
    with opened(place) as au, au.turn("go") as turn:

        def fail() -> None:
            with turn.savepoint("inner"):
                raise BoomError("x")

        with turn.savepoint("outer"):
            turn.call("line.do")
            assert in_child(fail).startswith("BoomError: x\nthe rollback stopped")
    assert (place / "world").read_text() == "done\n"


def test_closing_in_a_child_does_nothing(place: Path) -> None:
    with opened(place) as au:
        assert in_child(au.close) == ""
        with au.turn("go") as turn:
            assert in_child(au.close) == ""
            assert in_child(lambda: sys.exit(0)) == "SystemExit: 0"
            turn.call("line.do")
        assert au.turns()[0].status == "committed"


def test_a_child_may_open_the_session_itself(place: Path) -> None:
    with opened(place):
        pass

    def work() -> None:
        with opened(place) as au, au.turn("go") as turn:
            turn.call("line.do")

    assert in_child(work) == ""
    with opened(place) as au:
        assert au.turns()[0].status == "committed"


@pytest.mark.parametrize("how", ["close", "leave"])
def test_a_session_is_not_closed_in_a_turn(place: Path, how: str) -> None:
    """M7: the turn can still be rolled back, and is."""
    au = opened(place)
    with (
        pytest.raises(UsageError, match="cannot close session s: t-1 is open"),
        au.turn("go") as turn,
    ):
        turn.call("line.do")
        if how == "close":
            au.close()
        with au:
            pass
    assert (place / "world").read_text() == "done\nundone\n"
    assert au.turns()[0].status == "rolled_back"
    au.close()


def test_an_error_that_leaves_a_session_in_a_turn_rolls_it_back(place: Path) -> None:
    """M7: the error stays the one that is raised."""
    au = opened(place)
    with pytest.raises(BoomError) as caught, au.turn("go") as turn, au:
        turn.call("line.do")
        raise BoomError("x")
    assert caught.value.undo_report.ok  # type: ignore[attr-defined]
    assert caught.value.__notes__ == ["cannot close session s: t-1 is open"]
    assert (place / "world").read_text() == "done\nundone\n"
    au.close()


@pytest.mark.parametrize("name", ["", " "])
def test_a_session_has_a_name(place: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot open a session without a name"):
        AgentUndo.open(place, session=name, tools=ToolRegistry())
