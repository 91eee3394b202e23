"""Plays the stored turns of an agent through the hook files that `hooks install` wrote.

A stand-in takes the place of the agent's program: with its name, its way to start hooks, and the
writes that the agent made at that point. So what is recorded is judged as that of a real run.
"""

import json
import random
import re
import shlex
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.agents.hook_files import InstalledHooks
from tests.agents.install import NODE, packages
from tests.agents.model_server import ModelServer
from tests.agents.recording import FIXTURES, RecordedTurn, load
from tests.agents.scripts import Edit, Read, Shell, Task, ToolAction, Wait, Write
from tests.agents.studio import AgentStudio

_STAND_IN = Path(__file__).with_name("stand_in.py")
_PLUGIN_HOST = Path(__file__).parents[1] / "support" / "plugin_host.mjs"
_PLACEHOLDER = re.compile(r"\{(repo|home|top|agents|time|(uuid|id|hex):\d+)\}")

_ACTIONS: Mapping[str, Callable[..., ToolAction]] = {
    one.__name__: one for one in (Edit, Read, Shell, Task, Wait, Write)
}

Step = Mapping[str, object]


def recorded() -> list[str]:
    """Return the agents whose payloads are stored."""
    return sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())


@dataclass
class Replay:
    """One agent's stored turns, in a repository of their own."""

    studio: AgentStudio
    turns: Mapping[str, RecordedTurn]
    _ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(cls, agent: str, top: Path, model: ModelServer) -> "Replay":
        """Make a repository and a home for the turns of an agent."""
        replay = cls(AgentStudio.create(agent, top, model), load(agent))
        # Forks of a process that has imported all: the hooks are what is judged here.
        replay.studio.shadow.executes = False
        return replay

    def prepare(self) -> None:
        """Install the agent's hooks and put the stand-in in its place."""
        bin_ = self.studio.top / "bin"
        bin_.mkdir()
        (self.studio.top / "records").mkdir()
        program = bin_ / packages()[self.studio.name].program
        program.symlink_to(_STAND_IN)
        self.studio.program = str(program)
        self.studio.prepare()
        self.plan()

    def plan(self) -> None:
        """Write what the stand-in is to play, with the hook files as they are now."""
        bin_ = self.studio.top / "bin"
        for script, turn in self.turns.items():
            (bin_ / f"{script}.json").write_text(json.dumps(self._plan(turn)))

    def play(self, script: str) -> None:
        """Run the stand-in once, as if the model asked for what it asked then."""
        before, after = self.studio.driver.turn
        played = self.studio.start(script, before, after)
        assert (played.code, played.printed) == (0, "")
        for asked in self.turns[script].asked:
            given = dict(asked)
            tool = str(given.pop("tool"))
            action = _ACTIONS[str(given.pop("action"))](**given)
            self.studio.model.played.append((action, tool))

    @property
    def places(self) -> object:
        """Return where the hooks were when the agent was recorded."""
        about = json.loads((FIXTURES / self.studio.name / "about.json").read_text())
        return about["hooks"]

    @property
    def runs_commands(self) -> bool:
        """Return whether the agent's hooks are commands: a plug-in reports no output of its own."""
        if self.studio.driver.wrapped:
            return False
        hooks = InstalledHooks.find(self.studio.name, self.studio.home)
        return hooks.plugin is None

    def sent(self) -> str:
        """Return all that the hooks got, as one text."""
        return "".join(
            self._filled(json.dumps(one.steps)) for one in self.turns.values()
        )

    def _plan(self, turn: RecordedTurn) -> dict[str, object]:
        steps = [json.loads(self._filled(json.dumps(one))) for one in turn.steps]
        hooks = [one for one in steps if "event" in one]
        if self.studio.driver.wrapped:
            return {
                "host": self.studio.name,
                "records": str(self.studio.top / "records"),
                "steps": [{"changes": list(self._changes(one))} for one in steps],
            }
        installed = InstalledHooks.find(self.studio.name, self.studio.home)
        if installed.plugin is not None:
            return self._plugin_plan(installed.plugin, steps)
        commands = installed.commands()
        return {
            "host": hooks[0]["host"],
            "records": str(self.studio.top / "records"),
            "steps": list(self._played(steps, commands)),
        }

    def _played(
        self, steps: Sequence[Step], commands: Mapping[str, str]
    ) -> Iterator[dict[str, object]]:
        process = None
        for one in steps:
            if "event" not in one:
                # Who wrote is not known: it was the process that reported the call before.
                yield {"changes": list(self._changes(one)), "process": process}
            # An event that is installed no more is one that the host no longer sends.
            elif (event := str(one["event"])) in commands:
                process, spawn = one.get("process"), one["spawn"]
                assert isinstance(spawn, list)
                yield {
                    "run": [
                        word.replace("{command}", commands[event]) for word in spawn
                    ],
                    "event": event,
                    "payload": one["payload"],
                    "environment": one["environment"],
                    "since": one.get("since"),
                    "process": process,
                }

    def _plugin_plan(self, plugin: Path, steps: Sequence[Step]) -> dict[str, object]:
        name = self.studio.top / "host" / self.studio.name
        name.parent.mkdir(exist_ok=True)
        if not name.exists():
            name.symlink_to(_PLUGIN_HOST)
        calls: list[object] = []
        for one in steps:
            if "event" in one:
                calls.append(_plugged(one["payload"]))
            else:
                calls += self._changes(one)
        sessions = re.findall(r'"session_id": "([^"]+)"', json.dumps(steps))
        return {
            "node": [str(NODE), "--disable-warning=ExperimentalWarning", str(name)],
            "agent": self.studio.name,
            "plugin": str(plugin),
            "directory": str(self.studio.repo.root),
            "broken": False,
            "steps": calls,
            **({"session_id": sessions[0]} if sessions else {}),
        }

    def _changes(self, step: Step) -> Iterator[dict[str, object]]:
        """Yield how the stand-in makes the changes that were seen between two hooks."""
        changes = step["changes"]
        assert isinstance(changes, list)
        if step["by"] == "shell":
            yield {"shell": " && ".join(map(_shell_text, changes))}
            return
        for kind, path, *more in changes:
            full = str(self.studio.repo.root / path)
            if kind == "write":
                yield {"write": [full, *more]}
            elif kind == "replace":
                beside = f"{full}.tmp.1.abcdef"
                yield {"write": [beside, *more]}
                yield {"rename": [beside, full]}
            else:
                yield {"shell": _shell_text([kind, path, *more])}

    def _filled(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        places = {
            "repo": str(self.studio.repo.root),
            "home": str(self.studio.home),
            "top": str(self.studio.top),
            "agents": "/opt/agents",
            "time": "2026-11-23T12:00:00.000Z",
        }
        name = match[1]
        if name in places:
            return places[name]
        some = random.Random(name).getrandbits(128)
        value = str(uuid.UUID(int=some)) if match[2] == "uuid" else f"{some:032x}"[:17]
        return self._ids.setdefault(name, value)


def _shell_text(change: Sequence[str]) -> str:
    kind, path, *more = change
    quoted = [shlex.quote(word) for word in (path, *more)]
    if kind == "delete":
        return f"rm {quoted[0]}"
    if kind == "rename":
        return f"mv {quoted[0]} {quoted[1]}"
    made = f"mkdir -p {shlex.quote(str(Path(path).parent))}"
    return f"{made} && printf %s {quoted[1]} > {quoted[0]}"


def _plugged(payload: object) -> dict[str, object]:
    """Return the host's call of a plug-in's handler from what the plug-in made of it."""
    assert isinstance(payload, dict)
    hook = payload["hook"]
    if "ctx" in payload:
        return {"hook": hook, "args": [payload["event"]]}
    output = [payload["output"]] if "output" in payload else []
    return {"hook": hook, "args": [payload["input"], *output]}
