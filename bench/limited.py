"""Where the kernel gives no watches: hooks record at once, walks find the rest.

The limit is that of a user namespace made for the daemon alone; the machine's stays as it is.
Invariant: what is timed runs outside of it, as the user's programs do.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.budgets import before_call
from bench.measure import Journal, Row, cpu_s, ms, timed
from bench.places import Place, program, repository

_SPACE = ("unshare", "--user", "--map-root-user")
_LIMIT = 100
_RUN = f'echo {_LIMIT} > /proc/sys/user/max_inotify_watches; exec "$0" watch'
_PLAIN, _NAMED = "d000/e00000/f000000.txt", "d000/e00000/f000003.txt"
_READY_S = 60.0


def limited(scale: float) -> Iterator[Row]:
    """Write to row without watches: plain writes, an agent's, and what it costs to wait."""
    if subprocess.run([*_SPACE, "true"], capture_output=True).returncode:
        print("no user namespaces here: limited is left out", flush=True)
        return
    files = max(3_000, int(20_000 * scale))
    with repository(files) as place, _daemon(place) as (pid, said):
        journal, times = Journal(place.journal), max(5, int(20 * scale))
        what = f"no watches, {files:,} files"
        plain = [_written(place, journal, hook=False) for _ in range(times)]
        yield Row(f"write → journal row, {what}", "–", ms(plain), "ms", said)
        agents = [_written(place, journal, hook=True) for _ in range(times)]
        yield Row("… of an agent whose hooks name the file", "–", ms(agents), "ms")
        asked = [timed(partial(place.shadow, "log", "-n", "1")) for _ in range(5)]
        yield Row("… `log -n 1`, which scans all files first", "–", ms(asked), "ms")
        before, span = cpu_s(pid), 30.0 * max(scale, 0.2)
        time.sleep(span)
        yield Row("… CPU while idle", "–", [(cpu_s(pid) - before) / span * 100], "%")


@contextmanager
def _daemon(place: Place) -> Iterator[tuple[int, str]]:
    """Run a daemon with so few watches; yield its process and what `status` says of it."""
    place.shadow("init")
    place.shadow("stop")
    command = [*_SPACE, "sh", "-c", _RUN, program()]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=place.root, env=place.env, stdout=quiet, stderr=quiet
    )
    try:
        yield process.pid, _degraded(place)
    finally:
        process.terminate()
        process.wait()


def _degraded(place: Place) -> str:
    alone = Place(place.root, {**place.env, "GITSHADOW_DAEMON": "off"})
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        found = json.loads(alone.shadow("status", "--json"))
        if found["daemon"]["running"] and found["degraded"]:
            return str(found["degraded"]).partition(":")[0]
        time.sleep(0.2)
    raise TimeoutError("the daemon did not start without watches")


def _written(place: Place, journal: Journal, *, hook: bool) -> float:
    """Write a file, within an agent's call or not; return the seconds until its row."""
    path = _NAMED if hook else _PLAIN
    seq, call = journal.newest(path), before_call(place, "Write")
    if hook:
        place.hook(call)
    (place.root / path).write_text(f"written {time.time_ns()}\n", encoding="ascii")
    began = time.perf_counter()
    if hook:
        place.hook(call.replace("PreToolUse", "PostToolUse"))
    journal.await_newer(path, seq)
    return time.perf_counter() - began
