"""Processes that a session's shell started and that outlived the call.

Invariant: a server that an agent keeps for itself is no such process: it was not started in the
window of a tool that can write.
"""

from collections.abc import Iterable

from gitshadow.attribution.process import Living
from gitshadow.attribution.windows import PATHLESS_WRITERS, ProcessHint
from gitshadow.model import Call
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db

_TICK_NS = 20_000_000
"""Start times are counted in clock ticks of 10 ms, from a boot time that is about as coarse."""


def outliving(db: Db, living: Iterable[Living], end_ns: int) -> tuple[ProcessHint, ...]:
    """Return those of some living processes that a call started which is over by now.

    Args:
        db: The journal.
        living: Living processes of sessions.
        end_ns: The moment of the write that they might explain.
    """
    found = []
    for process in living:
        begin_ns = process.started_ns - _TICK_NS
        windows = turns.windows_between(db, begin_ns, process.started_ns + _TICK_NS)
        calls = [call for call in windows if _started(call, process, end_ns)]
        if calls:
            found.append(
                ProcessHint(
                    process.id.pid, process.session, process.name, calls[-1].turn
                )
            )
    return tuple(found)


def _started(call: Call, process: Living, end_ns: int) -> bool:
    if call.session != process.session or call.tool_class not in PATHLESS_WRITERS:
        return False
    return call.closed_ns is not None and call.closed_ns <= end_ns
