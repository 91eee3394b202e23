"""An agent that speaks Claude Code's hook protocol, as sentences.

The payloads have the fields of tests/fixtures/hook_payloads/claude_code__*.json.
"""

import json
import math
import os
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.repo import PathLike
from tests.support.shadow import Result, Shadow


@dataclass(slots=True)
class Claude:
    """Run one session of the agent in the repository of `shadow`.

    Every hook is delivered to the installed command; it must exit 0 and print nothing, but for
    a prompt's: what that prints is returned.
    `extra` fields go into every payload (`{"agent_id": …}` makes it a subagent).
    """

    shadow: Shadow
    session: str = "s1"
    extra: dict[str, object] = field(default_factory=dict)
    prompt_id: str | None = None
    _open: dict[str, tuple[str, Mapping[str, object], float]] = field(
        default_factory=dict
    )

    def payload(self, event: str, **fields: object) -> dict[str, object]:
        """Return one hook's JSON without delivering it."""
        root = str(self.shadow.repo.root)
        payload: dict[str, object] = {
            "session_id": self.session,
            "transcript_path": f"/home/dev/.claude/projects/x/{self.session}.jsonl",
            "cwd": root,
            "permission_mode": "acceptEdits",
            "hook_event_name": event,
        }
        if self.prompt_id is not None:
            payload["prompt_id"] = self.prompt_id
        return {**payload, **fields, **self.extra}

    def send(self, event: str, **fields: object) -> None:
        """Deliver one hook."""
        self.deliver(self.payload(event, **fields))

    def deliver(self, payload: Mapping[str, object]) -> None:
        """Deliver a payload; check exit 0 and empty output."""
        result = self._hook(payload)
        assert (result.code, result.raw) == (0, b""), result

    def _hook(self, payload: Mapping[str, object]) -> Result:
        return self.shadow(
            "hook", "claude-code", stdin=json.dumps(payload).encode("utf-8")
        )

    # The session and its turns

    def start(self) -> None:
        """Deliver SessionStart."""
        self.send("SessionStart", source="startup", model="claude-sonnet-5")

    def prompt(self, text: str) -> str:
        """Deliver UserPromptSubmit: a new turn; return the context that it adds."""
        self.prompt_id = str(uuid.uuid4())
        result = self._hook(self.payload("UserPromptSubmit", prompt=text))
        assert (result.code, result.err) == (0, ""), result
        if not result.raw:
            return ""
        output = result.json().pop("hookSpecificOutput")
        assert isinstance(output, dict)
        assert output["hookEventName"] == "UserPromptSubmit"
        return str(output["additionalContext"])

    def stop(self) -> None:
        """Deliver Stop: the turn's end."""
        self.send("Stop", stop_hook_active=False, last_assistant_message="Done.")

    def end(self) -> None:
        """Deliver SessionEnd."""
        self.send("SessionEnd", reason="prompt_input_exit")

    # Calls

    def pre(self, tool: str, tool_input: Mapping[str, object]) -> str:
        """Deliver PreToolUse and return the call's id."""
        call = f"toolu_{uuid.uuid4().hex[:24]}"
        self.send("PreToolUse", tool_name=tool, tool_input=tool_input, tool_use_id=call)
        self._open[call] = (tool, tool_input, time.monotonic())
        return call

    def allow(self, call: str) -> None:
        """Let the tool of an open call begin only now, after a person was asked."""
        tool, tool_input, _ = self._open[call]
        self._open[call] = (tool, tool_input, time.monotonic())

    def post(self, call: str, response: Mapping[str, object] | None = None) -> None:
        """Deliver PostToolUse of an open call, with the time that its tool ran."""
        tool, tool_input, began = self._open.pop(call)
        self.send(
            "PostToolUse",
            tool_name=tool,
            tool_input=tool_input,
            tool_response={"success": True} if response is None else response,
            tool_use_id=call,
            duration_ms=math.ceil((time.monotonic() - began) * 1000),
        )

    def write(self, path: PathLike, data: str | bytes, mode: int | None = None) -> str:
        """Write a file by one call of the file tool, without a pause; return its id."""
        call = self.pre("Write", self._file_input(path, data))
        self.shadow.repo.write(path, data, mode)
        self.post(call)
        return call

    def shell(self, command: str, *, check: bool = True) -> str:
        """Run a command by one call of the shell tool; return its id."""
        call = self.pre("Bash", {"command": command, "description": "run it"})
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.shadow.repo.root,
            capture_output=True,
            timeout=self.shadow.timeout_seconds,
            check=check,
        )
        self.post(
            call,
            {
                "stdout": done.stdout.decode(errors="replace"),
                "stderr": done.stderr.decode(errors="replace"),
                "interrupted": False,
                "isImage": False,
            },
        )
        return call

    def _file_input(self, path: PathLike, data: str | bytes) -> dict[str, object]:
        full = os.fsdecode(os.path.normpath(self.shadow.repo.path(path)))
        text = data if isinstance(data, str) else data.decode(errors="replace")
        return {"file_path": full, "content": text}
