"""Agents that a call of another agent starts, as processes below it that run their own hooks."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.shadow import COMMAND, Document, Shadow

pytestmark = [pytest.mark.usefixtures("untouched"), pytest.mark.process]

STAND_IN = Path(__file__).parents[1] / "agents" / "stand_in.py"
Steps = list[dict[str, object]]


@dataclass
class Programs:
    """Programs with the names of agents, each of which follows the steps that it is given."""

    shadow: Shadow
    top: Path
    plans: int = field(default=0)

    def command(self, program: str, steps: Sequence[Mapping[str, object]]) -> str:
        """Return the shell command that runs a program with some steps."""
        self.plans += 1
        path = self.top / program
        if not path.exists():
            path.symlink_to(STAND_IN)
        plan = {"host": program, "records": str(self.top), "steps": steps}
        (self.top / f"plan{self.plans}.json").write_text(json.dumps(plan))
        return f"{path} '[[plan{self.plans} cwd=/]]'"

    def run(self, program: str, steps: Sequence[Mapping[str, object]]) -> None:
        """Run a program to its end, as a person does."""
        done = subprocess.run(
            self.command(program, steps),
            shell=True,
            cwd=self.shadow.repo.root,
            env=self.shadow.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        for record in self.top.glob("*/err"):
            assert record.read_text() == ""

    def hook(self, agent: str, event: str, **fields: object) -> dict[str, object]:
        """Return the step that sends one event of an agent."""
        payload = {
            "hook_event_name": event,
            "session_id": f"{agent}-s",
            "cwd": str(self.shadow.repo.root),
            **fields,
        }
        return {
            "run": [COMMAND, "hook", agent],
            "event": event,
            "payload": payload,
            "environment": {},
            "since": None,
        }

    def tool(
        self,
        agent: str,
        call: str,
        given: Mapping[str, object],
        doing: str,
        **more: str,
    ) -> Steps:
        """Return the steps of one call: a shell's, or one that names its file."""
        name = "Write" if "file_path" in given else "Bash"
        about = {"tool_name": name, "tool_input": given, "tool_use_id": call, **more}
        return [
            self.hook(agent, "PreToolUse", **about),
            {"changes": [{"shell": doing}]},
            self.hook(agent, "PostToolUse", tool_response="", **about),
        ]

    def shell(self, agent: str, call: str, doing: str, **more: str) -> Steps:
        """Return the steps of a shell call."""
        return self.tool(agent, call, {"command": doing}, doing, **more)

    def claude(self, *, prompt: str, names: str, calls: str = "c") -> Steps:
        """Return the steps of Claude Code that writes two files: `<names>1` and `<names>2`."""
        path = str(self.shadow.repo.root / f"{names}1")
        more = {"prompt_id": prompt}
        return [
            self.hook("claude-code", "SessionStart", source="startup"),
            self.hook("claude-code", "UserPromptSubmit", prompt="inner", **more),
            *self.tool(
                "claude-code",
                f"{calls}1",
                {"file_path": path, "content": "1\n"},
                f"echo 1 > {names}1",
                **more,
            ),
            *self.shell("claude-code", f"{calls}2", f"echo 2 > {names}2", **more),
            self.hook("claude-code", "Stop", **more),
            self.hook("claude-code", "SessionEnd", reason="other"),
        ]

    def codex(self, turn: str, *inside: Steps, ends: bool = True) -> Steps:
        """Return the steps of a turn of Codex."""
        return [
            self.hook("codex", "SessionStart", source="startup"),
            self.hook("codex", "UserPromptSubmit", prompt="outer", turn_id=turn),
            *(step for steps in inside for step in steps),
            *([self.hook("codex", "Stop", turn_id=turn)] if ends else []),
        ]


@pytest.fixture
def programs(shadow: Shadow, tmp_path: Path) -> Programs:
    """Return a directory of stand-ins, with recording begun."""
    (tmp_path / "programs").mkdir()
    return Programs(shadow, tmp_path / "programs")


def rows_of(shadow: Shadow) -> dict[str, Document]:
    return {str(row["path"]): row for row in shadow.log()}


def writers_of(shadow: Shadow) -> dict[str, tuple[object, object]]:
    rows = rows_of(shadow).items()
    return {path: (row["agent"], row["confidence"]) for path, row in rows}


def parents_of(shadow: Shadow) -> dict[object, object]:
    """Return the agent of the session above, by agent."""
    rows = shadow.ok("sessions", "--json").rows()
    agents = {row["id"]: row["agent"] for row in rows}
    return {
        row["agent"]: agents.get(row["parent"])
        for row in rows
        if row["agent"] is not None
    }


@pytest.mark.both_modes
def test_agent_in_the_shell_of_another_one_works_for_its_turn(
    programs: Programs,
) -> None:
    shadow, before = programs.shadow, programs.shadow.repo.git("status", "--porcelain")
    inner = programs.command("claude", programs.claude(prompt="p1", names="in"))
    outer = programs.shell(
        "codex", "x1", f"echo o > out1; {inner}; echo o > out2", turn_id="t1"
    )
    programs.run("codex", programs.codex("t1", outer))
    assert writers_of(shadow) == {
        "out1": ("codex", "medium"),
        "in1": ("claude-code", "certain"),
        "in2": ("claude-code", "medium"),
        "out2": ("codex", "medium"),
    }
    assert parents_of(shadow) == {"codex": None, "claude-code": "codex"}
    assert rows_of(shadow)["in2"]["turn"] == "t1/p1"
    turns = {row["id"]: row["prompt"] for row in shadow.ok("turns", "--json").rows()}
    assert turns == {"t1": "outer", "t1/p1": "inner"}
    shadow.ok("undo", "--yes", "t1")
    assert shadow.repo.git("status", "--porcelain") == before
    shadow.ok("redo", "--yes")
    assert shadow.oops()["status"] == "reversed"
    assert shadow.repo.git("status", "--porcelain") == before


def test_inner_agents_turn_is_undone_alone_by_its_id(programs: Programs) -> None:
    shadow = programs.shadow
    inner = programs.command("claude", programs.claude(prompt="p1", names="in"))
    outer = programs.shell("codex", "x1", f"echo o > out; {inner}", turn_id="t1")
    programs.run("codex", programs.codex("t1", outer))
    shadow.ok("undo", "--yes", "t1/p1")
    assert shadow.repo.exists("out")
    assert not shadow.repo.exists("in1")
    assert not shadow.repo.exists("in2")


def test_session_that_a_later_call_continues_is_in_that_calls_turn(
    programs: Programs,
) -> None:
    """The window of the later call is only open around those of the session."""
    shadow = programs.shadow
    first = programs.command("claude", programs.claude(prompt="p1", names="a"))
    second = programs.command(
        "claude", programs.claude(prompt="p2", names="b", calls="d")
    )
    programs.run(
        "codex",
        [
            *programs.codex("t1", programs.shell("codex", "x1", first, turn_id="t1")),
            *programs.codex("t2", programs.shell("codex", "x2", second, turn_id="t2")),
        ],
    )
    assert {path: row["turn"] for path, row in rows_of(shadow).items()} == {
        "a1": "t1/p1",
        "a2": "t1/p1",
        "b1": "t2/p2",
        "b2": "t2/p2",
    }
    assert writers_of(shadow)["b2"] == ("claude-code", "medium")
    shadow.oops()
    assert [shadow.repo.exists(name) for name in ("a1", "a2", "b1", "b2")] == [
        True,
        True,
        False,
        False,
    ]


def test_agent_that_begins_after_its_call_has_ended_works_for_the_open_turn(
    programs: Programs,
) -> None:
    """A shell in the background ends its call at once."""
    inner = programs.command("claude", programs.claude(prompt="p1", names="in"))
    background = programs.shell("codex", "x1", "true", turn_id="t1")
    programs.run(
        "codex", programs.codex("t1", background, [{"changes": [{"shell": inner}]}])
    )
    shadow = programs.shadow
    assert parents_of(shadow)["claude-code"] == "codex"
    assert rows_of(shadow)["in1"]["turn"] == "t1/p1"


def test_agent_below_an_idle_one_is_the_persons(programs: Programs) -> None:
    """Whoever works at the terminal of an agent can start another one there."""
    inner = programs.command("claude", programs.claude(prompt="p1", names="in"))
    outer = programs.shell("codex", "x1", "echo o > out", turn_id="t1")
    programs.run(
        "codex", [*programs.codex("t1", outer), {"changes": [{"shell": inner}]}]
    )
    shadow = programs.shadow
    assert parents_of(shadow) == {"codex": None, "claude-code": None}
    assert rows_of(shadow)["in1"]["turn"] == "p1"
    shadow.oops()
    assert shadow.repo.exists("out")
    assert not shadow.repo.exists("in1")


def test_agent_in_an_editor_is_the_persons(programs: Programs) -> None:
    """An editor runs agents side by side, and shells in which a person types."""
    shadow = programs.shadow
    inner = programs.command("claude", programs.claude(prompt="p1", names="in"))
    outer = programs.shell("codex", "x1", inner, turn_id="t1")
    programs.run("code", programs.codex("t1", outer))
    assert parents_of(shadow) == {"codex": None, "claude-code": None}


@pytest.mark.both_modes
def test_subagent_with_a_process_of_its_own_works_for_its_callers_turn(
    programs: Programs,
) -> None:
    """Droid starts itself, and its `exec` reports no prompt."""
    shadow = programs.shadow
    child = programs.command(
        "droid",
        [
            {**step, "payload": {**payload, "session_id": "child"}}
            if isinstance(payload := step.get("payload"), dict)
            else step
            for step in [
                programs.hook("droid", "SessionStart", source="startup"),
                programs.hook("droid", "UserPromptSubmit", prompt="# Task"),
                *programs.shell("droid", "d1", "echo s > sub"),
                programs.hook("droid", "Stop"),
                programs.hook("droid", "SessionEnd"),
            ]
        ],
    )
    programs.run(
        "droid",
        [
            programs.hook("droid", "SessionStart", source="startup"),
            *programs.shell("droid", "d0", "echo f > first"),
            *programs.shell("droid", "d1", child),
            *programs.shell("droid", "d2", "echo l > last"),
            programs.hook("droid", "Stop"),
        ],
    )
    assert writers_of(shadow) == dict.fromkeys(
        ("first", "sub", "last"), ("droid", "medium")
    )
    rows = rows_of(shadow)
    turn = str(rows["first"]["turn"])
    assert turn.startswith("turn-")
    assert (rows["sub"]["turn"], rows["last"]["turn"]) == (f"{turn}/child", turn)
    shadow.oops()
    assert not any(shadow.repo.exists(name) for name in rows)


def test_turn_of_an_agent_in_a_command_is_undone_with_the_command(
    programs: Programs,
) -> None:
    shadow = programs.shadow
    inner = programs.command("claude", programs.claude(prompt="p1", names="in"))
    shadow.ok("exec", "--agent", "wrap", "--", "sh", "-c", f"echo w > out; {inner}")
    rows = rows_of(shadow)
    assert rows["in1"]["turn"] == f"{rows['out']['turn']}/p1"
    shadow.ok("undo", "--yes", str(rows["out"]["turn"]))
    assert not any(shadow.repo.exists(name) for name in rows)
