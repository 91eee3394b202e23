"""The native client: what a server may send it, and what an installation makes of it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitshadow.ipc import command_client, wire
from tests.conftest import FULL
from tests.support import native
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.tools import need
from tests.support.waiting import HANGS_S, until

_DIRECT = "import sys; print('direct', *sys.argv[1:])"
_SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_WORDS = [
    b"ready 0",
    b"ready 99999999",
    b"go",
    b"exit",
    b"exit ",
    b"exit 7",
    b"signal ",
    b"signal 0",
]
_WORDS += [
    b"read",
    b"pager ",
    b"pager exit 3",
    b"pager exec cat",
    b"asked",
    b"exit 99999999999999",
]
_MESSAGES = st.lists(
    st.sampled_from([*_WORDS, command_client.greeting(), b"x" * (1 << 16)])
    | st.binary(max_size=100),
    max_size=8,
)


@pytest.fixture(scope="module")
def sanitized() -> Path:
    """Return the client with checks of memory and of undefined behaviour."""
    return native.beside(native.compiled(*_SANITIZERS), _DIRECT)


@given(sent=_MESSAGES, begins=st.booleans(), fds=st.integers(0, 5))
@example(sent=[b"x" * (1 << 16)], begins=True, fds=1)
@example(sent=[b"pager cat", b"exit 0"], begins=True, fds=5)
@settings(max_examples=2_000 if FULL else 100, deadline=None)
def test_whatever_a_server_says_it_ends_in_order(
    sanitized: Path, sent: Sequence[bytes], begins: bool, fds: int
) -> None:
    beginning = [command_client.greeting(), b"ready 99999999"]
    with _serving(sanitized, [*beginning * begins, *sent], fds) as environ:
        done = subprocess.run(
            [str(sanitized), "log"],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=HANGS_S,
        )
    assert b"Sanitizer" not in done.stderr
    assert b"runtime error" not in done.stderr
    # It ran the command itself, or said that it was lost, or ended as it was told to.
    assert (
        done.stdout.startswith(b"direct up") or begins or done.stderr or done.returncode
    )


@contextmanager
def _serving(
    program: Path, sent: Sequence[bytes], fds: int
) -> Iterator[dict[str, str]]:
    """Serve one client with these messages; the first one has open files, too."""
    runtime = program.parent / "run"
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    environ.pop(command_client.OFF, None)
    place = Path(command_client.directory(environ, str(program)))
    place.mkdir(parents=True, exist_ok=True)
    path = place / wire.SOCKET_NAME
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        with suppress(OSError), listening.accept()[0] as client:
            for number, one in enumerate(sent):
                with_them = [0] * fds if number == 0 else []
                client.sendmsg([one], [command_client.descriptors(*with_them)])
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 20):
                pass

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield environ
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        server.join()


def test_a_hook_never_fails(tmp_path: Path) -> None:
    alone = native.compiled()
    for words, code in (["hook", "codex"], 0), (["log"], 127):
        done = subprocess.run([str(alone), *words], capture_output=True, check=False)
        assert (done.returncode, bool(done.stderr)) == (code, code > 0)
    native.beside(alone, _DIRECT)
    beginning = [command_client.greeting(), b"ready 99999999"]
    # The server ends, or says that the process that ran the hook was killed.
    for end, lost in ([], 1), ([b"signal 9"], -signal.SIGKILL):
        for words, code in (["hook", "codex"], 0), (["log"], lost):
            with _serving(alone, [*beginning, *end], 0) as environ:
                done = subprocess.run(
                    [str(alone), *words], env=environ, capture_output=True, check=False
                )
            assert (done.returncode, bool(done.stderr)) == (code, code > 0)
            # Nothing else would be left of it.
            ran = b"direct up %b hook codex\n" % os.fsencode(alone)
            assert done.stdout == (ran if words[0] == "hook" else b"")


def test_a_hook_does_without_the_home_of_another_python() -> None:
    """As agents with a Python of their own have it; ours would end before it runs anything."""
    program = native.beside(native.compiled(), _DIRECT)
    environ = {**os.environ, command_client.OFF: "off", "PYTHONHOME": "/none"}
    for words, is_run in (["hook", "codex"], True), (["log"], False):
        done = subprocess.run(
            [str(program), *words], env=environ, capture_output=True, check=False
        )
        assert (done.returncode == 0, done.stdout != b"") == (is_run, is_run), done


def test_a_hook_starts_the_server_and_does_not_wait_for_it(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    need("cc")
    shadow = make_shadow(repo)
    shadow("init")
    env = shadow.environment({command_client.OFF: "auto"})
    place = Path(command_client.directory(env, COMMAND))
    words = [COMMAND, "hook", "codex"]
    # Its streams are pipes, and their end is waited for.
    said = subprocess.run(
        words, cwd=repo.root, env=env, input=b"{}", capture_output=True, check=True
    )
    assert (said.stdout, said.stderr) == (b"", b"")
    until((place / wire.SOCKET_NAME).exists)
    os.kill(int((place / "lock").read_text()), signal.SIGTERM)


def test_python_is_told_how_it_was_called(tmp_path: Path) -> None:
    program = native.beside(native.compiled(), _DIRECT)
    link = tmp_path / "linked"
    link.symlink_to(program)
    environ = {**os.environ, command_client.OFF: "Off"}
    words = [str(link), "a b", ""]
    done = subprocess.run(words, env=environ, capture_output=True, check=True)
    assert done.stdout == f"direct up {link} a b \n".encode()


@pytest.mark.parametrize("compiler", ["cc", "no-such-compiler"])
def test_a_wheel_has_the_program_either_way(tmp_path: Path, compiler: str) -> None:
    need("cc")
    words = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path),
    ]
    root = native.SOURCE.parent.parent
    env = {**os.environ, "CC": compiler}
    subprocess.run(words, cwd=root, env=env, check=True, capture_output=True)
    wheel = next(tmp_path.glob("*.whl"))
    is_native = compiler == "cc"
    assert wheel.name.endswith("-py3-none-any.whl") is not is_native
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(wheel), str(tmp_path / "made")],
        check=True,
    )
    scripts = next((tmp_path / "made").glob("*.data/scripts"))
    found = (scripts / native.NAME).read_bytes()
    assert found.startswith(b"\x7fELF" if is_native else b"#!python\n")
