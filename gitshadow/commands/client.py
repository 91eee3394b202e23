"""The one way from a verb to the engine: the daemon where one answers, else in this process.

Invariant: the engine (and pygit2, sqlite3 with it) is imported only when no daemon answers.
"""

import os
import sys
from functools import cached_property
from typing import Generic, NamedTuple

from gitshadow.errors import (
    ExitCode,
    NotInitialisedError,
    RefusedError,
    ShadowError,
    StoreError,
    UnsupportedError,
    UsageError,
)
from gitshadow.messages.codec import A, JsonObject, Params, Q, Verb, decode, encode
from gitshadow.render.style import printable
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout, discover, is_bare


class Reply(Generic[A]):
    """The answer of a verb, as the document that was sent and as typed value."""

    def __init__(self, kind: type[A], document: JsonObject) -> None:
        self.document = document
        self._kind = kind

    @cached_property
    def answer(self) -> A:
        """Return the answer; the document is decoded at the first use."""
        return decode(self._kind, self.document)


def made_here(answer: A) -> Reply[A]:
    """Return an answer that this process made as a reply."""
    reply = Reply(type(answer), encode(answer))
    # Sets the cached property, so that nothing is decoded.
    reply.answer = answer
    return reply


def send(verb: Verb[Q, A], request: Q, *, root_hint: str | None = None) -> Reply[A]:
    """Have a verb answered here, by the daemon or in this process.

    The current directory goes along as `cwd`, in the spelling of documents, and relative to the top
    of the worktree, which a daemon in another container may have at another place. What became
    of undos that were interrupted is printed on standard error, whatever the verb.

    Args:
        verb: The verb.
        request: Its request; paths in the spelling of documents.
        root_hint: A directory in the worktree that is meant, if not the current one.

    Raises:
        ShadowError: what the engine raised, wherever it ran, with its exit code.
    """
    here = current_directory()
    layout = find_layout(root_hint)
    cwd = spelled(_below(layout.root, here))
    document = answer(layout, verb.name, {**encode(request), "cwd": cwd})
    raise_if_error(document)
    for note in recovered_notes(document):
        print(f"note: {printable(note)}", file=sys.stderr)
    return Reply(verb.answer, document)


def _below(root: str, directory: str) -> str:
    """Return a directory relative to the root, as it is where it is not below it."""
    if directory == root:
        return "."
    return directory.removeprefix(root.rstrip("/") + "/")


class _Recovered(NamedTuple):
    recovered: tuple[str, ...]


def recovered_notes(document: Params) -> tuple[str, ...]:
    """Return how interrupted undos ended, which the answer of any verb may say."""
    return decode(_Recovered, document).recovered


def raise_if_error(document: Params) -> None:
    """Raise the error that a document carries, if it carries one.

    Raises:
        ShadowError: of the class that the document's exit code stands for.
    """
    message, code = document.get("error"), document.get("exit")
    if not isinstance(message, str) or not isinstance(code, int):
        return
    hint = document.get("hint")
    kind = {ExitCode.USAGE: UsageError, ExitCode.REFUSED: RefusedError}.get(
        ExitCode(code) if code in list(ExitCode) else ExitCode.ERROR, ShadowError
    )
    error = kind(message, hint=hint if isinstance(hint, str) else None)
    cause = document.get("caused_by")
    raise error from (ShadowError(cause) if isinstance(cause, str) else None)


def find_layout(start: str | None = None) -> Layout:
    """Return the worktree that holds a directory.

    By default, that is the current one, or the one that `git --git-dir`, `--work-tree` or their
    variables name (git(1)). Hooks never come here: their variables are those of Git's command.

    Raises:
        UnsupportedError: there is none.
    """
    here = start or current_directory()
    named = [name for name in ("GIT_DIR", "GIT_WORK_TREE") if name in os.environ]
    if start is None and named and not _is_run_by_git():
        return _named_layout(named[0])
    layout = discover(here)
    if layout is not None:
        return layout
    if is_bare(here):
        raise UnsupportedError(
            "a bare repository has no working tree to record",
            hint="run this in one of its worktrees (git worktree add)",
        )
    raise UnsupportedError(
        "not in a Git working tree",
        hint="change to a repository, or create one with: git init",
    )


def recorded_layout(start: str | None = None) -> Layout:
    """Return the worktree that holds a directory, as `find_layout` does, if it is recorded.

    Raises:
        NotInitialisedError: it is not.
        UnsupportedError: there is none.
    """
    layout = find_layout(start)
    if not layout.initialised:
        raise NotInitialisedError(
            f"nothing is recorded in {layout.root}", hint="git agent-undo init"
        )
    return layout


def _is_run_by_git() -> bool:
    """Return whether a hook or an alias of a Git command runs this, perhaps of another repository.

    Git sets the first for the hooks of a commit, the second for all hooks and for aliases with `!`
    (githooks(5), git-config(1)). It sets neither for `git --git-dir=… agent-undo`.
    """
    return "GIT_INDEX_FILE" in os.environ or "GIT_PREFIX" in os.environ


def _named_layout(variable: str) -> Layout:
    """Return the worktree that the variables of Git name; the first of them is for messages."""
    # Imported only where such a variable is set.
    from gitshadow.store.user_git import named_worktree

    try:
        git_dir, root = named_worktree(os.environ)
    except StoreError as error:
        raise UnsupportedError(
            f"cannot use {variable} {os.environ[variable]}: {error}",
            hint="name a repository and its working tree: git --git-dir=… --work-tree=…",
        ) from error
    layout = discover(root)
    if layout is not None and git_dir == layout.git_dir:
        return layout
    raise UnsupportedError(
        f"cannot record {root}: nothing in it leads to its Git directory {git_dir}",
        hint=f"so that hooks find it, too: git config core.bare false,"
        f" and echo 'gitdir: {git_dir}' >{root}/.git",
    )


def current_directory() -> str:
    """Return the current directory.

    Raises:
        ShadowError: it was deleted.
    """
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise ShadowError(
            "cannot find the current directory: it was deleted",
            hint="change to a directory that exists",
        ) from error


def spelled(path: str) -> str:
    """Return a path of this system, as typed or as Python has it, as documents spell it.

    What begins with `"` and is Git's C-quoted form stays as it is, so that what our own
    output prints can be typed again.
    """
    if path.isascii() and not path.startswith('"'):
        return path
    # These imports take 10 ms, and most paths are plain ASCII.
    from gitshadow.model import RepoPath
    from gitshadow.store import refs

    if path.startswith('"'):
        try:
            refs.parse_path(path)
        except ShadowError:
            # The name of a file that only begins with a quote.
            pass
        else:
            return path
    return refs.display_path(RepoPath(os.fsencode(path)))
