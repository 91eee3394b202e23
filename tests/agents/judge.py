"""What must be recorded of each script: who wrote which path, and how surely that is known."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.agents.conversation import MARK
from tests.agents.scripts import SCRIPTS
from tests.agents.studio import AgentStudio
from tests.support.shadow import Document

_SURE = {"certain": ("certain",), "high": ("certain", "high")}


@dataclass(frozen=True)
class Expected:
    """One path that a script writes; `sure` is the least confidence, None for a person's write."""

    script: str
    sure: str | None
    kinds: tuple[str, ...] = ("create",)
    below: bool = False
    """A subagent wrote it."""


_MODIFY = ("modify",)
EXPECTED: dict[str, dict[str, Expected]] = {
    "basic": {
        "made.txt": Expected("basic", "certain", ("create", "modify")),
        "src/app.py": Expected("basic", "certain", _MODIFY),
        "sh.txt": Expected("basic", "high"),
        "old.txt": Expected("basic", "high", ("delete",)),
        "name2.txt": Expected("basic", "high", ("rename",)),
        "deep/er/f.txt": Expected("basic", "high"),
    },
    "second": {
        "second.txt": Expected("second", "certain"),
        "list.txt": Expected("second", "high", _MODIFY),
    },
    "person": {
        "mine.txt": Expected("person", "certain"),
        "between.txt": Expected("person", None),
        "list.txt": Expected("person", "certain", _MODIFY),
    },
    "task": {
        "sub.txt": Expected("task", "certain", below=True),
        "subsh.txt": Expected("task", "high", below=True),
        "parent.txt": Expected("task", "certain"),
    },
    "parallel": {
        "p1.txt": Expected("parallel", "certain"),
        "p2.txt": Expected("parallel", "certain"),
        "p3.txt": Expected("parallel", "high"),
    },
    "fail": {
        "partly.txt": Expected("fail", "high"),
        "after.txt": Expected("fail", "certain"),
    },
    "note": {
        "note.txt": Expected("note", "high"),
        "own.txt": Expected("note", "certain"),
    },
}


def expected(studio: AgentStudio, *scripts: str) -> dict[str, Expected]:
    """Return what an agent's scripts leave; a file that it had to write by a shell is `high`."""
    found: dict[str, Expected] = {}
    for script in scripts:
        for path, one in EXPECTED[script].items():
            if studio.driver.wrapped:
                # It has no tools: its files come from its answer's text, all at once.
                if one.sure == "certain":
                    found[path] = replace(one, sure="high", kinds=one.kinds[:1])
            elif one.sure == "certain" and not studio.has_file_tools:
                found[path] = replace(one, sure="high")
            else:
                found[path] = one
    return found


def check_writes(studio: AgentStudio, wanted: Mapping[str, Expected]) -> None:
    """Check that each path was recorded as what it is and put down to who wrote it."""
    found = studio.writes()
    assert set(found) == set(wanted)
    for path, one in wanted.items():
        rows = found[path]
        kinds = tuple(str(row["kind"]) for row in rows)
        assert kinds[: len(one.kinds)] == one.kinds, rows
        assert kinds == one.kinds or studio.driver.wrapped, rows
        for row in rows:
            if one.sure is None:
                assert row["actor"] != "agent" or row["confidence"] == "low", row
            else:
                assert row["agent"] == studio.name, row
                assert row["confidence"] in _SURE[one.sure], row
                assert studio.driver.wrapped or (row["call"] and row["tool"]), row


def check_turns(studio: AgentStudio, wanted: Mapping[str, Expected]) -> None:
    """Check that each write of the agent's hangs on the prompt that it was made for."""
    turns = {str(row["id"]): row for row in studio.rows("turns", "--json")}
    sessions = {str(row["id"]): row for row in studio.rows("sessions", "--json")}
    for path, rows in studio.writes().items():
        one = wanted[path]
        if one.sure is None:
            continue
        for row in rows:
            session = sessions[str(row["session"])]
            assert (session["parent"] is not None) == one.below, (path, session)
            assert _top(sessions, session)["agent"] == studio.name
            if studio.driver.turns:
                turn = turns[str(row["turn"]).split("/", maxsplit=1)[0]]
                marked = MARK.search(str(turn["prompt"]))
                assert marked is not None, (path, turn)
                assert marked[1] == one.script, (path, turn)
    tops = [
        row
        for row in sessions.values()
        if row["parent"] is None and row["agent"] == studio.name
    ]
    assert len(tops) == 1, tops


def _top(sessions: Mapping[str, Document], session: Document) -> Document:
    while session["parent"] is not None:
        session = sessions[str(session["parent"])]
    return session


def check_healthy(studio: AgentStudio) -> None:
    """Check that `doctor` finds nothing wrong and no hook failed or printed into the agent."""
    studio.command("doctor")
    for call in studio.hook_calls():
        silent = {"", '{"cancel":false}\n'} if studio.name == "cline" else {""}
        told = studio.driver.told and "agent-undo" in call["out"]
        assert call["code"] == "0\n", call
        assert call["err"] == "", call
        assert told or call["out"] in silent, call


def scripts_of(wanted: Mapping[str, Expected]) -> set[str]:
    """Return the names of the scripts that expectations are of."""
    return {one.script for one in wanted.values()} & SCRIPTS.keys()
