"""V5: the journal agrees with the disk, each oid in it is reachable, no fault was ours."""

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from gitshadow.model import Oid
from gitshadow.store.object_format import ObjectFormat, format_of
from tests.support.repo import Repo

State = tuple[str, int]
Files = dict[bytes, State]

_OID_COLUMNS = (
    ("events", "before_oid"),
    ("events", "after_oid"),
    ("events", "commit_oid"),
    ("chains", "tip"),
    ("chains", "tree"),
    ("file_state", "oid"),
    ("ops", "commit_oid"),
    ("pins", "commit_oid"),
)


# A gap that names a line of our code, and a report of an error that nobody foresaw.
_OUR_LINE = re.compile(r"Error at [a-z_]+\.py:[0-9]+")
_OUR_FAULT = re.compile(
    r"^(?:Assertion|Attribute|Index|Key|Name|Type|UnboundLocal)Error\b", re.MULTILINE
)


def audit(repo: Repo) -> None:
    """Check V5 against the disk as it is; flush first.

    Left out: paths on disk that the journal does not know, see `unrecorded`.
    """
    with closing(open_journal(repo)) as db:
        assert list(contradictions(db, partial(_diff, repo))) == []
    audit_states(repo)


def audit_states(repo: Repo) -> None:
    """Check V5 but for what events say: those of a dropped session are no more."""
    with closing(open_journal(repo)) as db:
        assert list(stale(db)) == []
        assert sorted(_oids(db) - _reachable(repo)) == []
        assert list(_faults(repo, db)) == []


def _faults(repo: Repo, db: sqlite3.Connection) -> Iterator[str]:
    """Yield what was recorded or reported of faults of our own code."""
    for (note,) in db.execute("SELECT note FROM events WHERE kind = 'gap'"):
        if _OUR_LINE.search(note):
            yield note
    for report in Path(repo.state_dir).glob("reports/*.txt"):
        if _OUR_FAULT.search(report.read_text(errors="replace")):
            yield report.read_text(errors="replace")


def unrecorded(repo: Repo, excluded: Iterable[str]) -> list[str]:
    """Return the files on disk that the journal does not hold and nothing excludes.

    `excluded` are the topmost paths of `status --json`, as printed.
    """
    listed = repo.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    tops = list(excluded)
    with closing(open_journal(repo)) as db:
        rows = db.execute("SELECT path FROM file_state WHERE worktree = 'main'")
        known = {os.fsdecode(path) for (path,) in rows}
    return sorted(
        path
        for path in set(listed.split("\0")) - known
        if not any(path == top or path.startswith(f"{top}/") for top in tops)
        and _is_recordable(repo.path(path))
    )


def open_journal(repo: Repo) -> sqlite3.Connection:
    """Open the journal for reading alone."""
    path = Path(repo.state_dir).resolve() / "journal.db"
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def _is_recordable(path: bytes) -> bool:
    """Return whether a regular file or a link is there."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def disk_state(path: bytes, objects: ObjectFormat) -> State | None:
    """Return blob oid and real mode of a regular file or link; None for all else."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return objects.blob(os.readlink(path)), 0o120000
        if not stat.S_ISREG(mode):
            return None
        with open(path, "rb") as stream:
            return objects.blob(stream.read()), mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def on_disk(repo: Repo) -> Files:
    """Return every file and link of the worktree; links are not followed."""
    found: Files = {}
    top, objects = repo.path(), repo.object_format
    for directory, inner, names in os.walk(top):
        if directory.rstrip(b"/") == top.rstrip(b"/"):
            inner.remove(b".git")
        for name in (*names, *inner):
            path = os.path.join(directory, name)
            state = disk_state(path, objects)
            if state is not None:
                found[os.path.relpath(path, top)] = state
    return found


def recorded_states(repo: Repo) -> Files:
    """Return the state that the journal holds of every file of the worktree."""
    with closing(open_journal(repo)) as db:
        rows = db.execute(
            "SELECT path, oid, mode FROM file_state WHERE worktree = 'main'"
        )
        return {path: (oid, mode) for path, oid, mode in rows}


def recorded_tree(repo: Repo) -> Files:
    """Return the tree that the journal holds for the worktree, with Git's modes."""
    with closing(open_journal(repo)) as db:
        (tree,) = db.execute("SELECT tree FROM worktrees WHERE id = 'main'").fetchone()
    return files_of_tree(repo, tree)


def files_of_tree(repo: Repo, tree: str) -> Files:
    """Return the files of a tree or a commit, with Git's modes."""
    found: Files = {}
    for line in repo.git("ls-tree", "-r", "-z", tree).split("\0")[:-1]:
        meta, _, name = line.partition("\t")
        mode, _, oid = meta.split()
        found[os.fsencode(name)] = (oid, int(mode, 8))
    return found


def with_git_modes(files: Files) -> Files:
    """Return files with the modes that a tree can hold."""

    def of(mode: int) -> int:
        if stat.S_ISLNK(mode):
            return 0o120000
        return 0o100755 if mode & 0o100 else 0o100644

    return {path: (oid, of(mode)) for path, (oid, mode) in files.items()}


def stale(db: sqlite3.Connection) -> Iterator[tuple[bytes, State, State | None]]:
    """Yield each path whose recorded state is not what the disk holds."""
    roots = dict(db.execute("SELECT id, path FROM worktrees"))
    rows = db.execute("SELECT worktree, path, oid, mode FROM file_state")
    for worktree, path, oid, mode in rows:
        root = roots[worktree]
        if not os.path.isdir(root):
            continue
        actual = disk_state(os.path.join(root, path), format_of(Oid(oid)))
        if actual != (oid, mode):
            yield path, (oid, mode), actual


def contradictions(
    db: sqlite3.Connection, diff: Callable[[str], Iterable[tuple[bytes, str, str]]]
) -> Iterator[tuple[bytes, State | None, State | None]]:
    """Yield each path whose newest event is not what `file_state` holds.

    `diff` gives each path that a commit of ours changed, with the mode and blob that it has now.
    """
    newest: dict[tuple[str, bytes], State | None] = {}
    rows = db.execute(
        "SELECT worktree, path, old_path, after_oid, after_mode, before_mode, commit_oid,"
        " switched FROM events WHERE kind NOT IN ('gap', 'baseline') ORDER BY seq"
    )
    for worktree, path, old_path, oid, mode, *plain, commit, switched in rows:
        if path is None and switched:
            # Paths with rows of their own come next, and have the last word.
            modes = {"100644": plain[0], "100755": mode, "120000": 0o120000}
            for one, now, blob in diff(commit):
                state = (blob, modes[now] | 0o100000) if now in modes else None
                newest[worktree, one] = state
        if path is None:
            continue
        if old_path is not None:
            newest[worktree, old_path] = None
        newest[worktree, path] = None if oid is None else (oid, mode)
    states = {
        (worktree, path): (oid, mode)
        for worktree, path, oid, mode in db.execute(
            "SELECT worktree, path, oid, mode FROM file_state"
        )
    }
    for key, state in newest.items():
        if states.get(key) != state:
            yield key[1], state, states.get(key)


def _diff(repo: Repo, commit: str) -> Iterator[tuple[bytes, str, str]]:
    shown = repo.git("diff-tree", "-r", "-z", "--no-renames", f"{commit}^", commit)
    words = iter(shown.split("\0"))
    for word in words:
        if word.startswith(":"):
            _, mode, _, oid, _ = word.split(" ")
            yield os.fsencode(next(words)), mode, oid


def _oids(db: sqlite3.Connection) -> set[str]:
    found: set[str] = set()
    for table, column in _OID_COLUMNS:
        rows = db.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
        found.update(oid for (oid,) in rows)
    return found


def _reachable(repo: Repo) -> set[str]:
    tips = ["--glob=refs/agent-undo/*"]
    if repo.git("rev-parse", "--verify", "--quiet", "HEAD", check=False):
        tips.append("HEAD")
    lines = repo.git("rev-list", "--objects", *tips).splitlines()
    return {line.split(" ", 1)[0] for line in lines}
