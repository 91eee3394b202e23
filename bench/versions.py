"""How many versions of a file are recorded that existed for a while: `python -m bench versions`.

`python -m bench.versions FILE COUNT PAUSE_S` is one of the writers; it prints for each version its
blob id, and when it was complete and when the next one began.
"""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha1
from pathlib import Path

from bench.budgets import start
from bench.measure import Row
from bench.places import Place, repository

_EXISTED_S = 0.005
_PAUSE_S = 0.01
_PROJECT = Path(__file__).parents[1]


def versions(scale: float) -> Iterator[Row]:
    """Versions that existed for 5 ms at 100 writes per second, of one writer and of four."""
    count = max(50, int(500 * scale))
    for writers, goal in ((1, "≥ 99 %"), (4, "≥ 90 %")):
        with repository(int(20_000 * scale)) as place:
            start(place)
            shares = [_share(place, writers, count, turn) for turn in range(3)]
        what = "a writer" if writers == 1 else f"each of {writers} writers"
        yield Row(
            f"versions that existed ≥ 5 ms, {what} at 100 per second: recorded",
            goal,
            shares,
            "%",
        )


def _share(place: Place, writers: int, count: int, turn: int) -> float:
    """Return how many percent of the versions that existed long enough have a row."""
    paths = [f"d000/e00000/f{turn * writers + at:06}.txt" for at in range(writers)]
    command = [sys.executable, "-m", "bench.versions"]
    running = [
        subprocess.Popen(
            [*command, place.root / path, str(count), str(_PAUSE_S)],
            cwd=_PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for path in paths
    ]
    written = [one.communicate()[0].splitlines() for one in running]
    place.shadow("flush")
    existed = recorded = 0
    with closing(sqlite3.connect(place.journal)) as journal:
        for path, lines in zip(paths, written, strict=True):
            query = "SELECT after_oid FROM events WHERE path = ?"
            known = {oid for (oid,) in journal.execute(query, (path.encode(),))}
            for oid, complete_s, next_s in map(str.split, lines):
                if float(next_s) - float(complete_s) >= _EXISTED_S:
                    existed += 1
                    recorded += oid in known
    return recorded / existed * 100


def _write(path: Path, count: int, pause_s: float) -> None:
    complete_s, oid = 0.0, ""
    for number in range(count):
        data = (f"version {number} {time.time_ns()}\n" * 40).encode()
        begins_s = time.perf_counter()
        if oid:
            print(oid, complete_s, begins_s)
        path.write_bytes(data)
        complete_s = time.perf_counter()
        oid = sha1(b"blob %d\0" % len(data) + data).hexdigest()
        time.sleep(pause_s)
    print(oid, complete_s, time.perf_counter() + 1)


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
