"""REPORT: `report --serve` shows a live page, to those who know its address and to nobody else."""

import http.client
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.browser import browsing
from tests.support.claude import Claude
from tests.support.shadow import Shadow
from tests.support.waiting import HANGS_S, until


class Client:
    """One HTTP client, which sends the headers that it is given."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname == "127.0.0.1"
        assert parts.port
        self.port, self.path = parts.port, parts.path

    def ask(
        self,
        path: str | None = None,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str], str]:
        """Return status, headers and body of one answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS_S)
        try:
            connection.request(method, path or self.path, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read().decode()
        finally:
            connection.close()


@contextmanager
def serving(
    shadow: Shadow, *words: str
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run `report --serve` and give its process and the URL that it prints."""
    with shadow.spawn("report", "--serve", *words) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().rstrip("\n")
            yield process, url
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANGS_S)


@pytest.fixture
def agent(shadow_d: Shadow) -> Claude:
    made = Claude(shadow_d)
    made.prompt("begin <here>")
    made.write("a", "one\n")
    made.stop()
    return made


def test_two_clients_see_what_is_recorded_while_it_is_served(
    shadow_d: Shadow, agent: Claude
) -> None:
    with serving(shadow_d) as (process, url):
        one, two = Client(url), Client(url)
        status, headers, body = one.ask()
        assert status == 200
        assert "begin &lt;here&gt;" in body
        assert "connect-src &#39;self&#39;" in body
        assert headers["Cache-Control"] == "no-store"
        tag = {"If-None-Match": headers["ETag"]}
        assert one.ask(headers=tag)[0] == two.ask(headers=tag)[0] == 304
        agent.prompt("second <b>turn</b>")
        agent.write("b", "two\n")
        agent.stop()
        until(lambda: "second &lt;b&gt;turn" in one.ask()[2])
        until(lambda: "second &lt;b&gt;turn" in two.ask()[2])
        status, fresh, _ = two.ask(headers=tag)
        assert status == 200
        assert fresh["ETag"] != headers["ETag"]
        assert two.ask(method="HEAD")[2] == ""
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANGS_S)
        assert process.returncode == 0
        assert b"Traceback" not in said


def test_only_the_exact_address_opens_the_report(
    shadow_d: Shadow, agent: Claude
) -> None:
    with serving(shadow_d) as (_, url):
        client = Client(url)
        assert re.fullmatch("/[A-Za-z0-9_-]{32}/", client.path)
        wrong = ("/", "/x/", f"{client.path}x", client.path[:-1], "/favicon.ico")
        for path in (*wrong, f"/{'A' * 32}/", url):
            assert client.ask(path)[0] == 404, path
        port = client.port
        for host in ("127.0.0.1", f"localhost:{port}", f"127.0.0.1:{port + 1}"):
            assert client.ask(headers={"Host": host})[0] == 200, host
        hosts = ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "")
        for host in (*hosts, "127.0.0.1:x", "[::1]", "localhost.evil.example"):
            status, _, body = client.ask(headers={"Host": host})
            assert (status, body) == (403, "403 Forbidden\n"), host
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert client.ask(method=method)[0] == 501


def test_silent_clients_do_not_keep_others_out_for_ever(
    shadow_d: Shadow, agent: Claude
) -> None:
    with serving(shadow_d) as (_, url), ExitStack() as silent:
        client = Client(url)
        for _ in range(80):
            one = socket.create_connection(("127.0.0.1", client.port), timeout=HANGS_S)
            silent.enter_context(one)

        def answers() -> bool:
            with suppress(OSError, http.client.HTTPException):
                return client.ask()[0] == 200
            return False

        until(answers)


def test_server_is_reached_on_the_loopback_address_alone(
    shadow_d: Shadow, agent: Claude
) -> None:
    with serving(shadow_d) as (_, url):
        port = f"{Client(url).port:04X}"
        listening = [
            line.split()[1]
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
            if line.split()[3] == "0A"
        ]
        assert f"0100007F:{port}" in listening
        assert f"00000000:{port}" not in listening


def test_port_that_is_taken_and_odd_options_are_errors(
    shadow_d: Shadow, agent: Claude
) -> None:
    with serving(shadow_d) as (_, url):
        port = str(Client(url).port)
        taken = shadow_d("report", "--serve", "--port", port)
        assert taken.code == 1
        assert taken.err.startswith(f"error: could not listen on port {port}: ")
    for words in (
        ("--serve", "-o", "x"),
        ("--port", "8000"),
        ("--serve", "--port", "0"),
        ("--serve", "no-such-session"),
    ):
        found = shadow_d("report", *words)
        assert (found.code, found.raw) == (2, b""), words
    assert shadow_d("report", "--serve", "--json").json()["exit"] == 2


def test_page_in_a_browser_renews_itself_and_keeps_what_is_open(
    shadow_d: Shadow, agent: Claude, tmp_path: Path
) -> None:
    with serving(shadow_d) as (process, url), browsing(tmp_path) as browser:
        browser.reach_the_network()
        browser.open(url)
        live = "[live.hidden, lost.hidden]"
        assert browser.run(live) == [False, True]
        browser.run("document.querySelector('#turn-1').open = false; 0")
        browser.run("document.querySelector('#files ~ .file').open = true; 0")
        agent.prompt("second <img src=x onerror=document.title=1>")
        agent.write("b", "two\n")
        agent.stop()
        turns = "document.querySelectorAll('.step').length"
        until(lambda: browser.run(turns) == 2)
        assert browser.run("document.querySelector('#turn-1').open") is False
        # The page may have been renewed between the prompt and the write.
        opened = "[...document.querySelectorAll('#files ~ .file')].map(one => one.open)"
        until(lambda: browser.run(opened) == [True, False])
        assert (
            browser.run("document.title")
            == f"claude-code in {shadow_d.repo.root.name}: session report"
        )
        assert browser.run("document.images.length") == 0
        process.send_signal(signal.SIGINT)
        until(lambda: browser.run(live) == [True, False])


def test_page_stays_when_its_session_is_pruned(shadow_d: Shadow, agent: Claude) -> None:
    agent.end()
    with serving(shadow_d) as (process, url):
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"live until Ctrl-C")
        shadow_d.ok("prune", "--all", "--yes")
        client = Client(url)
        assert client.ask()[0] == 200
        assert process.stderr.readline().startswith(b"error: cannot report: no agent")
        assert "begin &lt;here&gt;" in client.ask()[2]


def test_two_sessions_can_be_live_too_also_without_a_daemon(shadow_n: Shadow) -> None:
    other = Claude(shadow_n, "s2")
    for agent in (Claude(shadow_n), other):
        agent.write("b", f"{agent.session}\n")
    names = [
        str(row["id"])
        for row in shadow_n.ok("sessions", "--json").rows()
        if row["agent"] == "claude-code"
    ]
    with serving(shadow_n, *names) as (_, url):
        client = Client(url)
        assert "Two sessions" in client.ask()[2]
        other.write("third", "x\n")
        until(lambda: ">third<" in client.ask()[2])
