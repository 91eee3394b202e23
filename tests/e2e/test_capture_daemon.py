"""CAP: what only a watcher can record, against the real notifier."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.audit import open_journal
from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Document, Shadow
from tests.support.waiting import HANGS_S, until

pytestmark = pytest.mark.process


@pytest.fixture
def agent_d(shadow_d: Shadow) -> Claude:
    """Return an agent session in R with the daemon."""
    return Claude(shadow_d)


def daemon_pid(shadow: Shadow) -> int:
    """Return the pid of the daemon that answers."""
    daemon = shadow.status()["daemon"]
    assert isinstance(daemon, dict)
    assert daemon["running"] is True
    return int(daemon["pid"])


def rows_of(rows: Sequence[Document], *kinds: str) -> list[Document]:
    """Return the rows of some kinds."""
    return [row for row in rows if row["kind"] in kinds]


def test_one_write_is_one_row_with_exact_bytes(repo: Repo, shadow_d: Shadow) -> None:
    """CAP-01: before and after are the blobs of the bytes, the diff is the write."""
    before = repo.blob("a")
    with kept(repo, "a"):
        repo.write("a", b"one\r\ntwo\xff")
        shadow_d.ok("flush")
        (row,) = shadow_d.ok("log", "-n1", "--json").rows()
    assert (row["path"], row["kind"], row["actor"]) == ("a", "modify", "unknown")
    assert row["before"] == {"oid": before, "mode": "100644"}
    assert row["after"] == {"oid": repo.blob("a"), "mode": "100644"}
    commit = str(row["commit"])
    assert repo.git("diff-tree", "-r", "--name-only", f"{commit}^", commit) == "a"
    assert repo.git("rev-parse", f"{commit}:a") == repo.blob("a")


def test_files_of_a_new_deep_tree_are_all_recorded(
    repo: Repo, shadow_d: Shadow
) -> None:
    """CAP-10: what is written right after `mkdir -p` is not missed."""
    names = []
    for number in range(500):
        depth = number % 10 + 1
        below = "/".join(f"d{number % 7}-{level}" for level in range(depth))
        names.append(f"deep/{below}/f{number}")
    with kept(repo, "deep"):
        for name in names:
            repo.write(name, f"{name}\n")
        rows = shadow_d.log()
    created = rows_of(rows, "create")
    assert sorted(str(row["path"]) for row in created) == sorted(names)
    # On a machine that stood still between `open` and `write`, the empty file is a state as well.
    empty = repo.object_format.empty_blob
    for row in rows:
        if row not in created:
            assert row["kind"] == "modify"
            assert row["before"] == {"oid": empty, "mode": "100644"}


def test_name_that_is_not_utf8_does_not_end_the_watch(
    repo: Repo, shadow_d: Shadow
) -> None:
    """CAP-11: the odd name and what follows it are recorded by the same daemon."""
    pid = daemon_pid(shadow_d)
    with kept(repo, b"caf\xe9", b"d\xff", "a"):
        repo.write(b"caf\xe9", "odd\n")
        repo.write("a", "after\n")
        repo.write(b"d\xff/inner", "odd directory\n")
        rows = shadow_d.log()
        assert {(row["path"], row["kind"]) for row in rows} == {
            ('"caf\\351"', "create"),
            ("a", "modify"),
            ('"d\\377/inner"', "create"),
        }
        repo.write(b"caf\xe9", "odd again\n")
        repo.write(b"d\xff/inner", "again\n")
        repo.write("a", "last\n")
        newest = shadow_d.log("-n3")
    assert {(row["path"], row["kind"]) for row in newest} == {
        ('"caf\\351"', "modify"),
        ('"d\\377/inner"', "modify"),
        ("a", "modify"),
    }
    assert daemon_pid(shadow_d) == pid


@contextmanager
def ticking(paths: Sequence[bytes]) -> Iterator[None]:
    """Rewrite each path every 50 ms."""
    done = threading.Event()

    def tick() -> None:
        number = 0
        while not done.wait(0.05):
            number += 1
            for path in paths:
                with open(path, "wb") as stream:
                    stream.write(b"%d\n" % number)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def await_row(shadow: Shadow, wanted: str) -> None:
    """Wait until a path has a row; nothing is flushed."""
    query = "SELECT count(*) FROM events WHERE path = ?"
    with closing(open_journal(shadow.repo)) as db:
        until(lambda: db.execute(query, (wanted.encode(),)).fetchone() != (0,))


def test_busy_tickers_do_not_hold_up_a_write(repo: Repo, shadow_d: Shadow) -> None:
    """CAP-12: a batch has a deadline however busy the tree is, for it never rests here."""
    repo.write(".gitignore", "ignored/\n")
    repo.write("ignored/x", "x\n")
    repo.write("t", "0\n")
    shadow_d.ok("flush")
    tickers = [repo.path(name) for name in (".git/ticker", "ignored/t", "t")]
    with ticking(tickers):
        until(lambda: repo.read("t") != b"0\n")
        repo.write("a", "in time\n")
        await_row(shadow_d, "a")
    repo.delete(".git/ticker")
    assert not {row["path"] for row in shadow_d.log()} & {"ignored/t", ".git/ticker"}


def test_moved_directory_is_renames(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """CAP-16: `mv src lib` is one rename per file, nothing is written anew."""
    for number in range(50):
        repo.write(f"src/sub{number % 5}/f{number}", f"file {number}\n")
    repo.commit("src")
    shadow = make_shadow(repo)
    shadow.init()
    with kept(repo, "src", "lib"):
        repo.rename("src", "lib")
        rows = shadow.log()
    assert {row["kind"] for row in rows} == {"rename"}
    assert len(rows) == 50
    for row in rows:
        assert str(row["old_path"]) == "src" + str(row["path"]).removeprefix("lib")
        assert row["before"] == row["after"]
    tree = repo.git("ls-tree", "--name-only", str(rows[0]["commit"])).split()
    assert tree == ["a", "b", "c", "lib"]


def test_checkout_is_one_head_row(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """CAP-18: Git's switch is Git's, and it ends the open burst."""
    repo.git("checkout", "--quiet", "-b", "other")
    for number in range(200):
        repo.write(f"many/f{number}", f"other {number}\n")
    repo.commit("other")
    repo.git("checkout", "--quiet", "main")
    shadow = make_shadow(repo)
    shadow.init()
    claude = Claude(shadow)
    claude.prompt("go")
    claude.write("n1", "before\n")
    repo.git("checkout", "--quiet", "other")
    shadow.ok("flush")
    claude.write("n2", "after\n")
    claude.stop()
    rows = shadow.log()
    (head,) = rows_of(rows, "head")
    assert "main" in str(head["note"])
    assert "other" in str(head["note"])
    assert head["files"] == 200
    assert not any(str(row["path"]).startswith("many/") for row in rows)
    switched = shadow.ok("show", str(head["seq"]), "--json").json()["events"]
    assert isinstance(switched, list)
    assert {row["path"] for row in switched} == {f"many/f{at}" for at in range(200)}
    assert {row["commit"] for row in switched} == {head["commit"]}
    assert {row["burst"] for row in switched} == {None}
    bursts = {row["path"]: row["burst"] for row in rows if row["path"] in ("n1", "n2")}
    assert bursts["n1"] is not None
    assert bursts["n1"] != bursts["n2"]


def rewrite_quickly(repo: Repo, files: int, count: int) -> None:
    """Write `count` times to files of R, one after the other."""
    paths = [repo.path(f"d{number % 20}/f{number}") for number in range(files)]
    for number in range(count):
        handle = os.open(paths[number % files], os.O_WRONLY)
        os.write(handle, b"%06d\n" % number)
        os.close(handle)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Have a process stand still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def crowded(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the command, with the daemon, in R with 2,000 more files."""
    for number in range(2_000):
        repo.write(f"d{number % 20}/f{number}", "0\n")
    shadow = make_shadow(repo)
    shadow.init()
    return shadow


def has_connected(asking: "subprocess.Popen[bytes]") -> bool:
    """Tell whether a command has a socket open: it asks the daemon."""
    for handle in Path(f"/proc/{asking.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.readlink(handle).startswith("socket:"):
                return True
    return False


@pytest.mark.parametrize("early", [True, False], ids=["asked-early", "asked-late"])
def test_overflow_is_a_gap_and_everything_is_looked_at(
    repo: Repo, crowded: Shadow, early: bool
) -> None:
    """CAP-19, LAW-06: the kernel dropped events without a word; a gap row says so."""
    with stopped(daemon_pid(crowded)):
        rewrite_quickly(repo, 2_000, 50_000)
        repo.write("late/new/file", "dropped\n")
        repo.write("b", "dropped\n")
        repo.delete("c")
        asked = crowded.spawn("flush") if early else None
        if asked is not None:
            until(lambda: has_connected(asked))
    if asked is not None:
        assert asked.communicate(timeout=HANGS_S) == (b"", b"")
        assert asked.returncode == 0
    crowded.verify()
    rows = crowded.log()
    assert {row["path"] for row in rows} >= {"late/new/file", "b", "c"}
    assert rows_of(rows, "gap") != []


def test_short_overflow_on_few_files_loses_nothing(repo: Repo, crowded: Shadow) -> None:
    """CAP-19: a queue filled by two files in a moment hides what came after."""
    with stopped(daemon_pid(crowded)):
        rewrite_quickly(repo, 2, 20_000)
        repo.write("late/new/file", "dropped\n")
        repo.delete("c")
    crowded.verify()
    assert {row["path"] for row in crowded.log()} >= {"late/new/file", "c"}


def watched(pid: int) -> list[int]:
    """Return how many directories each inotify instance of a process watches."""
    counts = []
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            text = Path(f"/proc/{pid}/fdinfo/{name}").read_text()
        except FileNotFoundError:
            continue
        counts.append(text.count("inotify wd:"))
    return [count for count in counts if count]


@pytest.mark.parametrize(
    "backend",
    [
        # only Linux has this watcher
        pytest.param("inotify", marks=pytest.mark.linux),
        "watchfiles",
    ],
)
def test_links_and_ignored_trees_are_not_watched(
    repo: Repo,
    tmp_path: Path,
    make_shadow: Callable[..., Shadow],
    backend: str,
) -> None:
    """CAP-23: only covered directories are watched, links are followed nowhere."""
    repo.git("config", "agent-undo.watcher", backend)
    outside = Repo(tmp_path / "outside")
    for number in range(5):
        outside.write(f"sub/f{number}", "outside\n")
    repo.symlink("l", "/")
    repo.symlink("m", ".")
    repo.symlink("n", str(outside.root))
    repo.write(".gitignore", "ignored/\n")
    for number in range(5_000):
        repo.mkdir(f"ignored/{number % 50}/{number}")
    covered = ["", *(f"w{number}" for number in range(10))]
    covered += [f"w{number}/inner" for number in range(10)]
    for directory in covered[11:]:
        repo.write(f"{directory}/f", "0\n")
    shadow = make_shadow(repo)
    shadow.init()
    pid = daemon_pid(shadow)
    names = [f"{directory}/g".lstrip("/") for directory in covered]
    repo.write("n/sub/f0", "through the link\n")
    for name in names:
        repo.write(name, "1\n")
    repo.write("a", "1\n")
    await_row(shadow, "a")
    rows = shadow.log()
    assert {row["path"] for row in rows} == {*names, "a"}
    until(lambda: watched(pid) == [len(covered) + 1])  # one for the Git directory


def test_write_through_one_name_changes_every_hard_link(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """CAP-01: the kernel tells of one name of a file, all of them are recorded."""
    repo.mkdir("sub")
    os.link(repo.path("a"), repo.path("sub/twin"))
    shadow = make_shadow(repo)
    shadow.init()
    with kept(repo, "a", "sub"):
        repo.write("sub/twin", "both\n")
        rows = shadow.log()
        assert {(row["path"], row["kind"]) for row in rows} == {
            ("a", "modify"),
            ("sub/twin", "modify"),
        }
        os.link(repo.path("a"), repo.path("sub/third"))
        repo.chmod("sub/third", 0o755)
        shadow.verify()


def test_rows_come_without_a_flush(repo: Repo, shadow_d: Shadow) -> None:
    """CAP-01: the daemon records by itself, soon after the write."""
    repo.write("b", "soon\n")
    await_row(shadow_d, "b")
    (row,) = shadow_d.log()
    assert row["before"] == {
        "oid": repo.git("rev-parse", "HEAD:b"),
        "mode": "100644",
    }
    assert repo.read("a") == ten_lines("a").encode()
