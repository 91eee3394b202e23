"""How costs grow: with files in the repository, writes in a session, entries in a directory.

Invariant: every row says how much there was; ratios are taken within one run.
"""

import json
import os
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.budgets import QUIET_S, inits, rewrite, start
from bench.measure import Journal, Row, cpu_s, memory_mib, ms, timed
from bench.places import Place, empty, fill_like_linux, repository

_SIZES = (1_000, 20_000, 100_000)
_HUGE = 500_000
_WRITES = 40
_SESSION = 100_000
_TARGET = "d000/e00000/f000000.txt"
_WIDE = 50_000
_WORKTREES = 64
_SESSIONS = 1_000
_OPEN = 100


def sizes(scale: float) -> Iterator[Row]:
    """Cost per write in repositories of 1,000, 20,000 and 100,000 files."""
    medians: dict[int, tuple[float, float]] = {}
    for number in _SIZES:
        files = max(50, int(number * scale))
        with repository(files) as place:
            pid = start(place)
            waits, cpu = _writes(place, pid, max(10, int(_WRITES * min(scale, 1.0))))
            medians[number] = statistics.median(waits), cpu
            yield Row(f"write → journal row, {files:,} files", "–", waits, "ms")
            yield Row(f"CPU per write, {files:,} files", "–", [cpu], "ms")
            yield Row(
                f"memory of the daemon, {files:,} files", "–", [memory_mib(pid)], "MiB"
            )
            values = [timed(partial(place.shadow, "status")) for _ in range(3)]
            yield Row(f"`status`, {files:,} files", "–", ms(values), "ms")
    few, many = medians[_SIZES[0]], medians[_SIZES[-1]]
    grown = [many[0] / few[0], many[1] / few[1]]
    what = "cost per write at 100,000 files over 1,000: latency, CPU"
    yield Row(what, "≤ 2", grown, "×")


def huge(scale: float) -> Iterator[Row]:
    """500,000 files, and a session that goes on and on in one of them."""
    files = max(200, int(_HUGE * scale))
    with repository(files) as place:
        yield from inits(place, f"{files:,} tracked files", "≤ 8 s", 1)
        pid = start(place)
        found = json.loads(place.shadow("status", "--json"))
        said = str(found["degraded"] or "whole tree watched")
        waits, cpu = _writes(place, pid, max(5, int(_WRITES * min(scale, 1.0))))
        yield Row(f"write → journal row, {files:,} files", "–", waits, "ms", said)
        yield Row(f"CPU per write, {files:,} files", "–", [cpu], "ms")
        yield Row(
            f"memory of the daemon, {files:,} files", "–", [memory_mib(pid)], "MiB"
        )


def linux(scale: float) -> Iterator[Row]:
    """`init` of a tree of the shape of the Linux kernel's: 1.3 GB in 85,000 files."""
    with empty() as place:
        files = fill_like_linux(place.root, scale)
        place.git("add", "-A")
        place.git("commit", "-q", "-m", "source")
        place.git("gc", "-q")
        yield from inits(place, f"{files:,} files as in Linux", "≤ 3 s", 3)


def session(scale: float) -> Iterator[Row]:
    """A long session: do its last writes cost more than its first, and what is shown of it?"""
    writes = max(200, int(_SESSION * scale))
    with repository(max(100, int(20_000 * min(scale, 1.0)))) as place:
        pid = start(place)
        costs = [_tenth(place, pid, writes // 10, tenth) for tenth in range(10)]
        what = f"CPU per write in a session of {writes:,}, tenth by tenth"
        yield Row(what, "–", costs, "ms", f"first {costs[0]:.2f}, last {costs[-1]:.2f}")
        yield Row("last tenth relative to first", "flat", [costs[-1] / costs[0]], "×")
        yield Row("… memory of the daemon after it", "–", [memory_mib(pid)], "MiB")
        for words in (("log", "-n", "50"), ("blame", _TARGET), ("oops", "--dry-run")):
            values = [timed(partial(place.shadow, *words)) for _ in range(5)]
            yield Row(f"… `{' '.join(words)}`", "–", ms(values), "ms")


def _tenth(place: Place, pid: int, writes: int, tenth: int) -> float:
    """Return the daemon's CPU per write, ms."""
    journal, target, before = Journal(place.journal), place.root / _TARGET, cpu_s(pid)
    seq = journal.newest(_TARGET)
    for at in range(tenth * writes, (tenth + 1) * writes):
        rewrite(target, at + 1)
        seq = journal.await_newer(_TARGET, seq)
    return (cpu_s(pid) - before) / writes * 1000


def wide(scale: float) -> Iterator[Row]:
    """A directory with 50,000 entries, 64 linked worktrees."""
    entries = max(100, int(_WIDE * scale))
    with empty() as place:
        for number in range(entries):
            (place.root / f"f{number:06}").write_text(f"{number}\n", encoding="ascii")
        place.git("add", "-A")
        place.git("commit", "-q", "-m", "wide")
        pid = start(place)
        waits, cpu = _writes(place, pid, 20, "f000000")
        yield Row(
            f"write → journal row, {entries:,} files in one directory", "–", waits, "ms"
        )
        yield Row("… CPU per write", "–", [cpu], "ms")
    yield from _worktrees(max(4, int(_WORKTREES * min(scale, 1.0))))


def sessions(scale: float) -> Iterator[Row]:
    """1,000 sessions that were, then 100 that are open at once in one living process."""
    number = max(20, int(_SESSIONS * min(scale, 1.0)))
    with repository(200) as place:
        pid = start(place)
        yield from _with_sessions(place, pid, "one session")
        for at in range(number):
            _one_write(place, f"over-{at}", at, ends=True)
        yield from _with_sessions(place, pid, f"after {number:,} sessions")
        values = [timed(partial(place.shadow, "sessions")) for _ in range(3)]
        yield Row(f"`sessions`, {number:,} sessions", "–", ms(values), "ms")
        for at in range(_OPEN):
            _one_write(place, f"open-{at}", at, ends=False)
        yield from _with_sessions(place, pid, f"{_OPEN} open in one live process")


def _worktrees(number: int) -> Iterator[Row]:
    with repository(200) as place:
        place.shadow("init")
        alone = Place(place.root, {**place.env, "GITSHADOW_DAEMON": "off"})
        before = [timed(partial(alone.shadow, "log", "-n", "1")) for _ in range(5)]
        for at in range(number):
            root = place.root.parent / f"linked{at}"
            place.git("worktree", "add", "-q", "--detach", str(root))
            one = Place(root, alone.env)
            one.shadow("init")
            (root / "n").write_text("written here\n", encoding="ascii")
            one.shadow("flush")
        after = [timed(partial(alone.shadow, "log", "-n", "1")) for _ in range(5)]
        yield Row("`log -n 1` without a daemon, one worktree", "–", ms(before), "ms")
        yield Row(f"… {number} linked worktrees recorded", "–", ms(after), "ms")


def _with_sessions(place: Place, pid: int, what: str) -> Iterator[Row]:
    waits, cpu = _writes(place, pid, 20)
    yield Row(f"write → journal row, {what}", "–", waits, "ms")
    yield Row("… CPU per write", "–", [cpu], "ms")


def _one_write(place: Place, session: str, at: int, *, ends: bool) -> None:
    """Have an agent write one file."""
    path = place.root / f"s{at % 50}"
    call = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": str(place.root),
        "tool_name": "Write",
        "tool_use_id": f"call-{session}",
        "tool_input": {"file_path": str(path)},
    }
    place.hook(json.dumps(call))
    path.write_text(f"{session}\n", encoding="ascii")
    place.hook(json.dumps({**call, "hook_event_name": "PostToolUse"}))
    if ends:
        end = {"hook_event_name": "SessionEnd", "reason": "exit"}
        place.hook(json.dumps({**call, **end}))


def _writes(
    place: Place, pid: int, number: int, path: str = _TARGET
) -> tuple[list[float], float]:
    """Return what single writes took until their rows stood, and the daemon's CPU for each, ms."""
    journal, target = Journal(place.journal), place.root / Path(path)
    base, waits, before = journal.rows_of(path), [], cpu_s(pid)
    for at in range(1, number + 1):
        time.sleep(QUIET_S)
        began = rewrite(target, at)
        waits.append((journal.await_row(path, base + at) - began) * 1000)
    return waits, (cpu_s(pid) - before) / number * 1000


def available() -> bool:
    """Tell whether there is room for the largest repository."""
    found = os.statvfs("/tmp")
    return found.f_bavail * found.f_frsize > 20 << 30
