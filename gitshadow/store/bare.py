"""A bare repository of ours beside the user's: settings and refs, by git children.

Invariant: nothing of the repository that a worktree belongs to is touched.
"""

import os
from collections.abc import Collection, Sequence

from gitshadow.model import Oid
from gitshadow.store.git import Git
from gitshadow.store.refs import REF_PREFIX


class Bare:
    """Use one bare repository; errors are StoreErrors."""

    def __init__(self, git: Git, path: str) -> None:
        self._git = git
        self.path = path

    def make(self) -> None:
        """Make it, private whatever the umask, unless it is there."""
        if not os.path.exists(os.path.join(self.path, "HEAD")):
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._run("init", "--quiet", "--bare", "--shared=0600")

    def put(self, key: str, value: str) -> None:
        """Set one value of its configuration."""
        self._run("config", "--replace-all", key, value)

    def get(self, key: str) -> str | None:
        """Return a value of its configuration, None for none."""
        out = self._run("config", "--get", key, ok=(0, 1))
        return out.decode("utf-8", "surrogateescape").removesuffix("\n") or None

    def refs(self) -> dict[str, Oid]:
        """Return all its refs."""
        out = self._run("for-each-ref", "--format=%(objectname) %(refname)")
        lines = out.decode("utf-8", "replace").splitlines()
        rows = (line.split(" ", 1) for line in lines)
        return {name: Oid(oid) for oid, name in rows}

    def drop(self, names: Sequence[str]) -> None:
        """Delete some of its refs."""
        listed = "".join(f"delete {name}\n" for name in names)
        self._run("update-ref", "--stdin", stdin=listed.encode("utf-8"))

    def having(self, oids: Collection[Oid]) -> set[Oid]:
        """Return which of some objects are there, reachable or not."""
        listed = "".join(f"{oid}\n" for oid in sorted(oids)).encode("ascii")
        out = self._run("cat-file", "--batch-check=%(objectname)", stdin=listed)
        lines = (line.split(" ") for line in out.decode("ascii").splitlines())
        return {Oid(words[0]) for words in lines if len(words) == 1}

    def keeps(self, ref: str, oids: Collection[Oid]) -> bool:
        """Tell whether a ref reaches one of some objects; one of ours beside the user's refs."""
        apart = ("--not", "--branches", "--tags") if ref.startswith(REF_PREFIX) else ()
        out = self._run("rev-list", "--objects", "--no-object-names", ref, *apart)
        return not set(out.decode("ascii").split()).isdisjoint(oids)

    def scrub(self) -> None:
        """Remove what none of its refs reaches, at once."""
        self._run("gc", "--quiet", "--prune=now")

    def _run(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> bytes:
        return self._git.run_in(self.path, *args, stdin=stdin, ok=ok)
