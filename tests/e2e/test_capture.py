"""CAP: what is recorded and what is not, with the daemon and without it."""

import ctypes
import os
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from gitshadow.errors import UnsupportedError
from gitshadow.maintenance.setup import refuse_personal
from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.repo import Repo, ten_lines
from tests.support.reports import actions, reasons, states, uncovered
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.both_modes

_IN_OPEN = 0x20


@pytest.fixture
def claude(shadow_new: Shadow) -> Claude:
    """Return an agent in a repository that the test itself prepares and inits."""
    return Claude(shadow_new)


def paths_of(rows: Sequence[Document]) -> set[object]:
    """Return the paths of journal rows."""
    return {row["path"] for row in rows}


def excluded(shadow: Shadow) -> dict[str, Document]:
    """Return `coverage.excluded` of `status`, by path."""
    coverage = shadow.status()["coverage"]
    assert isinstance(coverage, dict)
    return {item["path"]: item for item in coverage["excluded"]}


def test_existing_dotfiles_are_modified_not_created(
    repo: Repo, shadow_new: Shadow, claude: Claude
) -> None:
    """CAP-02: dotfiles belong to the baseline, so undoing never deletes them."""
    names = (".env", ".github/workflows/ci.yml")
    for name in names:
        repo.write(name, f"{name} before\n")
    shadow_new.init()
    with kept(repo, ".env", ".github"):
        claude.prompt("go")
        for name in names:
            claude.write(name, "after\n")
        claude.stop()
        rows = shadow_new.log()
        assert {(row["path"], row["kind"]) for row in rows} == {
            (name, "modify") for name in names
        }
        report = shadow_new.oops()
    assert report["status"] == "reversed"
    assert [repo.read(name) for name in names] == [
        f"{name} before\n".encode() for name in names
    ]


def test_recorded_is_what_git_does_not_ignore(
    repo: Repo, shadow_new: Shadow, sealed: Path
) -> None:
    """CAP-04: nested rules, info/exclude, the global file and exceptions, as Git."""
    paths = [
        "app.log",
        "keep.log",
        "logs/keep.log",
        "sub/x.tmp1",
        "sub/y.tmp1",
        "sub/deep/y.tmp1",
        "x.tmp1",
        "secret.pem",
        "sub/secret.pem",
        "global.bak1",
        "sub/global.bak1",
        "plain.txt",
    ]
    repo.write(".gitignore", "*.log\n!keep.log\nlogs/\n")
    repo.write("sub/.gitignore", "*.tmp1\n!y.tmp1\n/deep/\n")
    repo.write(".git/info/exclude", "*.pem\n")
    (sealed / "ignore").write_text("*.bak1\n")
    repo.git("config", "--global", "core.excludesFile", "~/ignore")
    shadow_new.init()
    with kept(repo, *paths, "sub", "logs"):
        for path in paths:
            repo.write(path, f"{path}\n")
        rows = shadow_new.log()
    listed = repo.git("check-ignore", "--stdin", stdin="\n".join(paths).encode())
    ignored = set(listed.splitlines())
    assert len(ignored) == 8
    assert paths_of(rows) == set(paths) - ignored
    assert {row["kind"] for row in rows} == {"create"}


def test_ignored_files_are_named_and_never_touched(
    repo: Repo, shadow_new: Shadow, claude: Claude
) -> None:
    """CAP-05: what was not covered stays as the agent left it, and is said so."""
    repo.write(".gitignore", "logs/\n*.o\n")
    for name in ("logs/x", "logs/other", "y.o", "z.o"):
        repo.write(name, "old\n")
    shadow_new.init()
    claude.prompt("go")
    claude.write("a", "agent\n")
    claude.write("logs/x", "new\n")
    claude.shell("rm y.o")
    claude.stop()
    with kept(repo, "a"):
        assert paths_of(shadow_new.log()) == {"a"}
        report = shadow_new.oops()
    named = uncovered(report)
    assert {"logs/x", "y.o"} <= named.keys() or {"logs", "y.o"} <= named.keys()
    assert report["status"] == "reversed"
    assert repo.read("logs/x") == b"new\n"
    assert repo.read("a") == ten_lines("a").encode()


def test_own_ignore_file_leaves_out_and_include_takes_in(
    repo: Repo, shadow_new: Shadow, claude: Claude
) -> None:
    """CAP-07: `.agent-undoignore` excludes with a reason, `include` opts in."""
    repo.write(".agent-undoignore", "big/\n")
    repo.write(".gitignore", ".env\n")
    repo.write(".env", "SECRET=1\n")
    repo.write("big/x", "old\n")
    repo.git("config", "agent-undo.include", ".env")
    shadow_new.init()
    with kept(repo, ".env", "big/x"):
        claude.prompt("go")
        claude.write("big/x", "new\n")
        claude.write(".env", "SECRET=2\n")
        claude.stop()
        assert paths_of(shadow_new.log()) == {".env"}
        big = excluded(shadow_new)["big"]
        report = shadow_new.oops()
    assert (big["reason"], big["rule"]) == ("agent-undoignore", ".agent-undoignore")
    assert ".env" not in excluded(shadow_new)
    named = uncovered(report)
    assert "agent-undoignore" in named.get("big/x", named.get("big", ""))
    assert (repo.read(".env"), repo.read("big/x")) == (b"SECRET=1\n", b"new\n")


def test_too_large_file_is_a_gap_and_left_alone(
    repo: Repo, shadow_new: Shadow, claude: Claude
) -> None:
    """CAP-08: the limit itself is recorded, one byte more is a gap."""
    repo.git("config", "agent-undo.maxFileSize", "1000")
    shadow_new.init()
    claude.prompt("go")
    claude.write("fits", b"x" * 1000)
    claude.write("over", b"x" * 1001)
    claude.stop()
    rows = shadow_new.log()
    assert {(row["path"], row["kind"]) for row in rows} == {
        ("fits", "create"),
        ("over", "gap"),
    }
    gap = next(row for row in rows if row["kind"] == "gap")
    assert "too large" in str(gap["note"])
    with kept(repo, "fits"):
        report = shadow_new.oops()
    assert (actions(report), states(report)) == (
        {"fits": "delete"},
        {"fits": "reversed"},
    )
    assert "too large" in uncovered(report)["over"]
    assert not repo.exists("fits")


@pytest.mark.parametrize("existed", [True, False], ids=["rule", "file"])
def test_path_that_entered_coverage_is_never_deleted(
    repo: Repo, shadow_new: Shadow, claude: Claude, existed: bool
) -> None:
    """CAP-09: a path that was there before it was covered was created by nobody."""
    repo.write("x", "old\n")
    repo.write(".agent-undoignore", "x\n")
    shadow_new.init()
    claude.prompt("go")
    if existed:
        repo.write(".agent-undoignore", "")
    else:
        repo.delete(".agent-undoignore")
    claude.write("x", "new\n")
    claude.stop()
    report = shadow_new.oops()
    assert repo.exists("x")
    if repo.read("x") == b"old\n":
        assert (actions(report)["x"], states(report)["x"]) == ("write", "reversed")
    else:
        assert repo.read("x") == b"new\n"
        assert reasons(report)["x"] == "no_baseline"
        assert report["status"] == "partial"


def save_by_rename(repo: Repo, data: str) -> None:
    """Save `a` by a temporary file that is renamed over it."""
    repo.write("x.tmp", data)
    repo.rename("x.tmp", "a")


def save_like_vim(repo: Repo, data: str) -> None:
    """Save `a` as vim does with `backup` and a probe file."""
    repo.write("4913", "")
    repo.delete("4913")
    repo.rename("a", "a~")
    repo.write("a", data)
    repo.delete("a~")


def save_like_node(repo: Repo, data: str) -> None:
    """Save `a` as agents' file tools do."""
    name = "a.tmp.4711.1763719200123"
    repo.write(name, data)
    repo.rename(name, "a")


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "quick"])
@pytest.mark.parametrize("save", [save_by_rename, save_like_vim, save_like_node])
@pytest.mark.sampled
def test_atomic_save_is_one_modify(
    repo: Repo, shadow: Shadow, save: Callable[[Repo, str], None], flushed: bool
) -> None:
    """CAP-13: the dance leaves one row on the real file and no temporary name."""
    with kept(repo, "a"):
        for number in range(3 if flushed else 1):
            save(repo, f"saved {number}\n")
            if flushed:
                shadow.ok("flush")
        rows = shadow.log()
    count = 3 if flushed else 1
    assert [(row["path"], row["kind"]) for row in rows] == [("a", "modify")] * count
    assert names_in_history(repo) == {"a", "b", "c"}


def names_in_history(repo: Repo) -> set[str]:
    """Return every name in any tree of any commit on our refs."""
    tips = repo.shadow_refs().values()
    commits = repo.git("rev-list", *tips).split()
    names: set[str] = set()
    for commit in commits:
        names.update(
            repo.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0")[:-1]
        )
    return names


def test_offline_changes_stay_when_a_later_write_is_undone(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    """CAP-14: what happened while nobody watched is nobody's, and is not undone."""
    shadow.ok("stop")
    repo.write("a", "offline\n")
    repo.write("n", "new\n")
    repo.delete("b")
    if shadow.daemon:
        shadow.ok("start")
    rows = shadow.log()
    assert {(row["path"], row["kind"], row["actor"]) for row in rows} == {
        ("a", "modify", "unknown"),
        ("n", "create", "unknown"),
        ("b", "delete", "unknown"),
    }
    if shadow.daemon:
        assert [row.get("offline") for row in rows] == [True, True, True]
    with kept(repo, "a"):
        agent.prompt("go")
        agent.write("a", "agent\n")
        agent.stop()
        report = shadow.oops()
    assert (actions(report), states(report)) == ({"a": "write"}, {"a": "reversed"})
    assert repo.read("a") == b"offline\n"
    assert repo.read("n") == b"new\n"
    assert not repo.exists("b")


class Opens:
    """Tell which of some files anybody opens; inotify(7)."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0
        self._names: dict[int, bytes] = {}
        for path in paths:
            watch = libc.inotify_add_watch(self._fd, path, _IN_OPEN)
            assert watch >= 0, path
            self._names[watch] = path

    def seen(self) -> set[bytes]:
        """Return the files that were opened since the last time."""
        found: set[bytes] = set()
        with suppress(BlockingIOError):
            while data := os.read(self._fd, 65536):
                at = 0
                while at < len(data):
                    watch, _, _, size = struct.unpack_from("iIII", data, at)
                    found.add(self._names[watch])
                    at += 16 + size
        return found

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)


def make_special_files(repo: Repo, other: Repo) -> dict[str, str]:
    """Make one of each that is not covered; return path and reason."""
    repo.write(".gitignore", "ignored/\n")
    repo.write("ignored/deep/x", "x\n")
    with closing(socket.socket(socket.AF_UNIX)) as sock:
        here = os.getcwd()
        os.chdir(repo.root)
        sock.bind("sock")
        os.chdir(here)
    os.mkfifo(repo.path("fifo"))
    with open(repo.path("large"), "wb") as stream:
        stream.truncate(30 * 2**20)
    Repo.create(repo.root / "nested")
    source = f"file://{other.root}"
    allowed = ("-c", "protocol.file.allow=always")
    repo.git(*allowed, "submodule", "--quiet", "add", source, "module")
    repo.git("commit", "--quiet", "-m", "submodule")
    expected = {
        "ignored": "ignored",
        "sock": "socket",
        "fifo": "fifo",
        "large": "too large",
        "nested": "another repository",
        "module": "submodule",
    }
    with suppress(PermissionError):
        os.mknod(repo.path("device"), stat.S_IFCHR | 0o600, os.makedev(1, 5))
        expected["device"] = "device"
    return expected


def test_status_says_why_a_path_is_uncovered(
    repo: Repo, make_repo: Callable[..., Repo], shadow_new: Shadow
) -> None:
    """CAP-21: every special path has its reason; `init` opens none of them."""
    expected = make_special_files(repo, make_repo("other"))
    watched = ("large", "ignored/deep/x", "nested/a", "module/a", "fifo")
    opens = Opens([repo.path(path) for path in watched])
    with closing(opens), kept(repo):
        opens.seen()
        shadow_new.init()
        found = excluded(shadow_new)
        assert opens.seen() == set()
        repo.read("large")
        assert opens.seen() == {repo.path("large")}
    assert {path: found[path]["reason"] for path in expected} == expected
    assert found["ignored"]["rule"] == ".gitignore:1:ignored/"
    assert names_in_history(repo) >= {"a", "b", "c", ".gitignore", ".gitmodules"}
    assert not names_in_history(repo) & (expected.keys() - {"module"})


@pytest.mark.parametrize("place", ["", "Desktop", "Documents", "Downloads"])
def test_personal_directory_is_refused_unless_forced(
    sealed: Path, make_shadow: Callable[..., Shadow], place: str
) -> None:
    """CAP-22: a home directory is not recorded by mistake."""
    repo = Repo.create(sealed / place)
    shadow = make_shadow(repo, daemon=False)
    refused = shadow("init")
    assert refused.code == 1
    assert "home directory" in refused.err
    assert "--force" in refused.err
    assert not repo.state_dir.exists()
    assert repo.shadow_refs() == {}
    shadow.ok("init", "--force")
    repo.write("a", "mine\n")
    assert [row["path"] for row in shadow.log("a")] == ["a"]


def test_file_system_root_is_refused() -> None:
    """CAP-22: `/` is a whole file system."""
    with pytest.raises(UnsupportedError, match="cannot init /"):
        refuse_personal("/", None)
