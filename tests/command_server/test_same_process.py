"""A served command is, as far as it can see, the process that its caller started."""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.probe import Probe, probing
from tests.support.waiting import until


def _facts(probe: Probe, *args: str | bytes, **options: Any) -> list[object]:
    found = []
    for code, out, err in probe.both("facts", *args, **options):
        assert (code, err) == (0, b"")
        document = json.loads(out)
        assert document["environ"].pop("GITSHADOW_SERVER") in ("on", "off")
        found.append(document)
    return found


def _close(numbers: list[int]) -> None:
    for number in numbers:
        os.close(number)


def test_it_has_all_of_its_caller(probe: Probe) -> None:
    direct, served = _facts(probe, "an argument", b"\xff", "read", stdin=b"typed\n")
    assert served == direct


@pytest.mark.parametrize(
    "change",
    [
        lambda: os.umask(0o27),
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200)),
        lambda: resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**33)),
        lambda: os.nice(3),
        lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        lambda: os.setsid(),
    ],
    ids=("umask", "files", "memory", "nice", "cpus", "nohup", "background", "session"),
)
@pytest.mark.sampled
def test_it_has_what_the_caller_changed(
    probe: Probe, change: Callable[[], object]
) -> None:
    direct, served = _facts(probe, preexec_fn=change)
    assert served == direct


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_closed_streams_lead_nowhere(
    probe: Probe, closed: list[int], tmp_path: Path
) -> None:
    for served in (False, True):
        path = tmp_path / f"{served}"
        words = [*probe.words("append", str(path))]
        code = subprocess.run(
            words,
            env=probe.environment(served=served),
            preexec_fn=lambda: _close(closed),
            check=False,
        ).returncode
        assert (code, path.read_bytes()) == (0, b"x")


def test_a_deleted_directory_stays_deleted(probe: Probe, tmp_path: Path) -> None:
    found = []
    for served in (False, True):
        gone = tmp_path / "gone"
        gone.mkdir()
        script = 'rmdir "$PWD"; exec "$@"'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *probe.words("facts")],
            cwd=gone,
            env=probe.environment(served=served),
            capture_output=True,
            check=True,
        )
        found.append(json.loads(done.stdout)["cwd"])
    assert found == ["deleted", "deleted"]


@pytest.mark.parametrize("code", [0, 1, 130, 255])
def test_it_exits_with_its_code(probe: Probe, code: int) -> None:
    assert probe.both("exit", str(code)) == [(code, b"", b"")] * 2


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]
)
def test_it_ends_by_the_signal_that_ended_it(
    probe: Probe, number: signal.Signals
) -> None:
    assert probe.both("signal", str(int(number))) == [(-number, b"", b"")] * 2


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX", "de_DE.ISO-8859-1"])
def test_text_is_written_as_its_locale_wants(probe: Probe, locale: str) -> None:
    found = [
        probe.run(
            "say",
            "blå\udcff",
            served=served,
            env=probe.environment(served=served, extra={"LC_ALL": locale}),
        )
        for served in (False, True)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(("unbuffered", "written"), [("", b""), ("1", b"words")])
def test_text_is_held_back_as_python_holds_it_back(
    sealed: Path,
    client: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    unbuffered: str,
    written: bytes,
) -> None:
    """A program that ends at once, as that of Git's hooks, has said all where nothing is held."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with probing(sealed / "run", client) as made:
        found = made.both("signal", str(int(signal.SIGTERM)), "words")
    assert found == [(-signal.SIGTERM, written, written)] * 2


@pytest.mark.parametrize(
    "confinement",
    [
        ["setpriv", "--no-new-privs"],
        ["setpriv", "--reuid", "12345", "--clear-groups"],
        ["setpriv", "--bounding-set", "-chown"],
        ["unshare", "--net"],
        ["unshare", "--mount"],
        ["unshare", "--pid", "--fork"],
        ["chroot", "/"],
    ],
    ids=" ".join,
)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can confine in all these ways")
def test_who_is_confined_is_not_served(probe: Probe, confinement: list[str]) -> None:
    os.chmod(probe.environ["HOME"], 0o755)
    direct, served = (
        subprocess.run(
            [*confinement, *probe.words("served")],
            env=probe.environment(served=one),
            capture_output=True,
            check=False,
        )
        for one in (False, True)
    )
    if confinement == ["chroot", "/"]:
        assert (served.stdout, served.stderr) == (b"1\n", b"")
    else:
        # Where Python is in root's home, another user cannot execute it.
        assert (served.stdout, served.stderr) == (direct.stdout, direct.stderr)
        assert served.stdout in (b"0\n", b"")


def test_files_that_the_shell_opened_are_there(probe: Probe, tmp_path: Path) -> None:
    script = '"$@" append >(cat >written); wait'
    words = ["bash", "-c", script, "bash", *probe.words()]
    env = probe.environment(served=True)
    subprocess.run(words, cwd=tmp_path, env=env, check=True)
    written = tmp_path / "written"
    until(lambda: written.exists() and written.read_bytes() == b"x")


@pytest.mark.parametrize(
    ("words", "served"),
    [
        (["served"], 1),
        (["served", "--help"], 0),
        (["served", "--tools=mine"], 0),
        (["exec", "served"], 0),
        (["saga", "served"], 0),
    ],
)
def test_what_needs_its_own_process_has_it(
    probe: Probe, words: list[str], served: int
) -> None:
    assert probe.run(*words, served=True) == (0, b"%d\n" % served, b"")
