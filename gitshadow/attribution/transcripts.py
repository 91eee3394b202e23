"""How long a call ran, where its agent writes that into a transcript and not into the hook.

Invariant: a transcript is read only, at its end, and nothing is taken from it but one number.
"""

import json
import os
import stat
from dataclasses import replace

from gitshadow.adapters import codex
from gitshadow.adapters.base import HookEvent, HookPhase
from gitshadow.model import ToolClass

_MOST_BYTES = 1024 * 1024


def timed(event: HookEvent) -> HookEvent:
    """Return an event of a call's end with the duration that the agent's transcript has for it."""
    if event.agent != codex.NAME or event.tool_class is not ToolClass.SHELL:
        return event
    if event.phase is not HookPhase.AFTER or event.duration_ns is not None:
        return event
    if event.transcript_path is None or event.call_id is None:
        return event
    wanted = event.call_id.encode()
    for line in reversed(_newest_lines(event.transcript_path)):
        if wanted in line and (ran_ns := _ran_ns(line, event.call_id)) is not None:
            return replace(event, duration_ns=ran_ns)
    return event


def _ran_ns(line: bytes, call_id: str) -> int | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return codex.ran_ns(record, call_id) if isinstance(record, dict) else None


def _newest_lines(path: str) -> list[bytes]:
    """Return the last lines of a file that this user owns; none if it cannot be read."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError):
        return []
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return []
        begin = max(0, found.st_size - _MOST_BYTES)
        return os.pread(descriptor, _MOST_BYTES, begin).split(b"\n")
    except OSError:
        return []
    finally:
        os.close(descriptor)
