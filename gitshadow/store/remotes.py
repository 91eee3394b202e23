"""Other repositories: refs that are pushed and fetched, and a bare repository of our own.

`push`, `remote_refs` and `fetch` are the only calls that reach a network, and only the user's own
commands make them. In the worktree's repository they change only the fetched refs.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from gitshadow.errors import StoreError, UnsupportedError
from gitshadow.model import Oid
from gitshadow.store.backends.plumbing import EXTENSION
from gitshadow.store.git import Git
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.refs import REF_PREFIX


class RefResult(NamedTuple):
    """The result of one ref: why the remote refused it, and whether it changed there."""

    refused: str | None = None
    changed: bool = True


def push(git: Git, remote: str, refspecs: Sequence[str]) -> dict[str, RefResult]:
    """Write refs to a remote; hooks of this repository are not run.

    Returns:
        The result of each ref, by its name on the remote.

    Raises:
        StoreError: the remote cannot be reached.
    """
    # Our own pre-push hook stops a push of shadow refs, and this one was asked for. Exit code 1
    # means that the remote refused some refs: the rows show which.
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
    """Fetch refs of a remote, and nothing else: no tags, no FETCH_HEAD, no submodules.

    Raises:
        UnsupportedError: Git would give the objects no second ids in this repository.
        StoreError: it could not be done.
    """
    if EXTENSION in git.settings("extensions"):
        # Git 2.55 cannot. A blob without one has the user's next commit of that content fail.
        raise UnsupportedError(
            "could not fetch: git stores what it fetches without the second ids that"
            " extensions.compatObjectFormat asks for"
        )
    how = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    # --refmap= switches the user's own refspecs off, which would move remote-tracking refs too; by
    # --stdin, because a list of refs can be longer than a command line.
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


def sends(specs: Iterable[str], namespace: str) -> bool:
    """Return whether push refspecs send any ref below a namespace (`refs/x/`).

    A negative one (`^refs/x/*`) excludes what others send, wherever it is in the list; in doubt
    the namespace counts as sent. git-push(1), gitglossary(7).
    """
    wanted = False
    for spec in specs:
        if spec.startswith("^"):
            if _covers(spec[1:], namespace):
                return False
        else:
            source = spec.removeprefix("+").partition(":")[0]
            wanted |= _meets(source, namespace)
    return wanted


def _meets(source: str, namespace: str) -> bool:
    before, star, _ = source.partition("*")
    if not star:
        return source.startswith(namespace)
    return namespace.startswith(before) or before.startswith(namespace)


def _covers(source: str, namespace: str) -> bool:
    before, star, after = source.partition("*")
    return bool(star) and not after and namespace.startswith(before)


class Bare:
    """One bare repository; errors are StoreErrors."""

    def __init__(self, git: Git, path: str) -> None:
        self._git = git
        self.path = path

    def make(self, form: ObjectFormat) -> None:
        """Create it with objects of a format, private whatever the umask, unless it exists."""
        if not os.path.exists(os.path.join(self.path, "HEAD")):
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            # Git cannot push between formats, and its default becomes another one with Git 3.0.
            how = ("--quiet", "--bare", "--shared=0600", f"--object-format={form.name}")
            self._run("init", *how)

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
        """Return which of some objects it has, reachable or not."""
        listed = "".join(f"{oid}\n" for oid in sorted(oids)).encode("ascii")
        out = self._run("cat-file", "--batch-check=%(objectname)", stdin=listed)
        lines = (line.split(" ") for line in out.decode("ascii").splitlines())
        return {Oid(words[0]) for words in lines if len(words) == 1}

    def keeps(self, ref: str, oids: Collection[Oid]) -> bool:
        """Return whether a ref reaches one of some objects.

        What branches and tags reach too does not count for a ref of ours.
        """
        apart = ("--not", "--branches", "--tags") if ref.startswith(REF_PREFIX) else ()
        out = self._run("rev-list", "--objects", "--no-object-names", ref, *apart)
        return not set(out.decode("ascii").split()).isdisjoint(oids)

    def scrub(self) -> None:
        """Remove what none of its refs reaches."""
        # Without --prune=now Git keeps unreachable objects for two weeks (git-gc(1)), and this
        # follows a purge of a secret.
        self._run("gc", "--quiet", "--prune=now")

    def _run(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> bytes:
        return self._git.run_in(self.path, *args, stdin=stdin, ok=ok)
