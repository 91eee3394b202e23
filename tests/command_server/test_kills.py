"""Whoever is killed while a command changes something, it is done once or not at all."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from gitshadow.ipc import command_client
from tests.conftest import FULL
from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Document, Shadow
from tests.support.waiting import HANGS_S, until

_KILLS = 250 if FULL else 10
"""With a daemon, and as many without."""
_PIECE = 50
_ALL = "1000000"
_VICTIMS = ("client", "process", "server", "all")


class _Campaign:
    """Commands that change something, one killed in each round, in one repository."""

    def __init__(self, shadow: Shadow, seed: int) -> None:
        self.shadow = shadow
        self.rng = random.Random(seed)
        self.agent = Claude(shadow)
        self.written: list[tuple[str, str]] = []
        env = shadow.environment()
        self.place = Path(command_client.directory(env, COMMAND))

    def killed(self, *words: str, stdin: bytes = b"", whom: str = "") -> int:
        """Run a command, kill somebody at some moment of it, and return its exit code."""
        whom = whom or self.rng.choice(_VICTIMS)
        late_s = self.rng.choice((0.03, 0.1, 0.3)) * self.rng.random()
        with subprocess.Popen(
            [COMMAND, *words],
            cwd=self.shadow.repo.root,
            env=self.shadow.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as started:
            assert started.stdin is not None
            with suppress(BrokenPipeError):
                started.stdin.write(stdin)
                started.stdin.close()
            time.sleep(late_s)
            server = self.server()
            workers = _children(server)
            pids = {
                "client": [started.pid],
                "process": workers,
                "server": server,
                "all": [*server, *workers, started.pid],
            }[whom]
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            code = started.wait(HANGS_S)
        # One that lost its client is ended by the kernel; who lost the server comes to its end.
        until(lambda: not _at_work(self.shadow.repo.root))
        return code

    def server(self) -> Sequence[int]:
        """Return the pid of the server if there is one."""
        with suppress(OSError, ValueError):
            pid = int((self.place / "lock").read_text())
            if b"gitshadow.command_server" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return [pid]
        return []

    def write(self, number: int, path: str = "a") -> str:
        """Have the agent write a file by a call of its own turn; return the content."""
        self.agent.prompt(f"write {number}")
        text = f"round {number}\n"
        self.agent.write(path, text)
        self.written.append((path, text))
        return text

    def oops(self, number: int) -> None:
        before, operations = self.shadow.repo.read("a"), self._rows("ops")
        text = self.write(number).encode()
        code = self.killed("oops", "--yes")
        done = self._more("ops", operations, code)
        assert self.shadow.repo.read("a") == (before if done else text)

    def redo(self, number: int) -> None:
        before = self.shadow.repo.read("a")
        text = self.write(number).encode()
        assert self.shadow.oops()["status"] == "reversed"
        operations = self._rows("ops")
        code = self.killed("redo", "--yes")
        done = self._more("ops", operations, code)
        assert self.shadow.repo.read("a") == (text if done else before)

    def pin(self, number: int) -> None:
        before = self._rows("pins")
        code = self.killed("pin", f"pin-{number}")
        self._more("pins", before, code)

    def session(self, number: int) -> None:
        before = self._rows("sessions")
        words = ("session", "start", "--agent", f"agent-{number}")
        self._more("sessions", before, self.killed(*words))

    def run(self, number: int) -> None:
        path, script = f"run-{number}", f"echo round {number} >> run-{number}"
        code = self.killed("exec", "--agent", "x", "--", "sh", "-c", script)
        file = Path(os.fsdecode(self.shadow.repo.path(path)))
        # Its child has the terminal's files and goes on where it was killed.
        text = f"round {number}\n"
        if code == 0:
            assert file.read_text() == text
        if file.exists() and file.read_text():
            self.written.append((path, text))

    def hook(self, number: int) -> None:
        text, event = (
            f"round {number}\n",
            self.rng.choice(("PreToolUse", "PostToolUse")),
        )
        self.agent.prompt(f"write {number}")
        tool = {
            "tool_name": "Write",
            "tool_input": {
                "file_path": os.fsdecode(self.shadow.repo.path("a")),
                "content": text,
            },
            "tool_use_id": f"toolu_{number}",
        }
        for name in ("PreToolUse", "PostToolUse"):
            if name == "PostToolUse":
                self.shadow.repo.write("a", text)
                self.written.append(("a", text))
                tool["tool_response"] = {"success": True}
            payload = self.agent.payload(name, **tool)
            if name != event:
                self.agent.deliver(payload)
                continue
            whom = self.rng.choice(_VICTIMS)
            stdin = json.dumps(payload).encode()
            code = self.killed("hook", "claude-code", stdin=stdin, whom=whom)
            # An agent's own process was not killed: it must never be stopped.
            assert code == 0 or whom in ("client", "all"), (whom, code)

    def record(self, number: int) -> None:
        text = f"round {number}\n"
        self.shadow.repo.write("b", text)
        self.written.append(("b", text))
        self.killed("record", "b")
        # Without a daemon, nobody sees a person's write before the next command.
        self.shadow.ok("flush")

    def pack(self, number: int) -> None:
        self.write(number)
        self.killed("pack")

    def restore(self, number: int) -> None:
        text = self.write(number).encode()
        self.shadow.ok("pin", f"at-{number}")
        later = self.write(-number).encode()
        operations = self._rows("ops")
        words = ("restore", "--pin", f"at-{number}", "--yes", "a")
        done = self._more("ops", operations, self.killed(*words))
        assert self.shadow.repo.read("a") == (text if done else later)

    def _rows(self, verb: str) -> Sequence[Document]:
        limit = ("-n", _ALL) if verb == "ops" else ()
        rows = self.shadow.ok(verb, "--json", *limit).rows()
        # What was begun and given back is listed, and is not done.
        return [row for row in rows if row.get("status") != "rolled_back"]

    def _more(self, verb: str, before: Sequence[Document], code: int) -> int:
        """Check that there is one row more, or none, and one if the command said so."""
        after = self._rows(verb)
        more = len(after) - len(before)
        assert more in (0, 1), (before, after)
        assert code != 0 or more == 1
        return more

    def verify(self) -> None:
        """Check that each content is recorded once, and that all is whole."""
        self.shadow.verify()
        found: dict[tuple[object, object], int] = {}
        for row in self.shadow.log("-n", _ALL):
            after = row["after"]
            if row["kind"] in ("create", "modify") and isinstance(after, Mapping):
                key = row["path"], after["oid"]
                found[key] = found.get(key, 0) + 1
        for path, text in self.written:
            oid = self.shadow.repo.git("hash-object", "--stdin", stdin=text.encode())
            assert found.get((path, oid.strip())) == 1, (path, text)


def _children(pids: Sequence[int]) -> Sequence[int]:
    found: list[int] = []
    for pid in pids:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            found += map(int, text.split())
    return found


def _at_work(root: Path) -> bool:
    """Return whether a process runs a command in a worktree."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.joinpath("cwd").readlink() == root:
                return True
    return False


_COMMANDS: Sequence[Callable[[_Campaign, int], None]] = (
    _Campaign.oops,
    _Campaign.redo,
    _Campaign.hook,
    _Campaign.pin,
    _Campaign.run,
    _Campaign.restore,
    _Campaign.session,
    _Campaign.record,
    _Campaign.pack,
)


@pytest.fixture
def campaign(shadow: Shadow) -> Iterator[_Campaign]:
    """Return a campaign; the server that its commands have started is gone after the test."""
    shadow.executes = True
    shadow.env[command_client.OFF] = "auto"
    made = _Campaign(shadow, 41 + shadow.daemon)
    yield made
    for pid in made.server():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.both_modes
@pytest.mark.timeout(1800 if FULL else 300)
def test_kills_at_random_lose_and_double_no_change(campaign: _Campaign) -> None:
    for number in range(1, _KILLS + 1):
        # The first of each kind in order, so that a short run has all.
        known = number <= len(_COMMANDS)
        act = _COMMANDS[number - 1] if known else campaign.rng.choice(_COMMANDS)
        act(campaign, number)
        if number % _PIECE == 0:
            campaign.verify()
    campaign.verify()
