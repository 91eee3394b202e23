"""Read a hook's delivery: agent, ancestors and payload, then duration and paths of its event.

A delivery comes as the body of a request to the daemon or as a file in the spool. Both become the
same value, and any bytes give one. Only an agent's transcript is opened.
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gitshadow.adapters.base import END_PHASES, TOOL_PHASES, HookEvent, HookPhase
from gitshadow.adapters.payload import Payload
from gitshadow.attribution.process import ProcessId
from gitshadow.errors import ShadowError, raise_shortage
from gitshadow.model import PATHLESS_WRITERS, RepoPath, ToolClass
from gitshadow.platform import current
from gitshadow.store import paths as payload_paths
from gitshadow.store import refs
from gitshadow.store.layout import Layout, discover
from gitshadow.store.spelling import below_root

# The spool is a directory that the user can write, so a file in it can be anything.
MAX_SPOOL_BYTES = 64 * 1024 * 1024
_MAX_PIDS = 64
_NUMBERS = (b"pid:", b"ppids:", b"own:")
# A transcript can be large; the wanted line is among its last ones.
_MAX_TRANSCRIPT_BYTES = 1024 * 1024
_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDelivery:
    """One payload as it was delivered.

    Attributes:
        pids: The ancestors of the hook program, nearest first.
        own: The hook program itself.
        at_ns: The time of a spooled payload, in the clock of its file system; None for one that
            arrives now.
        root: Where the hook program found the worktree that is named `worktree`.
    """

    agent: str
    payload: bytes
    cwd: str | None = None
    pids: tuple[ProcessId, ...] = ()
    own: ProcessId | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    at_ns: int | None = None
    root: str = ""
    worktree: str = ""


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
        root=os.fsdecode(named.get(b"root", b"")),
        worktree=os.fsdecode(named.get(b"worktree", b"")),
    )


def format_body(delivery: HookDelivery) -> bytes:
    """Return the body that `parse_body` reads as this delivery, without its time."""
    fields = [("agent", delivery.agent)]
    if delivery.cwd is not None:
        fields.append(("cwd", delivery.cwd))
    fields.append(("ppids", " ".join(map(_pair, delivery.pids))))
    if delivery.own is not None:
        fields.append(("own", _pair(delivery.own)))
    fields += [("env", f"{name}={value}") for name, value in delivery.env.items()]
    # A value with a line end would forge a field, or end the header.
    lines = [f"{name}: {value}" for name, value in fields if "\n" not in value]
    return os.fsencode("\n".join(lines)) + b"\n\n" + delivery.payload


def parse_spool(path: str) -> HookDelivery | None:
    """Read one file of the spool; its ctime is its time, unless the file says another.

    Returns:
        None for a file that is not whole, is too large, or is gone.

    Raises:
        OSError: no file descriptor is left; the file itself may be fine.
    """
    try:
        with open(path, "rb") as handle:
            # The hook program renames the file to its name, which sets its ctime: the time of the
            # event in the clock of the file system, however late the spool is read.
            at_ns = os.fstat(handle.fileno()).st_ctime_ns
            raw = handle.read(MAX_SPOOL_BYTES + 1)
        found = json.loads(raw.decode("utf-8", "surrogateescape"), strict=False)
    except (OSError, ValueError, RecursionError) as error:
        raise_shortage(error)
        return None
    if len(raw) > MAX_SPOOL_BYTES or not isinstance(found, dict):
        return None
    agent, cwd = found.get("agent"), found.get("cwd")
    if not isinstance(agent, str) or not agent:
        return None
    came_ns = found.get("at_ns")
    delivery = HookDelivery(
        agent=agent,
        payload=_payload(found.get("payload")),
        cwd=cwd if isinstance(cwd, str) else None,
        pids=_pids(_texts(found.get("pids"))),
        own=_process(" ".join(_texts(found.get("own")))),
        env=_environment(found.get("env")),
        at_ns=came_ns if isinstance(came_ns, int) else at_ns,
        root=" ".join(_texts(found.get("root"))),
        worktree=" ".join(_texts(found.get("worktree"))),
    )
    # Older hook programs do not write it.
    numbers = current().machine_facts().pid_namespace()
    is_ours = found.get("pid_namespace", numbers) == numbers
    return delivery if is_ours else replace(delivery, pids=(), own=None)


def without_processes(raw: bytes) -> bytes:
    """Return the body of a hook request without the numbers of processes."""
    head, end, payload = raw.partition(b"\n\n")
    lines = [line for line in head.split(b"\n") if not line.startswith(_NUMBERS)]
    return b"\n".join(lines) + end + payload


def _payload(value: object) -> bytes:
    """Return the payload's bytes; a payload embedded as JSON is encoded again."""
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
    """Return `pid/start` pairs as processes; other texts are left out."""
    found = []
    for pair in pairs:
        pid, _, started = pair.replace(":", "/").strip(",").partition("/")
        if pid.isdecimal() and started.isdecimal():
            found.append(ProcessId(int(pid), int(started)))
    return tuple(found[:_MAX_PIDS])


def _pair(process: ProcessId) -> str:
    return f"{process.pid}/{process.started}"


def _process(pair: str) -> ProcessId | None:
    return next(iter(_pids([pair])), None)


def _environment(value: object) -> dict[str, str]:
    """Return the markers of a spool file; older hook programs wrote a list of `NAME=value`."""
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if isinstance(v, str)}
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        return dict(_variable(os.fsencode(text)) for text in texts)
    return {}


def _variable(value: bytes) -> tuple[str, str]:
    name, _, text = value.partition(b"=")
    return os.fsdecode(name), os.fsdecode(text)


def at_our_place(event: HookEvent, delivery: HookDelivery, here: Layout) -> HookEvent:
    """Return an event with its paths where this process has the worktree.

    A container may have it at another place (`/workspaces/x`).
    """
    there, ours = os.fsencode(delivery.root), os.fsencode(here.root)
    if not there or there == ours or delivery.worktree != here.worktree:
        return event

    def moved(path: bytes) -> bytes:
        is_top = path == there
        is_below = path.startswith(there.rstrip(b"/") + b"/")
        return ours + path[len(there) :] if is_top or is_below else path

    return replace(
        event,
        paths=tuple(map(moved, event.paths)),
        changed=tuple(map(moved, event.changed)),
        cwd=None if event.cwd is None else moved(event.cwd),
    )


class Reach(NamedTuple):
    """Return what an event is about in one worktree.

    `paths` are in it, covered or not, links in their parents followed; `other_paths` are the
    absolute ones outside, `nested` those of them that lie below it, in a repository or worktree
    of their own. `needs_barrier` is set if everything written before the event must be
    recorded, because its tool names no path or something ends. `changed` are the paths in it
    that its host lists as different after the tool.
    """

    paths: tuple[RepoPath, ...] = ()
    other_paths: tuple[bytes, ...] = ()
    nested: tuple[RepoPath, ...] = ()
    needs_barrier: bool = False
    changed: tuple[RepoPath, ...] = ()


def reach(event: HookEvent, root: str) -> Reach:
    """Return what an event is about in the worktree at `root`; looks at links, changes nothing."""
    if event.phase not in (*TOOL_PHASES, HookPhase.NOTICE):
        return Reach(needs_barrier=event.phase in END_PHASES)
    if event.tool_class is ToolClass.READ:
        return Reach()
    inside: dict[RepoPath, None] = {}
    outside: dict[bytes, None] = {}
    nested: dict[RepoPath, None] = {}
    top = os.fsencode(root)
    for path in event.paths:
        spellings = _spellings(path, event.cwd, top)
        below = [payload_paths.inside(one, top) for one in spellings]
        ours = _ours(below, top)
        inside.update(dict.fromkeys(ours))
        if not ours:
            outside[spellings[0]] = None
            nested.update((one, None) for one in below if one is not None)
    pathless = not event.paths and event.tool_class in PATHLESS_WRITERS
    barrier = event.phase is HookPhase.BEFORE and pathless
    changed: dict[RepoPath, None] = {}
    for path in event.changed:
        below = [payload_paths.inside(one, top) for one in _spellings(path, None, top)]
        changed.update(dict.fromkeys(_ours(below, top)))
    return Reach(tuple(inside), tuple(outside), tuple(nested), barrier, tuple(changed))


def _ours(below: Iterable[RepoPath | None], top: bytes) -> list[RepoPath]:
    """Return those of some paths that are in the worktree itself."""
    return [one for one in below if one is not None and not _is_nested(one, top)]


def places_of(event: HookEvent) -> tuple[bytes, ...]:
    """Return the directories that show which repositories an event concerns, cwd first."""
    cwd = (event.cwd,) if event.cwd and event.cwd.startswith(b"/") else ()
    named = (
        os.path.dirname(payload_paths.absolute(_unquoted(path), event.cwd, b"/"))
        for path in event.paths
    )
    return tuple(dict.fromkeys((*cwd, *named)))


def _is_nested(path: RepoPath, top: bytes) -> bool:
    """Return whether a path below `top` is in a submodule or another nested worktree."""
    at = path.find(b"/")
    while at > 0:
        directory = os.path.join(top, path[:at])
        if os.path.lexists(os.path.join(directory, b".git")):
            home = discover(os.fsdecode(directory))
            if home is not None and os.fsencode(home.root) != top:
                return True
        at = path.find(b"/", at + 1)
    return False


def _spellings(path: bytes, cwd: bytes | None, root: bytes) -> tuple[bytes, ...]:
    """Return where a named path leads: links in its parents followed, then in its name too."""
    # Both, because some tools write to the target of a link, and others replace the link.
    plain = payload_paths.absolute(_unquoted(path), cwd, root)
    head, name = os.path.split(plain)
    behind = below_root(os.path.join(os.path.realpath(head), name), root)
    if not os.path.islink(behind):
        return (behind,)
    return tuple(dict.fromkeys((behind, os.path.realpath(behind))))


def _unquoted(path: bytes) -> bytes:
    """Undo Git's quoting, in which our own output gives odd paths."""
    if not path.startswith(b'"'):
        return path
    try:
        return refs.parse_path(path.decode("ascii"))
    except (ShadowError, ValueError):
        return path


def timed(event: HookEvent) -> HookEvent:
    """Return an event of a call's end with the duration that the agent's transcript has for it."""
    # Codex writes the duration of a call only into its transcript (0.169).
    if event.agent != "codex" or event.tool_class is not ToolClass.SHELL:
        return event
    if event.phase is not HookPhase.AFTER or event.duration_ns is not None:
        return event
    if event.transcript_path is None or event.call_id is None:
        return event
    wanted = event.call_id.encode()
    for line in reversed(_lines(event.transcript_path, at_end=True)):
        if wanted in line and (ran_ns := _ran_ns(line, event.call_id)) is not None:
            return replace(event, duration_ns=ran_ns)
    return event


def calling_session(event: HookEvent) -> str | None:
    """Return the native id of the session of which a call started an event's session.

    It is in the event, or else in the first line of its transcript.
    """
    # Only Droid starts a session in a call and names the caller, its first event alone (0.215).
    if event.agent != "droid" or event.calling_session is not None:
        return event.calling_session
    if event.transcript_path is None:
        return None
    first, *_ = _lines(event.transcript_path, at_end=False)
    record = _record(first)
    if record is None or record.native_id("id") != event.native_session:
        return None
    return record.native_id("callingSessionId")


def _ran_ns(line: bytes, call_id: str) -> int | None:
    """Return how long a command ran, from a line of the transcript; None for any other line.

    Codex writes the line before the hook runs (0.169).
    """
    record = _record(line)
    if record is None:
        return None
    item = record.object("payload.item")
    if item.value("id") != call_id or item.value("type") != "CommandExecution":
        return None
    seconds, nanos = item.value("duration.secs"), item.value("duration.nanos")
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        return None
    found = seconds * _SECOND_NS + nanos
    return found if 0 <= found <= _DAY_NS else None


def _record(line: bytes) -> Payload | None:
    """Return a line of a transcript, None if it is no JSON object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return Payload(found) if isinstance(found, dict) else None


def _lines(path: str, *, at_end: bool) -> list[bytes]:
    """Return the first or last lines of a file of this user; an empty one if it is unreadable."""
    # The payload names this path, and a payload can be forged: only a regular file of the same user
    # is read, without following a link.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError):
        return [b""]
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return [b""]
        begin = max(0, found.st_size - _MAX_TRANSCRIPT_BYTES) if at_end else 0
        return os.pread(descriptor, _MAX_TRANSCRIPT_BYTES, begin).split(b"\n")
    except OSError:
        return [b""]
    finally:
        os.close(descriptor)
