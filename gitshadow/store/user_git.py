"""Run git as the user would: with their environment, hooks, editor, signing and terminal.

Only for the verbs that make the user's own commits. Everything else goes through `store.git`.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.layout import Layout

# They name a repository, an index or an object store, which must be those of the layout; the rest
# of GIT_* is the user's choice, such as an author, an editor or a date (git(1), environment).
_OF_A_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
_STDERR = 2


class UserGit:
    """Run git in one worktree."""

    def __init__(self, layout: Layout, environ: Mapping[str, str]) -> None:
        self._root = layout.root
        self._env = {
            name: value
            for name, value in environ.items()
            if name not in _OF_A_REPOSITORY
        }

    def head(self) -> Oid | None:
        """Return HEAD's commit, None if it is unborn."""
        out = self._output("rev-parse", "--quiet", "--verify", "HEAD", ok=(0, 1))
        return Oid(out) if out else None

    def commit(self, index: str, message: str, options: Sequence[str]) -> int:
        """Run git-commit(1) with an index file; return its exit code.

        Its hooks, its editor and its signing program run as they always do. What they print goes
        to standard error.
        """
        words = ["git", "commit", "--quiet", *options, "--file=-"]
        if "--edit" in options:
            # The editor needs standard input, so the message must be in a file.
            return self._edited(index, message, options)
        done = subprocess.run(
            words,
            cwd=self._root,
            env={**self._env, "GIT_INDEX_FILE": index},
            input=message.encode("utf-8", "surrogateescape"),
            stdout=_STDERR,
            check=False,
        )
        return done.returncode

    def commit_tree(self, tree: str, parent: str, message: str) -> Oid:
        """Make a commit that no ref names; it is signed if `commit.gpgSign` says so.

        Raises:
            StoreError: git could not do it.
        """
        signs = self._output("config", "--bool", "commit.gpgSign", ok=(0, 1)) == "true"
        words = ["commit-tree", tree, "-p", parent, *(("-S",) if signs else ())]
        return Oid(self._output(*words, "-F", "-", stdin=message))

    def move_branch(self, branch: str, new: str, old: str, why: str) -> None:
        """Move a branch if it still is at `old`.

        Raises:
            StoreError: it is not, or git could not do it.
        """
        self._output("update-ref", "-m", why, f"refs/heads/{branch}", new, old)

    def _edited(self, index: str, message: str, options: Sequence[str]) -> int:
        path = f"{index}.message"
        try:
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as out:
                out.write(message)
            done = subprocess.run(
                ["git", "commit", "--quiet", *options, f"--file={path}"],
                cwd=self._root,
                env={**self._env, "GIT_INDEX_FILE": index},
                check=False,
            )
            return done.returncode
        finally:
            os.unlink(path)

    def _output(self, *words: str, stdin: str = "", ok: Sequence[int] = (0,)) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self._root,
            env=self._env,
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            check=False,
        )
        if done.returncode not in ok:
            said = done.stderr.decode("utf-8", "replace").strip()
            why = "; ".join(said.splitlines()) or f"exit {done.returncode}"
            raise StoreError(f"cannot run git {words[0]}: {why}")
        return done.stdout.decode("ascii", "replace").strip()


def named_worktree(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the Git directory and the worktree that variables of Git name, as Git reads them.

    Raises:
        StoreError: they name none.
    """
    asked = ("git", "rev-parse", "--absolute-git-dir", "--show-toplevel")
    done = subprocess.run(asked, capture_output=True, check=False, env=dict(environ))
    found = os.fsdecode(done.stdout).splitlines()
    if done.returncode or len(found) != 2:
        raise StoreError(os.fsdecode(done.stderr).removeprefix("fatal: ").strip())
    return os.path.realpath(found[0]), found[1]
