"""What the hook program hands over: its agent, its ancestors, and the raw payload.

Two ways, one value: the body of a request to the daemon, and a file in the spool.
Invariant: whatever the bytes are, the answer is a value.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gitshadow.attribution.process import ProcessId
from gitshadow.errors import is_shortage

MAX_SPOOL_BYTES = 64 * 1024 * 1024
_MAX_PIDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDelivery:
    """Hold one payload as it was delivered.

    `pids` are the ancestors of the hook program, nearest first, `own` is that program itself.
    `at_ns` is the time of a spooled payload, in the clock of its file system; None for one that
    arrives now.
    """

    agent: str
    payload: bytes
    cwd: str | None = None
    pids: tuple[ProcessId, ...] = ()
    own: ProcessId | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    at_ns: int | None = None


def parse_body(raw: bytes) -> HookDelivery | None:
    """Read the body of a hook request: header lines, an empty line, the payload.

    Returns:
        None when the header names no agent.
    """
    head, _, payload = raw.partition(b"\n\n")
    lines = [line.partition(b":") for line in head.split(b"\n")]
    fields = [(name.strip(), value.strip()) for name, _, value in lines]
    named = dict(fields)
    agent = named.get(b"agent", b"").decode("utf-8", "replace")
    if not agent:
        return None
    cwd = named.get(b"cwd")
    return HookDelivery(
        agent=agent,
        payload=payload,
        cwd=os.fsdecode(cwd) if cwd else None,
        pids=_pids(named.get(b"ppids", b"").decode("ascii", "replace").split()),
        own=_process(named.get(b"own", b"").decode("ascii", "replace")),
        env=dict(_variable(value) for name, value in fields if name == b"env"),
    )


def parse_spool(path: str) -> HookDelivery | None:
    """Read one file of the spool; its ctime is its time.

    Returns:
        None for a file that is not whole, is too large, or is gone.

    Raises:
        OSError: no file descriptor is left, which says nothing of the file.
    """
    try:
        with open(path, "rb") as handle:
            at_ns = os.fstat(handle.fileno()).st_ctime_ns
            raw = handle.read(MAX_SPOOL_BYTES + 1)
        found = json.loads(raw.decode("utf-8", "surrogateescape"), strict=False)
    except (OSError, ValueError, RecursionError) as error:
        if is_shortage(error):
            raise
        return None
    if len(raw) > MAX_SPOOL_BYTES or not isinstance(found, dict):
        return None
    agent, cwd = found.get("agent"), found.get("cwd")
    if not isinstance(agent, str) or not agent:
        return None
    return HookDelivery(
        agent=agent,
        payload=_payload(found.get("payload")),
        cwd=cwd if isinstance(cwd, str) else None,
        pids=_pids(_texts(found.get("pids"))),
        own=_process(" ".join(_texts(found.get("own")))),
        env=_environment(found.get("env")),
        at_ns=at_ns,
    )


def _payload(value: object) -> bytes:
    """Return the payload's own bytes; one that was embedded as JSON is written out again."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return b"" if value is None else json.dumps(value).encode("ascii")


def _texts(value: object) -> list[str]:
    """Return the items of a list as text, a pair as `first/second`."""
    if isinstance(value, str):
        return value.split()
    if not isinstance(value, list):
        return []
    return [
        "/".join(map(str, item)) if isinstance(item, list) else str(item)
        for item in value
    ]


def _pids(pairs: Iterable[str]) -> tuple[ProcessId, ...]:
    """Return `pid/start` pairs as processes, what is no such pair left out."""
    found = []
    for pair in pairs:
        pid, _, started = pair.replace(":", "/").strip(",").partition("/")
        if pid.isdecimal() and started.isdecimal():
            found.append(ProcessId(int(pid), int(started)))
    return tuple(found[:_MAX_PIDS])


def _process(pair: str) -> ProcessId | None:
    return next(iter(_pids([pair])), None)


def _environment(value: object) -> dict[str, str]:
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if isinstance(v, str)}
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        return dict(_variable(os.fsencode(text)) for text in texts)
    return {}


def _variable(value: bytes) -> tuple[str, str]:
    name, _, text = value.partition(b"=")
    return os.fsdecode(name), os.fsdecode(text)
