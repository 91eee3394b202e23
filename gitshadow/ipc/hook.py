"""The hook program: sends an agent's payload to the daemon and ends.

Invariant: it exits 0 after any error and prints only what the daemon answered. Only `_socket`,
`os` and `time` are imported before the answer; the rest is imported if there is no daemon.
"""

import os
import time

from gitshadow.ipc import own_process, wire
from gitshadow.platform import current
from gitshadow.store.layout import Layout, discover

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` alone would cost every hook 5 ms
    from _socket import socket
    from collections.abc import Callable, Iterator

    Capture = Callable[[Layout, bytes], bytes]

MAX_PAYLOAD = 16 * 1024 * 1024
ANSWER_S = 2.0
START_S = 1.0
_MAX_VALUE = 8192
_MARKERS = (
    "GITSHADOW_SESSION",
    # A daemon that runs already has another environment.
    "GITSHADOW_PROMPTS",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_PID",
    "OPENCODE_PID",
    "DEVIN_PROJECT_DIR",
    "QWEN_CODE_PROMPT_ID",
    "PI_SESSION_ID",
    "CRUSH_SESSION_ID",
    "CRUSH_CWD",
    "GROK_SESSION_ID",
    "OPENHANDS_SESSION_ID",
)
_PLACES = (
    b'"cwd"',
    b'"working_dir"',
    b'"workspaceRoot"',
    b'"workspace_roots"',
    b'"workspaceRoots"',
    b'"workspacePaths"',
    b'"directory"',
    b'"repo_working_dir"',
    b'"worktree"',
    b'"worktree_path"',
)
# Devin's first: of all these agents it alone sends no directory.
_PLACE_VARIABLES = (
    "DEVIN_PROJECT_DIR",
    "CLAUDE_PROJECT_DIR",
    "FACTORY_PROJECT_DIR",
    "CURSOR_PROJECT_DIR",
    "GEMINI_PROJECT_DIR",
    "QWEN_PROJECT_DIR",
    "CRUSH_PROJECT_DIR",
    "GROK_WORKSPACE_ROOT",
    "OPENHANDS_PROJECT_DIR",
)
_PATHS = (
    b'"file_path"',
    b'"notebook_path"',
    b'"filePath"',
    b'"path"',
    b'"TargetFile"',
    b'"file"',
    b'"matcher_context"',
)
_TOO_LARGE = b'{"too_large": true}'


def main(arguments: list[str], in_process: "Capture") -> int:
    """Deliver one hook call: the payload on standard input, the agent's name as argument.

    Args:
        arguments: The agent's name; anything after it is ignored.
        in_process: Processes a delivery in this process, if no daemon may run.
    """
    if os.environ.get("GITSHADOW_INTERNAL"):
        return 0
    agent = arguments[0] if arguments else "generic"
    layout: Layout | None = None
    try:
        payload, whole = _read_all()
        layout = _find(payload)
        if layout is not None:
            own, *above = current().lineage(own_process.pid()) or [""]
            sent = payload if whole else _TOO_LARGE
            body = make_body(agent, sent, above, own, layout)
            said = deliver(layout, body, in_process)
            if said:
                os.write(1, said)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - never stop an agent
        _complain(layout, error)
    return 0


def deliver(layout: Layout, body: bytes, in_process: "Capture") -> bytes:
    """Have a delivery processed now: by the daemon, by one that is started, or in this process.

    If all of them fail, it is written into the spool.

    Args:
        layout: The worktree.
        body: As `make_body` makes it.
        in_process: Processes it in this process, if no daemon may run.

    Returns:
        The text for the agent.
    """
    try:
        sock = wire.connect(layout.wt_dir, ANSWER_S)
    except OSError:
        return _without_daemon(layout, body, in_process)
    return _ask(layout, sock, body)


def leave(layout: Layout, body: bytes) -> None:
    """Send a delivery to the daemon, or write it into the spool if none answers.

    This is for deliveries that may be read later: the spool keeps their time.

    Raises:
        OSError: it could not even be spooled.
    """
    try:
        sock = wire.connect(layout.wt_dir, ANSWER_S)
    except OSError:
        _spool(layout, body)
    else:
        _ask(layout, sock, body)


def _ask(layout: Layout, sock: "socket", body: bytes) -> bytes:
    """Return the daemon's answer; spool the delivery if it is busy or about to end."""
    status, answer = _call(sock, b"hook", body)
    if status in (wire.ENDING, wire.OTHER_VERSION, wire.LATER):
        _spool(layout, body)
    return answer if status == wire.OK else b""


def _call(sock: "socket", verb: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return the daemon's status and answer; `ENDING` if none came in time."""
    try:
        sock.settimeout(ANSWER_S)
        wire.ask(sock, verb, body)
        wire.await_answer(sock, ANSWER_S)
        return wire.answer(sock)
    except (OSError, wire.WireError):
        return wire.ENDING, b""
    finally:
        sock.close()


def _without_daemon(layout: Layout, body: bytes, in_process: "Capture") -> bytes:
    """Spool and start the daemon, or capture in this process if none may run."""
    if daemon_allowed(layout):
        path = _spool(layout, body)
        from gitshadow.ipc import launch

        launch.spawn(layout)
        # The daemon deletes the file once all is recorded that was written before this hook. An
        # agent that goes on earlier would write into that.
        deadline = time.monotonic() + START_S
        while os.path.exists(path):
            if time.monotonic() >= deadline:
                return b""
            time.sleep(0.005)
        return _told(layout, body)
    from gitshadow.errors import JournalBusyError, LockedError

    try:
        return in_process(layout, body)
    # The next barrier reads it from the spool, with its time.
    except (LockedError, JournalBusyError):
        _spool(layout, body)
        return b""
    except BaseException:
        _spool(layout, body)
        raise


def _told(layout: Layout, body: bytes) -> bytes:
    """Return the daemon's text for a delivery that it read from the spool."""
    try:
        sock = wire.connect(layout.wt_dir, ANSWER_S)
    # A command processed the payload, so there is no daemon that knows of a notice.
    except OSError:
        return b""
    status, answer = _call(sock, b"told", body)
    return answer if status == wire.OK else b""


def daemon_allowed(layout: Layout) -> bool:
    """Return whether the environment and the settings allow a daemon, as far as files say it."""
    wanted = os.environ.get("GITSHADOW_DAEMON", "").lower()
    if wanted:
        return wanted != "off"
    return not os.path.exists(os.path.join(layout.state_dir, "daemon-off"))


def _read_all() -> tuple[bytes, bool]:
    """Return standard input, or its beginning, and whether that is all of it."""
    # All of it is read, even if it is too large: a broken pipe is an error for some agents.
    parts, size = [], 0
    while part := os.read(0, 1 << 16):
        size += len(part)
        if size <= MAX_PAYLOAD:
            parts.append(part)
    return b"".join(parts), size <= MAX_PAYLOAD


def _find(payload: bytes) -> Layout | None:
    """Return the initialised worktree that the payload or the environment names."""
    # A directory comes before a path that a tool writes, because the daemon passes a delivery on to
    # the other repositories that its paths are in.
    for place in _places(payload):
        found = discover(place) if place and place.startswith("/") else None
        if found is not None and found.initialised:
            return found
    return None


def _places(payload: bytes) -> "Iterator[str | None]":
    yield from (_named(payload, key) for key in _PLACES)
    yield from (os.environ.get(name) for name in _PLACE_VARIABLES)
    yield _here()
    yield from (_named(payload, key) for key in _PATHS)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _named(payload: bytes, key: bytes) -> str | None:
    """Return the text after a key, found without a JSON parser where it has no escapes."""
    at = payload.find(key)
    if at < 0:
        return None
    rest = payload[at + len(key) : at + len(key) + _MAX_VALUE].lstrip()
    value = rest[1:].lstrip(b" \t\r\n[")
    end = value.find(b'"', 1)
    if rest[:1] != b":" or value[:1] != b'"' or end < 0:
        return None
    text = value[1:end]
    if b"\\" not in text:
        return os.fsdecode(text.removeprefix(b"file://"))
    return _parsed(payload, key.strip(b'"').decode())


def _parsed(payload: bytes, key: str) -> str | None:
    import json

    try:
        value = json.loads(payload, strict=False).get(key)
    except (ValueError, AttributeError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else None


def make_body(
    agent: str,
    payload: bytes,
    pids: list[str],
    own: str = "",
    layout: "Layout | None" = None,
) -> bytes:
    """Return the body of a delivery.

    Args:
        agent: The agent's name.
        payload: What the agent sent.
        pids: `pid/start` of the processes that report, nearest first.
        own: `pid/start` of the hook program, which the host started when the event happened.
        layout: The worktree as it is found here: the daemon may have it at another place.
    """
    fields = [("agent", agent), ("cwd", _here()), ("pid", str(own_process.pid()))]
    fields += [("ppids", " ".join(pids)), ("own", own)]
    if layout is not None:
        fields += [("root", layout.root), ("worktree", layout.worktree)]
    for name in _MARKERS:
        value = os.environ.get(name)
        if value is not None:
            fields.append(("env", f"{name}={value}"))
    # A value of two lines would forge a field, or end the header.
    lines = [f"{name}: {value}" for name, value in fields if "\n" not in value]
    return os.fsencode("\n".join(lines)) + b"\n\n" + payload


def _spool(layout: Layout, body: bytes) -> str:
    """Leave the delivery for the next barrier; return the path of its file."""
    from gitshadow.ipc import spool

    return spool.write(layout, body, lambda _: f"{time.time_ns()}-{os.getpid()}.json")


def _complain(layout: Layout | None, error: BaseException) -> None:
    from gitshadow.errors import described

    try:
        # Of a payload that could not be read, the variables and the directory are left.
        layout = layout or _find(b"")
        if layout is None:
            return
        # This works on a full disk too, and the next barrier reports it.
        os.utime(layout.missed, follow_symlinks=False)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(layout.log, flags, 0o600)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.write(fd, f"{stamp} hook: {described(error)!a}\n".encode())
        os.close(fd)
    except OSError:
        return
