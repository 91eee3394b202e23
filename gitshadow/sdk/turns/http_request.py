"""Send one HTTP request for an undo: to the host that is named, and to no other.

`http.client` knows neither proxies nor redirects nor files with passwords, which is what is wanted.
Invariant: `FinalFailure` and `ToolFailure` are raised only where the server did nothing.
"""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack
from urllib.parse import SplitResult, urlsplit

from gitshadow.sdk.turns.errors import FinalFailure, ToolFailure

_KEPT_BYTES = 300
# The request is refused for now only: RFC 9110 (408), RFC 8470 (425), RFC 6585 (429).
_LATER = frozenset({408, 425, 429})
# Servers answer 409 to a key whose first request is still in progress, so it may yet succeed.
_AT_WORK = 409


class HttpError(Exception):
    """Report an answer that does not say what was done."""


class HttpRequest(TypedDict):
    """What is sent; secrets have been looked up."""

    method: str
    url: str
    json: object
    auth: str | None
    headers: Mapping[str, str]
    accept: Sequence[int]
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class Sender:
    """Send requests."""

    timeout_s: float

    def __call__(self, **request: Unpack[HttpRequest]) -> None:
        """Send one request and look at the answer.

        Raises:
            ToolFailure: nothing was sent, or the server refused it; trying again may help.
            FinalFailure: as before, and it will not.
            HttpError, OSError: it was sent, and what came of it is unknown.
        """
        body = None if request["json"] is None else json.dumps(request["json"]).encode()
        url, headers = urlsplit(request["url"]), _headers(request)
        status, said = self._exchange(url, request["method"], body, headers)
        if not 200 <= status < 300 and status not in request["accept"]:
            raise _refusal(status, said)

    def _exchange(
        self, url: SplitResult, method: str, body: bytes | None, sent: dict[str, str]
    ) -> tuple[int, str]:
        """Return the status and the beginning of the answer."""
        connection = self._connection(url)
        try:
            try:
                # Connecting is a step of its own: only if it fails is it certain that nothing was
                # sent.
                connection.connect()
            except OSError as error:
                raise ToolFailure(f"could not reach {url.hostname}: {error}") from error
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            # Only the beginning, for the report: an answer may be of any length.
            said = answer.read(_KEPT_BYTES).decode("utf-8", "replace")
            return answer.status, f"{answer.reason} {said}".strip()
        except http.client.HTTPException as error:
            raise HttpError(f"no answer in HTTP: {type(error).__name__}") from error
        finally:
            connection.close()

    def _connection(self, url: SplitResult) -> http.client.HTTPConnection:
        host = url.hostname or ""
        if url.scheme == "http":
            return http.client.HTTPConnection(host, url.port, timeout=self.timeout_s)
        return http.client.HTTPSConnection(
            host,
            url.port,
            timeout=self.timeout_s,
            context=ssl.create_default_context(),
        )


def _headers(request: HttpRequest) -> dict[str, str]:
    found = {**request["headers"], "Idempotency-Key": request["idempotency_key"]}
    if request["auth"] is not None:
        found["Authorization"] = f"Bearer {request['auth']}"
    if request["json"] is not None:
        found.setdefault("Content-Type", "application/json")
    for name, value in found.items():
        if "\n" in value or "\r" in value or not value.isascii():
            raise FinalFailure(f"the value of the header {name} is not a plain line")
    return found


def _refusal(status: int, said: str) -> Exception:
    text = f"the server answered {status} {said}".rstrip()
    if status in _LATER:
        return ToolFailure(text)
    if 400 <= status < 500 and status != _AT_WORK:
        return FinalFailure(text)
    if 300 <= status < 400:
        text = f"the server answered {status}: redirects are not followed"
    return HttpError(text)
