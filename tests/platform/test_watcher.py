"""Both watchers against the real notifier: each trap that was measured is a test."""

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
from gitshadow.platform.linux import machine
from gitshadow.platform.linux.inotify import InotifyWatcher
from gitshadow.platform.linux.machine import shared_file_system
from gitshadow.platform.portable import watcher as portable_watcher
from gitshadow.platform.portable.watcher import Cookies, PortableWatcher
from gitshadow.platform.watching import Hints, Watcher
from tests.support.waiting import HANGS_S, until

TOP = RepoPath(b"")
_PROC = Path("/proc/sys/fs/inotify/max_queued_events")


BACKENDS = ("inotify", "watchfiles")
only_inotify = pytest.mark.parametrize("backend", ["inotify"])
only_watchfiles = pytest.mark.parametrize("backend", ["watchfiles"])


def open_watcher(
    backend: str, root: Path, cookies: Path, wake: Callable[[], None]
) -> Watcher:
    git_dir = str(root / ".git")
    if backend == "inotify":
        return InotifyWatcher(str(root), git_dir, wake)
    return PortableWatcher(str(root), git_dir, str(cookies), wake, machine)


class Tree:
    """A worktree as a watcher sees one, with its Git directory inside."""

    def __init__(self, root: Path, backend: str) -> None:
        self.root = root
        self.git_dir = root / ".git"
        self.cookies = self.git_dir / "agent-undo" / "cookies"
        self.cookies.mkdir(parents=True)
        self.woken = threading.Event()
        self.watcher = open_watcher(backend, root, self.cookies, self.woken.set)

    def write(self, name: str | bytes, text: str = "x") -> RepoPath:
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)
        return RepoPath(os.fsencode(name))

    @property
    def portable(self) -> PortableWatcher:
        assert isinstance(self.watcher, PortableWatcher)
        return self.watcher

    def barrier(self) -> Hints:
        """Return what a barrier does, without what only one of the watchers can say."""
        hints = self.watcher.barrier(HANGS_S)
        assert hints is not None
        return hints._replace(finished=frozenset())

    def until(self, condition: Callable[[], bool]) -> None:
        until(condition, between=self.watcher.tidy)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def plant(tmp_path: Path, backend: str) -> Iterator[Callable[..., Tree]]:
    with ExitStack() as stack:

        def make(*directories: str, polled: tuple[bytes, ...] = ()) -> Tree:
            tree = Tree(tmp_path / "tree", backend)
            for name in directories:
                (tree.root / name).mkdir(parents=True)
            paths = [TOP, *(RepoPath(os.fsencode(name)) for name in directories)]
            stack.callback(tree.watcher.close)
            tree.watcher.replace(paths, [RepoPath(path) for path in polled])
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


def test_barrier_leaves_no_cookie_behind(tree: Tree) -> None:
    tree.barrier()
    assert list(tree.cookies.iterdir()) == []


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


@only_inotify
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
    tree.watcher.replace([TOP, RepoPath(b"src"), *links], [])
    tree.barrier()
    # The top, src, the Git directory and the cookies; earlier tests' may still be closing.
    own = 3 if isinstance(tree.watcher, InotifyWatcher) else 4
    tree.until(lambda: _kernel_watches() == own)
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
    stop, ticks = threading.Event(), [0]

    def tick() -> None:
        while not stop.wait(0.002):
            tree.write("ticker")
            ticks[0] += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        began = ticks[0]
        tree.write("a")
        found: set[RepoPath] = set()
        while b"a" not in found:
            assert tree.woken.wait(HANGS_S)
            tree.woken.clear()
            found |= tree.watcher.take().paths
        # The ticks of a second: a machine that stands still does not tick.
        assert ticks[0] - began < 500
    finally:
        stop.set()
        ticker.join()


@only_watchfiles
def test_name_that_is_not_utf8_is_survived(tree: Tree) -> None:
    """CAP-11: the dead instance is replaced at once, and everything counts as lost."""
    tree.write(b"caf\xe9")
    tree.until(lambda: tree.watcher.take().lost)
    # The second event of that name can end the next instance as well.
    tree.until(lambda: not tree.barrier().lost)
    after = tree.write("a")
    assert tree.barrier().paths >= {after}


@only_watchfiles
def test_polled_directory_tells_names_that_are_not_utf8(
    plant: Callable[..., Tree],
) -> None:
    """CAP-11: a barrier includes what is polled, without waiting for the next poll."""
    tree = plant("odd", polled=(b"odd",))
    name = tree.write(b"odd/caf\xe9")
    listed = frozenset({RepoPath(b"odd")})
    assert tree.barrier() == Hints(frozenset({name}), listed=listed)
    # Within one tick of the clock a second write can leave the same stat behind.
    tree.until(lambda: tree.barrier() == Hints())
    tree.write(name, "changed")
    assert tree.barrier().paths == {name}
    os.unlink(os.path.join(os.fsencode(tree.root), name))
    assert tree.barrier().paths == {name}


@only_watchfiles
def test_polled_directory_is_looked_at_without_a_barrier(
    plant: Callable[..., Tree],
) -> None:
    """CAP-11: a write in a polled directory wakes the daemon."""
    tree = plant("odd", polled=(b"odd",))
    name = tree.write(b"odd/\xff")
    assert tree.woken.wait(HANGS_S)
    assert tree.watcher.take().paths == {name}


@only_watchfiles
def test_directory_that_is_not_utf8_is_polled_unasked(tree: Tree) -> None:
    """CAP-11: watchfiles cannot even be given such a name."""
    os.mkdir(os.path.join(os.fsencode(tree.root), b"d\xff"))
    tree.until(lambda: tree.watcher.take().lost)
    tree.watcher.replace([TOP, RepoPath(b"d\xff")], [TOP])
    inner = tree.write(b"d\xff/a")
    assert inner in tree.barrier().paths


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


@only_watchfiles
def test_instances_become_one_after_a_moment(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portable_watcher, "_TIDY_AFTER_S", 0.0)
    names = [f"d{number}" for number in range(5)]
    for name in names:
        (tree.root / name).mkdir()
        tree.watcher.add([RepoPath(os.fsencode(name))])
    tree.until(lambda: tree.portable.instances == 1)
    written = {tree.write(f"{name}/a") for name in names}
    assert tree.barrier().paths >= written


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
        tree.watcher.replace([TOP, RepoPath(b"d")], [])
        seen |= tree.barrier().paths
    stop.set()
    writer.join()
    seen |= tree.barrier().paths
    assert seen >= written


@only_watchfiles
def test_idle_watcher_looks_rarely_until_it_is_nudged(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portable_watcher, "ACTIVE_S", 0.0)
    tree.watcher.tidy()
    assert tree.portable.step_ms() == portable_watcher.IDLE_STEP_MS
    monkeypatch.setattr(portable_watcher, "ACTIVE_S", 30.0)
    tree.watcher.nudge()
    assert tree.portable.step_ms() == portable_watcher.STEP_MS
    written = tree.write("a")
    assert tree.barrier().paths == {written}


@only_watchfiles
def test_barrier_promises_nothing_without_its_cookie(tree: Tree) -> None:
    """CAP-19: a cookie that does not come is an answer of its own."""
    tree.cookies.rmdir()
    assert tree.watcher.barrier(0.05) is None


@only_watchfiles
def test_barrier_goes_on_when_the_machine_stood_still(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that was over before anything could come says nothing of lost events."""
    wait_for, turns = threading.Condition.wait_for, [0]

    def stand_still_first(
        self: threading.Condition,
        predicate: Callable[[], bool],
        timeout: float | None = None,
    ) -> bool:
        turns[0] += 1
        return turns[0] > 1 and wait_for(self, predicate, timeout)

    monkeypatch.setattr(threading.Condition, "wait_for", stand_still_first)
    written = tree.write("a")
    assert tree.barrier().paths == {written}


_OPEN = """
import sys
from pathlib import Path
from tests.platform.test_watcher import open_watcher
root, backend, wake = sys.argv[1], sys.argv[2], lambda: None
cookies = Path(root, ".git/agent-undo/cookies")
watcher = open_watcher(backend, Path(root), cookies, wake)
"""
_STOPPED = f"""
import signal, time
{_OPEN}
signal.signal(signal.SIGCONT, lambda *_: watcher.resumed())
watcher.replace([b""], [])
assert watcher.barrier(60.0) is not None
print("ready", flush=True)
sys.stdin.readline()
deadline = time.monotonic() + float(sys.argv[3])
hints = watcher.take()
while not hints.lost and time.monotonic() < deadline:
    time.sleep(0.01)
    hints = watcher.take()
time.sleep(0.5)  # the queue is empty again, and the cookie will come
print(hints.overflow or watcher.barrier(5.0) is None)
while watcher.barrier(5.0) is None and time.monotonic() < deadline:
    time.sleep(0.01)
print(time.monotonic() < deadline, flush=True)
"""


def test_stop_during_a_storm_is_never_passed_over(tree: Tree, backend: str) -> None:
    """CAP-19: the queue overflowed and was emptied since: the cookie alone would come."""
    child = subprocess.Popen(
        [sys.executable, "-c", _STOPPED, str(tree.root), backend, str(HANGS_S)],
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
    out, _ = child.communicate("\n", timeout=2 * HANGS_S)
    assert out == "True\nTrue\n"


@only_watchfiles
def test_short_stop_makes_everything_be_looked_at(tree: Tree) -> None:
    """CAP-19: two files alone fill the queue in a moment, too short to be noticed."""
    tree.watcher.resumed()
    assert tree.woken.is_set()
    assert tree.watcher.take().lost
    assert tree.barrier() == Hints()


@only_watchfiles
def test_cookie_that_a_later_one_overtakes_shows_an_overflow(tree: Tree) -> None:
    """The kernel had no place for its events, and so for none of that moment."""
    tree.watcher.replace([TOP], [])
    assert tree.barrier() == Hints()
    cookies = tree.portable._cookies
    with cookies._lock:
        cookies._dropped.append(1)
        cookies._count += 1
    assert tree.barrier() == Hints(lost=True, overflow=True)
    assert tree.barrier() == Hints()


@only_watchfiles
def test_cookie_follows_a_batch(tree: Tree) -> None:
    """A writer that fills the queue with events of one file is noticed by it."""
    tree.watcher.replace([TOP], [])
    tree.barrier()
    before = tree.portable._cookies.count
    path = tree.write("a")
    assert tree.woken.wait(HANGS_S)
    tree.until(lambda: tree.portable._cookies.count > before)
    assert path in tree.barrier().paths


def test_cookies_have_come_up_to_the_newest_that_was_seen(tmp_path: Path) -> None:
    cookies = Cookies(str(tmp_path))
    first, second, third = (cookies.drop() for _ in range(3))
    assert cookies.came(0, set()) == (0, False)
    assert cookies.came(0, {first}) == (1, False)
    assert cookies.came(1, {first, second, third}) == (3, False)
    assert cookies.came(0, {first, third}) == (3, True)
    assert cookies.came(3, {third}) == (3, False)
    (tmp_path / str(third + 1)).write_text("no cookie")
    cookies.drop()
    assert cookies.count == 3


def test_cookies_that_were_dropped_long_ago_are_forgotten(tmp_path: Path) -> None:
    cookies = Cookies(str(tmp_path))
    numbers = [cookies.drop() for _ in range(portable_watcher._MOST_COOKIES + 2)]
    assert cookies.came(0, set(numbers[2:])) == (len(numbers), False)
    assert cookies.came(0, {numbers[-1]}) == (len(numbers), True)


_LIMITED = f"""
import os
with open("/proc/sys/user/max_inotify_watches", "w") as limit:
    limit.write("3")
{_OPEN}
names = [b"d%d" % number for number in range(10)]
for name in names:
    os.mkdir(os.path.join(os.fsencode(root), name))
watcher.replace([b"", *names], [])
print("sysctl fs.inotify.max_user_watches" in (watcher.degraded() or ""))
print(watcher.barrier(60.0).lost)
watcher.tidy()
print(watcher.take().lost)
with open("/proc/sys/user/max_inotify_watches", "w") as limit:
    limit.write("1000")
watcher.replace([b"", *names], [])
open(os.path.join(os.fsencode(root), b"d1", b"a"), "w").close()
print(watcher.degraded(), sorted(watcher.barrier(60.0).paths))
"""


def test_exhausted_watches_are_said_and_stood_in_for(tree: Tree, backend: str) -> None:
    """ROB-16: degraded, walks instead, and watched again once there are watches."""
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here: the limit cannot be lowered for one test")
    tree.watcher.close()
    done = subprocess.run(
        [*command, sys.executable, "-c", _LIMITED, str(tree.root), backend],
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
            watcher.replace([TOP], [])
        assert set(os.listdir("/proc/self/fd")) <= before
        assert watcher.degraded() is not None


@only_watchfiles
def test_close_ends_every_thread(plant: Callable[..., Tree]) -> None:
    before = set(threading.enumerate())
    tree = plant("odd", polled=(b"odd",))
    tree.watcher.add([TOP])
    ours = set(threading.enumerate()) - before
    assert len(ours) == 3
    tree.watcher.close()
    tree.until(lambda: not any(thread.is_alive() for thread in ours))
    assert tree.portable.instances == 0


def test_directory_that_was_swapped_is_not_watched_as_what_it_is_now(
    plant: Callable[..., Tree],
) -> None:
    """A watch follows the directory when it is renamed; the name may be another's by then."""
    tree = plant("dir", "stays")
    (tree.root / "dir").rename(tree.root / "old")
    (tree.root / "dir").mkdir()
    there = [RepoPath(b"dir"), RepoPath(b"stays"), RepoPath(b"old"), TOP]
    assert tree.watcher.unwatched(there) == {b"dir", b"old"}
    assert tree.watcher.patrol() == {b"dir"}
    tree.barrier()  # a report of the renaming that comes later would hide the second watch
    tree.watcher.add([RepoPath(b"dir"), RepoPath(b"old")])
    assert tree.watcher.unwatched(there) == set()


@only_watchfiles
def test_directory_made_again_with_the_same_inode_is_not_watched(
    plant: Callable[..., Tree],
) -> None:
    """A file system may give the inode of a deleted directory to the next one."""
    tree = plant("dir")
    (tree.root / "dir").rmdir()
    (tree.root / "dir").mkdir()
    tree.barrier()  # a report of the removal that comes later would hide the second watch
    inode = (tree.root / "dir").stat().st_ino
    (instance,) = tree.portable._instances
    instance.inodes[RepoPath(b"dir")] = inode
    tree.until(lambda: tree.watcher.patrol() == {b"dir"})
    tree.watcher.add([RepoPath(b"dir")])
    assert tree.watcher.unwatched([RepoPath(b"dir")]) == set()


def test_directory_that_is_gone_or_polled_needs_no_watch(
    plant: Callable[..., Tree],
) -> None:
    tree = plant("gone", "odd", polled=(b"odd",))
    (tree.root / "gone").rmdir()
    assert tree.watcher.unwatched([RepoPath(b"gone"), RepoPath(b"odd")]) == set()
    assert tree.watcher.patrol() == set()


@only_inotify
def test_names_are_bytes(tree: Tree) -> None:
    """CAP-11: a name that is not UTF-8 is like any other, of a directory too."""
    odd = tree.write(b"caf\xe9")
    os.mkdir(os.path.join(os.fsencode(tree.root), b"d\xff"))
    assert tree.barrier() == Hints(frozenset({odd, RepoPath(b"d\xff")}))
    tree.watcher.add([RepoPath(b"d\xff")])
    inner = tree.write(b"d\xff/\xfe")
    assert tree.barrier() == Hints(frozenset({inner}))


@only_inotify
def test_file_is_finished_when_its_writer_closes_it(tree: Tree) -> None:
    """Until then it is hinted by a barrier alone, or after a moment."""
    path = RepoPath(b"a")
    with open(tree.root / "a", "w") as stream:
        stream.write("half")
        stream.flush()
        hints = tree.watcher.barrier(HANGS_S)
        assert hints == Hints(frozenset({path}))
    assert tree.watcher.barrier(HANGS_S) == Hints(
        frozenset({path}), finished=frozenset({path})
    )
    with open(tree.root / "a", "w") as second:
        hints = tree.watcher.barrier(HANGS_S)
        assert hints == Hints(frozenset({path}))
        second.write("x")
    os.rename(tree.root / "a", tree.root / "b")
    hints = tree.watcher.barrier(HANGS_S)
    assert hints is not None
    assert hints.finished == {b"a", b"b"}


@only_inotify
def test_file_that_stays_open_is_hinted_again_and_again(tree: Tree) -> None:
    with open(tree.root / "log", "w") as stream:
        for number in range(3):
            tree.woken.clear()
            stream.write(f"{number}\n")
            stream.flush()
            assert tree.woken.wait(HANGS_S)
            assert tree.watcher.take() == Hints(frozenset({RepoPath(b"log")}))


@only_inotify
def test_link_is_hinted_though_nobody_closes_it(tree: Tree) -> None:
    (tree.root / "link").symlink_to("target")
    assert tree.woken.wait(HANGS_S)
    assert tree.watcher.take().paths == {b"link"}


@only_inotify
def test_overflow_of_the_queue_is_said_once(tree: Tree, backend: str) -> None:
    """CAP-19: with the lock held nobody empties the queue."""
    watcher = tree.watcher
    assert isinstance(watcher, InotifyWatcher)
    with watcher._lock:
        for number in range(int(_PROC.read_text())):
            tree.write(f"{number}")
    first, second = watcher.barrier(HANGS_S), watcher.barrier(HANGS_S)
    assert first is not None
    assert second is not None
    assert (first.lost, first.overflow) == (True, True)
    assert (second.lost, second.overflow) == (False, False)


@only_inotify
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
    (tree.root / "d").mkdir()
    tree.barrier()
    assert tree.watcher.patrol() == {b"d"}
    assert tree.watcher.patrol() == set()


@only_inotify
def test_watch_that_is_not_wanted_any_more_is_ended(plant: Callable[..., Tree]) -> None:
    tree = plant("d", "e")
    tree.watcher.replace([TOP, RepoPath(b"e")], [])
    tree.write("d/a")
    inside = tree.write("e/a")
    assert tree.barrier().paths == {inside}


@only_inotify
def test_close_ends_the_thread_and_gives_its_descriptors_back(
    tmp_path: Path, backend: str
) -> None:
    threads = set(threading.enumerate())
    tree, never = Tree(tmp_path / "tree", backend), Tree(tmp_path / "never", backend)
    tree.watcher.replace([TOP], [])
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


@only_watchfiles
def test_directory_that_was_made_again_is_not_watched_whatever_its_inode(
    plant: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every system lists what a process watches, and inodes are given out again."""
    monkeypatch.setattr(portable_watcher, "directory_inode", lambda _: 7)
    tree, path = plant("d"), RepoPath(b"d")
    assert tree.watcher.unwatched([path]) == set()
    (tree.root / "d").rmdir()
    (tree.root / "d").mkdir()
    until(lambda: tree.watcher.unwatched([path]) == {path})
