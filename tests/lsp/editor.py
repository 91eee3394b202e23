"""An editor without a screen: it asks the real server, and answers for a person.

It frames and reads messages itself, so that what is tested is what is on the wire.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import HANGS_S

Steps = Callable[["Editor"], Awaitable[None]]
Json = Any


def framed(**message: object) -> bytes:
    """Return a message as it is on the wire."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@dataclass(slots=True)
class Editor:
    """The texts that are open, and what the server asked, said, logged, showed and marked.

    `answer` is what the person chooses of each question; None leaves it open. `meanwhile` is what
    happens while a question is open.
    """

    repo: Repo
    server: asyncio.subprocess.Process
    answer: str | None = "Do it"
    meanwhile: Callable[[], None] = lambda: None
    texts: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    shown: list[tuple[Path, str]] = field(default_factory=list)
    worked: list[tuple[str, str]] = field(default_factory=list)
    marked: dict[str, list[Json]] = field(default_factory=dict)
    by_ranges: bool = False
    _versions: dict[str, int] = field(default_factory=dict)
    _waiting: dict[int, "asyncio.Future[Json]"] = field(default_factory=dict)

    def send(self, **message: object) -> None:
        """Send one message as it is."""
        assert self.server.stdin is not None
        self.server.stdin.write(framed(**message))

    def tell(self, method: str, **params: object) -> None:
        """Send a notification."""
        self.send(method=method, params=params)

    async def ask(self, method: str, **params: object) -> Json:
        """Send a request; return its result."""
        number = len(self._waiting) + 1
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send(id=number, method=method, params=params)
        return await asyncio.wait_for(self._waiting[number], HANGS_S)

    async def listen(self) -> None:
        """Read what the server sends until it ends."""
        stream = self.server.stdout
        assert stream is not None
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await stream.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self._take(json.loads(await stream.readexactly(size)))

    def _take(self, message: Mapping[str, Json]) -> None:
        if "method" not in message:
            waiting = self._waiting.get(message["id"])
            if waiting is None:
                return
            if "error" in message:
                waiting.set_exception(AssertionError(message["error"]))
            else:
                waiting.set_result(message.get("result"))
            return
        params: Json = message["params"]
        result: Json = None
        match message["method"]:
            case "window/showMessageRequest":
                self.asked.append(params["message"])
                self.meanwhile()
                result = self.answer and {"title": self.answer}
            case "workspace/applyEdit":
                result = {"applied": self._applied(params["edit"])}
            case "window/showMessage":
                self.said.append(params["message"])
            case "window/showDocument":
                file = Path(params["uri"].removeprefix("file://"))
                self.shown.append((file, file.read_text()))
                result = {"success": True}
            case "$/progress":
                value = params["value"]
                self.worked.append((value["kind"], value.get("title", "")))
            case "textDocument/publishDiagnostics":
                self.marked[params["uri"]] = params["diagnostics"]
            case "window/logMessage":
                self.logged.append(params["message"])
        if "id" in message:
            self.send(id=message["id"], result=result)

    def uri(self, path: str) -> str:
        """Return the name of a file in messages."""
        return (self.repo.root / path).as_uri()

    def open(self, path: str, text: str | None = None) -> None:
        """Open a file, or another text than it has."""
        uri = self.uri(path)
        content = self.repo.read(path).decode() if text is None else text
        self.texts[uri], self._versions[uri] = content, 1
        item = {"uri": uri, "languageId": "text", "version": 1, "text": content}
        self.tell("textDocument/didOpen", textDocument=item)

    def type(self, path: str, text: str) -> None:
        """Have another text in a buffer, not saved."""
        uri = self.uri(path)
        self.texts[uri] = text
        self._versions[uri] += 1
        self.tell(
            "textDocument/didChange",
            textDocument={"uri": uri, "version": self._versions[uri]},
            contentChanges=[{"text": text}],
        )

    def type_line(self, path: str, number: int, line: str) -> None:
        """Replace one line, as a change of its range where the server reads such changes."""
        uri = self.uri(path)
        lines = self.texts[uri].split("\n")
        before, lines[number] = lines[number], line
        if not self.by_ranges:
            self.type(path, "\n".join(lines))
            return
        self.texts[uri] = "\n".join(lines)
        self._versions[uri] += 1
        begin = {"line": number, "character": 0}
        end = {"line": number, "character": len(before)}
        self.tell(
            "textDocument/didChange",
            textDocument={"uri": uri, "version": self._versions[uri]},
            contentChanges=[{"range": {"start": begin, "end": end}, "text": line}],
        )

    async def hover(self, path: str, line: int) -> str:
        """Return what stands at a line, as Markdown."""
        found = await self.ask(
            "textDocument/hover",
            textDocument={"uri": self.uri(path)},
            position={"line": line, "character": 0},
        )
        assert found is None or found["contents"]["kind"] == "markdown"
        return "" if found is None else str(found["contents"]["value"])

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something has come from the server."""

        async def wait() -> None:
            while not holds():
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), HANGS_S)

    async def lenses(self, path: str) -> list[int]:
        """Return the lines that have a lens."""
        uri = {"uri": self.uri(path)}
        found = await self.ask("textDocument/codeLens", textDocument=uri)
        assert all(one["command"]["title"] for one in found)
        return [one["range"]["start"]["line"] for one in found]

    async def actions(self, path: str, first: int, last: int) -> dict[str, Json]:
        """Return the menu of a selection: commands by their titles."""
        found = await self.ask(
            "textDocument/codeAction",
            textDocument={"uri": self.uri(path)},
            range={
                "start": {"line": first, "character": 0},
                "end": {"line": last, "character": 1},
            },
            context={"diagnostics": []},
        )
        assert {one["kind"] for one in found} <= {"refactor.rewrite"}
        return {one["title"]: one["command"] for one in found}

    async def do(self, path: str, first: int, last: int, begins: str) -> None:
        """Choose the only entry of the menu that begins so."""
        found = await self.actions(path, first, last)
        (command,) = (found[one] for one in found if one.startswith(begins))
        await self.ask(
            "workspace/executeCommand",
            command=command["command"],
            arguments=command["arguments"],
        )

    def _applied(self, edit: Json) -> bool:
        for change in edit["documentChanges"]:
            uri = change["textDocument"]["uri"]
            if change["textDocument"]["version"] != self._versions[uri]:
                return False
            text = self.texts[uri]
            # Last line first, so that the lines before stay where they are.
            for one in sorted(change["edits"], key=_start, reverse=True):
                ends = one["range"]["start"], one["range"]["end"]
                begin, end = (_offset(text, at) for at in ends)
                text = text[:begin] + one["newText"] + text[end:]
            path = Path(uri.removeprefix("file://")).relative_to(self.repo.root)
            self.type(str(path), text)
        return True


def _start(edit: Json) -> int:
    return int(edit["range"]["start"]["line"])


def _offset(text: str, at: Json) -> int:
    # The ends of lines in the protocol; Python has more.
    ends = [0, *(end.end() for end in re.finditer(r"\r\n|\n|\r", text)), len(text)]
    return ends[int(at["line"])] + int(at["character"])


@asynccontextmanager
async def editing(
    repo: Repo,
    env: Mapping[str, str],
    *,
    options: Mapping[str, object] | None = None,
    encodings: Sequence[str] = ("utf-16",),
    window: Mapping[str, object] | None = None,
) -> AsyncIterator[Editor]:
    """Start the server as editors do, and end it."""
    server = await asyncio.create_subprocess_exec(
        COMMAND,
        "lsp",
        cwd=repo.root,
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    editor = Editor(repo, server)
    listening = asyncio.create_task(editor.listen())
    try:
        server_is = await editor.ask(
            "initialize",
            processId=None,
            rootUri=repo.root.as_uri(),
            capabilities={
                "general": {"positionEncodings": encodings},
                "window": dict(window or {}),
            },
            initializationOptions=dict(options or {}),
        )
        sync = server_is["capabilities"]["textDocumentSync"]
        editor.by_ranges = sync["change"] == 2
        editor.tell("initialized")
        yield editor
        await editor.ask("shutdown")
        editor.tell("exit")
        assert await asyncio.wait_for(server.wait(), HANGS_S) == 0
        await listening
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
        listening.cancel()


def edit(
    shadow: Shadow,
    steps: Steps,
    *,
    options: Mapping[str, object] | None = None,
    encodings: Sequence[str] = ("utf-16",),
    window: Mapping[str, object] | None = None,
) -> Editor:
    """Take steps in an editor of a repository; return the editor."""
    started = editing(
        shadow.repo,
        shadow.environment(),
        options=options,
        encodings=encodings,
        window=window,
    )

    async def run() -> Editor:
        async with started as editor:
            await steps(editor)
        return editor

    return asyncio.run(run())
