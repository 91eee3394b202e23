"""The watcher of other systems against the real watchfiles: what it misses, it asks a walk for."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitshadow.model import RepoPath
from gitshadow.platform.portable import machine
from gitshadow.platform.portable import watcher as portable_watcher
from gitshadow.platform.portable.watcher import PortableWatcher
from gitshadow.platform.watching import Hints
from tests.support.waiting import HANGS_S, steadily, until

TOP = RepoPath(b"")
_QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


class Tree:
    """A worktree as a watcher sees one, with its Git directory inside."""

    def __init__(self, root: Path, *, recursive: bool) -> None:
        self.root = root
        git_dir = root / ".git"
        git_dir.mkdir(parents=True)
        self.woken = threading.Event()
        self.watcher = PortableWatcher(
            str(root), str(git_dir), self.woken.set, machine, recursive=recursive
        )

    def write(self, name: str | bytes, text: str = "x") -> RepoPath:
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)
        return RepoPath(os.fsencode(name))

    def hints(self, wanted: Callable[[Hints], bool]) -> Hints:
        """Wait, as the daemon's loop does, until the hints so far are what is wanted."""
        paths: set[RepoPath] = set()
        found = [Hints()]

        def look() -> bool:
            self.watcher.tidy()
            new = self.watcher.take()
            paths.update(new.paths)
            lost, git_dir = found[0].lost or new.lost, found[0].git_dir or new.git_dir
            overflow = found[0].overflow or new.overflow
            found[0] = Hints(frozenset(paths), lost, git_dir, overflow=overflow)
            return wanted(found[0])

        until(look)
        return found[0]

    def await_walk(self) -> None:
        """Wait until all is to be walked."""
        self.hints(lambda hints: hints.lost)
        self.watcher._walks._next = 0.0  # the next one may be asked for at once


@pytest.fixture
def plant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Tree]]:
    monkeypatch.setattr(portable_watcher, "_PAUSE_S", 0.01)
    with ExitStack() as stack:

        def make(*directories: str, recursive: bool = False) -> Tree:
            tree = Tree(tmp_path / "tree", recursive=recursive)
            for name in directories:
                (tree.root / name).mkdir(parents=True)
            stack.callback(tree.watcher.close)
            paths = [TOP, *(RepoPath(os.fsencode(name)) for name in directories)]
            tree.watcher.replace(paths)
            tree.await_walk()
            return tree

        yield make


@pytest.fixture
def tree(plant: Callable[..., Tree]) -> Tree:
    return plant()


@pytest.mark.parametrize("recursive", [False, True])
def test_write_in_a_watched_directory_is_hinted(
    plant: Callable[..., Tree], *, recursive: bool
) -> None:
    tree = plant("src", "src/deep", recursive=recursive)
    written = {tree.write("a"), tree.write("src/deep/a")}
    tree.hints(lambda hints: written <= hints.paths)
    assert tree.woken.is_set()


def test_barrier_asks_for_a_walk(tree: Tree) -> None:
    """CAP-01: what was written a moment ago may not be hinted at yet."""
    tree.write("a")
    assert tree.watcher.barrier().lost


@pytest.mark.parametrize("recursive", [False, True])
def test_git_directory_is_told_from_the_worktree(
    plant: Callable[..., Tree], *, recursive: bool
) -> None:
    """CAP-18: a move of HEAD is noticed, and no path of `.git` is ever hinted."""
    tree = plant(recursive=recursive)
    for name in ("HEAD", "description", "objects/00/file"):
        tree.write(f".git/{name}")
    written = tree.write("a")
    hints = tree.hints(lambda hints: written in hints.paths and hints.git_dir)
    assert hints == Hints(frozenset({written}), git_dir=True)


def test_all_is_walked_after_new_directories_are_watched(tree: Tree) -> None:
    """CAP-10: what is written before their watch has no hint, and after it one."""
    for name in (b"new", b"new/deep"):
        (tree.root / os.fsdecode(name)).mkdir()
        tree.watcher.add([RepoPath(name)])
    tree.await_walk()
    written = tree.write("new/deep/a")
    tree.hints(lambda hints: written in hints.paths or hints.lost)
    written = tree.write("new/deep/b")
    tree.hints(lambda hints: written in hints.paths)


@pytest.mark.parametrize("way", ["add", "enter"])
def test_directory_in_the_place_of_another_is_watched_again(
    plant: Callable[..., Tree], way: str
) -> None:
    """Its name was hinted, or a walk finds another inode there."""
    tree, path = plant("d"), RepoPath(b"d")
    (tree.root / "d").rename(tree.root.parent / "old")
    (tree.root / "d").mkdir()
    if way == "add":
        tree.watcher.add([path])
    else:
        tree.watcher.enter({path: (tree.root / "d").stat().st_ino})
    tree.await_walk()
    written = tree.write("d/a")
    tree.hints(lambda hints: written in hints.paths)


@pytest.mark.parametrize("way", ["replace", "enter"])
def test_nothing_is_watched_anew_where_nothing_changed(
    plant: Callable[..., Tree], way: str
) -> None:
    tree, path = plant("d"), RepoPath(b"d")
    if way == "replace":
        tree.watcher.replace([path, TOP])
    else:
        tree.watcher.enter({path: (tree.root / "d").stat().st_ino})
    written = tree.write("d/a")
    assert not tree.hints(lambda hints: written in hints.paths).lost


def test_links_are_not_followed(plant: Callable[..., Tree], tmp_path: Path) -> None:
    """CAP-23: a link to a directory is not watched, even if it is asked for."""
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = plant("src")
    (tree.root / "l").symlink_to(outside)
    tree.watcher.add([RepoPath(b"l")])
    tree.await_walk()
    (outside / "secret").write_text("x")
    inside = tree.write("src/a")
    hints = tree.hints(lambda hints: inside in hints.paths)
    assert hints.paths <= {inside, b"l"}


def test_only_what_is_covered_is_hinted_where_all_is_watched(
    plant: Callable[..., Tree],
) -> None:
    """CAP-23: with `recursive`, ignored directories are reported as well."""
    tree = plant("src", recursive=True)
    (tree.root / "ignored").mkdir()
    tree.write("ignored/a")
    inside = tree.write("src/a")
    hints = tree.hints(lambda hints: inside in hints.paths)
    assert hints.paths == {inside, b"ignored"}


def test_name_that_is_not_utf8_is_survived(tree: Tree) -> None:
    """CAP-11: it ends the watch; a new one takes its place, and all is walked."""
    tree.write(b"caf\xe9")
    tree.await_walk()
    # The second event of that name can end the next watch as well.
    tree.hints(lambda hints: tree.write("a") in hints.paths)
    assert tree.watcher.degraded() is None


def test_directory_that_is_not_utf8_is_walked_again_and_again(tree: Tree) -> None:
    """CAP-11: watchfiles cannot be given such a name, which the status says."""
    os.mkdir(os.path.join(os.fsencode(tree.root), b"d\xff"))
    tree.watcher.add([RepoPath(b"d\xff")])
    until(lambda: tree.watcher.degraded() is not None)
    assert "not UTF-8" in str(tree.watcher.degraded())
    for _ in range(2):
        tree.await_walk()
    tree.hints(lambda hints: tree.write("a") in hints.paths)


def test_vanished_directory_does_not_break_the_others(tree: Tree) -> None:
    for name in ("gone", "stays"):
        (tree.root / name).mkdir()
    shutil.rmtree(tree.root / "gone")
    tree.watcher.add([RepoPath(b"gone"), RepoPath(b"stays")])
    tree.await_walk()
    tree.hints(lambda hints: tree.write("stays/a") in hints.paths)
    assert tree.watcher.degraded() is None


def test_ticker_does_not_delay_a_write(tree: Tree) -> None:
    """CAP-12: with a steady writer beside it a write is hinted within the deadline."""
    with steadily(lambda: tree.write("ticker")) as ticks:
        began = ticks()
        written = tree.write("a")
        tree.hints(lambda hints: written in hints.paths)
        # The ticks of a second: a machine that stands still does not tick.
        assert ticks() - began < 500


_OPEN = """
import os, sys, time
from gitshadow.platform.portable import machine
from gitshadow.platform.portable.watcher import PortableWatcher
root = sys.argv[1]
deadline = time.monotonic() + float(sys.argv[2])
def until(condition):
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
        watcher.tidy()
    print(time.monotonic() < deadline, flush=True)
watcher = PortableWatcher(root, os.path.join(root, ".git"), lambda: None, machine)
"""
_STOPPED = f"""
{_OPEN}
watcher.replace([b""])
until(lambda: watcher.take().lost)
sys.stdin.readline()
until(lambda: watcher.take().overflow)
"""
_LIMIT = "/proc/sys/user/max_inotify_watches"
_LIMITED = f"""
{_OPEN}
names = [b"d%d" % number for number in range(10)]
for name in names:
    os.mkdir(os.path.join(os.fsencode(root), name))
with open("{_LIMIT}", "w") as limit:
    limit.write("3")
watcher.replace([b"", *names])
until(lambda: watcher.degraded() == machine.WATCH_HINT)
until(lambda: watcher.take().lost)
with open("{_LIMIT}", "w") as limit:
    limit.write("1000")
until(lambda: watcher.degraded() is None)
open(os.path.join(os.fsencode(root), b"d1", b"a"), "w").close()
until(lambda: b"d1/a" in watcher.take().paths)
"""


def test_stop_during_a_storm_is_never_passed_over(tree: Tree) -> None:
    """CAP-19: nobody says that the queue overflowed, but so much at once is a sign of it."""
    child = subprocess.Popen(
        [sys.executable, "-c", _STOPPED, str(tree.root), str(HANGS_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    child.send_signal(signal.SIGSTOP)
    for number in range(int(_QUEUE.read_text()) // 2):
        tree.write(f"{number}")
    child.send_signal(signal.SIGCONT)
    out, _ = child.communicate("\n", timeout=2 * HANGS_S)
    assert out == "True\n"


def test_exhausted_watches_are_said_and_stood_in_for(tree: Tree) -> None:
    """ROB-16: degraded, walks instead, and watched again once there are watches."""
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here: the limit cannot be lowered for one test")
    tree.watcher.close()
    done = subprocess.run(
        [*command, sys.executable, "-c", _LIMITED, str(tree.root), str(HANGS_S)],
        capture_output=True,
        text=True,
        timeout=2 * HANGS_S,
        check=False,
    )
    assert done.stdout.split() == ["True"] * 4, done.stderr


def test_close_ends_the_thread(plant: Callable[..., Tree]) -> None:
    before = set(threading.enumerate())
    tree = plant()
    (ours,) = set(threading.enumerate()) - before
    tree.watcher.close()
    until(lambda: not ours.is_alive())
