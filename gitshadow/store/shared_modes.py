"""The permissions of new files in a repository that several users share: core.sharedRepository.

Git and its plumbing give them to what they write, libgit2 does not. A directory of objects without
them keeps every other user from writing objects whose ids begin like it.
"""

import os
import stat
from contextlib import suppress
from typing import Final

SETTING = "core.sharedrepository"
_GROUP, _ALL = 0o660, 0o664
_NAMED = {
    "umask": 0,
    "false": 0,
    "no": 0,
    "off": 0,
    "": 0,
    "group": _GROUP,
    "true": _GROUP,
    "yes": _GROUP,
    "on": _GROUP,
    "all": _ALL,
    "world": _ALL,
    "everybody": _ALL,
}
# What `git init --shared` writes for two of them.
_NUMBERED = {0: 0, 1: _GROUP, 2: _ALL}
_OWN = 0o600


class SharedModes:
    """What `core.sharedRepository` says; see `git_config_perm` in Git's setup.c."""

    def __init__(self, setting: str | None) -> None:
        """Parse the value of the setting; None, and one that Git refuses, is the umask's."""
        text = (setting or "").lower()
        number = int(text, 8) if text and not text.strip("01234567") else None
        named = _NAMED.get(text, 0) if number is None else _NUMBERED.get(number)
        # A number is the whole mode; a name adds to what the umask has left.
        is_whole = named is None and number is not None and number & _OWN == _OWN
        self._whole: Final = number & 0o666 if is_whole and number else 0
        self._added: Final = named or 0

    def adjust(self, path: str) -> None:
        """Change the permissions of a new file or directory as `adjust_shared_perm` (path.c) does.

        Raises:
            OSError: it is gone, or the system refused.
        """
        if not self._whole and not self._added:
            return
        old = os.lstat(path).st_mode
        bits = self._whole or self._added
        if not old & stat.S_IWUSR:
            bits &= ~0o222
        if old & stat.S_IXUSR:
            bits |= (bits & 0o444) >> 2
        new = (old & ~0o777 if self._whole else old) | bits
        if stat.S_ISDIR(old):
            new |= (new & 0o444) >> 2
            # What is made in it is of the same group.
            new |= stat.S_ISGID if new & 0o060 else 0
        if new != old:
            os.chmod(path, stat.S_IMODE(new))

    def adjust_below(self, top: str, name: str) -> None:
        """Do so for a file and the directories that lead to it, as far as they are the user's."""
        if not self._whole and not self._added:
            return
        path = top
        for part in name.split("/"):
            path = os.path.join(path, part)
            with suppress(OSError):
                self.adjust(path)


BY_UMASK = SharedModes(None)
