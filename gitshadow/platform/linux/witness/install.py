"""Install the witness service for all users of this machine, and remove it without a trace.

The service is one zip file of the modules of this package (zipapp), which the system's Python runs
in isolated mode. So it works without this program, and no user can change what root runs.
"""

import contextlib
import io
import os
import pkgutil
import stat
import subprocess
import sys
import zipfile

from gitshadow.errors import ShadowError, UnsupportedError
from gitshadow.platform.linux.witness import client, service

PYTHON = "/usr/bin/python3"
DIRECTORY = "/var/lib/git-agent-undo"
FILE = f"{DIRECTORY}/witness.pyz"
UNIT_NAME = "git-agent-undo-witness.service"
UNIT = f"/etc/systemd/system/{UNIT_NAME}"
COMMAND = (PYTHON, "-I", "-B", FILE)

_SYSTEMD = "/run/systemd/system"
_COMMAND_S = 60
_PACKAGES = (
    "gitshadow",
    "gitshadow/platform",
    "gitshadow/platform/linux",
    "gitshadow/platform/linux/witness",
)
_MODULES = (
    "writers.py",
    "linux/witness/fanotify.py",
    "linux/witness/processes.py",
    "linux/witness/record.py",
    "linux/witness/service.py",
)
_OLDEST_PYTHON = (3, 11)
_MAIN = f"""\
import sys

if sys.version_info < {_OLDEST_PYTHON}:
    sys.exit("error: Python {_OLDEST_PYTHON[0]}.{_OLDEST_PYTHON[1]} or newer is needed")
from gitshadow.platform.linux.witness.service import main

sys.exit(main(sys.argv[1:]))
"""
# fanotify and the process events need the first two capabilities. A mark needs read permission on
# the worktree, which may be closed to others, so the third; the service opens no file of a user.
UNIT_TEXT = f"""\
# Installed by `git agent-undo witness install`; `git agent-undo witness uninstall` removes it.
[Unit]
Description=Reports to owners of worktrees which process wrote what (git agent-undo)
Documentation=man:git-agent-undo(1)

[Service]
ExecStart={" ".join(COMMAND)}
Restart=on-failure
RestartSec=1
RuntimeDirectory={os.path.basename(service.DIRECTORY)}
RuntimeDirectoryMode=0755
UMask=0022
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_NET_ADMIN CAP_DAC_READ_SEARCH
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
PrivateMounts=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service fanotify_init fanotify_mark
SystemCallFilter=~@keyring @setuid @chown
MemoryMax=768M
TasksMax=96
LimitNOFILE=20480
CPUWeight=50

[Install]
WantedBy=multi-user.target
"""


def archive() -> bytes:
    """Return the service as one file that Python runs."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as file:
        _put(file, "__main__.py", _MAIN.encode())
        for package in _PACKAGES:
            _put(file, f"{package}/__init__.py", b"")
        for name in _MODULES:
            data = pkgutil.get_data("gitshadow.platform", name)
            if data is None:
                raise ShadowError(f"cannot read the module {name} of the service")
            _put(file, f"gitshadow/platform/{name}", data)
    return found.getvalue()


def _put(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    # The same time for all, so that the same modules are the same file.
    file.writestr(zipfile.ZipInfo(name), data)


def is_installed() -> bool:
    """Return whether the file of the service is there."""
    return os.path.lexists(FILE)


def problem() -> str | None:
    """Return why the service does not answer this user, None if it does."""
    return client.problem()


def has_systemd() -> bool:
    """Return whether systemd runs this machine (sd_booted(3))."""
    return os.path.isdir(_SYSTEMD)


def install() -> bool:
    """Install the service, and start it where systemd runs this machine.

    Returns:
        Whether it was started; without systemd nothing starts it.

    Raises:
        ShadowError: it cannot be installed, or does not run; nothing is left of it.
    """
    _need_root()
    try:
        _write_file()
        _run(*COMMAND, "--check")
        if not has_systemd():
            return False
        _write(UNIT, UNIT_TEXT.encode())
        _run("systemctl", "daemon-reload")
        _run("systemctl", "enable", "--quiet", UNIT_NAME)
        _run("systemctl", "restart", UNIT_NAME)
    except (OSError, ShadowError) as error:
        uninstall()
        if isinstance(error, ShadowError):
            raise
        raise ShadowError(f"cannot install the witness service: {error}") from error
    return True


def uninstall() -> bool:
    """Stop the service and remove all that was installed; return whether anything was there.

    Raises:
        ShadowError: something cannot be removed.
    """
    _need_root()
    there = is_installed() or os.path.lexists(UNIT)
    try:
        if os.path.lexists(UNIT):
            if has_systemd():
                _run("systemctl", "disable", "--quiet", "--now", UNIT_NAME)
            os.unlink(UNIT)
            if has_systemd():
                _run("systemctl", "daemon-reload")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(FILE)
        for directory in (DIRECTORY, service.DIRECTORY):
            # A service that was started by hand still has its socket there.
            with contextlib.suppress(FileNotFoundError, OSError):
                os.rmdir(directory)
    except OSError as error:
        raise ShadowError(f"cannot remove the witness service: {error}") from error
    return there


def run() -> None:
    """Become the installed service, in the foreground.

    Raises:
        ShadowError: it is not installed, or this user is not root.
    """
    _need_root()
    if not is_installed():
        raise ShadowError(
            "the witness service is not installed",
            hint="sudo git agent-undo witness install",
        )
    sys.stdout.flush()
    os.execve(PYTHON, COMMAND, {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})


def _need_root() -> None:
    if os.geteuid() != 0:
        raise UnsupportedError(
            "only root can install or run the witness service",
            hint='sudo "$(command -v git-agent-undo)" witness install',
        )


def _write_file() -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(DIRECTORY, 0o755)
    service.check_root_owned(os.path.dirname(DIRECTORY), stat.S_IFDIR)
    service.check_root_owned(DIRECTORY, stat.S_IFDIR)
    _write(FILE, archive())


def _write(path: str, data: bytes) -> None:
    """Replace a file of root that everybody may read."""
    new = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(new, flags, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        os.fchmod(fd, 0o644)
    os.replace(new, path)


def _run(*words: str) -> None:
    """Run a program of the system.

    Raises:
        ShadowError: it failed; with what it said.
    """
    done = subprocess.run(
        words,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_COMMAND_S,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        cwd="/",
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("error: ")
        raise ShadowError(f"{words[0]} failed: {said or done.returncode}")
