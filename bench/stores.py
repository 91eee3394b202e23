"""What a write costs in each kind of repository, beside the kind that libgit2 reads.

The kinds take turns in one run. The CPU is that of the daemon and of the git processes that it
keeps open.
"""

import os
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.budgets import rewrite, start, waits
from bench.measure import Journal, Row, cpu_with_children_s
from bench.places import Place, repository

_NEWER = Path(__file__).parents[1] / ".newer-git" / "bin"
_KINDS = [
    (hash_, refs) for hash_ in ("sha1", "sha256") for refs in ("files", "reftable")
]
_TARGET = "d000/e00000/f000000.txt"
_ROUNDS = 5


class _Kind(NamedTuple):
    """One repository, its daemon, and what its writes took so far, in milliseconds."""

    name: str
    place: Place
    pid: int
    journal: Journal
    waits: list[float]
    cpu: list[float]


def stores(scale: float) -> Iterator[Row]:
    """Latency and CPU of a write in repositories of each kind that git can make here."""
    writes = max(10, int(40 * scale))
    with ExitStack() as stack:
        kinds = [
            _kind(stack, f"{hash_}, {refs}", made, scale)
            for hash_, refs in _KINDS
            if (made := _environment(hash_, refs)) is not None
        ]
        for _ in range(_ROUNDS):
            for kind in kinds:
                _measure(kind, writes)
    first = kinds[0]
    for kind in kinds:
        yield Row(f"write → journal row, {kind.name}", "–", kind.waits, "ms")
        yield Row(f"… CPU of the write, {kind.name}", "–", kind.cpu, "ms")
        if kind is not first:
            slower = statistics.median(kind.waits) / statistics.median(first.waits)
            ratios = [a / b for a, b in zip(kind.cpu, first.cpu, strict=True)]
            yield Row(f"… latency relative to {first.name}", "≤ 3", [slower], "×")
            yield Row(f"… CPU relative to {first.name}", "≤ 3", ratios, "×")


def _kind(stack: ExitStack, name: str, made: dict[str, str], scale: float) -> _Kind:
    place = stack.enter_context(repository(max(50, int(20_000 * scale)), made))
    pid = start(place)
    return _Kind(name, place, pid, Journal(place.journal), [], [])


def _measure(kind: _Kind, writes: int) -> None:
    """Write some files one by one, then as many as fast as they are recorded."""
    rows = kind.journal.rows_of(_TARGET)
    target = kind.place.root / "d000" / "e00001" / "f000020.txt"
    path = str(target.relative_to(kind.place.root))
    kind.waits.extend(waits(kind.journal, kind.place.root, _TARGET, writes, rows))
    number = kind.journal.rows_of(path)
    before = cpu_with_children_s(kind.pid)
    for _ in range(writes):
        number += 1
        rewrite(target, number)
        kind.journal.await_row(path, number)
    kind.cpu.append((cpu_with_children_s(kind.pid) - before) / writes * 1000)


def _environment(hash_: str, refs: str) -> dict[str, str] | None:
    """Return how git makes repositories of a kind, with a newer git if one was built; else None."""
    made = {"GIT_DEFAULT_HASH": hash_, "GIT_DEFAULT_REF_FORMAT": refs}
    if refs != "files":
        made["PATH"] = f"{_NEWER}{os.pathsep}{os.environ['PATH']}"
        if not (_NEWER / "git").exists() and not _has_reftable():
            return None
    return made


def _has_reftable() -> bool:
    done = subprocess.run(
        ["git", "version"], capture_output=True, text=True, check=True
    )
    numbers = done.stdout.split()[2].split(".")
    return tuple(map(int, numbers[:2])) >= (2, 45)
