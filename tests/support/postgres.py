"""A Postgres of our own: a private cluster that ends with the process that asked for it.

It listens on a socket in a directory of its own and on no port, so any number can run beside each
other and beside the cluster that Debian's package starts.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.tools import need
from tests.support.waiting import HANGS_S, until

_USER = "gitshadow"


@contextmanager
def cluster() -> Iterator[str]:
    """Start a cluster and return the URL of a database in it, which is not there yet.

    The test is skipped, or fails where tools are required, if there is no Postgres.
    """
    programs = Path(need("initdb")).resolve().parent
    # Not below a test's directory: the server's user cannot enter there.
    root = Path(tempfile.mkdtemp(prefix="gitshadow-pg-"))
    try:
        server = _Server(programs, root)
        with server.running():
            yield f"postgresql://{_USER}@/undos?host={root}"
    finally:
        shutil.rmtree(root, ignore_errors=True)


class _Server:
    """Run Postgres's programs as somebody else where we are root, which they refuse."""

    def __init__(self, programs: Path, root: Path) -> None:
        self._programs = programs
        self._root = root
        self._data = str(root / "data")
        self._as: list[str] = []
        if os.getuid() == 0:
            user = _unprivileged()
            os.chown(root, user.pw_uid, user.pw_gid)
            ids = f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"
            self._as = [*ids, "--clear-groups"]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the server for a block."""
        subprocess.run(
            self._command("initdb", "-D", self._data, "-U", _USER, *_NEW),
            cwd=self._root,
            env=_ENVIRONMENT,
            capture_output=True,
            timeout=HANGS_S,
            check=True,
        )
        said = self._root / "server.log"
        with said.open("wb") as log:
            server = subprocess.Popen(
                self._command("postgres", "-D", self._data, *self._settings()),
                cwd=self._root,
                env=_ENVIRONMENT,
                stdout=log,
                stderr=log,
            )
        try:
            until(lambda: server.poll() is not None or self._answers())
            assert server.poll() is None, said.read_text()
            yield
        finally:
            server.terminate()
            server.wait(HANGS_S)

    def _command(self, program: str, *args: str) -> list[str]:
        """Return a command that ends when we do, however we end."""
        how = ["setpriv", *self._as, "--pdeathsig=QUIT"]
        return [*how, str(self._programs / program), *args]

    def _settings(self) -> Iterator[str]:
        given = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._root),
            "fsync": "off",
            "max_connections": "100",
        }
        for name, value in given.items():
            yield from ("-c", f"{name}={value}")

    def _answers(self) -> bool:
        try:
            psycopg.connect(f"host={self._root} user={_USER} dbname=postgres").close()
        except psycopg.OperationalError:
            return False
        return True


def _unprivileged() -> pwd.struct_passwd:
    """Return a user that is not root.

    initdb refuses a uid without an entry, so it must be one that the machine has. That is not
    always `postgres`: the programs may have been copied or built without their package.
    """
    users = [user for user in pwd.getpwall() if user.pw_uid != 0]
    assert users, "no user but root: Postgres's programs refuse to run as root"
    return max(users, key=lambda user: user.pw_name == "nobody")


_NEW = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
