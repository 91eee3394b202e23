"""The line for a shell's prompt: what it says, and that it never waits, starts or fails."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.ipc import client, prompt, wire
from gitshadow.store.layout import Layout
from tests.support.counting import CountingEngine, initialised, serving
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.tools import need
from tests.support.waiting import HANGS_S, until

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def layout(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.chdir(repo.root)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return initialised(repo)


@pytest.fixture
def engine(layout: Layout) -> Iterator[CountingEngine]:
    engine = CountingEngine()
    with serving(layout, engine):
        until(lambda: client.ready(layout) is not None)
        yield engine


def line(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert prompt.main(words) == 0
    said, wrong = capfd.readouterr()
    assert wrong == ""
    return said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("recording\nclaude-code\n3\nb-1", "⟲ claude-code 3\n"),
        ("recording\n\n2\nb-1", "⟲ ? 2\n"),
        ("recording\n\n\n", "⟲\n"),
        ("degraded\ncodex\n1\nb-1", "⟲! codex 1\n"),
        ("off\n\n\n", "⟲ off\n"),
    ],
)
def test_line_says_what_oops_would_take_back(
    answer: str, said: str, engine: CountingEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    engine.answer = answer.encode()
    assert line(capfd) == said


def test_json_has_the_parts(
    engine: CountingEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    engine.answer = b"recording\ncodex\n3\nb-1"
    assert json.loads(line(capfd, "--json")) == {
        "state": "recording",
        "agent": "codex",
        "files": 3,
        "burst": "b-1",
        "text": "⟲ codex 3",
    }


def test_no_sign_beyond_ascii_where_the_locale_has_none(
    engine: CountingEngine,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine.answer = b"recording\ncodex\n3\nb-1"
    assert line(capfd, "--ascii") == "<- codex 3\n"
    monkeypatch.setenv("LC_ALL", "C")
    assert line(capfd) == "<- codex 3\n"


def test_no_daemon_is_said_and_none_is_started(
    layout: Layout, capfd: pytest.CaptureFixture[str]
) -> None:
    assert line(capfd) == "⟲ off\n"
    assert not os.path.exists(layout.socket)


def test_daemon_that_does_not_answer_in_time_is_busy(
    engine: CountingEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    """LAW-10 for people: a prompt waits for nobody."""
    engine.answer = b"late"
    assert line(capfd) == "⟲ ...\n"
    engine.gate.set()


def test_outside_of_a_recorded_repository_there_is_nothing(
    repo: Repo, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo.root)
    assert line(capfd) == ""
    assert json.loads(line(capfd, "--json"))["state"] == "none"


def test_deleted_directory_spoils_no_prompt(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert line(capfd) == ""


def test_prompt_of_another_version_ends_no_daemon(
    layout: Layout, engine: CountingEngine
) -> None:
    """It would start no other one."""
    sock = wire.connect(layout.wt_dir, HANGS_S)
    sock.sendall(b"GS1 other prompt 0\n")
    assert wire.answer(sock)[0] == wire.OTHER_VERSION
    sock.close()
    assert client.request(layout, "look", {}) == {"verb": "look", "number": 1}


def test_whole_program_says_the_newest_burst(shadow_d: Shadow) -> None:
    shadow_d.ok("exec", "--agent", "helper", "--", "sh", "-c", "echo x >a; echo y >b")
    assert shadow_d.ok("prompt", "--ascii").out == "<- helper 2\n"


@pytest.mark.linux
def test_program_loads_no_command_line(layout: Layout) -> None:
    """It is as quick as a hook: click alone would take longer than all of it."""
    script = (
        "import sys, os; sys.argv = ['git-agent-undo', 'prompt']; was = set(sys.modules)\n"
        "def end(code): print(*sorted(set(sys.modules) - was)); sys.stdout.flush(); real(0)\n"
        "real, os._exit = os._exit, end\n"
        "from gitshadow.entry import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    *_, loaded = done.stdout.splitlines()
    # Where coverage is counted, the child begins with `_socket` loaded.
    assert sorted({*loaded.split(), "_socket"}) == [
        "_socket",
        "gitshadow",
        "gitshadow.entry",
        "gitshadow.ipc",
        "gitshadow.ipc.prompt",
        "gitshadow.ipc.wire",
        "gitshadow.platform",
        "gitshadow.platform.linux",
        "gitshadow.platform.linux.sockets",
        "gitshadow.platform.portable",
        "gitshadow.store",
        "gitshadow.store.layout",
    ]


def _snippet(shell: str) -> str:
    page = (ROOT / "docs" / "view.md").read_text(encoding="utf-8")
    found = re.search(rf"^```{shell}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("shell", "options", "show"),
    [
        ("bash", ("--norc",), 'echo "${PS1@P}"'),
        ("zsh", ("-f",), "print -P -- $RPROMPT"),
        ("fish", ("--no-config",), "fish_right_prompt"),
    ],
)
def test_snippet_of_a_shell_shows_the_line(
    shell: str, options: tuple[str, ...], show: str, layout: Layout
) -> None:
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [
            "bash" if shell == "bash" else need(shell),
            *options,
            "-c",
            f"{_snippet(shell)}\n{show}",
        ],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert "⟲ off" in done.stdout, done.stderr
