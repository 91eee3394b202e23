"""A scripted agent, run as a process of its own: says what it wrote, one JSON line per write.

`scripted.py PLAN`, PLAN as JSON; it begins at the first line on standard input. Standard library
only: it is started under the names of agents, outside the virtual environment.

It runs what the agent's settings have for each event, as the agent does (Claude Code 2.1.330).
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any


class Agent:
    """One session that does one kind of work over and over."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.root = Path(plan["root"])
        self.hooks: dict[str, str] = plan["hooks"]
        self.session: str = plan["session"]
        self.delay_s: float = plan["delay_ms"] / 1000
        self.writes: int = plan["writes"]
        self.style: str = plan["style"]
        self.transcript = Path(plan["home"], f"{self.session}.jsonl")
        self.env = {
            **os.environ,
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": self.session,
            "CLAUDE_PID": str(os.getpid()),
        }

    def run(self) -> None:
        """Do the work of the plan."""
        (self.root / self.session).mkdir()
        if self.style != "none":
            self.hook("UserPromptSubmit", prompt="go")
        if self.style == "asked":
            self.asked()
        else:
            self.work()
        if self.style != "none":
            self.hook("Stop")
            self.hook("SessionEnd", reason="other")

    def work(self) -> None:
        """Do one kind of work as often as planned, from the first line on."""
        sys.stdin.readline()
        work = {
            "named": self.named,
            "shell": self.shell,
            "none": self.bare,
        }[self.style]
        for number in range(self.writes):
            work(number)

    def named(self, number: int) -> None:
        """Rewrite one of five files by a tool that names it."""
        path, text = self.fresh(f"f{number % 5}", number)
        given = {"file_path": str(self.root / path), "content": text}
        call = self.pre("Write", given)
        (self.root / path).write_text(text)
        self.wrote(path, text.encode())
        self.post(call, "Write", given)

    def shell(self, number: int) -> None:
        """Make a file by a shell, and every fourth time delete the one before."""
        path, text = self.fresh(f"f{number}", number)
        command = f"printf %s '{text}' > {path}"
        before = f"{self.session}/f{number - 1}"
        if number % 4 == 3:
            command += f"; rm {before}"
        given = {"command": command}
        call = self.pre("Bash", given)
        subprocess.run(["/bin/sh", "-c", command], cwd=self.root, check=True)
        self.wrote(path, text.encode())
        if number % 4 == 3:
            self.tell(path=before, oid="")
        self.post(call, "Bash", given)

    def asked(self) -> None:
        """Run the command of each line on standard input; what it left in `out` it wrote."""
        threading.Thread(target=self.draw, daemon=True).start()
        for line in sys.stdin:
            asked = json.loads(line)
            given = {"command": asked["command"]}
            call = self.pre("Bash", given)
            self.tell(open=True)
            with tempfile.TemporaryFile() as printed:
                subprocess.run(
                    ["/bin/bash", "-c", asked["command"]],
                    cwd=self.root,
                    env=self.env,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    check=True,
                )
            for path in sorted((self.root / asked["out"]).rglob("*")):
                if path.is_file():
                    self.wrote(str(path.relative_to(self.root)), path.read_bytes())
            self.post(call, "Bash", given)
            self.tell(closed=True)

    def draw(self) -> None:
        """Write to the transcript all the time, as an agent that draws its screen."""
        with self.transcript.open("a", encoding="ascii") as transcript:
            while True:
                transcript.write("working\n" * 20)
                transcript.flush()
                time.sleep(0.05)

    def bare(self, number: int) -> None:
        """Rewrite one of five files without a word to anybody."""
        path, text = self.fresh(f"f{number % 5}", number)
        (self.root / path).write_text(text)
        self.wrote(path, text.encode())
        time.sleep(0.05 + self.delay_s)

    def fresh(self, name: str, number: int) -> tuple[str, str]:
        return f"{self.session}/{name}", f"{self.session} {number} {uuid.uuid4().hex}"

    def wrote(self, path: str, data: bytes) -> None:
        blob = b"blob %d\0" % len(data) + data
        self.tell(path=path, oid=hashlib.sha1(blob, usedforsecurity=False).hexdigest())

    def tell(self, **fields: object) -> None:
        print(json.dumps({"writer": self.session, **fields}), flush=True)

    def pre(self, tool: str, given: dict[str, str]) -> str:
        call = f"toolu_{uuid.uuid4().hex}"
        self.hook("PreToolUse", tool_name=tool, tool_input=given, tool_use_id=call)
        return call

    def post(self, call: str, tool: str, given: dict[str, str]) -> None:
        time.sleep(self.delay_s)
        self.hook("PostToolUse", tool_name=tool, tool_input=given, tool_use_id=call)

    def hook(self, event: str, **fields: object) -> None:
        payload = {
            "session_id": self.session,
            "transcript_path": f"/nowhere/.claude/projects/x/{self.session}.jsonl",
            "prompt_id": f"turn-of-{self.session}",
            "cwd": str(self.root),
            "hook_event_name": event,
            **fields,
        }
        subprocess.run(
            ["/bin/sh", "-c", self.hooks[event]],
            input=json.dumps(payload).encode(),
            cwd=self.root,
            env=self.env,
            stdout=subprocess.DEVNULL,
            check=True,
        )


if __name__ == "__main__":
    Agent(json.loads(sys.argv[1])).run()
