"""The levels of evidence that a write can be judged by, and a machine that is busy."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum

from bench.agents import last_seq, said, watched
from bench.places import Place
from bench.shells import calls, prepare, team
from gitshadow.config import KEYS


class Level(StrEnum):
    """What a daemon may use to find the author of a write that no hook names."""

    NOTHING = "nothing"
    LEDGER = "ledger"
    WITNESS = "witness"


_SETTINGS: Mapping[Level, Mapping[str, str]] = {
    Level.NOTHING: {"ledger": "false", "witness": "false"},
    Level.LEDGER: {"ledger": "true", "witness": "false"},
    Level.WITNESS: {"ledger": "true", "witness": "true"},
}


def missing(level: Level) -> str | None:
    """Return why a level cannot be measured here, None where it can."""
    known = {key.name for key in KEYS}
    if level is not Level.WITNESS:
        return None if "ledger" in known else "this version has no setting for it"
    if "witness" not in known:
        return "this version has no witness"
    with watched(**_SETTINGS[level]) as place:
        if _is_certain(place):
            return None
    return "the witness did not answer: a shell's write was not `certain` (it needs CAP_SYS_ADMIN)"


def _is_certain(place: Place) -> bool:
    """Return whether a write of a shell is certain, which nothing but the witness can say."""
    since = last_seq(place)
    with team(place, 1) as agents, calls(place, agents, ["write"]) as wrote:
        pass
    paths = {one.path for one in wrote}
    found = {one.confidence for one in said(place, since) if one.path in paths}
    return found == {"certain"}


def apply(place: Place, level: Level) -> None:
    """Let a running daemon judge by a level from now on."""
    for name, value in _SETTINGS[level].items():
        place.git("config", f"agent-undo.{name}", value)
    place.shadow("flush")


@contextmanager
def places(levels: Mapping[Level, str | None]) -> Iterator[Mapping[Level, Place]]:
    """Make a repository for each level that is not missing; all have a daemon at the same time."""
    with ExitStack() as stack:
        found = {
            level: stack.enter_context(watched(**_SETTINGS[level]))
            for level, why in levels.items()
            if why is None
        }
        for place in found.values():
            prepare(place)
        yield found


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the processors busy with so many processes."""
    words = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(words) for _ in range(processes)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()
