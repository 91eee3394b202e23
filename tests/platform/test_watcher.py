"""The watcher of Linux against the real inotify: each trap that was measured is a test."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gitshadow.model import RepoPath
from gitshadow.platform.linux.inotify import InotifyWatcher
from gitshadow.platform.linux.machine import shared_file_system
from gitshadow.platform.watching import Hints
from tests.support.waiting import HANGS_S, steadily, until

TOP = RepoPath(b"")
_PROC = Path("/proc/sys/fs/inotify/max_queued_events")


class Tree:
    """A worktree as a watcher sees one, with its Git directory inside."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git_dir = root / ".git"
        self.git_dir.mkdir(parents=True)
        self.woken = threading.Event()
        self.watcher = InotifyWatcher(str(root), str(self.git_dir), self.woken.set)

    def write(self, name: str | bytes, text: str = "x") -> RepoPath:
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)
        return RepoPath(os.fsencode(name))

    def barrier(self) -> Hints:
        """Return what a barrier does, but for which files are finished."""
        return self.watcher.barrier()._replace(finished=frozenset())

    def until(self, condition: Callable[[], bool]) -> None:
        until(condition, between=self.watcher.tidy)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Callable[..., Tree]]:
    with ExitStack() as stack:

        def make(*directories: str) -> Tree:
            tree = Tree(tmp_path / "tree")
            for name in directories:
                (tree.root / name).mkdir(parents=True)
            paths = [TOP, *(RepoPath(os.fsencode(name)) for name in directories)]
            stack.callback(tree.watcher.close)
            tree.watcher.add(paths)
            return tree

        yield make


@pytest.fixture
def tree(plant: Callable[..., Tree]) -> Tree:
    return plant()


def test_barrier_returns_every_earlier_write(plant: Callable[..., Tree]) -> None:
    """CAP-01: what was written before the call is in the hints."""
    tree = plant("src", "src/deep")
    written = {
        tree.write(f"{place}{number}")
        for number in range(300)
        for place in ("", "src/", "src/deep/")
    }
    assert tree.barrier().paths >= written


def test_barrier_forgets_what_it_returned(tree: Tree) -> None:
    tree.write("a")
    tree.barrier()
    assert tree.barrier() == Hints()


def test_take_returns_a_write_after_the_wake(tree: Tree) -> None:
    tree.write("a")
    assert tree.woken.wait(HANGS_S)
    assert tree.watcher.take().paths == {b"a"}


def test_git_directory_is_told_from_the_worktree(tree: Tree) -> None:
    """CAP-18: a move of HEAD is noticed, and no path of `.git` is ever hinted."""
    tree.write(".git/HEAD")
    assert tree.barrier() == Hints(git_dir=True)
    tree.write(".git/description")
    assert tree.barrier() == Hints()


def test_head_has_moved_when_it_was_replaced_after_the_index(tree: Tree) -> None:
    """CAP-18: Git's last act of a checkout; what locks the index again begins something new."""
    for name in ("index", "HEAD"):
        tree.write(f".git/{name}.lock")
        os.rename(tree.git_dir / f"{name}.lock", tree.git_dir / name)
    assert tree.barrier() == Hints(git_dir=True, head_moved=True)
    tree.write(".git/index.lock")
    assert tree.barrier() == Hints(git_dir=True)


def test_new_directory_is_watched_when_add_returns(tree: Tree) -> None:
    """CAP-10: nothing is missing that is written after `add`."""
    (tree.root / "new" / "deep").mkdir(parents=True)
    tree.watcher.add([RepoPath(b"new"), RepoPath(b"new/deep")])
    written = {tree.write(f"new/deep/{number}") for number in range(200)}
    assert tree.barrier().paths >= written


def test_nested_directories_are_hinted_one_by_one(tree: Tree) -> None:
    """CAP-10: a caller that adds what is hinted, then lists it, finds 500 files of 500."""
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys\n"
            "for top in range(50):\n"
            "    place = os.path.join(sys.argv[1], *(f'{top}d{n}' for n in range(10)))\n"
            "    os.makedirs(place)\n"
            "    for number in range(10):\n"
            "        open(os.path.join(place, str(number)), 'w').close()\n",
            str(tree.root),
        ]
    )
    seen: set[RepoPath] = set()
    done = False
    while not done:
        done = child.poll() is not None
        _follow(tree, tree.barrier().paths, seen)
    files = {path for path in seen if (tree.root / os.fsdecode(path)).is_file()}
    assert len(files) == 500


def _follow(tree: Tree, hinted: frozenset[RepoPath], seen: set[RepoPath]) -> None:
    """Watch a new directory first and list it then, as an engine does."""
    frontier = set(hinted)
    while frontier:
        seen |= frontier
        new = [path for path in frontier if (tree.root / os.fsdecode(path)).is_dir()]
        if new:
            tree.watcher.add(new)
        frontier = {
            RepoPath(path + b"/" + os.fsencode(name))
            for path in new
            for name in os.listdir(tree.root / os.fsdecode(path))
        } - seen


def test_links_are_not_followed(plant: Callable[..., Tree], tmp_path: Path) -> None:
    """CAP-23: links to `/`, `.` and outside cost no watch and hide nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = plant("src")
    for name, target in (("l", "/"), ("m", "."), ("n", str(outside))):
        (tree.root / name).symlink_to(target)
    links = [RepoPath(name) for name in (b"l", b"m", b"n")]
    tree.watcher.replace([TOP, RepoPath(b"src"), *links])
    tree.barrier()
    # The top, src and the Git directory; earlier tests' may still be closing.
    tree.until(lambda: _kernel_watches() == 3)
    (outside / "secret").write_text("x")
    inside = tree.write("src/a")
    assert tree.barrier().paths == {inside}


def _kernel_watches() -> int:
    """Count the distinct files that this process watches (proc(5), fdinfo)."""
    found: set[tuple[str, str]] = set()
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            lines = info.read_text().splitlines()
        except OSError:
            continue
        words = [line.split() for line in lines if line.startswith("inotify")]
        found |= {(word[2], word[3]) for word in words}
    return len(found)


def test_ticker_does_not_delay_a_write(tree: Tree) -> None:
    """CAP-12: with a steady writer beside it a write is hinted within the deadline."""
    with steadily(lambda: tree.write("ticker")) as ticks:
        began = ticks()
        tree.write("a")
        found: set[RepoPath] = set()
        while b"a" not in found:
            assert tree.woken.wait(HANGS_S)
            tree.woken.clear()
            found |= tree.watcher.take().paths
        # The ticks of a second: a machine that stands still does not tick.
        assert ticks() - began < 500


def test_vanished_directory_does_not_break_the_others(tree: Tree) -> None:
    for name in ("gone", "stays"):
        (tree.root / name).mkdir()
    (tree.root / "gone").rmdir()
    tree.watcher.add([RepoPath(b"gone"), RepoPath(b"stays")])
    inside = tree.write("stays/a")
    assert inside in tree.barrier().paths
    assert tree.watcher.degraded() is None


def test_directory_that_comes_again_is_watched_again(
    plant: Callable[..., Tree],
) -> None:
    tree = plant("d")
    shutil.rmtree(tree.root / "d")
    (tree.root / "d").mkdir()
    assert b"d" in tree.barrier().paths
    tree.watcher.add([RepoPath(b"d")])
    inside = tree.write("d/a")
    assert inside in tree.barrier().paths


def test_nothing_is_lost_while_instances_are_exchanged(
    plant: Callable[..., Tree],
) -> None:
    """CAP-10: the new instance is open before the old one ends."""
    tree = plant("d")
    stop = threading.Event()
    written: set[RepoPath] = set()

    def write() -> None:
        number = 0
        while not stop.is_set():
            written.add(tree.write(f"d/{number}"))
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[RepoPath] = set()
    for _ in range(20):
        tree.watcher.replace([TOP, RepoPath(b"d")])
        seen |= tree.barrier().paths
    stop.set()
    writer.join()
    seen |= tree.barrier().paths
    assert seen >= written


_OPEN = """
import os, sys
from gitshadow.platform.linux.inotify import InotifyWatcher
root = sys.argv[1]
watcher = InotifyWatcher(root, os.path.join(root, ".git"), lambda: None)
"""
_STOPPED = f"""
{_OPEN}
watcher.add([b""])
print("ready", flush=True)
sys.stdin.readline()
hints = watcher.barrier()
print(hints.lost, hints.overflow, watcher.barrier().lost)
"""


def test_stop_during_a_storm_is_never_passed_over(tree: Tree) -> None:
    """CAP-19: the kernel's queue overflowed while the process was stopped."""
    child = subprocess.Popen(
        [sys.executable, "-c", _STOPPED, str(tree.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGSTOP)
    for number in range(int(_PROC.read_text()) // 2):
        tree.write(f"{number}")
    child.send_signal(signal.SIGCONT)
    out, _ = child.communicate("\n", timeout=HANGS_S)
    assert out == "True True False\n"


_LIMITED = f"""
with open("/proc/sys/user/max_inotify_watches", "w") as limit:
    limit.write("3")
{_OPEN}
names = [b"d%d" % number for number in range(10)]
for name in names:
    os.mkdir(os.path.join(os.fsencode(root), name))
watcher.replace([b"", *names])
print("sysctl fs.inotify.max_user_watches" in (watcher.degraded() or ""))
print(watcher.barrier().lost)
watcher.tidy()
print(watcher.take().lost)
with open("/proc/sys/user/max_inotify_watches", "w") as limit:
    limit.write("1000")
watcher.replace([b"", *names])
open(os.path.join(os.fsencode(root), b"d1", b"a"), "w").close()
print(watcher.degraded(), sorted(watcher.barrier().paths))
"""


def test_exhausted_watches_are_said_and_stood_in_for(tree: Tree) -> None:
    """ROB-16: degraded, walks instead, and watched again once there are watches."""
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here: the limit cannot be lowered for one test")
    tree.watcher.close()
    done = subprocess.run(
        [*command, sys.executable, "-c", _LIMITED, str(tree.root)],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "True",
        "True",
        "True",
        "None [b'd1/a']",
    ], done.stderr


def _nothing() -> None:
    pass


def test_no_instance_is_left_open_where_nothing_can_be_watched(tmp_path: Path) -> None:
    with closing(
        InotifyWatcher(str(tmp_path), str(tmp_path / "x"), _nothing)
    ) as watcher:
        before = set(os.listdir("/proc/self/fd"))
        # More often than earlier tests' watchers can close theirs in the meantime.
        for _ in range(20):
            watcher.replace([TOP])
        assert set(os.listdir("/proc/self/fd")) <= before
        assert watcher.degraded() is not None


def test_directory_that_was_swapped_is_not_watched_as_what_it_is_now(
    plant: Callable[..., Tree],
) -> None:
    """A watch follows the directory when it is renamed; the name may be another's by then."""
    tree = plant("dir", "stays")
    (tree.root / "dir").rename(tree.root / "old")
    (tree.root / "dir").mkdir()
    there = [RepoPath(b"dir"), RepoPath(b"stays"), RepoPath(b"old"), TOP]
    assert tree.watcher.unwatched(there) == {b"dir", b"old"}
    tree.barrier()  # a report of the renaming that comes later would hide the second watch
    tree.watcher.add([RepoPath(b"dir"), RepoPath(b"old")])
    assert tree.watcher.unwatched(there) == set()


@pytest.mark.parametrize("way", ["moved", "removed"])
def test_watched_directory_hints_at_itself_when_its_name_is_anothers(
    plant: Callable[..., Tree], way: str
) -> None:
    """The directory above is not watched here, and could say nothing."""
    tree = plant("dir")
    tree.watcher.replace([RepoPath(b"dir")])
    if way == "moved":
        (tree.root / "dir").rename(tree.root / "old")
    else:
        (tree.root / "dir").rmdir()
    assert tree.barrier().paths == {b"dir"}


def test_directory_that_is_gone_needs_no_watch(
    plant: Callable[..., Tree],
) -> None:
    tree = plant("gone")
    (tree.root / "gone").rmdir()
    assert tree.watcher.unwatched([RepoPath(b"gone")]) == set()


def test_names_are_bytes(tree: Tree) -> None:
    """CAP-11: a name that is not UTF-8 is like any other, of a directory too."""
    odd = tree.write(b"caf\xe9")
    os.mkdir(os.path.join(os.fsencode(tree.root), b"d\xff"))
    assert tree.barrier() == Hints(frozenset({odd, RepoPath(b"d\xff")}))
    tree.watcher.add([RepoPath(b"d\xff")])
    inner = tree.write(b"d\xff/\xfe")
    assert tree.barrier() == Hints(frozenset({inner}))


def test_file_is_finished_when_its_writer_closes_it(tree: Tree) -> None:
    """Until then it is hinted by a barrier alone, or after a moment."""
    path = RepoPath(b"a")
    with open(tree.root / "a", "w") as stream:
        stream.write("half")
        stream.flush()
        hints = tree.watcher.barrier()
        assert hints == Hints(frozenset({path}))
    assert tree.watcher.barrier() == Hints(
        frozenset({path}), finished=frozenset({path})
    )
    with open(tree.root / "a", "w") as second:
        hints = tree.watcher.barrier()
        assert hints == Hints(frozenset({path}))
        second.write("x")
    os.rename(tree.root / "a", tree.root / "b")
    hints = tree.watcher.barrier()
    assert hints.finished == {b"a", b"b"}


def test_file_that_stays_open_is_hinted_again_and_again(tree: Tree) -> None:
    with open(tree.root / "log", "w") as stream:
        for number in range(3):
            tree.woken.clear()
            stream.write(f"{number}\n")
            stream.flush()
            assert tree.woken.wait(HANGS_S)
            assert tree.watcher.take() == Hints(frozenset({RepoPath(b"log")}))


def test_link_is_hinted_though_nobody_closes_it(tree: Tree) -> None:
    (tree.root / "link").symlink_to("target")
    assert tree.woken.wait(HANGS_S)
    assert tree.watcher.take().paths == {b"link"}


def test_overflow_of_the_queue_is_said_once(tree: Tree) -> None:
    """CAP-19: with the lock held nobody empties the queue."""
    watcher = tree.watcher
    with watcher._lock:
        for number in range(int(_PROC.read_text())):
            tree.write(f"{number}")
    first, second = watcher.barrier(), watcher.barrier()
    assert (first.lost, first.overflow) == (True, True)
    assert (second.lost, second.overflow) == (False, False)


def test_moved_directory_is_watched_under_its_new_name(
    plant: Callable[..., Tree],
) -> None:
    """The kernel keeps the watch; what is below has its old name until it is added."""
    tree = plant("d", "d/e")
    os.rename(tree.root / "d", tree.root / "n")
    there = [RepoPath(b"n"), RepoPath(b"n/e")]
    assert tree.barrier().paths == {b"d", b"n"}
    assert tree.watcher.unwatched(there) == set(there)
    tree.watcher.add(there)
    assert tree.watcher.unwatched(there) == set()
    written = {tree.write("n/a"), tree.write("n/e/b")}
    assert tree.barrier().paths == written


def test_walk_is_asked_for_where_a_directory_was_listed_before_it_was_watched(
    tree: Tree,
) -> None:
    """CAP-10: what was written in between has no hint."""
    tree.write("d/a")
    there = [TOP, RepoPath(b"d")]
    tree.watcher.replace(there)
    for _ in range(2):
        assert tree.barrier().lost
    tree.watcher.tidy()
    assert tree.watcher.take().lost
    tree.watcher.replace(there)
    assert not tree.barrier().lost
    tree.write("e/a")
    tree.watcher.enter({RepoPath(b"e"): (tree.root / "e").stat().st_ino})
    tree.watcher.replace([*there, RepoPath(b"e")])
    assert not tree.barrier().lost


def test_watch_that_is_not_wanted_any_more_is_ended(plant: Callable[..., Tree]) -> None:
    tree = plant("d", "e")
    tree.watcher.replace([TOP, RepoPath(b"e")])
    tree.write("d/a")
    inside = tree.write("e/a")
    assert tree.barrier().paths == {inside}


def test_close_ends_the_thread_and_gives_its_descriptors_back(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    tree, never = Tree(tmp_path / "tree"), Tree(tmp_path / "never")
    tree.watcher.add([TOP])
    (ours,) = set(threading.enumerate()) - threads
    assert _inotify_instances() > 0
    for one in (tree, never):
        one.watcher.close()
    until(lambda: not ours.is_alive())
    until(lambda: _inotify_instances() == 0)  # earlier tests' may still be closing
    for one in (tree, never):
        one.watcher.close()
        assert one.watcher.take() == Hints()


def _inotify_instances() -> int:
    links = (str(one) for one in Path("/proc/self/fd").iterdir())
    found = [os.readlink(link) for link in links if os.path.lexists(link)]
    return found.count("anon_inode:inotify")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ext4", None),
        ("fuseblk", None),
        ("overlay", None),
        ("nfs4", "nfs4"),
        ("9p", "9p"),
        ("fuse.sshfs", "fuse.sshfs"),
    ],
)
def test_file_system_that_others_write_to_is_recognized(
    tmp_path: Path, kind: str, said: str | None
) -> None:
    """proc(5): optional fields stand between the options and the kind."""
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"22 1 0:{os.minor(device) + 1} / /proc rw - proc proc rw\n"
        f"36 35 {number} / /a\\040b rw shared:1 master:2 - {kind} server:/x rw\n"
    )
    assert shared_file_system(str(tmp_path), str(mounts)) == said
