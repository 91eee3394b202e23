"""The verbs on agent programs, in this process: what they show and how they end.

These are the promises about the command line; the SDK's own tests are in tests/sdk/turns.
"""

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gitshadow.cli import main
from gitshadow.commands import undo_effects
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Inverse, Reversibility
from tests.sdk.turns.world import World, registry
from tests.support.places import recorded
from tests.support.small_disk import read_only

ROOT = Path(__file__).parent.parent.parent
TOOLS = ["--tools", "tests.sdk.turns.declared:TOOLS"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a recorded place with a world in it."""
    root = recorded(tmp_path / "place")
    World.make(root / "world")
    monkeypatch.chdir(root)
    monkeypatch.setenv("TOY_WORLD", str(root / "world"))
    monkeypatch.delitem(sys.modules, "tests.sdk.turns.declared", raising=False)
    return root


@pytest.fixture
def world(place: Path) -> World:
    """Return the world."""
    return World(place / "world")


@pytest.fixture
def au(place: Path, world: World) -> Iterator[AgentUndo]:
    """Return a session of a program that is still at work."""
    policy = Policy(non_reversible="allow")
    tools = registry(world)
    with AgentUndo.open(str(place), session="s", tools=tools, policy=policy) as opened:
        yield opened


def shown(
    capsys: pytest.CaptureFixture[str], *words: str, code: int = 0
) -> list[dict[str, Any]]:
    """Run a verb and return its JSON documents."""
    capsys.readouterr()
    found = main([*words, "--json"])
    out = capsys.readouterr().out
    assert found == code, out
    return [dict(json.loads(line)) for line in out.splitlines()]


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """Return one field of every row."""
    return [row[name] for row in rows]


@pytest.mark.parametrize(
    "verb",
    [
        *(("saga", one) for one in ("log", "turns")),
        *(("events",), ("state",), ("artifacts",), ("attention",), ("recover",)),
    ],
    ids=" ".join,
)
def test_a_session_that_nobody_knows_is_refused(
    au: AgentUndo, capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]
) -> None:
    """A misspelled session must not look like one in which all is well."""
    with au.turn("go"):
        pass
    shown(capsys, *verb, "--session", "s")
    assert main(["program", *verb, "--session", "S"]) == 2
    assert "error: cannot find session S\n" in capsys.readouterr().err


def test_the_log_shows_an_open_turn(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """INV-01, ENG-10: forward and inverse, from outside, while the turn is open."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="x")
        rows = shown(capsys, "saga", "log", "--turn", "t-1")
    assert column(rows, "kind") == ["turn_begun", "intent", "outcome"]
    body = column(rows, "body")[2]
    assert json.loads(body["inverse"])["handler"] == "draft.delete"


def test_the_log_is_filtered_by_tool(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """EN-10."""
    with au.turn("go") as turn:
        turn.call("notes.read", note="n")
        turn.call("crm.update", id=7, field="name", value="A")
    rows = shown(capsys, "saga", "log", "--tool", "crm.*")
    assert set(column(rows, "tool")) == {"crm.update"}
    assert main(["saga", "log"]) == 0
    assert "crm.update" in capsys.readouterr().out


def test_the_log_says_how_a_call_ended(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failure does not look like a success."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="x")
        turn.call("toy.soft_fail")
    assert main(["saga", "log"]) == 0
    said = capsys.readouterr().out
    assert ("outcome: success" in said, "outcome: failed" in said) == (True, True)


def test_a_second_undo_says_what_was_undone_before(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no news that it is reversed; each item has its domain or its call."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="x")
        turn.set_state({"trip": "oslo"})
    au.undo("t-1", scope={"effects"})
    assert main(["undo", "t-1", "--yes", *TOOLS]) == 0
    said = capsys.readouterr().out
    assert "draft.create t-1.1: already undone" in said
    assert "state trip" in said


def test_tools_are_listed_with_their_class(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """CLS-01."""
    rows = shown(capsys, "tools", *TOOLS)
    found = dict(zip(column(rows, "name"), column(rows, "class"), strict=True))
    assert [found[name] for name in ("draft.create", "card.charge", "mail.send")] == [
        *("reversible", "compensable", "non_reversible")
    ]
    assert found["slack.post"] == "undeclared"


@pytest.mark.parametrize("spec", [[], ["--tools", "no.such:X"], ["--tools", "json:x"]])
def test_tools_that_are_not_there_are_a_usage_error(
    place: Path, capsys: pytest.CaptureFixture[str], spec: list[str]
) -> None:
    assert main(["tools", *spec]) == 2
    assert capsys.readouterr().err.startswith(
        ("error: cannot load the tools", "error: missing option: --tools")
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code"),
    [
        ("draft.create", {"title": "x"}, "reversed", 0),
        ("card.charge", {"amount": 5}, "compensated", 3),
        ("mail.send", {"to": "x"}, "partial", 4),
        ("notes.read", {"note": "n"}, "nothing_to_do", 0),
    ],
)
def test_the_exit_code_of_an_undo_tells_the_truth(
    au: AgentUndo,
    capsys: pytest.CaptureFixture[str],
    tool: str,
    arguments: dict[str, object],
    status: str,
    code: int,
) -> None:
    """REP-03, ENG-08: by another opener of the same journal, with the registry by its name."""
    with au.turn("go") as turn:
        turn.call(tool, arguments)
    (report,) = shown(capsys, "undo", "t-1", "--yes", *TOOLS, code=code)
    assert report["status"] == status


def test_without_a_yes_nothing_is_undone(
    au: AgentUndo, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """REP-03: refused is 5; AN-04: a plan calls nothing, and its token applies it."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="x")
    (refused,) = shown(capsys, "undo", "t-1", *TOOLS, code=5)
    (plan,) = shown(capsys, "undo", "t-1", "--dry-run", *TOOLS)
    assert (refused["status"], plan["status"]) == ("refused", "planned")
    assert world.inverses == []
    shown(capsys, "undo", "t-1", "--token", "0000", *TOOLS, code=5)
    assert world.inverses == []
    shown(capsys, "undo", "t-1", "--token", str(plan["token"]), *TOOLS)
    assert world.inverses == ["undo:draft"]


def test_a_turn_of_two_sessions_must_be_named(
    au: AgentUndo, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with au.turn("go"):
        pass
    with (
        AgentUndo.open(
            str(place), session="other", tools=registry(World(place))
        ) as two,
        two.turn("go"),
    ):
        pass
    assert main(["undo", "t-1", "--yes", *TOOLS]) == 2
    assert "s, other" in capsys.readouterr().err
    assert main(["undo", "t-1", "--yes", "--session", "other", *TOOLS]) == 0


def test_effects_are_no_paths(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    with au.turn("go"):
        pass
    assert main(["undo", "t-1", "--yes", "--only", "a", *TOOLS]) == 2


@pytest.mark.timeout(60)
def test_another_process_undoes_from_the_log_alone(au: AgentUndo, world: World) -> None:
    """ENG-08: the program is gone; a process that has the registry does it."""
    before = world.text
    with au.turn("go") as turn:
        turn.call("draft.create", title="x")
        turn.call("crm.update", id=7, field="name", value="A")
    au.close()
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r});"
        "from gitshadow.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["undo", "t-1", "--yes", "--json", *TOOLS]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["reversed"] == 2
    assert world.text == before


def test_events_tell_what_a_rewind_hid(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """EVT-08, RW-01: all rows with a flag, and which marker hid them."""
    for number in (1, 2):
        with au.turn(f"turn {number}") as turn:
            turn.set_state({"n": number})
    (report,) = shown(capsys, "rewind", "--before", "t-2", "--yes")
    rows = shown(capsys, "events", "--all")
    assert column(rows, "live") == [True, True, True, False, False, False]
    assert column(rows, "hidden_by")[3:] == [report["marker_event"]] * 3
    assert len(shown(capsys, "events", "--live")) == 3
    (state,) = shown(capsys, "state")
    assert state["state"] == {"n": 1}
    (earlier,) = shown(capsys, "state", "--at", "t-1")
    assert earlier["state"] == {}


@pytest.mark.parametrize(
    "words", [["rewind", "--before", "nope"], ["state", "--at", "nope"]]
)
def test_an_unknown_invocation_is_a_usage_error(
    au: AgentUndo, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """RW-10: exit 2, nothing added."""
    with au.turn("go"):
        pass
    before = au.events()
    assert main(words) == 2
    assert "invocation nope" in capsys.readouterr().err
    assert au.events() == before


def test_what_needs_a_person_is_listed_and_settled(
    au: AgentUndo, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-22: both records stay."""
    with au.turn("go") as turn:
        turn.call("draft.create", title="x")
    world.trouble["undo:draft"] = [OSError("down")] * 3
    au.undo("t-1")
    (row,) = shown(capsys, "attention")
    assert (row["call"], row["state"], row["text"]) == (
        "t-1.1",
        "failed",
        "OSError: down",
    )
    settled = ["--as", "reversed", "--note", "deleted by hand"]
    assert main(["resolve", "t-1.1", *settled]) == 0
    assert shown(capsys, "attention") == []
    assert main(["resolve", "t-1.9", *settled]) == 2
    kinds = column(shown(capsys, "saga", "log"), "kind")
    assert "undo_failed" in kinds
    assert kinds[-1] == "resolved"


def test_turns_and_their_calls_are_shown(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """TX-02, TX-04, REV-08: label, no entries, and the numbers of a conflict."""
    with au.turn("rename clips"):
        pass
    with au.turn("go") as turn:
        turn.call("toy.stale", call_id="c1")
    rows = shown(capsys, "saga", "turns")
    assert column(rows, "label") == ["go", "rename clips"]
    assert column(rows, "entries") == [0, 0]
    assert column(rows, "status") == ["committed", "committed"]
    (call,) = shown(capsys, "saga", "show", "t-2")
    assert call["content"] == {
        "message": "M",
        "expected": 3,
        "actual": 5,
        "state_delta": "D",
    }
    assert main(["saga", "turns"]) == 0
    assert "rename clips" in capsys.readouterr().out
    assert main(["saga", "show", "t-2"]) == 0
    assert "conflict" in capsys.readouterr().out


def test_a_call_that_was_cut_short_is_listed_until_a_person_knows(
    au: AgentUndo, place: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-01: killed inside the tool: in doubt, and no inverse runs until somebody says."""
    pid = os.fork()
    if pid == 0:
        world.before_call = lambda name: os.kill(os.getpid(), signal.SIGKILL)
        tools = registry(world)
        with AgentUndo.open(str(place), session="s", tools=tools).turn("go") as turn:
            turn.call("draft.create", title="x")
    os.waitpid(pid, 0)
    (lost,) = shown(capsys, "attention")
    assert (lost["what"], lost["turn"], lost["state"]) == ("turn", "t-1", "interrupted")
    (call,) = shown(capsys, "recover", *TOOLS)
    assert (call["call"], call["state"]) == ("t-1.1", "in_doubt")
    report = au.undo("t-1")
    assert [item.reason for item in report.items] == ["in_doubt"]
    assert world.inverses == []
    settled = ["--as", "no_effect", "--note", "there is no such draft"]
    assert main(["resolve", "t-1.1", *settled]) == 0
    (item,) = au.undo("t-1").items
    assert (item.state, item.detail) == (
        "no_effect",
        "settled by a person: there is no such draft",
    )
    assert world.inverses == []
    assert shown(capsys, "recover", *TOOLS) == []


def test_the_next_window_to_close_is_shown(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-21: the soonest of those that can still be taken back."""
    for name, window in (("later", "2d"), ("soon", "1d"), ("done", "1h")):
        au.runtime.setting.registry.tool(
            f"toy.{name}",
            reversibility=Reversibility.REVERSIBLE,
            inverse=lambda a, c, r: Inverse.tool("draft.delete", id=1),
            undo_for=window,
        )(lambda: None)
    with au.turn("go") as turn:
        turn.call("toy.later")
        turn.call("toy.soon")
    with au.turn("gone") as turn:
        turn.call("toy.done")
    au.undo("t-2")
    (row,) = shown(capsys, "attention")
    assert (row["what"], row["call"], row["tool"]) == ("window", "t-1.2", "toy.soon")
    assert main(["attention"]) == 0
    assert f"can be undone until {row['closes']}" in capsys.readouterr().out


def test_a_killed_turn_is_listed_until_all_of_it_is_undone(
    au: AgentUndo, place: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-22: a person who has undone it has nothing more to look at."""
    pid = os.fork()
    if pid == 0:
        tools = registry(world)
        with AgentUndo.open(str(place), session="s", tools=tools).turn("go") as turn:
            turn.call("draft.create", title="x")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    au.undo("t-1", scope={"state"})
    assert column(shown(capsys, "attention"), "state") == ["interrupted"]
    undone = au.undo("t-1")
    assert shown(capsys, "attention") == []
    au.redo(str(undone.op_id))
    assert column(shown(capsys, "attention"), "state") == ["interrupted"]


def test_a_turn_is_listed_as_undone_once_all_of_it_is(
    au: AgentUndo, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """REP-02: an undo in which an inverse failed leaves the turn as it was in the list too."""

    def listed() -> tuple[list[object], list[object]]:
        rows = shown(capsys, "saga", "turns")
        return column(rows, "status"), column(rows, "standing")

    with au.turn("go") as turn:
        turn.call("draft.create", title="a")
        turn.call("card.charge", amount=5)
    world.trouble["undo:card"] = [OSError("down")] * 3
    assert au.undo("t-1").status == "partial"
    assert listed() == (["committed"], ["committed"])
    assert column(shown(capsys, "attention"), "call") == ["t-1.2"]
    assert au.undo("t-1").ok
    assert listed() == (["undone"], ["undone"])


def test_one_call_is_undone_by_its_id(
    au: AgentUndo, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-29: with the warning; without tools the effect is named, not called nothing to do."""
    with au.turn("go") as turn:
        turn.call("draft.create", {"title": "a"}, call_id="toolu_1")
        turn.call("draft.create", title="b")
    assert main(["undo", "toolu_1", "--dry-run", *TOOLS]) == 0
    assert (
        "  note: only this call was undone; later calls were kept"
        in capsys.readouterr().out
    )
    (report,) = shown(capsys, "undo", "toolu_1", "--yes", *TOOLS)
    assert column(report["items"], "call_id") == ["toolu_1"]
    assert report["notes"] == [
        "only this call was undone; later calls were kept and may depend on it: t-1.2"
        " (draft.create)"
    ]
    assert world.state["drafts"] == {"10": "b"}
    (report,) = shown(capsys, "undo", "t-1.2", "--yes", code=4)
    assert column(report["items"], "reason") == ["handler_missing"]


def touched(au: AgentUndo, mark: Path) -> None:
    """Run a turn whose inverse is a command."""
    au.runtime.setting.registry.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.command(["touch", str(mark)]),
    )(lambda: None)
    with au.turn("go") as turn:
        turn.call("toy.do")


@pytest.mark.parametrize(
    ("named", "code"), [("PROGRAM", 0), ("TOOLS", 4)], ids=["listed", "not listed"]
)
def test_a_command_runs_where_the_program_lists_it(
    au: AgentUndo,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    named: str,
    code: int,
) -> None:
    """AN-15: `--yes` is no yes to a command that only the journal names."""
    touched(au, place / "mark")
    words = ["undo", "t-1", "--yes", "--tools", f"tests.sdk.turns.declared:{named}"]
    (report,) = shown(capsys, *words, code=code)
    (item,) = report["items"]
    assert item["reason"] == (None if code == 0 else "declined")
    assert (place / "mark").exists() is (code == 0)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked_about_the_very_command(
    au: AgentUndo,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
) -> None:
    """AN-15: once for the plan, and once for what leaves the program."""
    touched(au, place / "mark")
    monkeypatch.setattr(undo_effects, "is_interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"y\n{answer}\n"))
    found = main(["undo", "t-1", "--tools", "tests.sdk.turns.declared:TOOLS"])
    said = capsys.readouterr().out
    assert f"to undo toy.do t-1.1, it runs touch {place / 'mark'}: do it?" in said
    assert (place / "mark").exists() is (answer == "y")
    assert found == (0 if answer == "y" else 4)


def interrupted_rollback(au: AgentUndo, world: World) -> None:
    """Cancel a turn, and leave its rollback in the first inverse."""

    def cut(name: str) -> None:
        if name == "undo:draft":
            raise KeyboardInterrupt

    with au.turn("go") as turn:
        turn.call("draft.create", title="x")
        world.before_call = cut
        turn.cancel()


def test_a_rollback_that_was_cut_short_is_finished(
    au: AgentUndo, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-05."""
    with pytest.raises(KeyboardInterrupt):
        interrupted_rollback(au, world)
    world.before_call = lambda name: None
    assert main(["recover"]) == 2
    capsys.readouterr()
    (report,) = shown(capsys, "recover", "--yes", *TOOLS)
    assert (report["kind"], report["status"]) == ("rollback", "reversed")
    assert world.state["drafts"] == {}
    assert au.turns()[0].status == "rolled_back"


def test_nothing_to_recover_is_said(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recover"]) == 0
    assert capsys.readouterr().err == "nothing to recover\n"


def test_recover_says_that_it_marked_a_turn(
    au: AgentUndo, place: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.fork() == 0:
        with AgentUndo.open(str(place), session="s", tools=registry(world)).turn("go"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    assert main(["recover"]) == 0
    said = "marked t-1 of s as interrupted: its process has ended\n"
    assert capsys.readouterr().err == said
    assert main(["recover"]) == 0
    assert capsys.readouterr().err == "nothing to recover\n"


def test_recover_says_what_a_probe_has_settled(
    au: AgentUndo,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise ConnectionError

    answers = [False, None]
    tools = au.runtime.setting.registry
    tools.tool("toy.fail", probe=lambda arguments: answers.pop())(fail)
    with pytest.raises(ConnectionError), au.turn("go") as turn:
        turn.call("toy.fail")
    module = ModuleType("probing")
    monkeypatch.setattr(module, "TOOLS", tools, raising=False)
    monkeypatch.setitem(sys.modules, "probing", module)
    assert main(["recover", "--tools", "probing:TOOLS"]) == 0
    said = "settled t-1.1 toy.fail: it did not happen\n"
    assert capsys.readouterr() == ("", said)


def test_verify_names_a_row_that_was_changed(
    au: AgentUndo, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-34."""
    with au.turn("go"):
        pass
    assert shown(capsys, "verify") == [{"ok": True, "broken_at": None}]
    journal = place / ".git" / "agent-undo" / "journal.db"
    with closing(sqlite3.connect(journal, isolation_level=None)) as raw:
        raw.execute("DROP TRIGGER saga_log_no_update")
        raw.execute("UPDATE saga_log SET kind = 'x' WHERE seq = 2")
    assert shown(capsys, "verify", code=1) == [{"ok": False, "broken_at": 2}]


def test_what_a_program_wrote_does_not_reach_the_terminal_raw(
    au: AgentUndo, capsys: pytest.CaptureFixture[str]
) -> None:
    """ROB-12 for labels, events and state."""
    with au.turn("\x1b[31mred") as turn:
        turn.say("\x1b]0;x\x07", "\x1b[2J", kind="user")
        turn.set_state({"\x1b[1m": "\x1b[5m"})
    for words in (["events"], ["saga", "log"], ["state"]):
        assert main(words) == 0
        assert "\x1b" not in capsys.readouterr().out


def test_artifacts_are_listed_and_read(
    au: AgentUndo, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """ART rows on the command line: versions, what counts, bytes, absence after an undo."""
    with au.turn("one") as turn:
        turn.save_artifact("report.txt", b"first\n")
    with au.turn("two") as turn:
        turn.save_artifact("report.txt", b"second\xff\n")
        turn.save_artifact("odd \x1b name", b"")
    assert main(["artifacts", "--json"]) == 0
    rows = [json.loads(row) for row in capsysbinary.readouterr().out.splitlines()]
    assert [(row["name"], row["version"]) for row in rows] == [
        ("odd \x1b name", 0),
        ("report.txt", 1),
    ]
    assert main(["artifacts"]) == 0
    assert b"\x1b" not in capsysbinary.readouterr().out
    assert main(["artifacts", "report.txt"]) == 0
    assert capsysbinary.readouterr().out == b"second\xff\n"
    assert main(["artifacts", "report.txt", "--version", "0"]) == 0
    assert capsysbinary.readouterr().out == b"first\n"
    au.rewind("t-1")
    assert main(["artifacts", "--json"]) == 0
    assert capsysbinary.readouterr().out == b""
    assert main(["artifacts", "report.txt", "--all", "--json"]) == 0
    rows = [json.loads(row) for row in capsysbinary.readouterr().out.splitlines()]
    assert [(row["version"], row["current"]) for row in rows] == [
        (0, False),
        (1, False),
        (2, False),
    ]
    assert rows[-1]["oid"] is None
    assert main(["artifacts", "report.txt"]) == 2
    assert main(["artifacts", "report.txt", "--version", "9"]) == 2


@pytest.mark.parametrize("pending", [True, False])
def test_a_journal_on_a_read_only_file_system_is_looked_at(
    place: Path,
    au: AgentUndo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pending: bool,
) -> None:
    """Also where a write-ahead log holds what the file has not; `resolve` says why it cannot."""
    with au.turn("go") as turn:
        turn.call("card.charge", amount=5, call_id="c")
    if not pending:
        au.close()
    with read_only(place, tmp_path / "still") as still:
        monkeypatch.chdir(still)
        for verb in (["saga", "log"], ["saga", "turns"], ["attention"], ["events"]):
            assert main(verb) == 0, capsys.readouterr()
        assert "card.charge" in capsys.readouterr().out
        assert main(["resolve", "c", "--as", "reversed", "--note", "by hand"]) != 0
        monkeypatch.chdir(place)
    said = capsys.readouterr().err
    assert pending or "its file system is read-only" in said
