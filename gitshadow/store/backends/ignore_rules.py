"""Git's ignore rules, by a `git check-ignore` that is kept open; gitignore(5).

The child reads a file of rules once. Invariant: it is asked only while every such file that
concerns a path looks as it did before the child read it; else another child is asked.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence

from gitshadow.errors import StoreError
from gitshadow.model import RepoPath
from gitshadow.store.backends.git_pipes import Answers, DeadError, GitPipe
from gitshadow.store.git import Git
from gitshadow.store.git_settings import FileStamp, stamp_of
from gitshadow.store.layout import Layout

_COMMAND = ("check-ignore", "--no-index", "--stdin", "-z", "-v")
_HERE = b"./"
_BEYOND_LINK = "beyond a symbolic link"
# A file that is written twice in one tick of the file system's clock looks the same afterwards.
_TICK_NS = 50_000_000


class IgnoreRules:
    """Answer for one worktree whether paths are ignored."""

    def __init__(
        self,
        layout: Layout,
        pipe: Callable[..., GitPipe],
        rule_files: Callable[[], Iterable[str]],
    ) -> None:
        """Use a function that opens a git command, and one that names files outside the tree."""
        self._root = layout.root
        self._pipe = pipe(*_COMMAND, "-n")
        self._outside = rule_files
        self._stamps: dict[str, FileStamp] = {}

    def is_ignored(self, path: str) -> bool:
        """Return whether exactly this path is ignored; a directory's ends in `/`.

        Raises:
            StoreError: git gives no answer.
        """
        asked_ns = time.time_ns()
        is_fresh = self._note(path, asked_ns)
        try:
            return self._pipe.ask(_asked(os.fsencode(path)), _is_match)
        except DeadError as error:
            self.let_go()
            if _BEYOND_LINK in error.said:
                return False
            raise StoreError(f"could not read ignore rules: {error.said}") from error
        finally:
            if is_fresh:
                self.let_go()

    def let_go(self) -> None:
        """End the child."""
        self._stamps.clear()
        self._pipe.close()

    def _note(self, path: str, now_ns: int) -> bool:
        """Note how the files of a path's rules look; return whether one has just changed.

        A child that read one of them when it looked otherwise is ended.
        """
        found = {name: stamp_of(name) for name in self._files(path)}
        known = self._stamps
        if any(known.get(name, stamp) != stamp for name, stamp in found.items()):
            self.let_go()
        self._stamps |= found
        times = (stamp[2] for stamp in found.values() if stamp is not None)
        return max(times, default=0) > now_ns - _TICK_NS

    def _files(self, path: str) -> Iterable[str]:
        yield from self._outside()
        parts = path.split("/")[:-1]
        for count in range(len(parts) + 1):
            yield os.path.join(self._root, *parts[:count], ".gitignore")


def rules_of(git: Git, paths: Sequence[RepoPath]) -> dict[RepoPath, str]:
    """Return for each ignored path the rule that ignores it, as `file:line:pattern`.

    Raises:
        StoreError: git gives no answer, as for several paths of which one is beyond a link.
    """
    if not paths:
        return {}
    try:
        out = git.run(*_COMMAND, stdin=b"".join(map(_asked, paths)), ok=(0, 1))
    except StoreError as error:
        if len(paths) == 1 and _BEYOND_LINK in error.message:
            return {}
        raise
    cells = iter(out.split(b"\0"))
    return {
        RepoPath(path.removeprefix(_HERE)): b":".join((source, line, pattern)).decode(
            "utf-8", "backslashreplace"
        )
        for source, line, pattern, path in zip(*[cells] * 4, strict=False)
        if _ignores(pattern)
    }


def _asked(path: bytes) -> bytes:
    """Return a path as the command reads it."""
    # It takes a `:` at the beginning for pathspec magic, and no option turns that off for it.
    return _HERE + path + b"\0"


def _is_match(answers: Answers) -> bool:
    _, _, pattern, _ = (answers.until_nul() for _ in range(4))
    return _ignores(pattern)


def _ignores(pattern: bytes) -> bool:
    """Return whether the pattern that decides has a path ignored; it is empty if none does."""
    return bool(pattern) and not pattern.startswith(b"!")
