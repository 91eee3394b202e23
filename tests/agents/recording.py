"""Keeps what an agent sent to its hooks, and what it wrote in between, as a file to play again.

A recorded turn has its steps in their order: a hook call with payload, environment and the
process that made it, or changes of files. What differs from one run to the next is a name in
braces (`{repo}`, `{uuid:1}`, `{time}`), which the replay fills in.
"""

import datetime
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent, HookPhase
from gitshadow.attribution.markers import PID_MARKERS, VARIABLES
from gitshadow.model import ToolClass
from tests.agents import hook_moment
from tests.agents.drivers import DRIVERS
from tests.agents.hook_files import InstalledHooks
from tests.agents.install import CACHE, packages
from tests.agents.scripts import Edit, Shell, Task, Write
from tests.agents.studio import AgentStudio
from tests.agents.tool_calls import SHELLS
from tests.support.shadow import COMMAND
from tests.support.waiting import until

FIXTURES = Path(__file__).parents[1] / "fixtures" / "real_payloads"
_RECORDER = """\
#!/bin/sh
# Called as `EVENT/git-agent-undo hook AGENT`: keeps what went in, then runs the real command.
dir=$(mktemp -d {records}/$(date +%s%N).XXXXXX)
basename "$(dirname "$0")" > "$dir/event"
cat > "$dir/in"
{python} -I -S {moment} "$dir" {repo} $$
{command} "$@" < "$dir/in"
date +%s%N > "$dir/ended"
"""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_IDS = re.compile(
    rf"(?P<uuid>{_UUID})"
    r"|(?<![0-9a-f])(?P<hex>[0-9a-f]{16,64})(?![0-9a-f])"
    r"|(?<=[a-z]_)(?!scripted)(?P<id>(?=[a-z_]*[0-9A-Z])[0-9A-Za-z]{8,}(?:_[0-9a-z]+)*)\b"
    r"|\b(?P<stamp>1[6-9]\d{11}_[0-9a-z]+)\b"
)
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?Z?")
_DURATION = re.compile(r"(?:duration|executionTime)(?:_?ms)?", re.IGNORECASE)
_MEASURED = re.compile(
    r"duration|elapsed|executionTime|seconds_since|_usd$", re.IGNORECASE
)
_KEPT_VARIABLE = re.compile(
    r"_(?:PROJECT_DIR|WORKSPACE_ROOT|CWD|SESSION_ID|PROMPT_ID)$"
)
_COMMON = ("spawn", "host", "environment")
_SOME_TIME_MS = 1_800_000_000_000
_SOME_PORT = "http://127.0.0.1:1"

Json = object
Files = Mapping[str, tuple[int, str]]


@dataclass(frozen=True)
class HookCall:
    """One call of a hook.

    `spawn` is how the host started it; `{command}` in it is the text that is installed for the
    event. `since` is the last step that had ended when the tool of the call began, where the
    payload says how long the tool ran. `process` numbers the processes that the agent itself
    started below its own (a subagent); None is its own.
    """

    event: str
    payload: Mapping[str, object]
    spawn: Sequence[str]
    host: str
    environment: Mapping[str, str]
    since: int | None = None
    process: int | None = None


@dataclass(frozen=True)
class Changes:
    """What was written between two hooks, and by whom: the host or its shell."""

    by: str
    changes: Sequence[tuple[str, ...]]
    """`write PATH TEXT`, `replace PATH TEXT` by a rename, `rename OLD NEW`, `delete PATH`."""


Step = HookCall | Changes


@dataclass(frozen=True)
class RecordedTurn:
    """A turn as it is stored; `asked` are the model's calls, with the agent's names of tools."""

    steps: Sequence[Mapping[str, object]]
    asked: Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class _Moment:
    """A recorded hook call as the recorder left it."""

    begun_ns: int
    ended_ns: int
    event: str
    payload: Mapping[str, object]
    environment: Mapping[str, str]
    ancestors: Sequence[Mapping[str, object]]
    files: Files


@dataclass
class Recorder:
    """Record the turns of a studio: `prepare` it, then ask for a `turn` after each run."""

    studio: AgentStudio
    names: "Names" = field(init=False)
    _seen: int = 0
    _asked: int = 0
    _files: Files = field(default_factory=dict)
    _hosts: list[object] = field(default_factory=list)
    """The pids of the processes that started hooks in this turn."""

    def prepare(self) -> None:
        """Prepare the studio, with the recorder in the way of every hook."""
        top = self.studio.top
        (top / "records").mkdir()
        (top / "bin").mkdir()
        script = top / "bin" / "git-agent-undo"
        words = {
            "records": top / "records",
            "repo": self.studio.repo.root,
            "python": sys.executable,
            "moment": hook_moment.__file__,
            "command": COMMAND,
        }
        quoted = {name: shlex.quote(str(word)) for name, word in words.items()}
        script.write_text(_RECORDER.format(**quoted))
        script.chmod(0o755)
        self.studio.prepare()
        if not self.studio.driver.wrapped:
            hooks = InstalledHooks.find(self.studio.name, self.studio.home)
            hooks.lead_to(script)
        if self.studio.driver.ends_hooks:
            self.studio.model.before_words = lambda: until(self._have_hooks_ended)
        self._files = self._present()
        self.names = Names.of(self.studio)

    def _have_hooks_ended(self) -> bool:
        """Return whether the hooks after all calls have ended, those that start agents left out.

        A real model takes longer for its last answer than a hook does.
        """
        calls = [
            one for one, _ in self.studio.model.played if not isinstance(one, Task)
        ]
        ended = (self.studio.top / "records").glob("*/ended")
        events = [
            registry.parse(self.studio.name, one.with_name("in").read_bytes(), {})
            for one in ended
        ]
        return len(calls) <= sum(
            isinstance(event, HookEvent)
            and event.phase in (HookPhase.AFTER, HookPhase.FAILED)
            and event.tool_class is not ToolClass.AGENT
            for event in events
        )

    def _present(self) -> Files:
        found = hook_moment.files(str(self.studio.repo.root))
        kept = self.studio.driver.leftovers
        return {
            path: one
            for path, one in found.items()
            if not any(fnmatch(path, left) for left in kept)
        }

    def turn(self) -> "RecordedTurn":
        """Return the steps since the last turn."""
        steps: list[Step] = []
        ends: list[int] = []
        self._hosts = []
        for moment in self._moments():
            steps += (changed := list(self._changes(moment.files)))
            ends += [moment.begun_ns] * len(changed)
            steps.append(self._call(moment, ends))
            ends.append(moment.ended_ns)
        steps += self._changes(self._present())
        played = self.studio.model.played[self._asked :]
        self._asked += len(played)
        return RecordedTurn(
            [self.names.replaced(_document(step)) for step in steps],
            [
                self.names.replaced(
                    {"action": type(action).__name__, **asdict(action), "tool": tool}
                )
                for action, tool in played
            ],
        )

    def _moments(self) -> Iterator[_Moment]:
        directories = sorted((self.studio.top / "records").iterdir())
        for one in directories[self._seen :]:
            moment = json.loads((one / "moment.json").read_text())
            begun_ns = int(one.name.partition(".")[0])
            payload = json.loads((one / "in").read_text())
            ended = one / "ended"
            yield _Moment(
                begun_ns,
                int(ended.read_text()) if ended.exists() else begun_ns,
                payload.get("hook") or (one / "event").read_text().strip(),
                payload,
                moment["environment"],
                moment["ancestors"],
                {path: tuple(found) for path, found in moment["files"].items()},
            )
        self._seen = len(directories)

    def _call(self, moment: _Moment, ends: Sequence[int]) -> HookCall:
        given = self.studio.environment()
        variables = {
            name: value
            for name, value in sorted(moment.environment.items())
            if given.get(name) != value and _matters(name)
        }
        spawn, host = _started(moment.ancestors, moment.event)
        pid = str(host["pid"])
        for name in PID_MARKERS.values():
            if variables.get(name) == pid:
                variables[name] = "{pid}"
        since = None
        ran_ms = max(_durations(moment.payload), default=None)
        if ran_ms is not None:
            began_ns = moment.begun_ns - int(ran_ms * 1_000_000)
            since = max(
                (at for at, end in enumerate(ends) if end <= began_ns), default=None
            )
        return HookCall(
            moment.event,
            moment.payload,
            spawn,
            str(host["name"]),
            variables,
            since,
            self._number(host["pid"], moment.ancestors),
        )

    def _number(
        self, pid: object, ancestors: Sequence[Mapping[str, object]]
    ) -> int | None:
        """Return the number of a host's process, None for the first and what is not below it."""
        if pid not in self._hosts:
            self._hosts.append(pid)
        is_below = self._hosts[0] in [one["pid"] for one in ancestors]
        return (self._hosts.index(pid) or None) if is_below else None

    def _changes(self, files: Files) -> Iterator[Changes]:
        """Yield what was done to get from the files seen last to these."""
        before, self._files = self._files, files
        gone = {path: inode for path, (inode, _) in before.items() if path not in files}
        groups: dict[str, list[tuple[str, ...]]] = {}
        for path, (inode, text) in files.items():
            old = next((one for one in gone if gone[one] == inode), None)
            change: tuple[str, ...] | None = None
            if old is not None and before[old][1] == text:
                del gone[old]
                change = ("rename", old, path)
            elif path not in before:
                change = ("write", path, text)
            elif before[path][1] != text:
                kind = "write" if before[path][0] == inode else "replace"
                change = (kind, path, text)
            if change is not None:
                groups.setdefault(self._writer(path), []).append(change)
        for path in gone:
            groups.setdefault(self._writer(path), []).append(("delete", path))
        for by, changes in groups.items():
            yield Changes(by, changes)

    def _writer(self, path: str) -> str:
        """Return who was asked to write a path last."""
        for action, tool in reversed(self.studio.model.played):
            if isinstance(action, Write | Edit) and action.path == path:
                return "shell" if tool in SHELLS else "host"
            if isinstance(action, Shell) and path in action.command:
                return "shell"
        return "host"


def _matters(name: str) -> bool:
    known = name.encode() in VARIABLES or name in PID_MARKERS.values()
    return known or _KEPT_VARIABLE.search(name) is not None


def _started(
    ancestors: Sequence[Mapping[str, object]], event: str
) -> tuple[list[str], Mapping[str, object]]:
    """Return how the host started the hook, with `{command}` for our text, and the host."""
    spawn: list[str] = []
    host = ancestors[1]
    # The first is the recorder itself.
    for below, one in pairwise(ancestors[1:]):
        words = below["arguments"]
        assert isinstance(words, list)
        ours = [
            "{command}" if f"/{event}/git-agent-undo" in str(word) else str(word)
            for word in words
        ]
        is_script = any(Path(str(word)).name == event for word in words)
        if ours != words or is_script:
            spawn, host = ours, one
    return spawn, host


def _durations(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if _DURATION.fullmatch(key) and isinstance(inner, int | float):
                yield inner
            else:
                yield from _durations(inner)


def _document(step: Step) -> dict[str, object]:
    fields = asdict(step)
    return {name: value for name, value in fields.items() if value is not None}


@dataclass
class Names:
    """The names in braces for what differs from one run to the next."""

    places: Sequence[tuple[str, str]]
    _ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, studio: AgentStudio) -> "Names":
        """Return the names for a studio, the longest paths first."""
        places = {
            str(studio.repo.root): "{repo}",
            str(studio.home): "{home}",
            str(studio.top): "{top}",
            str(CACHE): "{agents}",
            studio.model.url: _SOME_PORT,
        }
        # Agents name directories after the working tree: `-home-dev-project`.
        root = str(studio.repo.root)
        flat = {
            re.sub(unusual, "-", root): "-repo" for unusual in ("/", r"[^0-9A-Za-z]")
        }
        ordered = sorted((places | flat).items(), key=lambda one: -len(one[0]))
        return cls(ordered)

    def replaced(self, document: dict[str, object]) -> dict[str, object]:
        """Return a document with names for what differs."""
        found = _mapped(document, self._text, _number)
        assert isinstance(found, dict)
        return found

    def _text(self, text: str) -> str:
        for path, name in self.places:
            text = text.replace(path, name)
        return _IDS.sub(self._id, _TIME.sub("{time}", text))

    def _id(self, match: re.Match[str]) -> str:
        kind = "id" if match.lastgroup == "stamp" else match.lastgroup
        return self._ids.setdefault(match[0], f"{{{kind}:{len(self._ids) + 1}}}")


def _mapped(
    value: object,
    text: Callable[[str], str],
    number: Callable[[str, float], float],
    key: str = "",
) -> object:
    if isinstance(value, dict):
        return {
            text(name): _mapped(inner, text, number, name)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_mapped(inner, text, number, key) for inner in value]
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(key, value)
    return value


def _number(key: str, value: float) -> float:
    if _MEASURED.search(key):
        return 0
    return _SOME_TIME_MS if 1.6e12 < value < 2e12 else value


def scripts_of(name: str) -> list[str]:
    """Return the scripts that are recorded of an agent, in the order of its turns.

    What a person writes meanwhile depends on the moment, so it is for real runs alone.
    """
    driver = DRIVERS[name]
    if driver.wrapped:
        return ["basic"]
    parallel = ["parallel"] if driver.parallel else []
    task = [] if driver.subagents is None else ["task"]
    return ["basic", "fail", *parallel, *task]


def store(
    name: str,
    turns: Mapping[str, RecordedTurn],
    top: Path = FIXTURES,
    places: Sequence[str] = (),
) -> None:
    """Write the turns of an agent to a directory of its own.

    Args:
        name: The agent.
        turns: Its turns by their scripts.
        top: The directory that is above.
        places: Where the hooks were that the agent really ran.
    """
    directory = top / name
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    about = {
        "agent": name,
        "version": packages()[name].installed(),
        "recorded": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "by": "make agents AGENTS_RECORD=1",
        "turns": list(turns),
        "hooks": places,
    }
    _write(directory / "about.json", about)
    for script, turn in turns.items():
        # What most calls have in common is written once.
        calls = [one for one in turn.steps if "event" in one]
        each = {key: calls[0].get(key) for key in _COMMON} if calls else {}
        steps = [
            {key: value for key, value in one.items() if each.get(key) != value}
            for one in turn.steps
        ]
        _write(
            directory / f"{script}.json",
            {"asked": turn.asked, "each": each, "steps": steps},
        )


def hook_places(studio: AgentStudio) -> list[str]:
    """Return where `hooks install` put the hooks of a studio's agent."""
    if studio.driver.wrapped:
        return []
    return InstalledHooks.find(studio.name, studio.home).places(studio.home)


def load(name: str, top: Path = FIXTURES) -> dict[str, RecordedTurn]:
    """Return the stored turns of an agent by their scripts."""
    found = {}
    for script in json.loads((top / name / "about.json").read_text())["turns"]:
        turn = json.loads((top / name / f"{script}.json").read_text())
        each = turn["each"]
        steps = [{**each, **one} if "event" in one else one for one in turn["steps"]]
        found[script] = RecordedTurn(steps, turn["asked"])
    return found


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
