"""Programs at login: a systemd user unit for all worktrees, and links that make systemd start it.

The unit is a template (systemd.unit(5)); the link is what `systemctl --user enable` makes. No
program is run: systemd reads both at the next login.
"""

import os
import re
from collections.abc import Mapping

from gitshadow.errors import UnsupportedError
from gitshadow.platform.port import LoginEntry, LoginService

_UNIT = "agent-undo@.service"
_PLAIN = re.compile(rb"[A-Za-z0-9:_.]")
# "The total length of the unit name including the suffix must not exceed 255" (systemd.unit(5)).
_LONGEST = 255
# systemd runs no program with these in its path.
_UNSAFE = frozenset("\"'\\$")


def escaped(path: str) -> str:
    """Return a path as the instance of a unit, as `systemd-escape --path` prints it."""
    parts = os.fsencode(os.path.normpath(path)).strip(b"/")
    if not parts:
        return "-"
    found = []
    for at in range(len(parts)):
        byte = parts[at : at + 1]
        if byte == b"/":
            found.append("-")
        elif _PLAIN.fullmatch(byte) and not (at == 0 and byte == b"."):
            found.append(byte.decode("ascii"))
        else:
            found.append(f"\\x{byte[0]:02x}")
    return "".join(found)


def _problem(environ: Mapping[str, str]) -> str | None:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if not runtime or not os.path.exists(os.path.join(runtime, "systemd", "private")):
        return "no systemd user manager is running for you"
    return None


def _entry(root: str, executable: str) -> LoginEntry:
    if _UNSAFE & set(executable) or not executable.isprintable():
        raise UnsupportedError(
            f"cannot start at login: systemd cannot run {executable}"
        )
    name = f"agent-undo@{escaped(root)}.service"
    if len(name) > _LONGEST:
        raise UnsupportedError(
            "cannot start at login: the path is too long for the name of a unit"
        )
    return LoginEntry(name, target=f"../{_UNIT}")


def _is_ours(path: str) -> bool:
    try:
        return os.path.basename(os.readlink(path)) == _UNIT
    except OSError:
        return False


SERVICE = LoginService(
    name="systemd",
    root="config",
    directory="systemd/user",
    entries="default.target.wants",
    packaged=_UNIT,
    shown_as="a link to the unit",
    note=(
        "systemd starts it at your next login;"
        " to start it without a login: loginctl enable-linger"
    ),
    problem=_problem,
    entry=_entry,
    is_ours=_is_ours,
)
