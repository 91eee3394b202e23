"""The operating system: the one place that knows on which one the program runs.

`current()` returns the platform of this process, which is chosen once: Linux, macOS, or what all
others have in common. Everything else asks through the ports in `platform.port`.
Invariant: importing this costs nothing, because every hook does; each part is imported when it is
first asked for.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` alone would cost every hook 5 ms
    from gitshadow.platform.portable import Portable

LINUX, MACOS, PORTABLE = "linux", "macos", "portable"
_VARIABLE = "GITSHADOW_PLATFORM"
_OF_SYSTEM = {"linux": LINUX, "darwin": MACOS}
O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)
"""Open a directory only to reach what is in it, where the system has that (open(2))."""


def chosen(system: str, wanted: str) -> str:
    """Return the name of a platform.

    Args:
        system: What Python calls the system.
        wanted: What the environment asks for: `portable`, or nothing for the system's own.
    """
    return PORTABLE if wanted == PORTABLE else _OF_SYSTEM.get(system, PORTABLE)


# From the environment and not from Git's configuration: a hook has to know it before it has found a
# repository, and the processes of one repository have to agree on it.
NAME = chosen(sys.platform, os.environ.get(_VARIABLE, ""))


def current() -> "Portable":
    """Return the platform of this process."""
    if NAME == LINUX:
        from gitshadow.platform.linux import Linux

        return Linux()
    if NAME == MACOS:
        from gitshadow.platform.macos import MacOS

        return MacOS()
    from gitshadow.platform.portable import Portable

    return Portable()
