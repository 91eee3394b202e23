"""Who wrote what: scripted agents and a person with known writes, real hooks, real daemon.

Invariant: the truth comes from the writers themselves, and a required precision that is missed
makes the run fail.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench import saves
from bench.outcome import Cell, Outcome, table
from bench.places import Place, program, repository
from bench.scoring import (
    NAMED,
    PERSON,
    Said,
    Tally,
    Wrote,
    failures,
    score,
    violations,
)
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.attribution.process_evidence import guessed_id

SCRIPT = Path(__file__).with_name("scripted.py")
STYLES = ("named", "shell", "mixed", "none")
SESSIONS = (1, 2, 4, 8)
DELAYS_MS = (0, 10, 50, 200)
REQUIRED = ("certain", "high")
"""Where each writer stays in its own windows, nobody else writes inside one at `high`."""

_FILES = 200


def run(scale: float) -> Outcome:
    """Run all parts; `scale` below 1 makes the grid and the numbers of writes smaller."""
    found = Outcome()
    writes = max(4, round(12 * scale))
    with watched() as place:
        for cell in grid(scale):
            found.cells[cell] = tally = measure(place, cell, writes)
            found.failed += failures(cell.name, tally, REQUIRED)
            _progress(cell.name, tally)
    with watched() as place:
        for pattern in saves.PATTERNS:
            found.beside[pattern] = tally = beside(place, pattern, writes)
            _progress(f"a person's {pattern}", tally)
    for part, limit in LIMITS.items():
        with watched() as place:
            count, wrong = outside(place, part, limit, max(5, round(20 * scale)))
        found.outside[part] = (count, len(wrong))
        found.failed += [f"outside every window, {part}: {one}" for one in wrong]
        print(f"outside every window, {part}: {len(wrong)} of {count}", flush=True)
    return found


def grid(scale: float) -> Iterator[Cell]:
    """Yield the cells, fewer on a smaller scale."""
    sessions = SESSIONS if scale >= 0.5 else SESSIONS[:2]
    delays = DELAYS_MS if scale >= 0.5 else (DELAYS_MS[0], DELAYS_MS[2])
    for style in STYLES:
        for count in sessions:
            for delay in delays:
                alone = style == "mixed" and count == 1
                unhooked = style == "none" and delay != delays[0]
                if not alone and not unhooked:
                    yield Cell(style, count, delay)


@contextmanager
def watched() -> Iterator[Place]:
    """Make a repository with a running daemon."""
    with repository(_FILES) as place:
        place.shadow("init")
        place.shadow("start")
        yield place


def _progress(name: str, tally: Tally) -> None:
    counts = ", ".join(
        f"{one} {tally.right[one]}+{tally.wrong[one]}"
        for one in NAMED
        if tally.right[one] + tally.wrong[one]
    )
    print(
        f"{name}: {tally.writes} writes; right+wrong: {counts or 'none'};"
        f" ambiguous {tally.ambiguous}, unknown {tally.unknown}, missing {tally.missing}",
        flush=True,
    )


# Agents beside each other


def measure(place: Place, cell: Cell, writes: int) -> Tally:
    """Let the agents of one cell work at once and score what the journal says."""
    since = _last_seq(place)
    agents = []
    for number in range(cell.sessions):
        style = cell.style
        if style == "mixed":
            style = "named" if number % 2 else "shell"
        agents.append(_start(place, style, writes, cell.delay_ms))
    for agent in agents:
        _tell(agent)
    names = [_native_id(agent, cell.style) for agent in agents]
    truth = [
        wrote if name is None else replace(wrote, writer=name)
        for agent, name in zip(agents, names, strict=True)
        for wrote in _truth_of(agent)
    ]
    return score(truth, said(place, since))


def _native_id(agent: "subprocess.Popen[str]", style: str) -> str | None:
    """Return how the session of an agent without hooks is called, after its process."""
    if style != "none":
        return None
    started = process_start(agent.pid)
    return None if started is None else guessed_id(ProcessId(agent.pid, started))


def _start(
    place: Place, style: str, writes: int, delay_ms: int
) -> "subprocess.Popen[str]":
    """Start one agent; without hooks it runs under the name of a known one."""
    plan = {
        "root": str(place.root),
        "program": program(),
        "session": f"s-{uuid.uuid4().hex[:10]}",
        "style": style,
        "writes": writes,
        "delay_ms": delay_ms,
    }
    interpreter = sys.executable
    if style == "none":
        link = place.root.parent / "codex"
        if not link.exists():
            link.symlink_to(os.path.realpath(sys.executable))
        interpreter = str(link)
    return subprocess.Popen(
        [interpreter, str(SCRIPT), json.dumps(plan)],
        cwd=place.root,
        env=place.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _tell(agent: "subprocess.Popen[str]") -> None:
    assert agent.stdin is not None
    agent.stdin.write("go\n")
    agent.stdin.flush()


def _truth_of(agent: "subprocess.Popen[str]") -> list[Wrote]:
    out, _ = agent.communicate()
    if agent.returncode:
        raise RuntimeError(f"a scripted agent ended with {agent.returncode}")
    return [one for line in out.splitlines() if (one := _wrote(line)) is not None]


def _wrote(line: str) -> Wrote | None:
    told = json.loads(line)
    if "path" not in told:
        return None
    return Wrote(told["writer"], told["path"], told["oid"])


# What the journal says


def said(place: Place, since: int = 0) -> list[Said]:
    """Return what the rows after one say, with the agents' own ids of sessions."""
    place.shadow("flush")
    known = [json.loads(one) for one in place.shadow("sessions", "--json").splitlines()]
    natives = {one["id"]: one["native_id"] for one in known}
    rows = [json.loads(one) for one in _log(place)]
    return [
        Said(
            path=row["path"],
            oid=(row["after"] or {}).get("oid", ""),
            actor="agent" if row["confidence"] == "low" else row["actor"],
            session=natives.get(row["session"]),
            confidence=row["confidence"],
            candidates=tuple(natives[one] for one in row.get("candidates", ())),
        )
        for row in rows
        if row["seq"] > since and row["path"] is not None and row["actor"]
    ]


def _log(place: Place) -> list[str]:
    return place.shadow("log", "--json", "-n", "100000").splitlines()


def _last_seq(place: Place) -> int:
    rows = place.shadow("log", "--json", "-n", "1").splitlines()
    return int(json.loads(rows[0])["seq"]) if rows else 0


# A person beside a shell call


def beside(place: Place, pattern: str, writes: int) -> Tally:
    """Let a person save once inside each shell call of an agent; score the person's saves."""
    since = _last_seq(place)
    truth: list[Wrote] = []
    with _start(place, "held", writes, 0) as agent:
        assert agent.stdout is not None
        _tell(agent)
        for line in agent.stdout:
            if "open" in json.loads(line):
                wrote, finish = _save(place, pattern)
                truth.append(wrote)
                time.sleep(0.1)
                _tell(agent)
                finish()
    if agent.returncode:
        raise RuntimeError(f"a scripted agent ended with {agent.returncode}")
    return score(truth, said(place, since))


def _save(place: Place, pattern: str) -> tuple[Wrote, saves.Finish]:
    """Let a person save a file by a pattern; what stood there before is not scored."""
    target = place.root / "d000" / f"mine-{uuid.uuid4().hex[:8]}.txt"
    target.write_text("as it was\n", encoding="ascii")
    place.shadow("flush")
    finish = saves.PATTERNS[pattern](target, f"a person's {uuid.uuid4().hex}\n")
    return _mine(place, target), finish


def _mine(place: Place, target: Path) -> Wrote:
    return Wrote(PERSON, str(target.relative_to(place.root)), _oid(target))


def _oid(target: Path) -> str:
    data = target.read_bytes()
    head = b"blob %d\0" % len(data)
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()


# Outside every window

LIMITS: dict[str, str | None] = {
    "session without a turn": None,
    "turn, hooks cover all tools": "low",
    "turn, hooks do not cover all tools": "medium",
    "person's session": None,
    "right before and after a named call": "low",
    "right before and after a shell call": "low",
}
"""The highest confidence at which an agent may be named (ATT-16)."""


def outside(
    place: Place, part: str, limit: str | None, saved: int
) -> tuple[int, list[str]]:
    """Let a person save outside every window; return how many, and what went wrong."""
    session = f"s-{uuid.uuid4().hex[:10]}"
    if part == "session without a turn":
        _hook(place, session, "SessionStart", source="startup")
    elif part == "turn, hooks do not cover all tools":
        payload = {"session": session, "agent": "mine", "cwd": str(place.root)}
        _deliver(place, "generic", {**payload, "event": "prompt", "prompt": "go"})
    elif part == "person's session":
        place.shadow("session", "start", "--human")
    else:
        _hook(place, session, "UserPromptSubmit", prompt="go")
    tool = {"right before and after a named call": "Write"}.get(part)
    tool = "Bash" if part.endswith("shell call") else tool
    truth: list[Wrote] = []
    for number in range(saved):
        target = place.root / f"own-{number}.txt"
        truth.append(_saved(place, target))
        if tool is not None:
            _call(place, session, tool, target)
            truth.append(_saved(place, target))
        else:
            time.sleep(0.02)
    limits = dict.fromkeys((one.path for one in truth), limit)
    return len(truth), violations(truth, said(place), limits)


def _saved(place: Place, target: Path) -> Wrote:
    target.write_text(f"a person's {uuid.uuid4().hex}\n", encoding="ascii")
    found = _mine(place, target)
    return found


def _call(place: Place, session: str, tool: str, target: Path) -> None:
    """Do one call that writes where the person has just written, or beside it."""
    theirs = target if tool == "Write" else target.with_suffix(".out")
    given = (
        {"file_path": str(theirs)}
        if tool == "Write"
        else {"command": f"echo > {theirs.name}"}
    )
    fields = {"tool_name": tool, "tool_input": given, "tool_use_id": uuid.uuid4().hex}
    _hook(place, session, "PreToolUse", **fields)
    theirs.write_text(f"the agent's {uuid.uuid4().hex}\n", encoding="ascii")
    _hook(place, session, "PostToolUse", **fields)


def _hook(place: Place, session: str, event: str, **fields: object) -> None:
    payload = {
        "session_id": session,
        "transcript_path": f"/nowhere/.claude/projects/x/{session}.jsonl",
        "prompt_id": f"turn-of-{session}",
        "cwd": str(place.root),
        "hook_event_name": event,
        **fields,
    }
    _deliver(place, "claude-code", payload)


def _deliver(place: Place, agent: str, payload: dict[str, object]) -> None:
    subprocess.run(
        [program(), "hook", agent],
        input=json.dumps(payload).encode(),
        cwd=place.root,
        env=place.env,
        check=True,
    )


# Printing


def main(scale: float, write: Callable[[str], None]) -> int:
    """Run, hand over the tables, and return 1 when a requirement is missed."""
    found = run(scale)
    write(table(found))
    for line in found.failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if found.failed else 0
