"""Programs at login: a property list in ~/Library/LaunchAgents for each worktree.

launchd loads what is there at each login (launchd.plist(5)); no program is run.
"""

import hashlib
import os
import plistlib
from collections.abc import Mapping

from gitshadow.platform.port import LoginEntry, LoginService

_PREFIX, _SUFFIX = "git-agent-undo.", ".plist"


def _problem(environ: Mapping[str, str]) -> str | None:
    """Return None: launchd serves every user."""
    return None


def _entry(root: str, executable: str) -> LoginEntry:
    # A path may be longer than a name, and have characters that a label should not.
    label = _PREFIX + hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    content = plistlib.dumps(
        {
            "Label": label,
            "ProgramArguments": [executable, "daemon", "watch"],
            "WorkingDirectory": root,
            "RunAtLoad": True,
            # It ends well where the worktree is gone or another daemon records it.
            "KeepAlive": {"SuccessfulExit": False},
            "ProcessType": "Background",
        }
    )
    return LoginEntry(label + _SUFFIX, text=content.decode())


def _is_ours(path: str) -> bool:
    name = os.path.basename(path)
    is_named = name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    return is_named and os.path.isfile(path) and not os.path.islink(path)


SERVICE = LoginService(
    name="launchd",
    root="home",
    directory="Library/LaunchAgents",
    entries="",
    packaged=None,
    shown_as="a property list for launchd",
    note="launchd starts it at your next login",
    problem=_problem,
    entry=_entry,
    is_ours=_is_ours,
)
