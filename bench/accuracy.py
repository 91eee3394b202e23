"""Who wrote what: scripted agents and a person with known writes, real hooks, real daemon.

Invariant: the truth comes from the writers themselves, and a required precision that is missed
makes the run fail.
"""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from bench import cost, evidence, levels, saves
from bench.agents import (
    Agent,
    last_seq,
    mine,
    said,
    start,
    tell,
    truth_of,
    watched,
)
from bench.levels import Level
from bench.outcome import Cell, Outcome, misses, table
from bench.places import Place, program
from bench.scoring import NAMED, Tally, Wrote, failures, score, violations
from bench.shells import calls, team
from gitshadow.attribution.native_ids import guessed_id
from gitshadow.attribution.process import ProcessId, process_start

STYLES = ("named", "shell", "mixed", "none")
SESSIONS = (1, 2, 4, 8)
DELAYS_MS = (0, 200)
REQUIRED = ("certain", "high", "medium")
"""Where each writer stays in its own windows, nobody else is named."""


def run(scale: float) -> Outcome:
    """Run all parts; `scale` below 1 makes the grid and the numbers of writes smaller."""
    missing = {level: levels.missing(level) for level in Level}
    seen = evidence.measure(scale, missing)
    costs = cost.measure(scale, missing)
    found = Outcome(evidence=seen, costs=costs, failed=misses(seen))
    writes = max(4, round(8 * scale))
    # An agent that has just ended counts as present for a second, so the styles are kept apart.
    for _, cells in groupby(grid(scale), lambda cell: cell.style):
        with watched() as place:
            for cell in cells:
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
    for style in STYLES:
        for count in sessions:
            for delay in DELAYS_MS:
                alone = style == "mixed" and count == 1
                unhooked = style == "none" and delay
                if not alone and not unhooked:
                    yield Cell(style, count, delay)


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
    since = last_seq(place)
    working = []
    for number in range(cell.sessions):
        style = cell.style
        if style == "mixed":
            style = "named" if number % 2 else "shell"
        working.append(start(place, style, writes, cell.delay_ms))
    for agent in working:
        tell(agent)
    names = [_native_id(agent, cell.style) for agent in working]
    truth = [
        wrote if name is None else replace(wrote, writer=name)
        for agent, name in zip(working, names, strict=True)
        for wrote in truth_of(agent)
    ]
    return score(truth, said(place, since))


def _native_id(agent: Agent, style: str) -> str | None:
    """Return how the session of an agent without hooks is called, after its process."""
    if style != "none":
        return None
    started = process_start(agent.pid)
    return None if started is None else guessed_id(ProcessId(agent.pid, started))


# A person beside a shell call


def beside(place: Place, pattern: str, writes: int) -> Tally:
    """Let a person save once inside each shell call of an agent; score the person's saves."""
    since = last_seq(place)
    truth: list[Wrote] = []
    with team(place, 1) as agents:
        for _ in range(writes):
            target = place.root / "d000" / f"mine-{uuid.uuid4().hex[:8]}.txt"
            target.write_text("as it was\n", encoding="ascii")
            place.shadow("flush")
            with calls(place, agents, ["write"]):
                text = f"a person's {uuid.uuid4().hex}\n"
                finish = saves.PATTERNS[pattern](target, text)
                truth.append(mine(place, target))
                time.sleep(0.1)
            finish()
    return score(truth, said(place, since))


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
    return mine(place, target)


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
