"""Headless Chromium as sentences: `with browsing(tmp) as browser: browser.open(url)`.

It is driven over a pair of pipes (`--remote-debugging-pipe`), so there is no port and no driver
to match. The network is switched off before the first page, and what it asked for is kept.
Source: Chrome DevTools Protocol, 1.3.
"""

import base64
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.tools import need
from tests.support.waiting import readable

Message = dict[str, object]

# The browser reads descriptor 3 and writes 4; a shell could not name those that we have.
_EXEC = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    "os.execv(sys.argv[3], sys.argv[3:])"
)
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
_ENABLED = ("Page", "Runtime", "Log", "Network")
_FIRST_FREE = 10


@dataclass(slots=True)
class Browser:
    """One tab."""

    sending: int
    receiving: int
    tab: str | None = None
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    _seen: list[Message] = field(default_factory=list)
    _rest: bytes = b""
    _id: int = 0

    def open(self, url: str) -> None:
        """Load a page and wait until all of it is there."""
        self.said.clear()
        self.asked.clear()
        self._seen.clear()
        self.call("Page.navigate", url=url)
        while not any(one.get("method") == "Page.loadEventFired" for one in self._seen):
            self._take()

    def run(self, script: str) -> object:
        """Return the value of a JavaScript expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        result = answer["result"]
        assert isinstance(result, dict)
        return result.get("value")

    def look_at(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Give the page a window, in pixels, and a colour scheme."""
        scheme = {
            "name": "prefers-color-scheme",
            "value": "dark" if dark else "light",
        }
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def reach_the_network(self, *, reach: bool = True) -> None:
        """Switch the network on, for a server of this machine, or off."""
        self.call(
            "Network.emulateNetworkConditions",
            offline=not reach,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    def picture(self, *, whole: bool = False) -> bytes:
        """Return the window, or the whole page, as PNG."""
        answer = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        return base64.b64decode(str(answer["data"]))

    def call(self, method: str, **params: object) -> Message:
        """Run one command and return its result."""
        self._id += 1
        message: Message = {"id": self._id, "method": method, "params": params}
        if self.tab is not None:
            message["sessionId"] = self.tab
        os.write(self.sending, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                result = answer["result"]
                assert isinstance(result, dict)
                return result

    def _take(self) -> Message:
        """Return the next message; what a page says and asks for is kept."""
        while b"\0" not in self._rest:
            assert readable(self.receiving), "the browser says nothing"
            part = os.read(self.receiving, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        raw, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(raw)
        assert isinstance(message, dict)
        self._note(message)
        return message

    def _note(self, message: Message) -> None:
        self._seen.append(message)
        method = message.get("method")
        if method in (
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
        ):
            self.said.append(json.dumps(message["params"]))
        elif method == "Network.requestWillBeSent":
            params = message["params"]
            assert isinstance(params, dict)
            self.asked.append(str(params["request"]["url"]))


@contextmanager
def browsing(scratch: Path) -> Iterator[Browser]:
    """Start the browser, with its profile in a directory of its own."""
    program = need("chromium")
    theirs_in, sending = _pipe()
    receiving, theirs_out = _pipe()
    options = (*_OPTIONS, f"--user-data-dir={scratch / 'profile'}")
    with subprocess.Popen(
        [
            *(sys.executable, "-c", _EXEC, str(theirs_in), str(theirs_out)),
            *(program, *options),
        ],
        pass_fds=(theirs_in, theirs_out),
        env={**os.environ, "HOME": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            browser = Browser(sending, receiving)
            _enter(browser)
            yield browser
            browser.tab = None
            browser.call("Browser.close")
        finally:
            os.close(sending)
            os.close(receiving)
            if process.poll() is None:
                process.terminate()


def _enter(browser: Browser) -> None:
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
    browser.tab = str(attached["sessionId"])
    for domain in _ENABLED:
        browser.call(f"{domain}.enable")
    browser.reach_the_network(reach=False)


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends lie above the descriptors that the browser wants."""
    ends = os.pipe()
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for one in ends]
    for one in ends:
        os.close(one)
    return high[0], high[1]
