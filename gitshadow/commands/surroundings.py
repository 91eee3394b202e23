"""What an installation of hooks depends on: this machine, this user and this worktree.

`status` imports it at each call, so it imports none of the modules that install.
"""

import os
import sys

from gitshadow.hookfiles import detect
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.store.layout import Layout, discover

_PROGRAM = "git-agent-undo"


def find_surroundings() -> tuple[InstallEnvironment, Layout | None]:
    """Return what an installation depends on, and the worktree of the current directory."""
    try:
        layout = discover(os.getcwd())
    except OSError:
        layout = None
    around = detect.surroundings(
        os.environ,
        os.path.expanduser("~"),
        executable=_executable(),
        worktree=None if layout is None else layout.root,
        common_state=None if layout is None else layout.state_dir,
    )
    return around, layout


def _executable() -> str:
    """Return the path by which this program was called; links to it stay links."""
    called = os.path.abspath(sys.argv[0])
    if os.path.basename(called) == _PROGRAM and os.access(called, os.X_OK):
        return called
    return os.path.join(os.path.dirname(sys.executable), _PROGRAM)
