"""The prompt program: one short line for a shell's prompt, as quick as a hook.

It asks a daemon that runs and starts none. Invariant: it ends within a fixed time whatever is
wrong, exits 0, and outside of a recorded repository it prints nothing. Only `_socket`, `_signal`,
`os` and `time` are imported for the line; `json` where that is asked for.
"""

import os
import time

from gitshadow.ipc import wire
from gitshadow.store.layout import Layout, discover

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal  # which would import enum, for 5 ms
    from collections.abc import Mapping, Sequence
else:
    import _signal

AS_JSON, AS_ASCII = "--json", "--ascii"
OPTIONS = frozenset({AS_JSON, AS_ASCII})
VERB = b"prompt"
_ANSWER_S = 0.15
_WHOLE_S = 0.4
_SIGN, _ASCII_SIGN = "\u27f2", "<-"
_LOCALES = ("LC_ALL", "LC_CTYPE", "LANG")


def main(arguments: "Sequence[str]") -> int:
    """Print the line, or with `--json` its values; return 0 after any error.

    Args:
        arguments: `--json`, `--ascii`, both or none.
    """
    # The shell waits for each prompt. The timer ends this process whichever call hangs: it has
    # nothing to clean up.
    try:
        _signal.signal(_signal.SIGALRM, lambda *_: os._exit(0))
        _signal.setitimer(_signal.ITIMER_REAL, _WHOLE_S)
        _print(arguments)
        _signal.setitimer(_signal.ITIMER_REAL, 0)
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - never spoil a prompt
        return 0
    return 0


def _print(arguments: "Sequence[str]") -> None:
    layout = discover(os.getcwd())
    recorded = layout is not None and layout.initialised
    fields = _asked(layout) if layout is not None and recorded else ["none"]
    state, agent, files, burst = (fields + [""] * 4)[:4]
    ascii_only = AS_ASCII in arguments or not _says_unicode(os.environ)
    text = _text(state, agent, files, _ASCII_SIGN if ascii_only else _SIGN)
    if AS_JSON in arguments:
        import json

        count = int(files) if files.isdigit() else 0
        document = {"state": state, "agent": agent or None, "files": count}
        text = json.dumps({**document, "burst": burst or None, "text": text})
    if text:
        os.write(1, f"{text}\n".encode())


def _asked(layout: Layout) -> list[str]:
    """Return the daemon's answer: state, agent, number of files, burst."""
    end = time.monotonic() + _ANSWER_S
    try:
        sock = wire.connect(layout.wt_dir, _ANSWER_S)
    except OSError:
        return ["off"]
    try:
        sock.settimeout(max(0.001, end - time.monotonic()))
        status, answer = wire.call(sock, VERB, b"")
    except (OSError, wire.WireError):
        return ["busy"]
    finally:
        sock.close()
    return answer.decode().split("\n") if status == wire.OK else ["busy"]


def _text(state: str, agent: str, files: str, sign: str) -> str:
    if state == "none":
        return ""
    if state in ("off", "busy"):
        return f"{sign} {'off' if state == 'off' else '...'}"
    mark = "!" if state == "degraded" else ""
    return f"{sign}{mark} {agent or '?'} {files}" if files else f"{sign}{mark}"


def _says_unicode(environ: "Mapping[str, str]") -> bool:
    """Return whether the locale uses UTF-8, looked up as in locale(7)."""
    named = next((environ[name] for name in _LOCALES if environ.get(name)), "")
    return "utf-8" in named.lower() or "utf8" in named.lower()
