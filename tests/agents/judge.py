"""What must be recorded of each script: who wrote which path, and how surely that is known."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from tests.agents.scripts import Edit, Shell, Task, Write
from tests.agents.studio import AgentStudio
from tests.support.shadow import Document
from tests.support.waiting import until

_SURE = {"certain": ("certain",), "medium": ("certain", "high", "medium")}
_OURS = ("agent-undo", "gitshadow")
BY_TIMING = "by timing"


@dataclass(frozen=True)
class Expected:
    """One path that a script writes; `sure` is the least confidence, None for a person's write.

    BY_TIMING is a person's write that nothing distinguishes from those of the shell that runs.
    """

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
        "sh.txt": Expected("basic", "medium"),
        "old.txt": Expected("basic", "medium", ("delete",)),
        "name2.txt": Expected("basic", "medium", ("rename",)),
        "deep/er/f.txt": Expected("basic", "medium"),
    },
    "second": {
        "second.txt": Expected("second", "certain"),
        "list.txt": Expected("second", "medium", _MODIFY),
    },
    "person": {
        "mine.txt": Expected("person", "certain"),
        "between.txt": Expected("person", None),
        "list.txt": Expected("person", "certain", _MODIFY),
        "shell.txt": Expected("person", "medium"),
        "saved.txt": Expected("person", BY_TIMING),
        "edited.txt": Expected("person", None),
    },
    "quiet": {
        "shell.txt": Expected("quiet", "medium"),
        "saved.txt": Expected("quiet", None),
        "person.txt": Expected("quiet", None, _MODIFY),
        "list.txt": Expected("quiet", None, _MODIFY),
        "later.txt": Expected("quiet", "medium"),
    },
    "task": {
        "sub.txt": Expected("task", "certain", below=True),
        "subsh.txt": Expected("task", "medium", below=True),
        "parent.txt": Expected("task", "certain"),
    },
    "behind": {
        "sub.txt": Expected("behind", "certain", below=True),
        "subsh.txt": Expected("behind", "medium", below=True),
        "parent.txt": Expected("behind", "certain"),
    },
    "parallel": {
        "p1.txt": Expected("parallel", "certain"),
        "p2.txt": Expected("parallel", "certain"),
        "p3.txt": Expected("parallel", "medium"),
    },
    "fail": {
        "partly.txt": Expected("fail", "medium"),
        "after.txt": Expected("fail", "certain"),
    },
    "note": {
        "note.txt": Expected("note", "medium"),
        "own.txt": Expected("note", "certain"),
    },
}


def expected(studio: AgentStudio, *scripts: str) -> dict[str, Expected]:
    """Return what an agent's scripts leave; a file that it had to write by a shell is `medium`."""
    found: dict[str, Expected] = {}
    for script in scripts:
        for path, one in EXPECTED[script].items():
            if studio.driver.by_text and one.sure != "certain":
                continue  # its files come from its answer's text
            silent = one.below and studio.driver.subagents_silent
            if one.sure == "certain" and studio.driver.wrapped:
                # No hook separates two writes to a file, which may be seen as one.
                found[path] = replace(one, sure="medium", kinds=one.kinds[:1])
            elif one.sure == "certain" and (silent or not studio.has_file_tools):
                found[path] = replace(one, sure="medium")
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
            _check_author(studio, path, one, row)


def _check_author(studio: AgentStudio, path: str, one: Expected, row: Document) -> None:
    if one.sure is None:
        assert row["actor"] != "agent" or row["confidence"] == "low", row
    elif one.sure == BY_TIMING:
        assert row["actor"] != "agent" or BY_TIMING in str(row["reason"]), row
    else:
        assert row["agent"] == studio.name, row
        assert row["confidence"] in _SURE[one.sure], row
        if not studio.driver.wrapped:
            silent = one.below and studio.driver.subagents_silent
            asked = _starters(studio) if silent else _tools(studio, path)
            assert row["call"], row
            assert row["tool"] in asked or (row["tool"] and not asked), row


def _tools(studio: AgentStudio, path: str) -> set[str]:
    """Return the tools that were asked to write a path, by the names that hooks have for them.

    Those of MCP servers have other names in each agent, and a test of their own.
    """
    asked = {
        tool
        for action, tool in studio.model.played
        if (isinstance(action, Write | Edit) and action.path == path)
        or (isinstance(action, Shell) and path in action.command)
    }
    return {studio.driver.tools.get(tool, tool) for tool in asked}


def _starters(studio: AgentStudio) -> set[str]:
    """Return the tools that were asked to start a subagent."""
    return {tool for action, tool in studio.model.played if isinstance(action, Task)}


def check_turns(
    studio: AgentStudio, wanted: Mapping[str, Expected], *, views: bool = True
) -> None:
    """Check that each write of the agent's has its session and its prompt, also in `views`."""
    turns = {str(row["id"]): row for row in studio.rows("turns", "--json")}
    sessions = {str(row["id"]): row for row in studio.rows("sessions", "--json")}
    shown: dict[str, str] = {}
    for path, rows in studio.writes().items():
        one = wanted[path]
        if one.sure not in _SURE:
            continue
        for row in rows:
            session = sessions[str(row["session"])]
            is_below = one.below and studio.driver.subagents_apart
            assert (session["parent"] is not None) == is_below, (path, session)
            assert _top(sessions, session)["agent"] == studio.name
            if studio.driver.turns:
                turn = turns[str(row["turn"]).split("/", maxsplit=1)[0]]
                assert turn["prompt"] == studio.reported(one.script), (path, turn)
        if studio.driver.turns and rows[-1]["kind"] in ("create", "modify"):
            shown[one.script] = path
    for script, path in shown.items() if views else ():
        check_views(studio, path, studio.reported(script))
    tops = [
        row
        for row in sessions.values()
        if row["parent"] is None and row["agent"] == studio.name
    ]
    # A turn that cannot be continued is a session of its own.
    assert len(tops) == (1 if studio.driver.again else len(studio.turns)), tops


def check_views(studio: AgentStudio, path: str, prompt: str) -> None:
    """Check that the views of a write and of its lines name the prompt behind it."""
    newest = studio.writes()[path][-1]
    shown = studio.command("show", "--no-patch", str(newest["seq"]))
    assert f"    {prompt}\n" in shown, shown
    blamed = studio.command("blame", "--prompt", path)
    heads = [line[2:] for line in blamed.splitlines() if line.startswith("# ")]
    # Long prompts are cut: their length depends on where the test's repository is.
    cut = [head.removesuffix("…") for head in heads]
    assert prompt in heads or any(len(c) > 80 and prompt.startswith(c) for c in cut), (
        blamed
    )


def _top(sessions: Mapping[str, Document], session: Document) -> Document:
    while session["parent"] is not None:
        session = sessions[str(session["parent"])]
    return session


def check_healthy(studio: AgentStudio) -> None:
    """Check that `doctor` finds nothing wrong, and the hooks."""
    studio.command("doctor")
    if not studio.driver.wrapped:
        check_hooks(studio)


def check_hooks(studio: AgentStudio) -> None:
    """Check that no hook failed or printed into the agent, but for what an agent wants."""
    silent = {"", '{"cancel":false}\n'} if studio.name == "cline" else {""}
    # The last hook of an agent that has ended may still run.
    until(lambda: all("code" in call for call in studio.hook_calls()))
    calls = studio.hook_calls()
    assert calls
    for call in calls:
        if studio.driver.ends_hooks and call["code"] == "ended by the host\n":
            continue
        told = studio.driver.told and "agent-undo" in call["out"]
        assert call["code"] == "0\n", call
        assert call["err"] == "", call
        assert told or call["out"] in silent, call


def check_unheard(studio: AgentStudio) -> None:
    """Check that nothing of ours reached the model, and that the agent printed nothing of it.

    That its hooks run a command of ours is what OpenHands prints of itself.
    """
    for number, request in enumerate(studio.model.requests):
        assert not [one for one in _OURS if one in request.body], (
            f"requests/{number:03}"
        )
    for number, turn in enumerate(studio.turns, 1):
        lines = turn.printed.splitlines()
        printed = "".join(one for one in lines if '"hook_command"' not in one)
        assert not [one for one in _OURS if one in printed], f"printed-{number}"


def hook_times(studio: AgentStudio) -> dict[str, int]:
    """Return how many hooks ran, and their median and longest time in milliseconds."""
    took = [int(one["us"]) / 1000 for one in studio.hook_calls() if "us" in one]
    return {"calls": len(took), "median": round(median(took)), "most": round(max(took))}


def check_uninstalled(studio: AgentStudio, scope: str) -> None:
    """Remove the hooks, and check that each file which they are in is as it was before them."""
    assert studio.installed
    studio.command("hooks", "uninstall", scope, studio.name, "--yes")
    for path, content in studio.installed.items():
        assert (path.read_bytes() if path.exists() else None) == content, path
