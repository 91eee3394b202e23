"""Scripted agents at work in one repository, and what the journal says of their writes.

Each is a process of its own with an agent's name, which lives while its hooks and shells run.
"""

import hashlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.places import Place, repository
from bench.scoring import PERSON, Said, Wrote
from tests.agents.hook_files import InstalledHooks

_SCRIPT = Path(__file__).with_name("scripted.py")
_HOST = "claude-code"
_PROGRAM = "claude"
_UNHOOKED = "codex"
_FILES = 200
Agent = subprocess.Popen[str]


@contextmanager
def watched(**settings: str) -> Iterator[Place]:
    """Make a repository with settings, a running daemon and the hooks of an agent."""
    with repository(_FILES) as place:
        for name, value in settings.items():
            place.git("config", f"agent-undo.{name}", value)
        place.shadow("hooks", "install", "--user", _HOST, "--yes")
        place.shadow("init")
        place.shadow("start")
        yield place


def start(place: Place, style: str, writes: int = 0, delay_ms: int = 0) -> Agent:
    """Start one agent; with the style `none` it is one that has no hooks."""
    home = Path(place.env["HOME"])
    plan = {
        "root": str(place.root),
        "home": str(home),
        "hooks": InstalledHooks.find(_HOST, home).commands(),
        "session": f"s-{uuid.uuid4().hex[:10]}",
        "style": style,
        "writes": writes,
        "delay_ms": delay_ms,
    }
    name = place.root.parent / (_UNHOOKED if style == "none" else _PROGRAM)
    if not name.exists():
        name.symlink_to(os.path.realpath(sys.executable))
    return subprocess.Popen(
        [str(name), str(_SCRIPT), json.dumps(plan)],
        cwd=place.root,
        env=place.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def tell(agent: Agent, line: str = "go") -> None:
    """Send one line to an agent."""
    assert agent.stdin is not None
    agent.stdin.write(f"{line}\n")
    agent.stdin.flush()


def truth_until(agent: Agent, word: str) -> list[Wrote]:
    """Return what an agent wrote up to the line that has a word."""
    assert agent.stdout is not None
    found: list[Wrote] = []
    for line in agent.stdout:
        told = json.loads(line)
        if word in told:
            return found
        found.append(Wrote(told["writer"], told["path"], told["oid"]))
    raise RuntimeError(f"a scripted agent ended with {agent.wait()}")


def truth_of(agent: Agent) -> list[Wrote]:
    """Let an agent come to its end, and return what it wrote."""
    out, _ = agent.communicate()
    if agent.returncode:
        raise RuntimeError(f"a scripted agent ended with {agent.returncode}")
    told = [json.loads(line) for line in out.splitlines()]
    return [Wrote(one["writer"], one["path"], one["oid"]) for one in told]


def mine(place: Place, target: Path) -> Wrote:
    """Return what a person has just written."""
    data = target.read_bytes()
    blob = b"blob %d\0" % len(data) + data
    oid = hashlib.sha1(blob, usedforsecurity=False).hexdigest()
    return Wrote(PERSON, str(target.relative_to(place.root)), oid)


def said(place: Place, since: int = 0) -> list[Said]:
    """Return what the rows after one say, with the agents' own ids of sessions."""
    place.shadow("flush")
    known = [json.loads(one) for one in place.shadow("sessions", "--json").splitlines()]
    natives = {one["id"]: one["native_id"] for one in known}
    rows = [json.loads(one) for one in _log(place, 100_000)]
    return [
        Said(
            path=row["path"],
            oid=(row["after"] or {}).get("oid", ""),
            actor="agent" if row["confidence"] == "low" else row["actor"],
            session=natives.get(row["session"]),
            confidence=row["confidence"],
            candidates=tuple(natives[one] for one in row.get("candidates", ())),
            reason=row["reason"],
        )
        for row in rows
        if row["seq"] > since and row["path"] is not None and row["actor"]
    ]


def last_seq(place: Place) -> int:
    """Return the number of the newest row."""
    rows = _log(place, 1)
    return int(json.loads(rows[0])["seq"]) if rows else 0


def _log(place: Place, most: int) -> list[str]:
    return place.shadow("log", "--json", "-n", str(most)).splitlines()
