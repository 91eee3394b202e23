"""The language server as an editor meets it: its start, a first look at a file, hovers, memory."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial

from bench.history import edited, record
from bench.measure import Row, children, ms, pages_mib, timed
from bench.places import Place, repository
from tests.lsp.editor import Editor, editing
from tests.support.repo import Repo

_LINES, _EVENTS = 5_000, 1_000
_FILE = "long.txt"
_IMPORT = (sys.executable, "-c", "import pygls.lsp.server")
_OFF = {"GITSHADOW_SERVER": "off", "GITSHADOW_DAEMON": "off"}


def editor(scale: float) -> Iterator[Row]:
    """Open a file of 5,000 lines and 1,000 events in a new server, and hover over its lines."""
    times = max(3, int(15 * scale))
    with repository(100) as place:
        record(place, [_FILE], edited(_LINES), _EVENTS)
        place.shadow("start")
        rows: dict[str, list[float]] = {"bare": [], "start": [], "open": []}
        for _ in range(times):
            rows["bare"].append(timed(partial(subprocess.run, _IMPORT, check=True)))
            start, look = asyncio.run(_opened(place))
            rows["start"].append(start)
            rows["open"].append(look)
        yield Row("start of `lsp`, command server up", "–", ms(rows["start"]), "ms")
        yield Row("… bare `import pygls`", "yardstick", ms(rows["bare"]), "ms")
        yield Row("first look at a file", "–", ms(rows["open"]), "ms")
        both = map(sum, zip(rows["start"], rows["open"], strict=True))
        yield Row("… both", "≤ 150 ms", ms(list(both)), "ms")
        yield from _hovers(place, {}, "daemon", times)
        place.shadow("stop")
        yield from _hovers(place, _OFF, "no daemon, no server", times)


async def _opened(place: Place) -> tuple[float, float]:
    """Return the seconds until a new server is ready, and then until authors are shown."""
    began = time.perf_counter()
    async with editing(Repo(place.root), place.env) as one:
        ready = time.perf_counter()
        await _look(one)
        return ready - began, time.perf_counter() - ready


def _hovers(
    place: Place, more: Mapping[str, str], name: str, times: int
) -> Iterator[Row]:
    values, memory = asyncio.run(_hovered(place, more, times))
    yield Row(f"hover, {name}", "≤ 50 ms", ms(values), "ms")
    yield Row("… own pages of it", "≤ 40 MiB", [memory], "MiB")


async def _hovered(
    place: Place, more: Mapping[str, str], times: int
) -> tuple[list[float], float]:
    """Return the seconds of hovers, each on another line, and the MiB of the server."""
    async with editing(Repo(place.root), {**place.env, **more}) as one:
        await _look(one)
        values: list[float] = []
        for at in range(times + 1):
            began = time.perf_counter()
            if not await one.hover(_FILE, at * 331 % _LINES):
                raise RuntimeError(f"nobody wrote line {at}")
            values.append(time.perf_counter() - began)
        # The command server runs it in a copy of itself.
        pids = [one.server.pid, *(children(place.server) if place.server else ())]
        # The first one opens what the others use.
        return values[1:], max(pages_mib(pid)["own"] for pid in pids)


async def _look(one: Editor) -> None:
    one.open(_FILE)
    if not await one.lenses(_FILE):
        raise RuntimeError("nobody wrote it")
