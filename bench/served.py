"""What the command server saves: the time of commands, and the memory of daemons."""

import json
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory

from bench.measure import Row, children, ms, pages_mib, timed
from bench.places import Place, program, repository

_BARE = (sys.executable, "-I", "-S", "-c", "pass")
_VERBS = (("status",), ("log",), ("blame", "oops.txt"), ("oops", "--dry-run"), ("-h",))
_HOOK = ("hook", "codex")
_OFF, _ON = {"GITSHADOW_SERVER": "off"}, {"GITSHADOW_SERVER": "auto"}
_WAIT_S = 60.0
# A daemon has given back by then what its first walk needed.
_REST_S = 15.0


def served(scale: float) -> Iterator[Row]:
    """Time whole commands, in turn with each other; the daemon is up."""
    times = max(5, int(21 * scale))
    with repository(1_000, _OFF) as place:
        place.shadow("init")
        for number in range(2):
            (place.root / "oops.txt").write_text(f"{number}\n" * 10)
            made = f"by_agent{number}"
            place.shadow("exec", "--agent", "helper", "--", "touch", made)
        yield from _first(place, times)
        replace(place, env=place.env | _ON).start_server()
        for words in (*_VERBS, _HOOK):
            rows: dict[str, list[float]] = {"bare": [], "direct": [], "served": []}
            for _ in range(times):
                rows["bare"].append(timed(partial(_run, _BARE, place, _OFF)))
                command = (program(), *words)
                rows["direct"].append(timed(partial(_run, command, place, _OFF)))
                rows["served"].append(timed(partial(_run, command, place, _ON)))
            yield from _compared(" ".join(words), rows)


def _compared(name: str, rows: Mapping[str, list[float]]) -> Iterator[Row]:
    yield Row(f"`{name}`, no server", "–", ms(rows["direct"]), "ms")
    budget = "≤ 4 ms" if name == " ".join(_HOOK) else "–"
    yield Row(f"`{name}`, server up", budget, ms(rows["served"]), "ms")
    yield Row("… bare `python3 -I -S`", "yardstick", ms(rows["bare"]), "ms")
    pairs = zip(rows["served"], rows["bare"], strict=True)
    yield Row("… server up over bare", "≤ 2.2 ×", [a / b for a, b in pairs], "×")


def _first(place: Place, times: int) -> Iterator[Row]:
    """The first command, which starts the server, over one that does not."""
    ratios = []
    command = (program(), "status")
    for _ in range(times):
        off = timed(partial(_run, command, place, _OFF))
        on = timed(partial(_run, command, place, _ON))
        ratios.append(on / off)
        place.start_server()
        place.end_server()
    yield Row("first `status`, which starts the server", "≤ 1.1 ×", ratios, "×")


def _run(words: "tuple[str, ...]", place: Place, more: Mapping[str, str]) -> None:
    environ = {**place.env, **more}
    done = subprocess.run(
        words,
        cwd=place.root,
        env=environ,
        input=_payload(place),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}")


def _payload(place: Place) -> bytes:
    """Return what Codex writes to its hook, which other commands do not read."""
    said = {"session_id": "bench", "turn_id": "1", "hook_event_name": "PreToolUse"}
    call = {"tool_name": "Bash", "tool_use_id": "1", "tool_input": {"command": "ls"}}
    return json.dumps({**said, **call, "cwd": str(place.root)}).encode()


def daemons(scale: float) -> Iterator[Row]:
    """The memory of idle daemons, executed and as copies of the server."""
    number = max(2, int(20 * scale))
    with ExitStack() as stack:
        run = {"XDG_RUNTIME_DIR": stack.enter_context(TemporaryDirectory()), **_OFF}
        places = [stack.enter_context(repository(200, run)) for _ in range(number)]
        for place in places:
            place.shadow("init")
            place.shadow("stop")
        yield from _started("no server", places, _OFF)
        for place in places:
            place.shadow("stop")
        first = replace(places[0], env=places[0].env | _ON)
        first.start_server()
        pids = yield from _started("server up", places, _ON)
        server = first.server
        values = [_pss_mib([server, *children(server)])] if server else []
        yield Row("… the server and what it keeps ready", "–", values, "MiB")
        first.end_server()
        yield Row("… daemons when it has ended", "–", [_pss_mib(pids)], "MiB")
        for place in places[1:]:
            place.shadow("stop")
        yield Row("… the last one of them", "–", [_pss_mib(pids[:1])], "MiB")


def _started(
    name: str, places: Sequence[Place], switch: Mapping[str, str]
) -> Generator[Row, None, list[int]]:
    """Start daemons, first one and then all; return their pids."""
    pids: list[int] = []
    for some in (places[:1], places[1:]):
        for place in some:
            there = replace(place, env={**place.env, **switch})
            answer = there.shadow("daemon", "start", "--json")
            pids.append(int(json.loads(answer)["pid"]))
        time.sleep(_REST_S)
        what = f"PSS of idle daemons, {name}: {len(pids)}"
        yield Row(what, "–", [_pss_mib(pids)], "MiB")
        budget = "≤ 14 MiB" if switch is _ON else "–"
        own = [pages_mib(pid)["own"] for pid in pids]
        yield Row("… own pages of each", budget, own, "MiB")
    return pids


def _pss_mib(pids: Sequence[int]) -> float:
    return sum(pages_mib(pid)["Pss"] for pid in pids)
