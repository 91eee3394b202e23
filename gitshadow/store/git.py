"""Every call of the `git` program: short functions that return plain data.

Children run without a shell and without the GIT_* variables of our environment. Nothing here writes
to the repository unless the function's name says so.
"""

import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

from gitshadow.errors import StoreError, shortage_behind
from gitshadow.model import Oid, RepoPath
from gitshadow.platform import current
from gitshadow.store.git_settings import scrubbed_environment, without_hooks
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import OID_PATTERN, format_of

# A repository can be hostile, and the user may be at work in it. `git status` alone would run
# `core.fsmonitor` and the post-index-change hook, would take index.lock to refresh the index, and
# any writing command could start a gc in the background.
SAFE = (
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
# In a partial clone Git fetches a missing object when it is read, and runs `remote.*.uploadpack` of
# the repository's configuration for that. GIT_NO_LAZY_FETCH is known to git 2.45 and later.
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
_ONLINE = ("push", "fetch", "ls-remote")
_HOOKED = (*_ONLINE, "update-ref", "read-tree", "update-index")  # they run hooks
_TIMEOUT_S = 600.0
# Packing takes seconds of the processor; the user's own work comes first.
_NICE = 10
_LOOK_S = 0.1
OF_THE_USER = (
    "--exclude=refs/agent-undo/*",
    "--exclude=refs/remotes/agent-undo/*",
    "--all",
    "--reflog",
)
"""What the user's own refs and reflogs reach, as arguments of git-rev-list(1)."""
# Git's defaults. With -1 it would wait without an end for a lock that was left behind.
WAITING = (
    *("-c", "core.filesRefLockTimeout=100"),
    *("-c", "core.packedRefsTimeout=1000"),
    *("-c", "reftable.lockTimeout=100"),
)
AS_STORED = "--no-replace-objects"
"""Follow what objects really refer to, as git-gc(1) does, before the name of a command.

What git-replace(1) hides is in the repository all the same.
"""
# What is missing is an error unless the remote of a partial clone has it.
_OBJECTS = (AS_STORED, "rev-list", "--objects", "--missing=allow-promisor")
_PARTIAL = r"^(extensions\.partialclone|remote\..*\.promisor)$"
_MISSING = re.compile(rf"^missing \w+ ({OID_PATTERN})$", re.MULTILINE)
_OIDS = re.compile(rf"\b{OID_PATTERN}\b")


class StoppedError(StoreError):
    """Work was stopped on request before it was done."""


class TreeDelta(NamedTuple):
    """One file between two trees: its mode and oid before and after, None if absent."""

    path: RepoPath
    old_path: RepoPath
    old: tuple[int, Oid] | None
    new: tuple[int, Oid] | None


def _deltas(words: Sequence[bytes]) -> Iterator[TreeDelta]:
    """Read git-diff-tree(1)'s raw format with -z: facts, then one name, or two of a rename."""
    at = 0
    while at + 1 < len(words):
        facts, name = words[at].decode("ascii").lstrip(":").split(" "), words[at + 1]
        moved = facts[4][:1] in ("R", "C")
        new_name = words[at + 2] if moved else name
        yield TreeDelta(
            RepoPath(new_name),
            RepoPath(name),
            _side(facts[0], facts[2]),
            _side(facts[1], facts[3]),
        )
        at += 3 if moved else 2


def _side(mode: str, oid: str) -> tuple[int, Oid] | None:
    return None if mode == "000000" else (int(mode, 8), Oid(oid))


class Feed:
    """A running git command, its input, and a file with its answers."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        answers: IO[bytes],
        args: Sequence[str],
    ) -> None:
        self._child = child
        self._answers = answers
        self._args = args

    def write(self, rows: bytes) -> None:
        """Give it more input; a command that has ended takes none, and `answers` says so."""
        with suppress(BrokenPipeError):
            if self._child.stdin is not None:
                self._child.stdin.write(rows)

    def answers(self) -> bytes:
        """End the input; return all that it answered.

        Raises:
            StoreError: it failed.
        """
        with suppress(BrokenPipeError):
            if self._child.stdin is not None:
                self._child.stdin.close()
        if self._child.wait() != 0:
            raise _failure(self._args, self._child.returncode, b"")
        self._answers.seek(0)
        return self._answers.read()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child, and end one that nobody listens to any more."""
    with suppress(BrokenPipeError):
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()
    child.wait()


class Git:
    """Run git for one worktree."""

    def __init__(self, layout: Layout, environ: dict[str, str]) -> None:
        self._layout = layout
        self._env = scrubbed_environment(environ)

    def run(
        self,
        *args: str | bytes,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        index: str | None = None,
    ) -> bytes:
        """Run one git command in the worktree; return its standard output.

        Args:
            args: The command.
            stdin: What it reads.
            ok: Exit codes that are no failure.
            index: Another index file than the worktree's, for reading alone.

        Raises:
            StoreError: it could not be started, or its exit code is not in `ok`.
        """
        named = {} if index is None else {"GIT_INDEX_FILE": index}
        named |= {} if args[0] in _ONLINE else OFFLINE
        if _verb(args) in _HOOKED:
            named |= without_hooks(self.settings("hook"))
        done = self._start((*self._place(), *args), stdin, named)
        if done.returncode not in ok:
            raise _failure(args, done.returncode, done.stderr)
        return done.stdout

    def labour(
        self,
        *args: str,
        stdin: bytes = b"",
        stopping: Callable[[], bool],
        environ: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run long work that writes objects or removes loose ones, at a low priority.

        Args:
            args: The command.
            stdin: What it reads.
            stopping: Asked ten times a second; the child is ended when it says so.
            environ: Variables of its own, as where objects are to be written.

        Raises:
            StoppedError: it was stopped.
            StoreError: it could not be started, or it failed.
        """
        pipes = (subprocess.PIPE,) * 3
        child = self._child(args, *pipes, environ=environ)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child.pid, _NICE)
        with child:
            out, said = _awaited(child, stdin, stopping)
        if child.returncode != 0:
            raise _failure(args, child.returncode, said)
        return out

    @contextmanager
    def feed(self, *args: str) -> Iterator["Feed"]:
        """Run one git command that answers each line of its input, in parallel to the caller.

        Raises:
            StoreError: it could not be started, or it failed; at the end of the block.
        """
        with current().machine_facts().unnamed_file() as answers:
            child = self._child(args, subprocess.PIPE, answers)
            try:
                yield Feed(child, answers, args)
            finally:
                _end(child)

    def lines(self, *args: str | bytes, most: int = 1 << 20) -> Iterator[bytes]:
        """Yield what one git command prints, at most so many bytes at a time.

        Raises:
            StoreError: it could not be started, or it failed.
        """
        with current().machine_facts().unnamed_file() as said:
            child = self._child(args, subprocess.DEVNULL, subprocess.PIPE, said)
            try:
                while part := child.stdout.read(most) if child.stdout else b"":
                    yield part
            finally:
                _end(child)
            if child.returncode != 0:
                said.seek(0)
                raise _failure(args, child.returncode, said.read())

    def _child(
        self,
        args: Sequence[str | bytes],
        stdin: int,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["git", *SAFE, *self._place(), *args],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=self._layout.root,
                env={**self._env, **OFFLINE, **(environ or {})},
            )
        except OSError as error:
            raise unstarted(error) from error

    def _place(self) -> tuple[str, str]:
        layout = self._layout
        return f"--git-dir={layout.git_dir}", f"--work-tree={layout.root}"

    def _start(
        self, words: Sequence[str | bytes], stdin: bytes, named: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", *SAFE, *words],
                input=stdin,
                capture_output=True,
                check=False,
                cwd=self._layout.root,
                env={**self._env, **named},
                timeout=_TIMEOUT_S,
            )
        except OSError as error:
            raise unstarted(error) from error
        except subprocess.TimeoutExpired as error:
            raise StoreError(f"cannot run git: {error}") from error

    def discovered(self, *args: str) -> bytes:
        """Run one command that finds the repository itself, so that Git checks its owner.

        Raises:
            StoreError: it could not be started, or Git does not open the repository.
        """
        done = self._start(args, b"", OFFLINE)
        if done.returncode != 0:
            raise _failure(args, done.returncode, done.stderr)
        return done.stdout

    def settings(self, section: str) -> dict[str, list[str]]:
        """Return all values of a section of the configuration, by full name in lower case."""
        pattern = f"^{section}\\."
        out = self.run("config", "-z", "--get-regexp", pattern, ok=(0, 1))
        found: dict[str, list[str]] = {}
        for row in out.split(b"\0"):
            name, marked, value = row.decode("utf-8", "surrogateescape").partition("\n")
            if name:
                found.setdefault(name, []).append(value if marked else "true")
        return found

    def version(self) -> tuple[int, ...]:
        """Return git's version as numbers, `(2, 39, 5)`."""
        words = self.run("version").decode("ascii", "replace").split()
        numbers = words[2].split(".") if len(words) > 2 else []
        return tuple(int(part) for part in numbers if part.isdigit())

    def patch(self, *args: str | bytes) -> bytes:
        """Return a diff in Git's own format, without external diff or text conversion."""
        plain = ("--no-ext-diff", "--no-textconv", "--no-color")
        return self.run("diff", *plain, *args, ok=(0, 1))

    def blame(
        self, commit: Oid, path: RepoPath, *, options: Sequence[str] = ()
    ) -> bytes:
        """Return `git blame --porcelain` of a path in a commit, whatever is configured."""
        plain = ("--no-textconv", "--no-progress", "--ignore-revs-file=")
        how = ("-c", "core.quotePath=true", "blame", "--porcelain", *plain, *options)
        return self.run(*how, commit, "--", path)

    def named_lines(self, commit: Oid, path: RepoPath, ranges: Sequence[str]) -> bytes:
        """Return `git blame --porcelain` of the parts of a path in a commit that `-L` names."""
        # Git finds the lines, because matching in Python's dialect found others. `^!` keeps it from
        # searching the history, which is not asked for.
        parts = [f"-L{one}" for one in ranges]
        how = ("blame", "--porcelain", "--no-textconv", "--ignore-revs-file=")
        return self.run(*how, *parts, f"{commit}^!", "--", path)

    def unreachable(self, commits: Sequence[Oid], base: Oid) -> set[Oid]:
        """Return which of some commits are no ancestors of another one."""
        out = self.run("rev-list", "--no-walk", *commits, "--not", base)
        return set(_oids(out))

    def changes(self, old: Oid | None, new: Oid) -> list["TreeDelta"]:
        """Return the files that differ between two commits, renames as one, by path.

        None stands for the empty tree.
        """
        how = ("-r", "-z", "-M", "--raw", "--no-abbrev")
        out = self.run("diff-tree", *how, old or format_of(new).empty_tree, new)
        return sorted(_deltas(out.split(b"\0")))

    def staged_changes(self, base: Oid, index: str | None) -> list[TreeDelta]:
        """Return what an index has other than a tree; what is in conflict is left out.

        Args:
            base: A tree, or a commit for its tree.
            index: The index file; None: the worktree's own.
        """
        how = ("--cached", "--raw", "-z", "-M", "--no-abbrev", "--diff-filter=u")
        out = self.run("diff-index", *how, base, index=index)
        return list(_deltas(out.split(b"\0")[:-1]))

    def sizes(self, blobs: Sequence[Oid]) -> dict[Oid, int]:
        """Return the sizes of objects in bytes; missing ones are left out."""
        return self._sizes(blobs, "%(objectsize)")

    def _sizes(self, oids: Sequence[Oid], size: str) -> dict[Oid, int]:
        how = ("--buffer", f"--batch-check=%(objectname) {size}")
        out = self.run("cat-file", *how, stdin=_listed(oids)).decode("ascii")
        rows = (row.split(" ") for row in out.splitlines())
        return {Oid(oid): int(size) for oid, size in rows if size.isdigit()}

    def all_objects(self) -> list[tuple[Oid, str, int]]:
        """Return every object that there is, reachable or not: its kind and its size in bytes."""
        how = ("--batch-all-objects", "--unordered", "--buffer")
        form = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
        rows = self.run("cat-file", *how, form).decode("ascii").splitlines()
        return [(Oid(o), kind, int(size)) for o, kind, size in map(str.split, rows)]

    def refs_with(self, commit: Oid) -> list[str]:
        """Return the refs that reach a commit, sorted."""
        out = self.run("for-each-ref", "--format=%(refname)", f"--contains={commit}")
        return sorted(out.decode("utf-8", "replace").splitlines())

    def forsaken(self, commits: Collection[Oid]) -> set[Oid]:
        """Return which of some commits no ref, HEAD or reflog of the user's reaches."""
        if not commits:
            return set()
        how = (AS_STORED, "rev-list", *sorted(commits))
        out = self.run(*how, "--not", *OF_THE_USER)
        return set(commits) & set(_oids(out))

    def reached_by_user(self) -> tuple[set[Oid], set[Oid]]:
        """Return what the user's refs, reflogs and index reach, and what stops the search.

        What stops it is missing, broken or next to such an object; the first is then a part.

        Raises:
            StoreError: git could not be started, or stops for another reason.
        """
        how = ("--objects", "--no-object-names", "--indexed-objects", "--missing=print")
        args = (AS_STORED, "rev-list", *how, *OF_THE_USER)
        done = self._start((*self._place(), *args), b"", OFFLINE)
        rows = done.stdout.decode("ascii").split()
        stops = _OIDS.findall(done.stderr.decode("ascii", "replace"))
        if done.returncode != 0 and not stops:
            raise _failure(args, done.returncode, done.stderr)
        stops += [row[1:] for row in rows if row[:1] == "?"]
        return set(map(Oid, rows)), set(map(Oid, stops))

    def holding_below(
        self, blobs: Collection[Oid], trees: Collection[Oid]
    ) -> list[tuple[Oid, RepoPath]]:
        """Return which of some contents lie in trees, and as what; as `holding`."""
        listed = _listed(sorted(trees))
        return _held(self.run(*_OBJECTS, "--stdin", stdin=listed), blobs)

    def holding(
        self, blobs: Collection[Oid], *which: str
    ) -> list[tuple[Oid, RepoPath]]:
        """Return which of some contents `which` (git-rev-list(1)) reaches, each with one name."""
        return _held(self.run(*_OBJECTS, *which), blobs)

    def reachable(self, tips: Sequence[Oid], without: Sequence[Oid]) -> list[Oid]:
        """Return every object that some commits reach and others do not."""
        # `^commit` alone does not exclude what that commit has if it is no ancestor of a tip: Git
        # has no need to look into its tree. `^commit^{tree}` does.
        others = (f"^{oid}\n^{oid}^{{tree}}\n" for oid in without)
        asked = "".join([*(f"{oid}\n" for oid in tips), *others])
        how = (*_OBJECTS, "--no-object-names", "--stdin")
        out = self.run(*how, stdin=asked.encode("ascii")) if tips else b""
        return _oids(out)

    def disk_sizes(self, oids: Sequence[Oid]) -> dict[Oid, int]:
        """Return the bytes that objects take where they are, deltas and compression counted."""
        return self._sizes(oids, "%(objectsize:disk)")

    def missing(self, tips: Sequence[Oid]) -> list[Oid]:
        """Return the missing objects that commits need and HEAD does not.

        Raises:
            StoreError: a tip itself, or what HEAD needs, is not there.
        """
        how = ("--objects", "--missing=print", "--no-object-names", "--stdin")
        # `^HEAD` would be an error where HEAD is unborn.
        born = self.run("rev-parse", "-q", "--verify", "HEAD", ok=(0, 1))
        without = b"^HEAD\n" if born else b""
        listed = _listed(tips)
        out = self.run(AS_STORED, "rev-list", *how, stdin=listed + without)
        return [Oid(row[1:].decode()) for row in out.split(b"\n") if row[:1] == b"?"]

    def is_partial(self) -> bool:
        """Return whether a remote keeps objects for the repository (git-clone(1), --filter)."""
        return bool(self.run("config", "--get-regexp", _PARTIAL, ok=(0, 1)))

    def lost(self, missing: Iterable[Oid]) -> list[Oid]:
        """Return which of some missing objects no remote has promised: those are really lost."""
        found = [*missing]
        theirs = self.not_promised() if found else None
        return found if theirs is None else [oid for oid in found if oid in theirs]

    def not_promised(self) -> frozenset[str] | None:
        """Return all missing objects of a partial clone that no remote has; None elsewhere.

        That takes as long as to list all objects, because only git-fsck(1) says it.
        """
        if not self.is_partial():
            return None
        how = ("--connectivity-only", "--no-dangling", "--no-progress")
        # It ends with these where objects are missing, or errors were found.
        said = self.run("fsck", *how, ok=range(16)).decode("utf-8", "replace")
        return frozenset(_MISSING.findall(said))

    def commits_between(self, base: Oid | None, tip: Oid) -> list[Oid]:
        """Return the ancestors of one commit that are none of another's, oldest first.

        In topological order, the commit itself among them; `base` None excludes nothing.
        """
        without = () if base is None else ("--not", base)
        out = self.run("rev-list", "--topo-order", "--reverse", tip, *without, "--")
        return _oids(out)

    def all_commits(
        self, tips: Sequence[Oid], base: Oid | None, most: int
    ) -> list[Oid]:
        """Return the newest commits of some tips and of reflogs that are no ancestors of one."""
        without = [] if base is None else [f"^{base}"]
        listed = _listed([*dict.fromkeys(tips), *without])
        how = ("--topo-order", f"--max-count={most}", "--ignore-missing", "--reflog")
        return _oids(self.run("rev-list", *how, "--stdin", stdin=listed))

    def with_trailers(
        self, message: bytes, trailers: Sequence[tuple[str, str]], comment: str
    ) -> bytes:
        """Return a commit message with trailers, each added unless the message has it.

        Raises:
            StoreError: Git could not do it.
        """
        added = [f"--trailer={key}: {value}" for key, value in trailers]
        how = ("interpret-trailers", "--if-exists=addIfDifferent", *added)
        # Not in the repository: Git would run the `trailer.*.command` of its configuration.
        nowhere = ("--git-dir=" + os.devnull, "-c", f"core.commentChar={comment}")
        done = self._start((*nowhere, *how), message, OFFLINE)
        if done.returncode:
            raise StoreError(f"could not add trailers: git exit {done.returncode}")
        return done.stdout

    def put_ref(self, name: str, new: Oid, old: Oid | None) -> None:
        """Write a ref of the user's if it still is at `old` (None: absent)."""
        self.run("update-ref", name, new, old or format_of(new).null)

    def drop_ref(self, name: str, old: Oid) -> None:
        """Delete a ref of the user's if it still is at `old`."""
        self.run("update-ref", "-d", name, old)

    def descends(self, tip: Oid, from_: Oid) -> bool:
        """Return whether a commit descends from another, or is it; False if one is missing."""
        how = ("merge-base", "--is-ancestor", from_, tip)
        try:
            self.run(*how)
        except StoreError:
            return False
        return True

    def merge_base(self, one: Oid, other: Oid) -> Oid | None:
        """Return the newest common ancestor of two commits, None if they have none."""
        out = self.run("merge-base", one, other, ok=(0, 1)).decode("ascii").split()
        return Oid(out[0]) if out else None

    def commits_saying(self, tip: Oid, pattern: str) -> list[Oid]:
        """Return the commits up to one whose message has a line like a pattern, newest first.

        In topological order. The pattern is an extended regular expression; case does not count.
        """
        return self._commits("-i", "-E", f"--grep={pattern}", tip)

    def commits_by(self, tip: Oid, patterns: Sequence[str]) -> list[Oid]:
        """Return the commits up to one whose author is like one of some texts, newest first.

        In topological order, as `commits_saying`.
        """
        return self._commits("-i", "-F", *(f"--author={one}" for one in patterns), tip)

    def _commits(self, *args: str) -> list[Oid]:
        out = self.run("rev-list", "--topo-order", *args, "--")
        return _oids(out)

    def touched(self, commits: Sequence[Oid]) -> set[RepoPath]:
        """Return the paths that commits changed; of a merge those that differ from each parent."""
        how = ("-r", "-z", "-c", "--root", "--no-commit-id", "--name-only", "--stdin")
        listed = _listed(commits)
        out = self.run("diff-tree", "--no-renames", *how, stdin=listed)
        return {RepoPath(name) for name in out.split(b"\0") if name}

    def renames(self, since: Oid, tip: Oid) -> list[tuple[RepoPath, RepoPath]]:
        """Return old and new name of every file that was renamed from one commit to another."""
        listed = self.run("rev-list", "--no-merges", tip, "--not", f"{since}^@", "--")
        how = ("-r", "-z", "-M", "--diff-filter=R", "--name-status", "--no-commit-id")
        out = self.run("diff-tree", *how, "--stdin", stdin=listed)
        words = [word for word in out.split(b"\0") if word]
        triples = zip(*[iter(words)] * 3, strict=False)
        return [(RepoPath(old), RepoPath(new)) for _, old, new in triples]

    def run_in(
        self, git_dir: str, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)
    ) -> bytes:
        """Run one git command in another repository on this machine; return its output.

        Raises:
            StoreError: it could not be started, or its exit code is not in `ok`.
        """
        done = self._start((f"--git-dir={git_dir}", *args), stdin, OFFLINE)
        if done.returncode not in ok:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise StoreError(f"cannot use {git_dir}: {said or done.returncode}")
        return done.stdout


def _listed(oids: Collection[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode("ascii")


def _oids(out: bytes) -> list[Oid]:
    return [Oid(line) for line in out.decode("ascii").split()]


def _held(listing: bytes, blobs: Collection[Oid]) -> list[tuple[Oid, RepoPath]]:
    rows = (line.partition(b" ") for line in listing.splitlines())
    found = {(Oid(oid.decode("ascii")), RepoPath(path)) for oid, _, path in rows}
    return sorted(pair for pair in found if pair[0] in blobs)


def _awaited(
    child: subprocess.Popen[bytes], stdin: bytes, stopping: Callable[[], bool]
) -> tuple[bytes, bytes]:
    feed: bytes | None = stdin
    while True:
        try:
            return child.communicate(feed, timeout=_LOOK_S)
        except subprocess.TimeoutExpired:
            # After a timeout `communicate` continues with the input that it was given first
            # (subprocess, "communicate").
            feed = None
        if stopping():
            child.kill()
            child.communicate()
            raise StoppedError("could not finish: it was stopped")


def unstarted(error: OSError) -> StoreError:
    """Return why git could not be started, and what to do if the system is short of something."""
    short = shortage_behind(error)
    why = error.strerror or str(error)
    return StoreError(f"cannot run git: {why}", hint=short.hint if short else None)


def _failure(args: Sequence[str | bytes], code: int, stderr: bytes) -> StoreError:
    said = "; ".join(stderr.decode("utf-8", "replace").strip().splitlines())
    return StoreError(f"cannot run git {_verb(args)}: {said or f'exit {code}'}")


def _verb(args: Sequence[str | bytes]) -> str:
    skipped = int(args[:1] == (AS_STORED,))
    while args[skipped : skipped + 1] == ("-c",):
        skipped += 2
    first = args[skipped] if args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else first
