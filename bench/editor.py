"""The language server as an editor meets it: its start, a first look at a file, hovers, memory."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bench.history import edited, record
from bench.measure import Row, children, ms, pages_mib, timed
from bench.places import Place, program, repository

_LINES, _EVENTS = 5_000, 1_000
_FILE = "long.txt"
_IMPORT = (sys.executable, "-c", "import pygls.lsp.server")
_OFF = {"GITSHADOW_SERVER": "off", "GITSHADOW_DAEMON": "off"}


def editor(scale: float) -> Iterator[Row]:
    """Open a file of 5,000 lines and 1,000 events in a new server, and hover over its lines."""
    times = max(3, int(15 * scale))
    with repository(100) as place:
        record(place, [_FILE], edited(_LINES), _EVENTS)
        place.shadow("start")
        rows: dict[str, list[float]] = {"bare": [], "start": [], "open": []}
        for _ in range(times):
            rows["bare"].append(timed(partial(subprocess.run, _IMPORT, check=True)))
            with _editing(place, {}) as one:
                rows["start"].append(timed(one.start))
                rows["open"].append(timed(one.open))
        yield Row("start of `lsp`, command server up", "–", ms(rows["start"]), "ms")
        yield Row("… bare `import pygls`", "yardstick", ms(rows["bare"]), "ms")
        yield Row("first look at a file", "–", ms(rows["open"]), "ms")
        both = map(sum, zip(rows["start"], rows["open"], strict=True))
        yield Row("… both", "≤ 150 ms", ms(list(both)), "ms")
        yield from _hovers(place, {}, "daemon", times)
        place.shadow("stop")
        yield from _hovers(place, _OFF, "no daemon, no server", times)


def _hovers(
    place: Place, more: Mapping[str, str], name: str, times: int
) -> Iterator[Row]:
    with _editing(place, more) as one:
        one.start()
        one.open()
        one.hover(0)
        values = [timed(partial(one.hover, at * 331)) for at in range(1, times + 1)]
        yield Row(f"hover, {name}", "≤ 50 ms", ms(values), "ms")
        # The command server runs it in a copy of itself.
        pids = [one.process.pid, *(children(place.server) if place.server else ())]
        memory = max(pages_mib(pid)["own"] for pid in pids)
        yield Row("… own pages of it", "≤ 40 MiB", [memory], "MiB")


@contextmanager
def _editing(place: Place, more: Mapping[str, str]) -> Iterator["_Editor"]:
    with subprocess.Popen(
        [program(), "lsp"],
        cwd=place.root,
        env={**place.env, **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        one = _Editor(place, process)
        yield one
        one.ask("shutdown")
        one.tell("exit")


@dataclass(slots=True)
class _Editor:
    """Writes messages of the protocol and waits for the answers."""

    place: Place
    process: subprocess.Popen[bytes]
    _asked: int = 0

    def start(self) -> None:
        """Wait until the server is ready."""
        self.ask("initialize", processId=None, rootUri=None, capabilities={})
        self.tell("initialized")

    def open(self) -> None:
        """Open the file and wait for the lines above its runs."""
        file = self.place.root / _FILE
        text = {"languageId": "text", "version": 1, "text": file.read_text()}
        self.tell("textDocument/didOpen", textDocument={"uri": file.as_uri(), **text})
        if not self.ask("textDocument/codeLens", textDocument=self._file()):
            raise RuntimeError("nobody wrote it")

    def hover(self, line: int) -> None:
        """Ask who wrote a line."""
        place = {"line": line % _LINES, "character": 0}
        found = self.ask(
            "textDocument/hover", textDocument=self._file(), position=place
        )
        if not found:
            raise RuntimeError(f"nobody wrote line {line}")

    def _file(self) -> dict[str, str]:
        return {"uri": (self.place.root / _FILE).as_uri()}

    def tell(self, method: str, **params: object) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: object) -> object:
        """Send a request and return its result; what else the server says is dropped."""
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        while True:
            said = self._read()
            if said.get("id") == self._asked and "method" not in said:
                return said.get("result")

    def _send(self, message: Mapping[str, object]) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def _read(self) -> Mapping[str, object]:
        assert self.process.stdout is not None
        size = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        found = json.loads(self.process.stdout.read(size))
        assert isinstance(found, dict)
        return found
