"""A web server for inverses: it keeps what it was sent and answers what it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Got:
    """Hold one request."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


@dataclass(slots=True)
class Web:
    """Hold what came, oldest first, and the answers to give: status, headers, body."""

    url: str = ""
    got: list[Got] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], str]] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Web]:
    """Serve on a free port of this machine."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size).decode()
            web.got.append(Got(self.command, self.path, dict(self.headers), body))
            status, headers, said = web.answers.pop(0) if web.answers else (204, {}, "")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        do_POST = do_PUT = do_DELETE = do_GET = answer  # noqa: N815 - http.server's names

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}
    )
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
