"""A report that renews itself in the browser: an HTTP server for this machine, which only reads.

Invariant: requests are answered from memory. Only the main thread asks for a report, so no request
can change anything or keep the daemon busy.
"""

import hmac
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.render.style import printable

_HOST = "127.0.0.1"
# A page of a foreign site can have its name resolved to this machine (DNS rebinding), but then the
# browser sends that name. Any port is right: `ssh -L` may use another one.
_HOSTS = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?", re.IGNORECASE)
_HEADERS = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)
_LOOK_S = 1.0
# A report of a long session takes seconds, in the one thread that answers hooks. So the next one
# waits ten times as long as the last one took.
_REST = 10
# A page polls every two seconds while it is visible; without one nothing is asked.
_WATCHED_S = 30.0
_SILENT_S = 10.0
# Other users of the machine can connect, too, but see nothing without the key.
_THREADS = 64


class Edition(NamedTuple):
    """A state of the report: `tag` differs if anything in it does; `render` makes the page."""

    tag: str
    render: Callable[[], str]


class _Page(NamedTuple):
    tag: str
    body: bytes


def serve(
    ask: Callable[[], Edition],
    stamp: Callable[[], object],
    port: int,
    announce: Callable[[str], None],
) -> None:
    """Serve a report until Ctrl-C.

    Args:
        ask: Returns the report as it is now.
        stamp: Returns a value that differs after every change of the journal; cheap.
        port: 0 for any that is free.
        announce: Called with the URL as soon as it can be opened.

    Raises:
        ShadowError: there is no such report, or the port is not free.
    """
    try:
        seen, began = stamp(), time.monotonic()
        page = _page(ask())
        with _bound(port, page) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                announce(server.url)
                _renew(server, ask, stamp, seen, time.monotonic() - began)
            finally:
                server.shutdown()
    except KeyboardInterrupt:
        # This is how it ends.
        return


def _renew(
    server: "_LiveServer",
    ask: Callable[[], Edition],
    stamp: Callable[[], object],
    seen: object,
    took_s: float,
) -> None:
    """Replace the page after each change of the journal, forever."""
    due, reported = time.monotonic() + took_s * _REST, ""
    while True:
        time.sleep(_LOOK_S)
        began = time.monotonic()
        if began < due or began > server.asked_at + _WATCHED_S:
            continue
        # From before the report: what is recorded while it is made has another stamp.
        stamped = stamp()
        if stamped == seen:
            continue
        try:
            edition = ask()
            seen, reported = stamped, ""
        except ShadowError as error:
            # The page stays as it was; the journal may only be locked at the moment.
            if str(error) != reported:
                print(f"error: {printable(str(error))}", file=sys.stderr, flush=True)
            reported = str(error)
        else:
            if edition.tag != server.page.tag:
                server.page = _page(edition)
        now = time.monotonic()
        due = now + (now - began) * _REST


def _page(edition: Edition) -> _Page:
    return _Page(edition.tag, edition.render().encode())


def _bound(port: int, page: _Page) -> "_LiveServer":
    try:
        return _LiveServer(port, page)
    except OSError as error:
        raise ShadowError(
            f"could not listen on port {port}: {error.strerror}",
            hint="name another one, or leave --port out",
        ) from error


class _LiveServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, page: _Page) -> None:
        # Replaced as a whole, so that a thread never sees a page with the tag of another.
        self.page = page
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.asked_at = time.monotonic()
        super().__init__((_HOST, port), _Handler)

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return f"http://{_HOST}:{self.server_port}{self.path}"

    def server_bind(self) -> None:
        """Bind without looking up our name, which HTTPServer does and which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, self.socket.getsockname()[1]

    def process_request(self, request: object, client_address: object) -> None:
        """Answer on a thread of its own, unless too many are busy already."""
        if threading.active_count() > _THREADS:
            self.shutdown_request(request)  # type: ignore[arg-type]
        else:
            super().process_request(request, client_address)  # type: ignore[arg-type]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away; other errors are printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server_version = "gitshadow"
    sys_version = ""
    timeout = _SILENT_S
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        """Answer with the page, or that it is unchanged."""
        server = self.server
        assert isinstance(server, _LiveServer)
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _HOSTS.fullmatch(hosts[0]):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        path = self.path.partition("?")[0]
        # In constant time, so that a key cannot be guessed letter by letter.
        if not hmac.compare_digest(path.encode(), server.path.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        server.asked_at = time.monotonic()
        page = server.page
        tag = f'"{page.tag}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.send_header("ETag", tag)
            self.end_headers()
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("ETag", tag)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page.body)

    def do_HEAD(self) -> None:
        """Answer as to GET, without the page."""
        self.do_GET()

    def end_headers(self) -> None:
        """Add what every answer has."""
        for name, value in _HEADERS:
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the address has the key in it."""
