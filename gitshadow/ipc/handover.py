"""From pre-commit's own environment to the program that the user installed.

The pre-commit framework installs its own copy of gitshadow. That copy may be of another version
than the one that records here, so it executes the installed one if there is one.
Invariant: standard library only; if that is impossible, the copy goes on.
"""

import os
import sys
from collections.abc import Mapping, Sequence

FLAG = "--from-pre-commit"
_DONE = "GITSHADOW_HANDED_OVER"
_NAME = "git-agent-undo"


def hand_over(arguments: Sequence[str]) -> None:
    """Execute the installed program with the same arguments, if there is another one."""
    if FLAG not in arguments or os.environ.get(_DONE):
        return
    other = installed(os.environ, os.path.dirname(sys.executable))
    if other is not None:
        # The variable stops a second handover, from a wrapper or a copy that leads here again.
        try:
            os.execve(other, [other, *arguments], {**os.environ, _DONE: "1"})
        except OSError:
            return


def installed(environ: Mapping[str, str], own: str) -> str | None:
    """Return the first program of our name on the path that is not in our own directory."""
    mine = os.path.realpath(own)
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        found = os.path.join(directory, _NAME)
        if not os.path.isabs(directory) or os.path.realpath(directory) == mine:
            continue
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return None
