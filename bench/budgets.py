"""The budgets, one function each; every function makes its own repository and returns rows."""

import json
import os
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pygit2

from bench.editor import editor
from bench.growth import growth
from bench.history import history
from bench.measure import Journal, Row, cpu_s, memory_mib, ms, timed, wakeups
from bench.million import log
from bench.places import Place, fill, program, repository
from bench.served import daemons, served
from bench.turns import calls, effects, engines, rewinds
from bench.undo import undo
from bench.view import view

QUIET_S = 0.12


def latency(scale: float) -> Iterator[Row]:
    """Write to journal row, and CPU per write beside the bare objects, in 20,000 files."""
    writes = max(20, int(200 * scale))
    with repository(int(20_000 * scale)) as place:
        pid = start(place)
        journal = Journal(place.journal)
        path = "d000/e00000/f000000.txt"
        values = waits(journal, place.root, path, writes)
        yield Row("write → journal row", "≤ 2.5 ms median, ≤ 10 ms p99", values, "ms")
        made = _made(place.root.parent / "made", writes)
        yield Row("… six files made and renamed there", "yardstick", made, "ms")
        yield from _cpu(place, pid, journal, scale)
        yield from _idle(pid, scale)


def waits(
    journal: Journal, root: Path, path: str, writes: int, rows: int = 0
) -> list[float]:
    """Return for each of some writes to a file, apart, the milliseconds until its row.

    `rows` is how many rows it has already.
    """
    values = []
    for number in range(rows + 1, rows + writes + 1):
        time.sleep(QUIET_S)
        began = rewrite(root / path, number)
        values.append((journal.await_row(path, number) - began) * 1000)
    return values


def _made(directory: Path, times: int) -> list[float]:
    """Return the milliseconds for as many new files as a write needs: five objects and a lock."""
    values = []
    directory.mkdir()
    for number in range(times):
        time.sleep(QUIET_S)
        began = time.perf_counter()
        for at in range(6):
            part = directory / "part"
            part.write_bytes(b"x" * 100)
            part.rename(directory / f"{number}-{at}")
        values.append((time.perf_counter() - began) * 1000)
    return values


def _cpu(place: Place, pid: int, journal: Journal, scale: float) -> Iterator[Row]:
    """CPU per recorded write against the bare blob, trees and commit, turn by turn."""
    ours, bare = [], []
    target = place.root / "d000" / "e00001" / "f000020.txt"
    path = str(target.relative_to(place.root))
    writes = max(20, int(100 * scale))
    number = 0
    for _ in range(5):
        before = cpu_s(pid)
        for _ in range(writes):
            number += 1
            rewrite(target, number)
            journal.await_row(path, number)
        ours.append((cpu_s(pid) - before) / writes * 1000)
        bare.append(_bare_ms(place.root, target, writes))
    ratios = [a / b for a, b in zip(ours, bare, strict=True)]
    yield Row("CPU per recorded write", "–", ours, "ms")
    yield Row("bare blob, trees, commit by pygit2", "yardstick", bare, "ms")
    yield Row("ratio of the two", "≤ 2", ratios, "×")


def _bare_ms(root: Path, target: Path, writes: int) -> float:
    """Return the CPU of writing the same objects with pygit2 alone, per write."""
    repo = pygit2.Repository(str(root))
    parts = target.relative_to(root).parts
    author = pygit2.Signature("bench", "bench@example.invalid")
    tip = repo.head.target
    tree: object = repo[tip].peel(pygit2.Tree)
    began = time.process_time()
    for number in range(writes):
        blob = repo.create_blob(f"bare {number} {time.time_ns()}\n".encode() * 40)
        oid = _splice(repo, tree, parts, blob)
        tree = repo[oid]
        tip = repo.create_commit(
            "refs/bench/bare" if number else None,
            author,
            author,
            "bare",
            tree.id,
            [tip],
        )
        if number == 0:
            repo.references.create("refs/bench/bare", tip, force=True)
    used = time.process_time() - began
    repo.references.delete("refs/bench/bare")
    return used / writes * 1000


def _splice(
    repo: pygit2.Repository, tree: object, parts: tuple[str, ...], blob: pygit2.Oid
) -> pygit2.Oid:
    builder = repo.TreeBuilder(tree)  # type: ignore[arg-type]
    if len(parts) == 1:
        builder.insert(parts[0], blob, pygit2.enums.FileMode.BLOB)
    else:
        inner = tree / parts[0]  # type: ignore[operator]
        below = _splice(repo, inner, parts[1:], blob)
        builder.insert(parts[0], below, pygit2.enums.FileMode.TREE)
    return builder.write()


def _idle(pid: int, scale: float) -> Iterator[Row]:
    """CPU, wake-ups and memory of a daemon that has nothing to do."""
    span = 20.0 * max(scale, 0.2)
    time.sleep(10.0)
    shares, woken = [], []
    for _ in range(3):
        before, ran = cpu_s(pid), wakeups(pid)
        time.sleep(span)
        shares.append((cpu_s(pid) - before) / span * 100)
        woken.append((wakeups(pid) - ran) / span)
    yield Row("CPU of the daemon at rest", "≤ 0.05 %", shares, "%")
    yield Row("wake-ups per second of the daemon at rest", "≤ 1", woken, "")
    yield Row("memory of the daemon", "≤ 50 MiB", [memory_mib(pid)], "MiB")


def burst(scale: float) -> Iterator[Row]:
    """1,000 new files until all rows are recorded, beside the same files with nobody watching."""
    values: list[float] = []
    after: list[float] = []
    alone: list[float] = []
    files = int(1_000 * scale) or 10
    with repository(int(20_000 * scale)) as place:
        start(place)
        journal = Journal(place.journal)
        for turn in range(5):
            outside = partial(
                fill, place.root.parent / f"alone{turn}", files, str(turn)
            )
            alone.append(timed(outside))
            before = journal.count()
            began = time.perf_counter()
            fill(place.root / f"new{turn}", files, str(turn))
            filled = time.perf_counter()
            done = journal.await_count(before + files)
            values.append(done - began)
            after.append(done - filled)
    what = f"burst of {files:,} new files until all rows are recorded"
    yield Row(what, "≤ 0.25 s", values, "s")
    yield Row("… after the last of them was written", "–", after, "s")
    yield Row("… the files alone, not recorded", "yardstick", alone, "s")


def switch(scale: float) -> Iterator[Row]:
    """A branch switch touching 10,000 files until it is recorded, beside Git alone."""
    files = int(10_000 * scale) or 100
    values, plain, alone = [], [], []
    with repository(int(20_000 * scale)) as place:
        place.git("checkout", "-q", "-b", "other")
        fill(place.root, files, "other ")
        place.git("commit", "-q", "-am", "other")
        place.git("checkout", "-q", "main")
        for turn in range(6):
            began = time.perf_counter()
            place.git("checkout", "-q", "main" if turn % 2 else "other")
            alone.append(time.perf_counter() - began)
        start(place)
        journal = Journal(place.journal)
        for turn in range(6):
            before = journal.count()
            began = time.perf_counter()
            place.git("checkout", "-q", "main" if turn % 2 else "other")
            plain.append(time.perf_counter() - began)
            values.append(journal.await_count(before + 1) - began)
    what = f"branch switch touching {files:,} files until it is recorded"
    yield Row(what, "–", values, "s")
    yield Row("… of it Git itself", "–", plain, "s")
    yield Row("… Git with nothing recorded", "yardstick", alone, "s")
    ratios = [value / statistics.median(alone) for value in values]
    yield Row("ratio of recorded and not", "≤ 1.3", ratios, "×")


def init(scale: float) -> Iterator[Row]:
    """`init` of 1,000 and of 100,000 tracked files, beside what Git takes to look at them."""
    for files, budget in ((1_000, "≤ 0.15 s"), (int(100_000 * scale), "≤ 1.5 s")):
        with repository(files) as place:
            yield from inits(place, f"{files:,} tracked files", budget)
    with repository(1_000) as place:
        yield from _beside_data(place, int(10_000 * scale))


def _beside_data(place: Place, files: int) -> Iterator[Row]:
    """`init` beside a data set that Git neither tracks nor ignores; its files are sparse."""
    (place.root / "data").mkdir()
    for number in range(files):
        with open(place.root / f"data/{number}", "wb") as stream:
            stream.truncate(1 << 20)
    git_dir = place.root / ".git"
    before = _size_of(git_dir)
    ours, grown, looks = [], [], []
    for _ in range(5):
        ours.append(timed(lambda: place.shadow("init")))
        place.shadow("stop")
        grown.append((_size_of(git_dir) - before) / 2**20)
        place.forget()
        looks.append(timed(lambda: place.git("status")))
    what = f"{files:,} untracked files of 1 MiB"
    yield Row(f"`init`, beside {what}", "–", ours, "s")
    yield Row("… `git status`", "yardstick", looks, "s")
    ratios = [one / statistics.median(looks) for one in ours]
    yield Row("ratio of both", "≤ 2", ratios, "×")
    yield Row("… `.git` grows by", "≤ 210 MiB", grown, "MiB")


def _size_of(directory: Path) -> int:
    """Return the bytes of the files in a directory."""
    return sum(one.lstat().st_size for one in directory.rglob("*"))


def inits(place: Place, what: str, budget: str, times: int = 5) -> Iterator[Row]:
    """`init` of a clean worktree, again and again, with two yardsticks."""
    ours, looks, adds = [], [], []
    for _ in range(times):
        ours.append(timed(lambda: place.shadow("init")))
        place.forget()
        looks.append(timed(lambda: place.git("status")))
        adds.append(timed(lambda: _fresh_add(place)))
    yield Row(f"`init`, {what}", budget, ours, "s")
    yield Row("… `git status`", "yardstick", looks, "s")
    yield Row("… `git add -A` into a fresh index", "yardstick", adds, "s")


def hooks(scale: float) -> Iterator[Row]:
    """The hook program as a whole process."""
    times = max(10, int(50 * scale))
    with repository(int(2_000 * scale) or 100) as place:
        start(place)
        named = [
            timed(lambda: place.hook(before_call(place, "Write"))) for _ in range(times)
        ]
        shell = [
            timed(lambda: place.hook(before_call(place, "Bash"))) for _ in range(times)
        ]
        bare = [timed(_bare_python) for _ in range(times)]
        yield Row("hook that names its paths, whole process", "–", ms(named), "ms")
        yield Row("hook that waits for a barrier", "–", ms(shell), "ms")
        yield Row("bare Python with `_socket`", "yardstick", ms(bare), "ms")
        ratios = [one / other for one, other in zip(named, bare, strict=True)]
        yield Row("ratio of the first and the last", "≤ 1.4", ratios, "×")


def status(scale: float) -> Iterator[Row]:
    """`status` as a whole process, beside `git status`, and the prompt that never grows."""
    files = int(100_000 * scale) or 100
    times = max(5, int(15 * scale))
    with repository(files) as place:
        start(place)
        asked = partial(place.shadow, "status")
        values = [timed(asked) for _ in range(times)]
        yield Row(f"`status`, {files:,} files, daemon up", "≤ 60 ms", ms(values), "ms")
        values = [timed(partial(place.shadow, "prompt")) for _ in range(times)]
        yield Row(f"`prompt`, {files:,} files", "–", ms(values), "ms")
        values = [timed(partial(place.git, "status")) for _ in range(times)]
        yield Row(f"`git status`, {files:,} files", "yardstick", ms(values), "ms")
        place.shadow("stop")
        place.env["GITSHADOW_DAEMON"] = "off"
        values = [timed(asked) for _ in range(max(3, times // 5))]
        said = "`status` without a daemon"
        yield Row(said, "≤ 1.5 × `git status`", ms(values), "ms")


def evidence(scale: float) -> Iterator[Row]:
    """CPU per write that no hook claims, when the machine runs 300 processes more."""
    processes = int(300 * scale) or 10
    with repository(int(1_000 * scale) or 100) as place:
        pid = start(place)
        for more in (0, processes):
            with _idlers(more):
                alone = [_unclaimed_ms(place, pid, 1, 1.1) for _ in range(10)]
                row = [_unclaimed_ms(place, pid, 50, 0.0) for _ in range(3)]
            said = f"{more} more processes"
            yield Row(
                f"CPU per unclaimed write, single write, {said}", "–", alone, "ms"
            )
            yield Row(f"… 50 in a row, {said}", "–", row, "ms")


@contextmanager
def _idlers(number: int) -> Iterator[None]:
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(number)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def _unclaimed_ms(place: Place, pid: int, writes: int, pause_s: float) -> float:
    """Return the daemon's CPU per write; alone, the second since the last scan is over."""
    journal = Journal(place.journal)
    path = "d000/e00000/f000001.txt"
    before_rows, before_s = journal.rows_of(path), cpu_s(pid)
    for number in range(1, writes + 1):
        rewrite(place.root / path, number)
        journal.await_row(path, before_rows + number)
    time.sleep(pause_s)
    return (cpu_s(pid) - before_s) / writes * 1000


def _event(place: Place, name: str, turn: int, call: str = "", **extra: object) -> str:
    return json.dumps(
        {
            "session_id": "bench",
            "prompt_id": f"turn-{turn}-{place.env.get('GITSHADOW_DAEMON', 'on')}",
            "transcript_path": "/nowhere/.claude/projects/bench.jsonl",
            "cwd": str(place.root),
            "hook_event_name": name,
            "tool_use_id": f"call-{turn}-{call}",
            **extra,
        }
    )


def before_call(place: Place, tool: str) -> str:
    """Return the payload of the hook before a call."""
    path = str(place.root / "d000" / "e00000" / "f000003.txt")
    given = {"command": "true"} if tool == "Bash" else {"file_path": path}
    call = f"{tool}-{time.time_ns()}"
    return _event(place, "PreToolUse", 0, call, tool_name=tool, tool_input=given)


def start(place: Place) -> int:
    place.shadow("init")
    place.shadow("start")
    return daemon_pid(place)


def daemon_pid(place: Place) -> int:
    """Return the process of the running daemon."""
    found = json.loads(place.shadow("status", "--json"))
    return int(found["daemon"]["pid"])


def rewrite(target: Path, number: int) -> float:
    """Rewrite a file in place; return the moment before the write."""
    data = (f"write {number} {time.time_ns()}\n" * 40).encode()
    fd = os.open(target, os.O_WRONLY | os.O_TRUNC)
    began = time.perf_counter()
    os.write(fd, data)
    os.close(fd)
    return began


def _fresh_add(place: Place) -> None:
    fresh = {**place.env, "GIT_INDEX_FILE": str(place.root.parent / "fresh-index")}
    Place(place.root, fresh).git("add", "-A")
    os.unlink(fresh["GIT_INDEX_FILE"])


def _bare_python() -> None:
    python = str(Path(program()).parent / "python")
    subprocess.run([python, "-c", "import _socket"], check=True)


def blame(scale: float) -> Iterator[Row]:
    """Whole process, 1,000 lines after 1,000 events, with and without the daemon."""
    number = max(80, int(1_000 * scale))
    with repository(20) as place:
        _long_history(place, number)
        what = f"{number:,} lines, {number:,} events"
        asked = partial(place.shadow, "blame", "--json", "long.txt")
        values = [_timed_anew(place, asked) for _ in range(7)]
        yield Row(f"`blame --json`, {what}, no snapshot", "–", ms(values), "ms")
        values = [timed(asked) for _ in range(11)]
        yield Row(f"`blame --json`, {what}, daemon up", "≤ 80 ms", ms(values), "ms")
        git = partial(place.shadow, "blame", "--porcelain", "long.txt")
        values = [timed(git) for _ in range(11)]
        yield Row(f"`blame --porcelain`, {what}", "≤ 80 ms", ms(values), "ms")
        place.shadow("stop")
        place.env["GITSHADOW_DAEMON"] = "off"
        values = [timed(asked) for _ in range(7)]
        yield Row("`blame --json` without a daemon", "–", ms(values), "ms")
        values = [_timed_anew(place, asked) for _ in range(7)]
        yield Row("… and without a snapshot", "–", ms(values), "ms")


def _long_history(place: Place, number: int) -> None:
    """Make a file of so many lines, of which as many events write one each; the daemon runs."""
    target = place.root / "long.txt"
    lines = [f"line {at} of the file, as it was\n" for at in range(number)]
    target.write_text("".join(lines), encoding="ascii")
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "long")
    start(place)
    journal = Journal(place.journal)
    for turn in range(1, number + 1):
        lines[turn * 7919 % number] = f"line written by event {turn}\n"
        target.write_text("".join(lines), encoding="ascii")
        journal.await_row("long.txt", turn)


def _timed_anew(place: Place, run: Callable[[], object]) -> float:
    """Time a run for which no snapshot of blame stands."""
    with closing(sqlite3.connect(place.journal)) as journal, journal:
        journal.execute("DELETE FROM blame_states")
    return timed(run)


def stats(scale: float) -> Iterator[Row]:
    """Whole process over a tree of which a few files were written, or named by a commit."""
    number = max(200, int(5_000 * scale))
    with repository(number) as place:
        few = sorted(place.root.rglob("*.txt"))[:: max(1, number // 100)][:100]
        for path in few[::2]:
            path.write_text(path.read_text() + "by an agent, elsewhere\n")
        naming = "more\n\nCo-authored-by: Claude <noreply@anthropic.com>"
        place.git("commit", "-q", "-a", "-m", naming)
        start(place)
        wrote = "for f; do echo one more >>$f; done"
        names = [str(path) for path in few[1::2]]
        place.shadow("exec", "--agent", "helper", "--", "sh", "-c", wrote, "sh", *names)
        values = [timed(partial(place.shadow, "stats", "--json")) for _ in range(5)]
        what = f"{number:,} files, 50 of them written, 50 named by a commit"
        yield Row(f"`stats --json`, {what}", "–", ms(values), "ms")
        place.git("commit", "-q", "-a", "-m", "second")
        values = [timed(partial(place.shadow, "stats", "HEAD")) for _ in range(5)]
        yield Row("`stats HEAD`, a commit of 50 files", "–", ms(values), "ms")


BUDGETS = {
    "latency": latency,
    "burst": burst,
    "switch": switch,
    "init": init,
    "hooks": hooks,
    "status": status,
    "served": served,
    "daemons": daemons,
    "evidence": evidence,
    "undo": undo,
    "log": log,
    "view": view,
    "blame": blame,
    "stats": stats,
    "history": history,
    "editor": editor,
    "calls": calls,
    "effects": effects,
    "engines": engines,
    "rewinds": rewinds,
    "growth": growth,
}
