"""Reports of turns and calls to the recorder, so that the files they write are attributed to them.

A turn, and each call that may write, opens and closes a window, as an agent's hooks do, under the
turn's own id and the program's own session id. Without a daemon, work is done at the two ends of a
turn and where a call may overwrite what an earlier one wrote; any other call leaves its time in the
spool. Nothing here raises into a turn: a failure is returned as a text.
"""

import json
import os
import threading
from typing import NamedTuple

from gitshadow.adapters.generic import NAME as GENERIC
from gitshadow.errors import ShadowError
from gitshadow.ipc import hook
from gitshadow.messages.codec import decode, encode
from gitshadow.messages.undo import UNDO, FileUndoAnswer, FileUndoRequest
from gitshadow.model import RepoPath
from gitshadow.platform import current
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout
from gitshadow.store.refs import display_path

Payload = dict[str, object]

_ENDS = ("prompt", "turn_end")
UNTOLD = "files_untold"
"""The kind of note that says what the recorder of files does not know of a turn."""


class Tell(NamedTuple):
    """An event for the recorder of files, as a hook would report it.

    `event` is `prompt`, `before`, `after`, `failed` or `turn_end`; `paths` are what a tool says
    that it writes. `hooked` is set if the program is not this process, but the one above it.
    """

    event: str
    turn: str
    label: str = ""
    call: str | None = None
    tool: str | None = None
    paths: tuple[str, ...] = ()
    hooked: bool = False


class UndoRunner(NamedTuple):
    """Who undoes files: the program itself, or the person or agent who runs a command.

    `session` is that of an agent that runs the command, by the recorder's id; None for a person.
    """

    is_program: bool = True
    session: str | None = None


class FileRecorder:
    """Report one session to the recorder of one worktree; any thread may call it."""

    def __init__(
        self,
        layout: Layout,
        session: str,
        agent: str | None,
        *,
        writes_below: bool = False,
    ) -> None:
        self.layout = layout
        self.session = session
        self.agent = agent or GENERIC
        self._writes_below = writes_below
        self._runner = UndoRunner()
        self._in_turn = threading.Lock()
        self._above: dict[int, list[str]] = {}
        self._is_known = False
        self._unseen: set[str] = set()

    def tell(self, told: Tell) -> str | None:
        """Report one event; return why that failed, or None.

        One thing after the other: a window that opens late would stay open.
        """
        with self._in_turn:
            try:
                payload = self._payload(told)
                self._deliver(payload, told.hooked, self._is_at_once(told))
            except (ShadowError, OSError) as error:
                return f"{type(error).__name__}: {error}"
            self._is_known = not told.hooked
            return None

    def undo(self, request: FileUndoRequest) -> FileUndoAnswer | str:
        """Ask the recorder to undo files, or to plan that; a text says why it could not."""
        whole = request._replace(
            runner=self._runner.session,
            by_program=self._runner.is_program,
            cwd=_spelled(self.layout.root),
        )
        try:
            found = answer(self.layout, UNDO.name, encode(whole))
            # A daemon gives an error as a document.
            error = found.get("error")
            return decode(FileUndoAnswer, found) if error is None else str(error)
        except (ShadowError, OSError) as error:
            return str(error)

    def run_by(self, runner: UndoRunner) -> None:
        """Set who undoes files from now on."""
        self._runner = runner

    def close(self) -> None:
        """Report the end of the session, if this process reported its beginning."""
        if not self._is_known:
            return
        self._is_known = False
        ended: Payload = {"event": "session_end", "reason": "closed"}
        with self._in_turn:
            try:
                self._deliver(ended, hooked=False, at_once=False)
            except OSError:
                # The recorder also notices the end of this process, which follows soon.
                return

    def _deliver(self, payload: Payload, hooked: bool, at_once: bool) -> None:
        whole = {
            **payload,
            "session": self.session,
            "agent": self.agent,
            "cwd": _spelled(self.layout.root),
        }
        if self._writes_below and not hooked:
            whole["pid"] = os.getpid()
        pids = self._pids(os.getppid() if hooked else os.getpid())
        own = "" if hooked else "".join(pids[:1])
        body = hook.make_body(GENERIC, json.dumps(whole).encode(), pids, own)
        # The ends of a turn must be known when its files are undone. A call's window is judged by
        # its times, so its delivery may wait in the spool.
        if at_once:
            hook.deliver(self.layout, body, _in_process)
        else:
            hook.leave(self.layout, body)

    def _is_at_once(self, told: Tell) -> bool:
        """Return whether the present must be recorded before the program goes on.

        At the ends of a turn; and before a call that may write a file which an earlier call may
        have written: without a daemon, nothing else records what the earlier one left.
        """
        if told.event in _ENDS:
            self._unseen.clear()
            return True
        if told.event != "before":
            return False
        # Without paths, a tool may write anywhere.
        mine = {os.path.realpath(path) for path in told.paths} or {""}
        is_due = told.hooked or any(
            _overlap(one, two) for one in self._unseen for two in mine
        )
        if is_due:
            self._unseen.clear()
        self._unseen |= mine
        return is_due

    def _payload(self, told: Tell) -> Payload:
        payload: Payload = {"event": told.event, "turn": told.turn}
        if told.event == "prompt":
            payload["prompt"] = told.label
        if told.call is not None:
            payload |= {"call": told.call, "tool": told.tool}
        if told.paths:
            here = (os.path.abspath(path) for path in told.paths)
            payload["paths"] = [_spelled(path) for path in here]
        return payload

    def _pids(self, pid: int) -> list[str]:
        """Return a process and those above it; looked up once, and again after a fork."""
        if pid not in self._above:
            self._above = {pid: current().lineage(pid)}
        return self._above[pid]


def _overlap(one: str, two: str) -> bool:
    """Return whether two paths are the same or one is below the other; "" is above all."""
    short, long = sorted((one, two), key=len)
    return long == short or long.startswith(short.rstrip("/") + "/") or not short


def _in_process(layout: Layout, body: bytes) -> bytes:
    """Apply a delivery in this process; the engine is imported only now."""
    from gitshadow.service import in_process

    return in_process.deliver(layout, body)


def _spelled(path: str) -> str:
    return display_path(RepoPath(os.fsencode(path)))
