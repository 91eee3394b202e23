"""A model on 127.0.0.1 that follows a script instead of thinking.

It keeps no state per conversation: which round comes next is read from the calls that a request
already has after its newest prompt with a script. So agents may run at the same time, try again,
resume, and start subagents, whose prompts name scripts of their own.
"""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self, cast

from tests.agents.conversation import Conversation, protocol, read
from tests.agents.replies import Answer, streamed, whole
from tests.agents.scripts import (
    PERSON_WROTE,
    SCRIPTS,
    SHELL_RUNS,
    Person,
    Round,
    Say,
    ToolAction,
)
from tests.agents.tool_calls import ToolCall, as_text, call_for, end_for, is_needless
from tests.support.waiting import until

_REPEATS = 12
"""An agent that does not go on is answered this often, then told to stop."""

_PERSON_WAITS_S = 0.5
"""A person's write keeps this distance from the calls around it.

The clock of a file's change has steps of up to 10 ms, and a tool's last write may be that late.
"""
_SHELL_STARTS_S = 2.0
"""Some agents' shells write kilobytes when they start, which may be a small file as well."""


@dataclass
class Request:
    """What an agent asked the model, and what it got."""

    path: str
    body: str
    answer: str = ""


@dataclass
class ModelServer:
    """The server, with all that agents asked it; use it as a context manager."""

    requests: list[Request] = field(default_factory=list)
    played: list[tuple[ToolAction, str]] = field(default_factory=list)
    """Every action that was asked for, with the tool that it became."""
    before_words: Callable[[], None] = lambda: None
    """What is done before an answer in words, which ends a turn."""
    _seen: Counter[tuple[object, ...]] = field(default_factory=Counter)
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def __enter__(self) -> Self:
        """Start serving in a thread of its own."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        setattr(self._server, "model", self)  # noqa: B010 - the handler has nothing else
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def save(self, directory: Path) -> None:
        """Write every request with its answer to a directory, numbered in their order."""
        directory.mkdir(parents=True)
        for number, one in enumerate(self.requests):
            text = f"{one.path}\n\n{one.body}\n\n{one.answer}\n"
            (directory / f"{number:03}.txt").write_text(text)

    @property
    def url(self) -> str:
        """Return the server's address without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, model: str, conversation: Conversation) -> Answer:
        """Return the next answer that the newest script has for a conversation."""
        id_ = f"scripted{next(self._ids):05}"
        mark = conversation.last_mark()
        if mark is not None and conversation.by_text:
            return Answer(id_, model, as_text(SCRIPTS[mark[1]]))
        # Other requests without tools are for titles and summaries.
        if mark is None or not conversation.tools:
            return Answer(id_, model, "ok")
        at, script, cwd = mark
        rounds = tuple(
            left for one in SCRIPTS[script] if (left := _possible(one, conversation))
        )
        made = sum(item.kind == "call" for item in conversation.items[at:])
        key = (script, cwd, made, len(conversation.items))
        self._seen[key] += 1
        if self._seen[key] > _REPEATS:
            return Answer(id_, model, "asked the same too often")
        return self._play(Answer(id_, model), _left(rounds, made), cwd, conversation)

    def _play(
        self,
        answer: Answer,
        rounds: tuple[Round, ...],
        cwd: str,
        conversation: Conversation,
    ) -> Answer:
        calls: list[ToolCall] = []
        during: list[Person] = []
        for action in (one for actions in rounds[:1] for one in actions):
            if isinstance(action, Say):
                self.before_words()
                end = end_for(conversation)
                return replace(answer, text=action.text, calls=[end] if end else [])
            if isinstance(action, Person):
                if action.during:
                    during.append(action)
                else:
                    time.sleep(_PERSON_WAITS_S)
                    Path(cwd, action.path).write_text(action.content)
                    time.sleep(_PERSON_WAITS_S)
                continue
            call = call_for(action, cwd, conversation)
            if call is None:
                tools = ", ".join(conversation.tools)
                return replace(answer, text=f"no tool for {action}: {tools}")
            calls.append(call)
            self.played.append((action, call.tool.name))
        if not calls:  # a person's write alone: the next round is this answer, too
            return self._play(answer, rounds[1:], cwd, conversation)
        if during:
            threading.Thread(target=_write_during, args=(during, Path(cwd))).start()
        return replace(answer, calls=calls)


def _write_during(writes: Sequence[Person], top: Path) -> None:
    """Write a person's files while a shell command waits for them."""
    until(lambda: (top / SHELL_RUNS).exists())
    time.sleep(_SHELL_STARTS_S)
    for one in writes:
        path = top / one.path
        swap = path.with_name(f".{path.name}.swp")
        if one.editor:
            swap.write_text("")
        if one.atomic:
            path.with_name(f"{path.name}.new").write_text(one.content)
            path.with_name(f"{path.name}.new").rename(path)
        else:
            path.write_text(one.content)
        time.sleep(_PERSON_WAITS_S)
        swap.unlink(missing_ok=True)
    (top / PERSON_WROTE).touch()


def _possible(actions: Round, conversation: Conversation) -> Round:
    return tuple(
        action
        for action in actions
        if isinstance(action, Person | Say) or not is_needless(action, conversation)
    )


def _left(rounds: tuple[Round, ...], made: int) -> tuple[Round, ...]:
    """Return the rounds after those whose calls were made; a person's write is no call."""
    for at, one in enumerate(rounds):
        calls = sum(not isinstance(action, Person | Say) for action in one)
        if made < calls or (made == 0 and calls == 0):
            return rounds[at:]
        made -= calls
    return rounds[-1:]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """List the one model; refuse WebSockets, after which Codex falls back to HTTP."""
        if "models" in self.path and not self.headers.get("upgrade"):
            listed = [{"id": "fake-model", "object": "model"}]
            self._send(
                200, json.dumps({"object": "list", "data": listed, "models": []})
            )
        else:
            self._send(404, "{}")

    def do_POST(self) -> None:
        """Answer one request to the model."""
        server = cast("ModelServer", getattr(self.server, "model"))  # noqa: B009
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if "count_tokens" in self.path or ":countTokens" in self.path:
            self._send(200, '{"input_tokens": 10, "totalTokens": 10}')
            return
        spoken = protocol(self.path)
        if spoken is None:
            self._send(404, "{}")
            return
        asked = Request(self.path, raw.decode())
        server.requests.append(asked)
        body = json.loads(raw)
        answer = server.answer(str(body.get("model", "fake-model")), read(spoken, body))
        asked.answer = repr(answer)
        if body.get("stream") or ":streamGenerateContent" in self.path:
            self._send(200, streamed(spoken, answer), "text/event-stream")
        else:
            self._send(200, whole(spoken, answer))

    def _send(self, status: int, text: str, kind: str = "application/json") -> None:
        encoded = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)
