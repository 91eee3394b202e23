"""A scripted agent that speaks Claude Code's hook protocol, and the person beside it.

    agent.py pick ROOT              choose the four files that the demo works on
    agent.py work ROOT A B C D      run one turn of the agent on them

Every event is one JSON document on the standard input of `git-agent-undo hook claude-code`,
as Claude Code itself sends it ("Hooks reference" of its documentation). The standard library
and the installed command are all it needs.
"""

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

HOOK = ("git-agent-undo", "hook", "claude-code")
PERSON = "A line that you wrote while the agent was at work.\n"
EDITOR_OPEN_S = 0.3
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
_SIZES = range(200, 100_000)


def pick(root: Path) -> list[str]:
    """Return four tracked text files with plain names, not executable, short paths first."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    names = sorted(done.stdout.split("\0"), key=lambda name: (name.count("/"), name))
    found: list[str] = []
    for name in names:
        if _NAME.fullmatch(name) and _is_text(root / name):
            found.append(name)
        if len(found) == 4:
            return found
    sys.exit("error: the demo needs a repository with four text files of ten lines")


def _is_text(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or os.access(path, os.X_OK):
        return False
    if path.stat().st_size not in _SIZES:
        return False
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return text.count("\n") >= 10 and text.endswith("\n") and "\0" not in text


class Agent:
    """Run one session of the agent in the repository at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._session = str(uuid.uuid4())
        self._prompt: str | None = None

    def send(self, event: str, **fields: object) -> None:
        """Deliver one hook; it must exit 0 and print nothing."""
        payload: dict[str, object] = {
            "session_id": self._session,
            "transcript_path": f"/nowhere/{self._session}.jsonl",
            "cwd": str(self._root),
            "permission_mode": "acceptEdits",
            "hook_event_name": event,
            **fields,
        }
        if self._prompt is not None:
            payload["prompt_id"] = self._prompt
        done = subprocess.run(
            HOOK, input=json.dumps(payload).encode(), capture_output=True, check=False
        )
        if done.returncode != 0 or done.stdout:
            sys.exit(f"error: the hook {event} ended with {done}")

    def prompt(self, text: str) -> None:
        """Begin a turn."""
        self._prompt = str(uuid.uuid4())
        say("prompt", f'"{text}"')
        self.send("UserPromptSubmit", prompt=text)

    def call(
        self, tool: str, tool_input: Mapping[str, object], act: Callable[[], object]
    ) -> None:
        """Make one tool call: the hook before it, the act itself, the hook after it."""
        call = f"toolu_{uuid.uuid4().hex[:24]}"
        about = {"tool_name": tool, "tool_input": tool_input, "tool_use_id": call}
        self.send("PreToolUse", **about)
        act()
        self.send("PostToolUse", **about, tool_response={"success": True})

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file."""
        path = self._root / name
        before = path.read_bytes()
        after = before.replace(old.encode(), new.encode(), 1)
        say("Edit", name)
        tool_input = {"file_path": str(path), "old_string": old, "new_string": new}
        self.call("Edit", tool_input, lambda: path.write_bytes(after))

    def write(self, name: str, text: str) -> None:
        """Write a whole file, making its directory."""
        path = self._root / name

        def act() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())

        say("Write", name)
        self.call("Write", {"file_path": str(path), "content": text}, act)

    def bash(self, command: str) -> None:
        """Run a shell command."""
        say("Bash", command)
        self.call(
            "Bash",
            {"command": command, "description": "Run it"},
            lambda: subprocess.run(
                ["/bin/sh", "-c", command], cwd=self._root, check=True
            ),
        )


def person_saves(path: Path) -> None:
    """Add a line to a file as a person does: with an editor that has its swap file there."""
    say("you", f"add a line to {path.name} in an editor, meanwhile")
    swap = path.with_name(f".{path.name}.swp")
    swap.touch()
    with path.open("a", encoding="utf-8") as stream:
        stream.write(PERSON)
    time.sleep(EDITOR_OPEN_S)
    swap.unlink()


def work(root: Path, edited: str, deleted: str, renamed: str, closed: str) -> None:
    """Run one turn: edits, a new file, a deletion, a rename, a link and a change of mode."""
    agent = Agent(root)
    agent.send("SessionStart", source="startup", model="demo")
    agent.prompt("Tidy this project up")
    first = (root / edited).read_bytes().decode().split("\n", 1)[0]
    agent.edit(edited, first, f"{first} (tidied up)")
    agent.write("plan/next/todo.md", "# To do\n\n- everything\n")
    person_saves(root / edited)
    agent.bash(f"rm {deleted}")
    agent.bash(f"mv {renamed} {renamed}.old && ln -s {renamed}.old plan/link")
    agent.bash(f"chmod 600 {closed}")
    agent.send("Stop", stop_hook_active=False)
    agent.send("SessionEnd", reason="prompt_input_exit")


def say(who: str, what: str) -> None:
    print(f"  {who:<8} {what}", flush=True)


def main(words: list[str]) -> None:
    root = Path(words[1])
    if words[0] == "pick":
        print(*pick(root))
    else:
        work(root, *words[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
