"""`undo`, `oops`, `redo` and `rewind` of a turn of an agent program with files, in this process."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from gitshadow.cli import main
from gitshadow.commands import undo_effects
from gitshadow.maintenance import setup
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.turns.recorded import with_files
from tests.sdk.turns.world import World, registry
from tests.support.repo import Repo
from tests.support.studio import layout_of

TOOLS = ["--tools", "tests.sdk.turns.declared:TOOLS"]

pytestmark = pytest.mark.usefixtures("world")


@pytest.fixture
def world(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Stand in a recorded repository in which a program has run one turn with everything."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(repo.root)
    setup.initialise(layout_of(repo), os.environ, force=True)
    made = World.make(tmp_path / "world")
    monkeypatch.setenv("TOY_WORLD", str(made.root))
    monkeypatch.delitem(sys.modules, "tests.sdk.turns.declared", raising=False)
    tools = registry(made)
    with_files(tools, repo.root, coroutines=False)
    policy = Policy(non_reversible="allow")
    with (
        AgentUndo.open(str(repo.root), session="s", tools=tools, policy=policy) as au,
        au.turn("go") as turn,
    ):
        turn.call("draft.create", {"title": "x"}, call_id="d")
        turn.set_state({"k": 1})
        turn.call("shell.run", {"path": "new", "text": "agent\n"}, call_id="w")
    return made


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Return the document that a verb printed."""
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def states(document: dict[str, object]) -> list[tuple[object, object, object]]:
    """Return domain, state and reason of the items that did something."""
    items = document["items"]
    assert isinstance(items, list)
    return [
        (item["domain"], item["state"], item["reason"])
        for item in items
        if item["state"] != "no_effect"
    ]


WHOLE = [
    ("effects", "reversed", None),
    ("state", "reversed", None),
    ("files", "reversed", None),
]


@pytest.mark.parametrize("words", ["undo t-1", "oops"])
def test_undo_takes_a_turn_back_whole(
    world: World, repo: Repo, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """REP-03: one report, exit 0. With turns the newest burst is the turn, effects included."""
    assert main([*words.split(), "--yes", "--json", *TOOLS]) == 0
    assert states(said(capsys)) == WHOLE
    assert not (repo.root / "new").exists()
    assert world.state["drafts"] == {}


def test_oops_without_tools_brings_files_back_and_says_what_stays(
    world: World, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    """The panic button needs no set-up: effects are named, exit 4."""
    assert main(["oops", "--yes"]) == 4
    out, err = capsys.readouterr()
    assert "handler missing" in out
    assert "hint: name tools that have the handlers: --tools MODULE:NAME" in err
    assert not (repo.root / "new").exists()
    assert world.state["drafts"] == {"9": "x"}


def test_redo_brings_the_newest_undo_forward(
    world: World, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-23: with the id of the op, or without: files and state, no effect."""
    main(["undo", "t-1", "--yes", "--json", *TOOLS])
    op = said(capsys)["op_id"]
    assert main(["redo", "--yes", "--json"]) == 4
    assert states(said(capsys))[0] == ("effects", "not_reversed", "non_reversible")
    assert (repo.root / "new").read_text() == "agent\n"
    assert main(["redo", str(op), "--yes", "--json"]) == 4
    assert world.names.count("draft.create") == 1


def test_effects_left_by_an_undo_are_not_called_nothing_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """LAW-04: the note is about files alone, where they came back by an undo before."""
    assert main(["oops", "--yes"]) == 4
    capsys.readouterr()
    assert main(["undo", "t-1", "--yes", "--json", *TOOLS]) == 0
    document = said(capsys)
    assert ("effects", "reversed", None) in states(document)
    notes = document["notes"]
    assert isinstance(notes, list)
    assert [note[:22] for note in notes] == ["files: nothing to undo"]


def test_undo_takes_a_scope(capsys: pytest.CaptureFixture[str]) -> None:
    """AN-26: `--scope files` alone; the effect is named as not covered."""
    arguments = ["undo", "t-1", "--scope", "files", "--yes", "--json"]
    assert main(arguments) == 0
    document = said(capsys)
    assert states(document) == [("files", "reversed", None)]
    assert document["not_covered"] == [
        {
            "what": "draft.create d",
            "why": "outstanding: a plain undo does not undo outside effects",
        }
    ]


def test_a_dry_run_gives_the_token_of_all_of_it(
    world: World, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    """AN-04: the real run asserts it; a changed file refuses with exit 5."""
    assert main(["undo", "t-1", "--dry-run", "--json", *TOOLS]) == 0
    token = str(said(capsys)["token"])
    repo.write("new", "person\n")
    assert main(["undo", "t-1", "--token", token, *TOOLS]) == 5
    assert world.inverses == []


def test_resume_does_what_is_left(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """ENG-06: without tools first, then with them: the rest alone."""
    assert main(["undo", "t-1", "--yes", "--json"]) == 4
    op = str(said(capsys)["op_id"])
    assert main(["undo", "--resume", op, "--json", *TOOLS]) == 0
    assert states(said(capsys)) == WHOLE
    assert world.inverses == ["undo:draft"]


def test_a_rewind_restores_files_unless_told_otherwise(repo: Repo) -> None:
    """AN-26: `rewind --scope`."""
    only_state = ["rewind", "--before", "t-1", "--scope", "state", "--yes"]
    assert main(only_state) == 0
    assert (repo.root / "new").exists()
    assert main(["rewind", "--before", "t-1", "--yes"]) == 0
    assert not (repo.root / "new").exists()


def test_a_rewind_is_shown_first_and_not_done_before_a_yes(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    """As every undo verb: exit 5, and the token of the plan that was shown is a yes."""
    assert main(["rewind", "--before", "t-1"]) == 5
    said = capsys.readouterr()
    assert said.err == "hint: nothing was changed; to apply this plan: --yes\n"
    assert main(["rewind", "--before", "t-1", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["status"] == "planned"
    assert (repo.root / "new").exists()
    assert main(["rewind", "--before", "t-1", "--token", "0000"]) == 5
    assert (repo.root / "new").exists()
    assert main(["rewind", "--before", "t-1", "--token", plan["token"]]) == 0
    assert not (repo.root / "new").exists()


def test_a_rewind_asks_on_a_terminal(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo_effects, "is_interactive", lambda: True)
    for answer, there in (("n", True), ("y", False)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))
        assert main(["rewind", "--before", "t-1"]) == (5 if there else 0)
        assert (repo.root / "new").exists() is there


def test_the_person_who_ran_it_is_the_author(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A restore is on the chain of whoever ran it."""
    main(["undo", "t-1", "--yes", "--json"])
    capsys.readouterr()
    main(["log", "-n", "1", "--json"])
    row = said(capsys)
    assert (row["kind"], row["actor"]) == ("restore", "human")


def test_hook_command_is_told_of_the_whole_once(repo: Repo, tmp_path: Path) -> None:
    """AN-27: the files' part of a turn's undo is no undo of its own."""
    told = tmp_path / "told"
    hook = tmp_path / "hook.sh"
    hook.write_text(f"#!/bin/sh\ncat >> {told}; echo >> {told}\n")
    hook.chmod(0o755)
    repo.git("config", "agent-undo.postUndo", str(hook))
    assert main(["oops", "--yes", *TOOLS]) == 0
    [report] = [json.loads(line) for line in told.read_text().splitlines()]
    assert {item["domain"] for item in report["items"]} >= {"effects", "files"}
