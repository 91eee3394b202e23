"""Programs that some tests drive and that not every machine has: tig, gitk, a browser, Postgres.

`.ci/run` installs them and sets GITSHADOW_TEST_TOOLS=required: there a missing one is a failure,
elsewhere a skip that says why.
"""

import os
import shutil

import pytest

PACKAGES = {
    "tig": "tig",
    "gitk": "gitk",
    "tmux": "tmux",
    "Xvfb": "xvfb",
    "xwininfo": "x11-utils",
    "chromium": "chromium",
    "initdb": "postgresql",
    "man": "man-db",
    "systemd-analyze": "systemd",
    "systemd-escape": "systemd",
    "bash": "bash",
    "dh_bash-completion": "bash-completion",
    "less": "less",
    "cc": "build-essential",
    "zsh": "zsh",
    "fish": "fish",
    "nvim": "neovim",
}
"""The Debian package of each program; `.ci/run` installs the same."""
# Read now: a running test's environment is sealed.
REQUIRED = os.environ.get("GITSHADOW_TEST_TOOLS") == "required"


def need(name: str) -> str:
    """Return the path of a program; skip the test, or fail it, where there is none.

    Args:
        name: One of `PACKAGES`.
    """
    package = PACKAGES[name]
    found = shutil.which(name)
    if found is not None:
        return found
    reason = f"{name} is not installed (Debian package {package})"
    if REQUIRED:
        pytest.fail(f"{reason}, and GITSHADOW_TEST_TOOLS=required")
    pytest.skip(reason)
