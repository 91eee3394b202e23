"""A real repository that reads as sentences: `repo.write("a", "x")`, `repo.git("log")`."""

import atexit
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gitshadow.store.object_format import ObjectFormat, format_named
from tests.support.fork_server import umask
from tests.support.waiting import HANGS_S

PathLike = str | bytes
SHADOW_REFS = "refs/agent-undo/"
TEMP_PREFIX = b".agent-undo-tmp-"

# Helper commits alone have fixed dates: the times of shadow commits must stay true.
_DATES = {
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00+00:00",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00+00:00",
    "GIT_OPTIONAL_LOCKS": "0",
}


def ten_lines(name: str, **changed: str) -> str:
    """Return the ten distinct lines that a file of R holds, some replaced (`line_3="x"`)."""
    rows = [f"{name} line {number}" for number in range(1, 11)]
    for key, text in changed.items():
        rows[int(key.removeprefix("line_")) - 1] = text
    return "".join(f"{row}\n" for row in rows)


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What V3 compares of one path; of a directory only the mode."""

    mode: int
    data: bytes = b""
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Untouched:
    """Everything of the user's that V1 compares.

    `files` are all files of the Git directory apart from objects, refs and ours: the
    index, HEAD, reflogs, config, hooks (mode and bytes), merge and rebase state. Reftables
    hold reflogs too, and what HEAD is: they are in `logs` and `head`, elsewhere empty.
    The stash is a ref and its reflog.
    """

    files: Mapping[str, tuple[int, bytes]]
    refs: Mapping[str, str]
    head: str = ""
    logs: str = ""


@dataclass(slots=True)
class Repo:
    """Drive one worktree with plain file calls and the real `git`.

    `damaged` is set by a test that breaks the repository on purpose: the checks at its
    end are left out.
    """

    root: Path
    damaged: bool = field(default=False)

    @classmethod
    def create(cls, root: Path, files: Sequence[str] = ("a", "b", "c")) -> "Repo":
        """Make `root` a repository in which these files of ten lines are committed."""
        repo = cls(root)
        template = _template(tuple(files), _read_by_git())
        shutil.copytree(template, root, copy_function=shutil.copy, dirs_exist_ok=True)
        if files:  # the index knows the times and numbers of the template's files
            repo.git("update-index", "--refresh")
        return repo

    # The working tree

    def path(self, path: PathLike = "") -> bytes:
        """Return the absolute path of a repo-relative one, as bytes."""
        return os.path.join(os.fsencode(self.root), os.fsencode(path))

    def write(self, path: PathLike, data: str | bytes, mode: int | None = None) -> None:
        """Write a file in place, as a person's editor or `>` does; make its parents."""
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as stream:
            # Before the bytes: a daemon records the file when it is closed.
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            stream.write(data.encode() if isinstance(data, str) else data)

    def append(self, path: PathLike, data: str | bytes) -> None:
        """Add bytes at the end of a file."""
        with open(self.path(path), "ab") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)

    def read(self, path: PathLike) -> bytes:
        """Return a file's bytes."""
        with open(self.path(path), "rb") as stream:
            return stream.read()

    def exists(self, path: PathLike) -> bool:
        """Return whether anything has this name, including a dangling link."""
        return os.path.lexists(self.path(path))

    def mode(self, path: PathLike) -> int:
        """Return the permission bits of a path, not following a link."""
        return stat.S_IMODE(os.lstat(self.path(path)).st_mode)

    def delete(self, path: PathLike) -> None:
        """Delete a file, a link or a whole directory."""
        full = self.path(path)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)

    def rename(self, old: PathLike, new: PathLike) -> None:
        """Rename a path; the parents of the new name are made."""
        full = self.path(new)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        os.rename(self.path(old), full)

    def mkdir(self, path: PathLike) -> None:
        """Make a directory and its parents."""
        os.makedirs(self.path(path), exist_ok=True)

    def chmod(self, path: PathLike, mode: int) -> None:
        """Set the permission bits of a path."""
        os.chmod(self.path(path), mode)

    def symlink(self, path: PathLike, target: PathLike) -> None:
        """Make a symbolic link, in place of one that is there."""
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if os.path.islink(full):
            os.unlink(full)
        os.symlink(os.fsencode(target), full)

    def readlink(self, path: PathLike) -> bytes:
        """Return the target of a symbolic link."""
        return os.readlink(self.path(path))

    # Git

    def git(
        self,
        *args: PathLike,
        stdin: bytes = b"",
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Run git in the worktree and return its output without the last newline."""
        done = subprocess.run(
            ["git", *args],
            cwd=self.root,
            env={**os.environ, **_DATES, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=HANGS_S,
            check=False,
        )
        if check and done.returncode != 0:
            shown = " ".join(os.fsdecode(arg) for arg in args)
            error = done.stderr.decode(errors="backslashreplace")
            raise AssertionError(f"git {shown}: exit {done.returncode}\n{error}")
        return os.fsdecode(done.stdout).removesuffix("\n")

    def commit(self, message: str) -> str:
        """Commit everything and return the commit's oid."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def blob(self, path: PathLike) -> str:
        """Return the oid of the exact bytes of a file, or of a link's target."""
        full = self.path(path)
        data = os.readlink(full) if os.path.islink(full) else self.read(path)
        return self.git("hash-object", "--no-filters", "--stdin", stdin=data)

    @property
    def git_dir(self) -> Path:
        """Return this worktree's Git directory."""
        return self._own_git_dir() or self.root / self.git("rev-parse", "--git-dir")

    @property
    def common_dir(self) -> Path:
        """Return the Git directory that all worktrees share."""
        own = self._own_git_dir()
        return own or self.root / self.git("rev-parse", "--git-common-dir")

    @property
    def object_format(self) -> ObjectFormat:
        """Return the format of its object ids."""
        return format_named(self.git("rev-parse", "--show-object-format"))

    @property
    def has_reftables(self) -> bool:
        """Return whether refs are in reftables, not in files."""
        return (self.common_dir / "reftable").is_dir()

    def _own_git_dir(self) -> Path | None:
        """Return `.git` where it is all: no process is needed to know that."""
        here = self.root / ".git"
        is_whole = here.is_dir() and not (here / "commondir").exists()
        return here if is_whole else None

    @property
    def state_dir(self) -> Path:
        """Return the only directory that may hold files of ours."""
        return self.common_dir / "agent-undo"

    def shadow_refs(self) -> dict[str, str]:
        """Return our refs: name to oid."""
        return {
            name: oid
            for name, oid in self._refs().items()
            if name.startswith(SHADOW_REFS)
        }

    def _refs(self) -> dict[str, str]:
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)")
        return dict(line.split(" ", 1) for line in lines.splitlines())

    # What the acceptance rows compare

    def snapshot(self) -> Untouched:
        """Return everything of the user's that must stay as it is (V1)."""
        refs = self._refs()
        head = logs = ""
        if self.has_reftables:
            head = self.git("symbolic-ref", "--quiet", "HEAD", check=False)
            head = head or self.git("rev-parse", "HEAD")
            logs = self.git(
                "log", "--walk-reflogs", "--all", "--format=%gd %H %gs", check=False
            )
        return Untouched(
            files=dict(self._user_git_files()),
            refs={
                name: oid
                for name, oid in refs.items()
                if not name.startswith(SHADOW_REFS)
            },
            head=head,
            logs=logs,
        )

    def _user_git_files(self) -> Iterator[tuple[str, tuple[int, bytes]]]:
        top = self.common_dir
        for name in _walk_files(os.fsencode(top)):
            parts = name.split(b"/")
            if parts[0] in (b"objects", b"refs", b"packed-refs", b"agent-undo"):
                continue
            if b"reftable" in (parts[0], *parts[2:3]):  # that of a linked worktree too
                continue
            full = os.path.join(os.fsencode(top), name)
            mode = os.lstat(full).st_mode
            data = os.readlink(full) if stat.S_ISLNK(mode) else _content(full)
            yield os.fsdecode(name), (mode, data)

    def tree_snapshot(self, exclude: Sequence[PathLike] = ()) -> dict[str, TreeEntry]:
        """Return bytes, mode and mtime of every path but `.git` and `exclude` (V3).

        A directory in `exclude` leaves out everything below it.
        """
        skipped = {b".git", *map(os.fsencode, exclude)}
        return dict(_walk_entries(self.path(), b"", skipped))

    def fsck(self) -> None:
        """Check V2: the repository is sound and all our refs point at commits."""
        self.git("fsck", "--strict", "--no-dangling", "--no-progress")
        lines = self.git(
            "for-each-ref", "--format=%(objecttype) %(refname)", SHADOW_REFS
        )
        wrong = [line for line in lines.splitlines() if not line.startswith("commit ")]
        assert wrong == []

    def check_litter(self) -> None:
        """Check V4: nothing of ours lies where it must not."""
        root = self.path()
        temps = [
            name for name in _walk_files(root) if TEMP_PREFIX in os.path.basename(name)
        ]
        assert temps == []
        common = os.fsencode(self.common_dir)
        # Submodules are other repositories, and have what is theirs.
        ours = (b"agent-undo/", b"refs/agent-undo/", b"objects/", b"modules/")
        stray = [
            name
            for name in _walk_files(common)
            if b"agent-undo" in name and not name.startswith(ours)
        ]
        assert stray == []
        for top in (b"refs/agent-undo", b"reftable"):
            names = _walk_files(os.path.join(common, top))
            assert [name for name in names if name.endswith(b".lock")] == []
        if self.has_reftables:
            logs = self.git("reflog", "list").splitlines()
            assert [name for name in logs if name.startswith(SHADOW_REFS)] == []

    def check(self) -> None:
        """Check V2 and V4, unless the test damaged the repository."""
        if not self.damaged:
            self.fsck()
            self.check_litter()


@cache
def _template(files: tuple[str, ...], _surroundings: object) -> Path:
    """Return a repository to copy, since four processes of Git take ten times as long."""
    repo = Repo(Path(tempfile.mkdtemp(prefix="gitshadow-template-")))
    atexit.register(shutil.rmtree, repo.root, ignore_errors=True)
    repo.git("init", "--quiet", "-b", "main")
    for name in files:
        repo.write(name, ten_lines(name))
    if files:
        repo.commit("first")
    return repo.root


def _read_by_git() -> tuple[object, ...]:
    """Return what `git init` and `git commit` depend on in the surroundings of a test."""
    config = Path.home() / ".gitconfig"
    named = {k: v for k, v in os.environ.items() if k.startswith("GIT_")}
    return (
        config.read_bytes() if config.exists() else None,
        *sorted(named.items()),
        os.environ["PATH"],
        umask(),
    )


def _content(path: bytes) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _walk_files(top: bytes) -> Iterator[bytes]:
    """Yield every regular file and link below `top`, relative to it, links unfollowed."""
    for directory, _names, files in os.walk(top):
        for name in files:
            full = os.path.join(directory, name)
            try:
                kind = os.lstat(full).st_mode
            except FileNotFoundError:  # a daemon may pack its objects meanwhile
                continue
            if stat.S_ISREG(kind) or stat.S_ISLNK(kind):
                yield os.path.relpath(full, top)


def _walk_entries(
    top: bytes, below: bytes, skipped: set[bytes]
) -> Iterator[tuple[str, TreeEntry]]:
    with os.scandir(os.path.join(top, below)) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = os.path.join(below, entry.name)
        if name in skipped:
            continue
        look = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(look.st_mode):
            yield os.fsdecode(name), TreeEntry(look.st_mode)
            yield from _walk_entries(top, name, skipped)
            continue
        data = b""
        if stat.S_ISLNK(look.st_mode):
            data = os.readlink(entry.path)
        elif stat.S_ISREG(look.st_mode):
            data = _content(entry.path)
        yield os.fsdecode(name), TreeEntry(look.st_mode, data, look.st_mtime_ns)
