"""What real agents sent, through the hook files that are installed today."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent, HookPhase
from tests.agents.drivers import DRIVERS
from tests.agents.hook_files import InstalledHooks
from tests.agents.judge import (
    Expected,
    check_hooks,
    check_turns,
    check_writes,
    expected,
)
from tests.agents.model_server import ModelServer
from tests.agents.recording import hook_places, load
from tests.agents.replay import Replay, recorded
from tests.agents.studio import AgentStudio
from tests.support.shadow import COMMAND

WITHOUT_CALL_IDS = ("copilot", "droid", "gemini", "openhands")


@pytest.fixture
def make_replay(
    tmp_path: Path, model: ModelServer
) -> Iterator[Callable[[str], Replay]]:
    """Return a function that prepares the replay of an agent."""
    with ExitStack() as stack:

        def make(name: str) -> Replay:
            replay = Replay.create(name, tmp_path, model)
            stack.callback(replay.studio.close)
            replay.prepare()
            return replay

        yield make


@pytest.mark.parametrize("name", recorded())
def test_stored_turns_are_recorded_and_undone_as_those_of_the_agent(
    name: str, make_replay: Callable[[str], Replay]
) -> None:
    replay = make_replay(name)
    studio = replay.studio
    # Only the real agent can show that it reads hooks at another place.
    assert hook_places(studio) == replay.places
    wanted: dict[str, Expected] = {}
    for script in replay.turns:
        replay.play(script)
        wanted |= expected(studio, script)
    check_writes(studio, wanted)
    check_turns(studio, wanted, views=False)
    if replay.runs_commands:
        check_hooks(studio)
    studio.command("doctor")
    check_names(replay)
    for _ in replay.turns:
        studio.command("oops", "--yes")
    assert studio.repo.git("status", "--porcelain", "--untracked-files=all") == ""


@pytest.mark.parametrize("name", [o for o in recorded() if not DRIVERS[o].wrapped])
def test_an_agent_sent_every_event_that_is_expected_of_it(name: str) -> None:
    promised = registry.traits(name)
    phases = {
        event.phase
        for turn in load(name).values()
        for step in turn.steps
        if "event" in step
        and isinstance(
            event := registry.parse(name, json.dumps(step["payload"]).encode(), {}),
            HookEvent,
        )
    }
    assert promised.covers_all_tools
    assert {HookPhase.BEFORE, HookPhase.AFTER} <= phases
    assert (HookPhase.PROMPT in phases) >= promised.reports_turns
    assert (HookPhase.TURN_END in phases) >= promised.reports_turns


def check_names(replay: Replay) -> None:
    """Check that calls and sessions have the agent's own ids, and turns its prompts alone."""
    studio, sent = replay.studio, replay.sent()
    has_ids = not studio.driver.wrapped and studio.name not in WITHOUT_CALL_IDS
    for row in (one for rows in studio.writes().values() for one in rows):
        if row["call"]:
            assert (str(row["call"]) in sent) == has_ids, row
    for session in studio.rows("sessions", "--json"):
        if session["agent"] == studio.name and not studio.driver.wrapped:
            assert str(session["native_id"]).rpartition("/")[2] in sent, session
    told = studio.rows("turns", "--json")
    prompts = {row["prompt"] for row in told if "/" not in str(row["id"])} - {None}
    asked = {studio.reported(script) for script in replay.turns}
    assert prompts == (asked if studio.driver.turns else set())


EDITS = {
    "an option": (r" hook (\w+)'", r" hook \1 --mine'"),
    "a log": (
        r"(hook \w+)' \|\| true",
        r"""\1 2>>"$HOME/my hooks.log"' || logger 'no hook'""",
    ),
    "a filter": (r"' \|\| true", r"""' 2>&1 | tee -a "$HOME/hooks.log" # mine"""),
    "a command after it": (r" \|\| true", r"; echo $? >> $HOME/ends; exit 0"),
    "a program around it": (r"exec (.* hook)", r"exec flock $HOME/one \1"),
}
"""What a person makes of an installed command: a pattern in it, and what replaces it."""


@pytest.mark.parametrize("edit", EDITS)
def test_a_command_that_a_person_changed_is_not_taken_for_the_agent(
    edit: str, make_replay: Callable[[str], Replay]
) -> None:
    replay = make_replay("gemini")
    hooks = InstalledHooks.find("gemini", replay.studio.home)
    before = hooks.commands()
    hooks.rewrite(lambda _, text: re.sub(*EDITS[edit], text))
    assert all(text != before[event] for event, text in hooks.commands().items())
    replay.plan()
    replay.play("basic")
    check_in_turn(replay.studio)


def test_a_script_that_a_person_wrote_is_not_taken_for_the_agent(
    make_replay: Callable[[str], Replay],
) -> None:
    replay = make_replay("cline")
    hooks = InstalledHooks.find("cline", replay.studio.home)
    hooks.rewrite(
        lambda *_: (
            f"""\
#!/bin/sh
kept=$(mktemp)
cat > "$kept" # both programs read it
{COMMAND} hook cline < "$kept" > /dev/null
rm "$kept"
cat << 'end'
{{"cancel":false}}
end
"""
        )
    )
    replay.play("basic")
    check_in_turn(replay.studio)


def check_in_turn(studio: AgentStudio) -> None:
    """Check that each write is the agent's and in its turn, which ends with the agent's process."""
    check_writes(studio, expected(studio, "basic"))
    rows = [row for rows in studio.writes().values() for row in rows]
    assert None not in {row["turn"] for row in rows}, rows


REPORT_EDITS = (
    "claude-code",
    "copilot",
    "droid",
    "gemini",
    "grok",
    "kimi",
    "openhands",
    "qwen",
    "vibe",
)
"""The agents whose reports show which write of a file was their edit."""


@pytest.mark.parametrize("name", REPORT_EDITS)
def test_a_persons_save_is_theirs_when_the_agents_edit_found_it(
    name: str, make_replay: Callable[[str], Replay]
) -> None:
    replay = make_replay(name)
    add_person(
        replay,
        "src/app.py",
        "# mine\ndef f():\n    return 1\n",
        # What the tool found and left is in its report.
        ("def f():\n    return", "# mine\ndef f():\n    return"),
    )
    replay.play("basic")
    first, last = replay.studio.writes()["src/app.py"]
    # Vibe reports no prompt, so no turn was open.
    nobody = "unknown" if name == "vibe" else "low"
    assert (first["call"], first["confidence"]) == (None, nobody), first
    assert last["confidence"] == "certain", last
    replay.studio.command("oops", "--yes")
    assert replay.studio.repo.read("src/app.py") == b"# mine\ndef f():\n    return 1\n"


def test_a_persons_file_is_not_the_agents_when_its_shell_lists_all_others(
    make_replay: Callable[[str], Replay],
) -> None:
    replay = make_replay("claude-code")
    add_person(replay, "mine.txt", "by a person before the command began\n")
    replay.play("basic")
    found = replay.studio.writes()
    (mine,) = found["mine.txt"]
    assert (mine["call"], mine["confidence"]) == (None, "low"), mine
    assert "lists the changed files without this one" in str(mine["reason"])
    assert {row["confidence"] for row in found["sh.txt"]} == {"medium"}
    replay.studio.command("oops", "--yes")
    assert replay.studio.repo.exists("mine.txt")
    assert not replay.studio.repo.exists("sh.txt")


def add_person(replay: Replay, path: str, text: str, *more: tuple[str, str]) -> None:
    """Have a person save a file after the last hook before a tool writes.

    It is the edit of that file, else the last one. `more` replaces texts from there on.
    """
    plan_path = replay.studio.top / "bin" / "basic.json"
    steps = json.loads(plan_path.read_text())["steps"]
    writes = [at for at, step in enumerate(steps) if "changes" in step]
    at = next((n for n in writes if path in json.dumps(steps[n])), writes[-1])
    root = replay.studio.repo.root
    saved = f"printf %s {shlex.quote(text)} > {root / path} && {COMMAND} flush"
    for step in steps[at:]:
        if isinstance(step.get("since"), int) and step["since"] >= at:
            step["since"] += 1
    rest = json.dumps(steps[at:])
    for old, new in more:
        rest = rest.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    steps = [*steps[:at], {"changes": [{"shell": saved}]}, *json.loads(rest)]
    plan = json.loads(plan_path.read_text())
    plan_path.write_text(json.dumps({**plan, "steps": steps}))
