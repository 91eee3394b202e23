"""Refs that go to other repositories and come from them, by `git push` and `git fetch`.

Invariant: these are the only calls that reach a network, and none is made unasked.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.git import Git


class RefResult(NamedTuple):
    """Hold what became of one ref: why the remote did not take it, whether it changed there."""

    refused: str | None = None
    changed: bool = True


def push(git: Git, remote: str, refspecs: Sequence[str]) -> dict[str, RefResult]:
    """Write refs to a remote; hooks of this repository are not run.

    Returns:
        What the remote said of each ref, by its name over there.

    Raises:
        StoreError: the remote cannot be reached.
    """
    how = ("push", "--no-verify", "--porcelain", "--no-follow-tags", "--")
    out = git.run(*how, remote, *refspecs, ok=(0, 1))
    found = dict(_pushed(out.decode("utf-8", "replace")))
    if not found:
        raise StoreError(f"cannot push to {remote}: it gave no reason")
    return found


def remote_refs(git: Git, remote: str, patterns: Sequence[str]) -> dict[str, Oid]:
    """Return the refs of a remote that fit patterns.

    Raises:
        StoreError: the remote cannot be reached.
    """
    out = git.run("ls-remote", "--refs", "--", remote, *patterns).decode(
        "utf-8", "replace"
    )
    rows = (row.split("\t", 1) for row in out.splitlines())
    return {row[1]: Oid(row[0]) for row in rows if len(row) == 2}


def fetch(git: Git, remote: str, refspecs: Sequence[str]) -> None:
    """Bring refs of a remote here, and nothing else: no tags, no FETCH_HEAD, no submodules.

    Raises:
        StoreError: it could not be done.
    """
    how = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    quiet = ("--quiet", "--no-auto-maintenance", "--refmap=", "--stdin")
    listed = "".join(f"{one}\n" for one in refspecs).encode("utf-8")
    git.run("fetch", *how, *quiet, "--", remote, stdin=listed)


def _pushed(said: str) -> Iterator[tuple[str, RefResult]]:
    """Read what git-push(1) prints with --porcelain: flag, refs and summary of each ref."""
    for row in said.splitlines():
        flag, *words = row.split("\t")
        if len(words) == 2 and ":" in words[0]:
            name = words[0].rpartition(":")[2]
            yield name, RefResult(words[1] if flag == "!" else None, flag != "=")
