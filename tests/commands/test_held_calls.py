"""AN-19 on the command line: what is held is seen, sent, dropped or settled by a person."""

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.cli import main
from gitshadow.commands import recover
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.session import AgentUndo
from tests.commands.test_effects import column, shown
from tests.sdk.turns.declared import holding
from tests.sdk.turns.world import World
from tests.support.places import recorded

TOOLS = ["--tools", "tests.sdk.turns.declared:HOLDING"]
HOUR_NS = 3600 * 1_000_000_000

pytestmark = pytest.mark.usefixtures("au")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Stand in a recorded place with a world in it."""
    root = recorded(tmp_path / "place")
    monkeypatch.chdir(root)
    monkeypatch.setenv("TOY_WORLD", str(root / "world"))
    monkeypatch.delitem(sys.modules, "tests.sdk.turns.declared", raising=False)
    return World.make(root / "world")


@pytest.fixture
def au(world: World) -> Iterator[AgentUndo]:
    """Return a session that held a mail for a minute, an hour ago."""
    policy = Policy(non_reversible="allow")
    host = Host(clock=lambda: time.time_ns() - HOUR_NS)
    root, tools = str(world.root.parent), holding(world)
    with AgentUndo.open(
        root, session="s", tools=tools, policy=policy, host=host
    ) as opened:
        with opened.turn("go") as turn:
            turn.call("mail.send", to="x")
        yield opened


def test_attention_and_saga_show_what_is_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (row,) = shown(capsys, "attention")
    assert (row["what"], row["call"], row["tool"], row["state"]) == (
        *("held", "t-1.1", "mail.send", "due"),
    )
    assert str(row["due"]).endswith("Z")
    assert column(shown(capsys, "saga", "show", "t-1"), "outcome") == ["held"]
    assert main(["saga", "show", "t-1"]) == 0
    assert "Executed" not in capsys.readouterr().out
    assert main(["attention"]) == 0
    assert "due" in capsys.readouterr().out


def test_recover_sends_what_is_due_once(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.state["sent"] == []
    (row,) = shown(capsys, "recover", "--yes", *TOOLS)
    assert (row["what"], row["call"], row["state"]) == ("release", "t-1.1", "sent")
    assert world.state["sent"] == ["x"]
    assert main(["recover"]) == 0
    assert capsys.readouterr().err == "nothing to recover\n"
    assert world.state["sent"] == ["x"]


def test_recover_lists_first_and_sends_nothing_before_a_yes(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mail that is sent cannot be taken back: as every undo verb, exit 5 without a yes."""
    (row,) = shown(capsys, "recover", "--dry-run")
    assert (row["call"], row["state"], row["waits"]) == ("t-1.1", "due", False)
    assert main(["recover", *TOOLS]) == 5
    said = capsys.readouterr()
    assert "mail.send" in said.out
    assert said.err == "hint: nothing was done; to finish these: --yes\n"
    assert world.state["sent"] == []


def test_recover_asks_on_a_terminal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recover, "is_interactive", lambda: True)
    for answer, code, sent in (("n", 5, []), ("y", 0, ["x"])):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))
        assert main(["recover", *TOOLS]) == code
        assert world.state["sent"] == sent


def test_recover_without_the_tool_says_so(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4: something is left, and the mail still waits."""
    other = ["--tools", "tests.sdk.turns.declared:EMPTY"]
    (row,) = shown(capsys, "recover", "--yes", *other, code=4)
    assert (row["state"], row["text"]) == ("due", "nothing is registered as mail.send")
    assert len(au.held()) == 1


def test_undo_drops_what_is_held(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (report,) = shown(capsys, "undo", "t-1", "--yes", *TOOLS)
    (item,) = report["items"]
    assert (item["domain"], item["state"]) == ("outbox", "reversed")
    assert shown(capsys, "attention") == []
    assert main(["recover"]) == 0
    assert world.state["sent"] == []


def test_redo_names_what_the_undo_dropped(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-23: a held call that an undo dropped is not sent after a redo, and that is said."""
    (undone,) = shown(capsys, "undo", "t-1", "--yes", *TOOLS)
    (report,) = shown(capsys, "redo", str(undone["op_id"]), "--yes", code=4)
    (item,) = report["items"]
    assert (item["domain"], item["call_id"], item["state"], item["detail"]) == (
        *("outbox", "t-1.1", "not_reversed"),
        "it was held and dropped; it is not held again",
    )
    assert world.state["sent"] == []


def test_a_person_may_settle_what_is_held(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resolve", "t-1.1", "--as", "reversed", "--note", "by hand"]) == 0
    assert shown(capsys, "attention") == []
    assert main(["recover"]) == 0
    assert world.state["sent"] == []
