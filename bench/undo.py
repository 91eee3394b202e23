"""The budgets of undo, whole processes, beside what Git alone does to the same files.

Invariant: what is timed did its work: the working tree is clean after it.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.measure import Row, ms, timed
from bench.places import Place, program, repository

_OFF = {"GITSHADOW_DAEMON": "off"}
_HEAVY = "import click, pygit2, sqlite3"


def undo(scale: float) -> Iterator[Row]:
    """`oops --yes` of 2 and of 1,000 files, beside what Git alone does to the same files."""
    with repository(int(2_000 * scale) or 100) as place:
        place.shadow("init")
        few = ["d000/e00000/f000000.txt", "d000/e00000/f000001.txt"]
        turns = max(5, int(15 * scale))
        yield from _oops(place, few, turns, ("≤ 45 ms", "≤ 140 ms"))
        tracked = place.git("ls-files", "-z").split("\0")[:-1]
        many = tracked[: int(1_000 * scale) or 50]
        yield from _oops(place, many, max(3, int(5 * scale)), ("≤ 450 ms", "–"))
        yield from _imports(turns)


def _oops(
    place: Place, paths: Sequence[str], times: int, budgets: tuple[str, str]
) -> Iterator[Row]:
    """Take a turn back that rewrote these files: with a daemon, without, and by Git alone."""
    alone = Place(place.root, place.env | _OFF)
    files = f"{len(paths):,} files"
    place.shadow("start")
    up = [undone(place, paths) for _ in range(times)]
    place.shadow("stop")
    down = [undone(alone, paths) for _ in range(times)]
    yield Row(f"`oops --yes`, {files}, daemon up", budgets[0], ms(up), "ms")
    yield Row(f"`oops --yes`, {files}, no daemon", budgets[1], ms(down), "ms")
    for command in (["checkout", "-q", "--", "."], ["stash", "push", "-q"]):
        values = [_discarded(place, paths, command) for _ in range(times)]
        what = "git " + " ".join(command)
        yield Row(f"… `{what}`, the same files", "yardstick", ms(values), "ms")


def _imports(times: int) -> Iterator[Row]:
    """What the interpreter and the libraries take before a line of ours runs."""
    python = str(Path(program()).parent / "python")
    for words in ("import click", _HEAVY):
        command = [python, "-c", words]
        run = partial(subprocess.run, command, check=True)
        values = [timed(run) for _ in range(times)]
        yield Row(f"… `python -c '{words}'`", "yardstick", ms(values), "ms")


def undone(place: Place, paths: Sequence[str]) -> float:
    """Have an agent rewrite files in a turn, by one call of a shell; time `oops`."""
    turn = f"turn-{time.time_ns()}"
    call = {"tool_name": "Bash", "tool_input": {"command": "./rewrite"}}
    _hook(place, "UserPromptSubmit", turn, prompt="go")
    _hook(place, "PreToolUse", turn, **call)
    # A child, as an agent's shell is: the ledger rules out a shell call without a process.
    script = 'for path; do echo "$0 $path" >"$path"; done'
    command = ["sh", "-c", script, turn, *paths]
    subprocess.run(command, cwd=place.root, env=place.env, check=True)
    _hook(place, "PostToolUse", turn, **call)
    _hook(place, "Stop", turn)
    place.shadow("flush")
    taken = timed(lambda: place.shadow("oops", "--yes"))
    _check_clean(place)
    return taken


def _discarded(place: Place, paths: Sequence[str], command: Sequence[str]) -> float:
    _rewrite(place, paths, str(time.time_ns()))
    taken = timed(lambda: place.git(*command))
    _check_clean(place)
    return taken


def _rewrite(place: Place, paths: Sequence[str], text: str) -> None:
    for path in paths:
        (place.root / path).write_text(f"{text} {path}\n", encoding="ascii")


def _check_clean(place: Place) -> None:
    """Refuse to time what did not do its work."""
    if left := place.git("--no-optional-locks", "status", "--porcelain"):
        raise RuntimeError(f"not taken back: {left}")


def _hook(place: Place, name: str, turn: str, **extra: object) -> None:
    payload = {
        "session_id": "bench",
        "prompt_id": turn,
        "transcript_path": "/nowhere/.claude/projects/bench.jsonl",
        "cwd": str(place.root),
        "hook_event_name": name,
        "tool_use_id": f"call-{turn}",
        **extra,
    }
    place.hook(json.dumps(payload))
