"""The AgentUndo prototype beside us, where cargo is there to install it, and a checkpoint recipe.

`au` is taken from PATH, else the crate `agent-undo` is built: the version that the budgets name,
else the newest that the registry has.
Invariant: the same files, the same writes, turn by turn with ours.
"""

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from blake3 import blake3

from bench.budgets import QUIET_S, rewrite, start
from bench.measure import Journal, Row, ms, timed
from bench.places import Place, repository

_VERSIONS = ("0.0.4", "0.0.3")
_POLL_S = 0.0005
_WAIT_S = 30.0


def prototype(scale: float) -> Iterator[Row]:
    """Write to row, a burst, `init`, and what each edit leaves on the disk; ours first."""
    yield from _checkpoints(scale)
    with tempfile.TemporaryDirectory(prefix="gitshadow-cargo-") as top:
        found = _installed(Path(top))
        if found is None:
            print("no cargo, or no such crate: the prototype is left out", flush=True)
            return
        program, version = found
        name = f"AgentUndo {version}"
        with repository(max(100, int(1_000 * scale))) as place:
            values = [timed(lambda: _run(place, program, "init"))]
            yield Row(f"`init`, 1,000 files, {name}", "yardstick", values, "s")
            with _Serving(place, program) as journal:
                waits = _latency(place, journal, max(5, int(30 * scale)))
                yield Row(
                    f"write → row, 1,000 files, {name}", "yardstick", ms(waits), "ms"
                )
                burst = [_burst(place, journal, max(20, int(1_000 * scale)))]
                yield Row(f"burst of 1,000 new files, {name}", "yardstick", burst, "s")
        with repository(max(100, int(1_000 * scale))) as place:
            start(place)
            ours = Journal(place.journal)
            path, waits = "d000/e00000/f000000.txt", []
            for at in range(1, max(5, int(30 * scale)) + 1):
                time.sleep(QUIET_S)
                began = rewrite(place.root / path, at)
                waits.append(ours.await_row(path, at) - began)
            yield Row("write → row, 1,000 files, gitshadow", "–", ms(waits), "ms")


def _checkpoints(scale: float) -> Iterator[Row]:
    """The best recipe of other agents, for every checkpoint: copied index, add -A, write-tree."""
    for number in (1_000, 20_000):
        files = max(50, int(number * scale))
        with repository(files) as place:
            target = place.root / "d000" / "e00000" / "f000000.txt"
            index = place.root.parent / "index"
            env = {**place.env, "GIT_INDEX_FILE": str(index)}

            def checkpoint(
                place: Place = place, index: Path = index, env: dict[str, str] = env
            ) -> None:
                shutil.copyfile(place.root / ".git" / "index", index)
                for words in (["add", "-A"], ["write-tree"]):
                    _git(place.root, env, words)

            values = []
            for at in range(max(5, int(15 * scale))):
                rewrite(target, at)
                values.append(timed(checkpoint))
            what = f"`git add -A && git write-tree`, copied index, {files:,} files"
            yield Row(what, "yardstick", ms(values), "ms")


def _git(root: Path, env: dict[str, str], words: list[str]) -> None:
    subprocess.run(["git", *words], cwd=root, env=env, check=True, capture_output=True)


def _installed(top: Path) -> tuple[str, str] | None:
    """Install the prototype below a directory; return its program and version."""
    standing = shutil.which("au")
    if standing is not None:
        said = subprocess.run([standing, "--version"], check=True, capture_output=True)
        return standing, said.stdout.decode().split()[-1]
    cargo = shutil.which("cargo")
    if cargo is None:
        return None
    for version in _VERSIONS:
        done = subprocess.run(
            [cargo, "install", "-q", "agent-undo", "--version", version, "--root", top],
            check=False,
            capture_output=True,
            env={**os.environ, "CARGO_TARGET_DIR": str(top / "target")},
        )
        if done.returncode == 0:
            return str(top / "bin" / "au"), version
    return None


def _run(place: Place, program: str, *words: str) -> None:
    subprocess.run(
        [program, *words],
        cwd=place.root,
        env=place.env,
        check=True,
        capture_output=True,
    )


class _Serving:
    """Run the prototype's watcher for a block; gives the path of its database."""

    def __init__(self, place: Place, program: str) -> None:
        self._process = subprocess.Popen(
            [program, "serve"],
            cwd=place.root,
            env=place.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._journal = place.root / ".agent-undo" / "timeline.db"

    def __enter__(self) -> Path:
        time.sleep(2.0)  # it says nothing when it is ready
        return self._journal

    def __exit__(self, *about: object) -> None:
        self._process.kill()
        self._process.wait()


def _count(journal: Path) -> int:
    """Return how many of the new files have a row with content: each has several rows."""
    query = "SELECT COUNT(DISTINCT path) FROM events WHERE path LIKE 'new%' AND size_after > 0"
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        found: int = db.execute(query).fetchone()[0]
    return found


def _until(condition: Callable[[], bool]) -> float:
    deadline = time.perf_counter() + _WAIT_S
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError("the prototype did not record it")
        time.sleep(_POLL_S)
    return time.perf_counter()


def _latency(place: Place, journal: Path, number: int) -> list[float]:
    """Return what writes took until a row with their content stood.

    It has a row for the truncation as well, which is none of what was written.
    """
    target, waits = place.root / "d000" / "e00000" / "f000000.txt", []
    for at in range(number):
        time.sleep(QUIET_S)
        began = rewrite(target, at)
        wanted = blake3(target.read_bytes()).hexdigest()
        waits.append(_until(partial(_has, journal, wanted)) - began)
    return waits


def _has(journal: Path, digest: str) -> bool:
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        query = "SELECT 1 FROM events WHERE after_hash = ? LIMIT 1"
        return db.execute(query, (digest,)).fetchone() is not None


def _burst(place: Place, journal: Path, files: int) -> float:
    began = time.perf_counter()
    for at in range(files):
        (place.root / f"new{at}").write_text(f"{at}\n" * 100, encoding="ascii")
    return _until(lambda: _count(journal) >= files) - began
