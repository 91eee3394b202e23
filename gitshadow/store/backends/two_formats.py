"""Objects of a repository in which Git keeps a second id of each (`extensions.compatObjectFormat`).

Git writes the pair of ids into a file of its own when it writes an object, never later; the format
of that file still changes. It cannot map a tree or commit that refers to an object without a pair,
and `git commit` then fails. An object of ours that Git finds in its place, as the blob of a file
that is staged, must therefore be one that Git has written itself.
"""

import os
import time
from collections.abc import Mapping

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.backends.port import STORE_HINT
from gitshadow.store.git import Git
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.objects import LooseObjects, pack_of
from gitshadow.store.shared_modes import SharedModes

EXTENSION = "extensions.compatobjectformat"
# Git waits for this lock without an end, and keeps it for one line (loose.c).
_LOCK = "loose-object-idx.lock"
_WAIT_S = 5.0
_LOOK_S = 0.01
# Git's words, which LC_ALL=C keeps in English (object-file-convert.c).
_UNMAPPED = ("failed to map", "failed to convert object")


class TwoFormats:
    """Write objects so that Git knows both ids of each."""

    def __init__(
        self, git: Git, objects_dir: str, form: ObjectFormat, modes: SharedModes
    ) -> None:
        self._git = git
        self._form = form
        self._loose = LooseObjects(objects_dir, form, modes)
        self._lock = os.path.join(objects_dir, _LOCK)

    def write(self, objects: Mapping[Oid, tuple[str, bytes]]) -> None:
        """Store objects, each with its kind and content; what one refers to comes before it.

        Raises:
            OSError: the system refused.
            StoreError: Git could not store them.
        """
        if self._unpacked(objects):
            return
        # From the first that has no second id on, Git has stored none of them.
        for oid, (kind, data) in objects.items():
            if not self._unpacked({oid: (kind, data)}):
                # It refers to what Git got without writing it, as by a clone. Git cannot commit
                # such a tree either.
                self._loose.write(kind, data, oid)

    def _unpacked(self, objects: Mapping[Oid, tuple[str, bytes]]) -> bool:
        """Have Git store objects as loose ones; return whether each has a second id."""
        self._await_lock()
        # One process for all: `git hash-object` takes one kind at a time, and refuses what
        # git-fsck(1) warns of.
        data = pack_of(objects, self._form).pack_data
        try:
            self._git.run("unpack-objects", "-q", stdin=data)
        except StoreError as error:
            if any(words in error.message.lower() for words in _UNMAPPED):
                return False
            why = error.message.removeprefix("cannot run git unpack-objects: ")
            text = f"could not write to the object store: {why}"
            raise StoreError(text, hint=error.hint or STORE_HINT) from error
        return True

    def _await_lock(self) -> None:
        """Wait while another process has the lock.

        Raises:
            StoreError: it was left behind.
        """
        deadline = time.monotonic() + _WAIT_S
        while os.path.exists(self._lock):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"could not write to the object store: {self._lock} exists",
                    hint="if no git process runs, remove this file",
                )
            time.sleep(_LOOK_S)
