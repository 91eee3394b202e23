"""`init` takes from Git's index what it knows of files, and reads the others."""

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partialmethod

import pytest

from gitshadow.config import WatchBackend
from gitshadow.daemon.server import Service
from gitshadow.maintenance import setup
from gitshadow.model import LINK_MODE, Oid, RepoPath, git_mode
from gitshadow.platform import current
from gitshadow.platform.stamps import RACY_NS
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.store import git_index
from gitshadow.store.files import Reading, WorkFiles
from gitshadow.store.git import Git
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter, path_changes
from gitshadow.store.object_format import SHA1
from tests.support.context import desk_of
from tests.support.repo import Repo
from tests.support.studio import layout_of
from tests.support.waiting import until

_OLD_S = 1_700_000_000


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """Return the paths that are read from now on."""
    paths: set[bytes] = set()
    plain = WorkFiles.read_in

    def noted(
        self: WorkFiles, directory: RepoPath, names: Iterable[bytes]
    ) -> Iterator[tuple[bytes, Reading | OSError | None]]:
        wanted = list(names)
        paths.update(directory + b"/" + one if directory else one for one in wanted)
        return plain(self, directory, wanted)

    plain_read = WorkFiles.read

    def noted_read(self: WorkFiles, path: RepoPath) -> Reading | None:
        paths.add(path)
        return plain_read(self, path)

    monkeypatch.setattr(WorkFiles, "read_in", noted)
    monkeypatch.setattr(WorkFiles, "read", noted_read)
    return paths


def settle(repo: Repo) -> None:
    """Let the index be newer than the files, as it is a moment after each checkout."""
    newest = max(os.lstat(repo.path(one)).st_ctime_ns for one in listed(repo))
    until(lambda: touched(repo) > newest + RACY_NS)


def touched(repo: Repo) -> int:
    """Write the index again, and return when that was."""
    repo.git("update-index", "--refresh", "-q", check=False)
    os.utime(repo.git_dir / "index")
    return (repo.git_dir / "index").stat().st_mtime_ns


def listed(repo: Repo) -> list[bytes]:
    how = ("-c", "core.fsmonitor=false", "ls-files", "-z", "--exclude-standard")
    out = repo.git(*how, "--cached", "--others")
    names = out.encode("utf-8", "surrogateescape").split(b"\0")
    return [one for one in names if one and repo.exists(one)]


def check_bytes(context: RecorderContext, repo: Repo) -> None:
    """Check LAW-01: what is recorded is what is on the disk, byte by byte."""
    ws = context.workspace
    states = ws.states.all()
    assert ws.recorder.tree is not None
    entries = ws.repo.trees.flat(ws.recorder.tree)
    for path in listed(repo):
        state = states[RepoPath(path)]
        is_link = state.version.mode == LINK_MODE
        data = repo.readlink(path) if is_link else repo.read(path)
        assert state.version.oid == SHA1.blob(data), path
        assert entries[RepoPath(path)] == (
            git_mode(state.version.mode),
            state.version.oid,
        )
        assert ws.repo.has(state.version.oid)
    assert entries.keys() >= {RepoPath(path) for path in listed(repo)}


def test_clean_files_are_not_read(repo: Repo, read: set[bytes]) -> None:
    repo.write("d/clean", "clean\n")
    repo.symlink("link", "a")
    repo.commit("more")
    settle(repo)
    repo.write("b", "changed\n")
    repo.write("d/new", "untracked\n")
    repo.write("staged", "staged\n")
    repo.delete("c")
    repo.git("add", "staged")
    with desk_of(repo) as context:
        check_bytes(context, repo)
        assert read >= {b"b", b"d/new"}
        assert not read & {b"a", b"d/clean", b"link"}
        tree = context.workspace.recorder.tree
        assert tree is not None
        assert RepoPath(b"c") not in context.workspace.repo.trees.flat(tree)


def test_what_is_only_staged_is_stored_when_git_has_lost_it(
    repo: Repo, read: set[bytes]
) -> None:
    repo.write("n", "staged alone\n")
    repo.git("add", "n")
    settle(repo)
    oid = repo.blob("n")
    os.unlink(repo.git_dir / "objects" / oid[:2] / oid[2:])
    with desk_of(repo) as context:
        assert b"n" in read
        check_bytes(context, repo)


def _lines(repo: Repo) -> None:
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.write("x.txt", "one\r\ntwo\r\n")


def _auto(repo: Repo) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.write("x.txt", "one\r\ntwo\r\n")


def _info(repo: Repo) -> None:
    (repo.git_dir / "info").mkdir(exist_ok=True)
    (repo.git_dir / "info" / "attributes").write_text("*.txt text\n")
    repo.write("x.txt", "one\r\ntwo\r\n")


def _filter(repo: Repo) -> None:
    repo.git("config", "filter.up.clean", "tr a-z A-Z")
    repo.git("config", "filter.up.smudge", "tr A-Z a-z")
    repo.write(".gitattributes", "x.txt filter=up\n")
    repo.write("x.txt", "small\n")


def _ident(repo: Repo) -> None:
    repo.write(".gitattributes", "x.txt ident\n")
    repo.write("x.txt", "$Id: something $\n")


def _encoding(repo: Repo) -> None:
    repo.write(".gitattributes", "x.txt working-tree-encoding=UTF-16LE\n")
    repo.write("x.txt", "text\n".encode("utf-16-le"))


@pytest.mark.parametrize("prepare", [_lines, _auto, _info, _filter, _ident, _encoding])
def test_what_git_converts_is_read(
    repo: Repo, read: set[bytes], prepare: Callable[[Repo], None]
) -> None:
    prepare(repo)
    repo.commit("converted")
    settle(repo)
    with desk_of(repo) as context:
        assert b"x.txt" in read
        check_bytes(context, repo)


def _attributes_gone(repo: Repo) -> None:
    repo.git("rm", "-q", "--cached", ".gitattributes")
    repo.delete(".gitattributes")


def _setting_gone(repo: Repo) -> None:
    repo.git("config", "core.autocrlf", "false")


def _info_gone(repo: Repo) -> None:
    (repo.git_dir / "info" / "attributes").unlink()


@pytest.mark.parametrize(
    ("prepare", "forget"),
    [
        (_lines, _attributes_gone),
        (_auto, _setting_gone),
        (_info, _info_gone),
        (_ident, _attributes_gone),
        (_encoding, _attributes_gone),
    ],
)
def test_what_git_converted_before_its_settings_changed_is_read(
    repo: Repo,
    read: set[bytes],
    prepare: Callable[[Repo], None],
    forget: Callable[[Repo], None],
) -> None:
    """Its stat is that of the index, and no attribute says that its blob has other bytes."""
    prepare(repo)
    # Git may compare whole seconds only.
    os.utime(repo.path("x.txt"), (_OLD_S, _OLD_S))
    repo.commit("converted")
    settle(repo)
    stat = os.lstat(repo.path("x.txt"))
    forget(repo)
    settle(repo)
    assert os.lstat(repo.path("x.txt")) == stat
    assert repo.git("diff-files", "--name-only", "x.txt") == ""
    with desk_of(repo) as context:
        assert b"x.txt" in read
        check_bytes(context, repo)


def test_text_with_the_line_ends_of_its_blob_is_not_read(
    repo: Repo, read: set[bytes]
) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write(".gitattributes", "* text=auto\n")
    repo.write("x.txt", "one\ntwo\n")
    repo.commit("text")
    settle(repo)
    with desk_of(repo) as context:
        assert b"x.txt" not in read
        check_bytes(context, repo)


def test_what_is_only_intended_to_be_added_is_read(
    repo: Repo, read: set[bytes]
) -> None:
    repo.write("n", "")
    repo.git("add", "-N", "n")
    settle(repo)
    with desk_of(repo) as context:
        assert b"n" in read
        check_bytes(context, repo)


def test_nothing_is_known_of_an_index_that_changed_at_that_moment(
    repo: Repo, read: set[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What HEAD has and what is staged have to be of one index."""
    repo.write("a", "staged\n")
    settle(repo)
    compare = git_index.unlike

    def compare_and_stage(git: Git, tree: Oid) -> set[RepoPath]:
        found = compare(git, tree)
        repo.git("add", "a")
        return found

    monkeypatch.setattr(git_index, "unlike", compare_and_stage)
    with desk_of(repo) as context:
        assert read >= {b"a", b"b"}
        check_bytes(context, repo)


def test_a_listing_is_read_in_parts_of_any_size(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where names hold what looks like entries."""
    oid = "0" * 40
    odd = f"n\n100644 {oid} 0\tfake\n  size: 3\tflags: 0\n".encode()
    for path in (odd, b"d/\xff\n", b"x"):
        repo.write(path, "x\n")
    repo.commit("odd")
    git = Git(layout_of(repo), dict(os.environ))
    lines = Git.lines
    (whole,) = [part for part in git_index.entries(git, None) if part]
    assert {row[2] for row in whole} == set(listed(repo))
    for most in (1, 7, 150, 400):
        monkeypatch.setattr(Git, "lines", partialmethod(lines, most=most))
        found = [row for part in git_index.entries(git, None) for row in part]
        assert found == whole


@pytest.mark.parametrize(
    "settings",
    [
        ("update-index", "--split-index"),
        ("update-index", "--index-version", "4"),
        ("update-index", "--untracked-cache"),
        ("config", "core.checkStat", "minimal"),
        ("config", "core.trustctime", "false"),
        ("config", "core.fsmonitor", "touch ran"),
        ("config", "core.fileMode", "false"),
        ("config", "index.skipHash", "true"),
    ],
    ids=" ".join,
)
def test_the_bytes_are_right_whatever_the_index_looks_like(
    repo: Repo, settings: tuple[str, ...]
) -> None:
    repo.git(*settings)
    repo.write("d/clean", "clean\n")
    repo.commit("more")
    settle(repo)
    repo.write("b", "changed\n")
    repo.chmod("c", 0o755)
    if repo.exists("ran"):  # by the commands above
        repo.delete("ran")
    with desk_of(repo) as context:
        assert not repo.exists("ran")
        check_bytes(context, repo)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_is_told_not_to_look_at_is_read_when_it_changed(
    repo: Repo, read: set[bytes], flag: str
) -> None:
    settle(repo)
    repo.git("update-index", flag, "a")
    repo.write("a", "changed unseen\n")
    with desk_of(repo) as context:
        assert b"a" in read
        check_bytes(context, repo)


def test_a_write_in_the_same_moment_as_the_index_is_seen(
    repo: Repo, read: set[bytes]
) -> None:
    """Its stat can be that of the index: racy-git.txt."""
    repo.write("a", "one\n")
    repo.git("add", "a")
    stat = os.stat(repo.path("a"))
    os.utime(repo.git_dir / "index", ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    with desk_of(repo) as context:
        assert b"a" in read
        check_bytes(context, repo)


def test_a_time_that_was_set_back_hides_no_write(repo: Repo, read: set[bytes]) -> None:
    """Size and mtime are those that Git knows; the ctime is not."""
    os.utime(repo.path("a"), (_OLD_S, _OLD_S))
    settle(repo)
    size = len(repo.read("a"))
    repo.write("a", "x" * size)
    os.utime(repo.path("a"), (_OLD_S, _OLD_S))
    with desk_of(repo) as context:
        assert b"a" in read
        check_bytes(context, repo)


def test_a_conflict_is_read(repo: Repo, read: set[bytes]) -> None:
    repo.git("switch", "-qc", "other")
    repo.write("a", "theirs\n")
    repo.commit("theirs")
    repo.git("switch", "-q", "main")
    repo.write("a", "ours\n")
    repo.commit("ours")
    repo.git("merge", "-q", "other", check=False)
    settle(repo)
    with desk_of(repo) as context:
        assert b"a" in read
        check_bytes(context, repo)


def test_a_sparse_index_is_read(repo: Repo) -> None:
    for path in ("in/x", "out/y"):
        repo.write(path, "x\n")
    repo.commit("more")
    done = subprocess.run(
        ["git", "sparse-checkout", "set", "--cone", "--sparse-index", "in"],
        cwd=repo.root,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    settle(repo)
    with desk_of(repo) as context:
        check_bytes(context, repo)
        tree = context.workspace.recorder.tree
        assert tree is not None
        assert RepoPath(b"out/y") in context.workspace.repo.trees.flat(tree)


_MANY = 300
_NAMES = [f"d{number % 7}/f{number}" for number in range(_MANY)]


def write_many(repo: Repo, text: str) -> None:
    for name in _NAMES:
        repo.write(name, f"{text} {name}\n")


def test_a_switch_of_many_files_reads_only_what_git_does_not_know(
    repo: Repo, read: set[bytes]
) -> None:
    write_many(repo, "old")
    repo.commit("old")
    repo.git("switch", "-qc", "other")
    write_many(repo, "new")
    repo.commit("new")
    repo.git("switch", "-q", "main")
    settle(repo)
    with desk_of(repo) as context:
        repo.git("switch", "-q", "other")
        settle(repo)
        repo.write("a", "mine\n")
        os.link(repo.path("b"), repo.path("d0/linked"))
        read.clear()
        context.observer.settle()
        assert read >= {b"a", b"b", b"d0/linked"}
        assert not read & {name.encode() for name in _NAMES}
        check_bytes(context, repo)


def test_files_written_while_nobody_watched_are_read_when_git_does_not_know_them(
    repo: Repo, read: set[bytes]
) -> None:
    write_many(repo, "old")
    repo.commit("old")
    settle(repo)
    with desk_of(repo) as context:
        write_many(repo, "new")
        repo.git("add", _NAMES[0])
        read.clear()
        context.observer.settle()
        assert read >= {name.encode() for name in _NAMES[1:]}
        check_bytes(context, repo)


@pytest.mark.parametrize("is_known", [False, True])
def test_what_is_written_behind_a_daemons_only_walk_is_recorded(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Each directory is watched before it is listed, so nothing has to be listed again."""
    repo.write("d/clean", "clean\n")
    repo.write(".gitignore", "*.log\n")
    repo.commit("more")
    repo.write("out.log", "ignored\n")
    settle(repo)
    layout = layout_of(repo)
    if is_known:
        setup.initialise(layout, os.environ, force=True)
    else:
        setup.prepare(layout, os.environ, force=True)
    walked: list[bytes] = []
    plain = WorkFiles.scan

    def scan(self: WorkFiles, path: RepoPath) -> list[tuple[bytes, os.stat_result]]:
        found = plain(self, path)
        walked.append(path)
        if walked.count(path) == 1 and path == b"d":
            repo.write("d/clean", "written behind it\n")
            repo.write("d/new/late", "created behind it\n")
        return found

    context = open_context(layout, os.environ, lock_timeout_s=1.0)
    watcher = current().open_watcher(WatchBackend.INOTIFY, layout, lambda: None)
    try:
        monkeypatch.setattr(WorkFiles, "scan", scan)
        service = Service(context)
        service.start(watcher)
        assert walked.count(b"d") == 1
        context.observer.settle()
        check_bytes(context, repo)
        rows = events.rows(context.workspace.db, EventFilter())
        assert {row.path for row in path_changes(rows)} == {b"d/clean", b"d/new/late"}
        # `status` lists what is not recorded, by what that walk saw.
        walked.clear()
        assert [one.path for one in context.walker.excluded_now()] == [b"out.log"]
        assert walked == []
    finally:
        watcher.close()
        context.close()


def test_init_of_many_files_leaves_the_journal_as_its_schema_says(repo: Repo) -> None:
    """The index of an empty table is made after its rows."""
    for number in range(1_200):
        repo.write(f"many/f{number}", f"{number}\n")
    repo.commit("many")
    with desk_of(repo) as context:
        db = context.workspace.db
        assert db.damage() is None
        assert (
            db.number("SELECT count(*) FROM file_state INDEXED BY file_state_inode")
            == 1_203
        )
