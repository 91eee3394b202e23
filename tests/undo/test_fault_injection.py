"""A kill or a system error at every call that applying makes: into the kernel, Git's store, SQLite.

The profiler tells of each call into C before it is made. There the process is killed, or the call
fails as the system would have it fail.
"""

import errno
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import pytest

from gitshadow.config import WatchBackend
from gitshadow.errors import ShadowError
from gitshadow.model import OpStatus, RepoPath
from gitshadow.store.clock import COARSE_TICK_NS
from gitshadow.store.journal import ops
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.run import recover
from tests.conftest import FULL
from tests.support.context import watched
from tests.support.engine import Engine, memory_directory
from tests.support.repo import Repo
from tests.support.small_disk import fill, small_disk
from tests.undo.test_kill import agent_at_work, copy_of

_KILL = 0
_ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)
_CALLS = frozenset(
    {
        *("open", "write", "read", "fsync", "rename", "unlink", "mkdir", "rmdir"),
        *("chmod", "fchmod", "fchown", "symlink", "readlink", "scandir"),
    }
)
_WRITERS = frozenset({"_write", "write", "run", "run_many", "compare_and_swap"})
_LOOKS = frozenset({"row", "rows"})


@dataclass(slots=True)
class Injector:
    """Count the calls of one undo, and have the n-th one fail."""

    at: int = 0
    fault: int = _KILL
    seen: list[str] = field(default_factory=list)

    def arm(self) -> None:
        """Begin to count."""
        sys.setprofile(self._call)

    def _call(self, frame: FrameType, event: str, call: object) -> None:
        name = _counted(frame, call) if event == "c_call" else None
        if name is None:
            return
        self.seen.append(name)
        if len(self.seen) != self.at:
            return
        if self.fault == _KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        sys.setprofile(None)
        if name.startswith("posix."):
            raise OSError(self.fault, os.strerror(self.fault))


def _counted(frame: FrameType, call: object) -> str | None:
    """Return the name of a call that can fail or be the last one; None for all others."""
    where = frame.f_code.co_filename
    # How many files of /proc are read depends on what else runs, so those calls have no numbers.
    if "gitshadow" not in where or "/attribution/proc" in where:
        return None
    name = getattr(call, "__name__", "")
    owner = getattr(call, "__self__", None) or getattr(call, "__objclass__", None)
    kind = owner if isinstance(owner, type) else type(owner)
    if getattr(owner, "__name__", "") == "posix":
        return f"posix.{name}" if name in _CALLS else None
    if kind.__module__ == "sqlite3":
        return None if frame.f_code.co_name in _LOOKS else f"sqlite3.{name}"
    if kind.__module__.startswith(("_pygit2", "pygit2")):
        return f"pygit2.{name}"
    return None


_TICK_S = 3 * COARSE_TICK_NS / 1e9
"""A file that was written in the same tick in which it was looked at is read once more."""


class Armed(UndoEngine):
    """Arm an injector where the undo begins to act."""

    injector: Injector

    def record_present(self, paths: Collection[RepoPath]) -> None:
        self.injector.arm()
        super().record_present(paths)


def undo_with(root: Path, injector: Injector, backend: WatchBackend | None) -> None:
    """Undo the newest burst under an injector, watched or not."""
    engine = Engine.open(root)
    engine.port_type = Armed
    Armed.injector = injector
    try:
        with watched(engine.context, backend):
            engine.oops()
    finally:
        sys.setprofile(None)
        engine.close()


def outcome_of(root: Path, injector: Injector, backend: WatchBackend | None) -> str:
    """Undo in a process of its own; say how that ended."""
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            undo_with(root, injector, backend)
            code = 0
        except (ShadowError, OSError):
            code = 1
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    names = {0: "done", 1: "error", -signal.SIGKILL: "killed"}
    return names.get(status, f"exit {status}")


@dataclass(frozen=True, slots=True)
class Scene:
    """Hold a worktree after an agent's turn, and what was there before and after it."""

    root: Path
    before: dict[str, tuple[int, bytes]]
    after: dict[str, tuple[int, bytes]]
    directories: set[str]

    def copy(self, name: str) -> Path:
        """Return a copy to spoil, old enough that no file of it is read twice."""
        made = copy_of(self.root, name)
        time.sleep(_TICK_S)
        return made

    def check(self, here: Path, step: str, *, is_killed: bool) -> bool:
        """Run the next command and check that all is whole; tell whether the undo stands."""
        engine = Engine.open(here)
        try:
            found = recover(engine.port)
            assert all(one.left == () for one in found), step
            expected = self._expected(engine)
            assert engine.tree_now() == expected, step
            assert engine.litter() == [], step
            again = engine.undo("s1")
            assert engine.tree_now() == self.before, step
            if is_killed:
                assert engine.directories() == self.directories, step
            engine.redo()
            assert engine.tree_now() == (expected if again.op_id else self.after), step
            return expected != self.after
        finally:
            engine.close()

    def _expected(self, engine: Engine) -> dict[str, tuple[int, bytes]]:
        """Return the tree that the journal speaks of: item by item where there is a report."""
        found = ops.list_ops(engine.db)
        if not found or found[0].status is OpStatus.ROLLED_BACK:
            return self.after
        assert found[0].status is OpStatus.DONE
        if found[0].report is None:
            return self.before
        expected = dict(self.after)
        for item in json.loads(found[0].report)["items"]:
            for path in (item["path"], item.get("old_path")):
                if item["state"] == "reversed" and path is not None:
                    expected.pop(path, None)
        reversed_ = {
            path
            for item in json.loads(found[0].report)["items"]
            for path in (item["path"], item.get("old_path"))
            if item["state"] == "reversed" and path in self.before
        }
        return expected | {path: self.before[path] for path in reversed_}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with TemporaryDirectory(dir=memory_directory(tmp_path)) as top:
        repo = Repo.create(Path(top) / "repo")
        # Which of them a commit needs depends on its time: calls that make them have no numbers.
        for number in range(256):
            (repo.root / ".git" / "objects" / f"{number:02x}").mkdir(exist_ok=True)
        engine = Engine.open(repo.root)
        engine.by("human").write("d/one", "1\n", 0o600)
        engine.write("mode", "x\n", 0o640)
        before, directories = engine.tree_now(), engine.directories()
        agent_at_work(engine)
        yield Scene(repo.root, before, engine.tree_now(), directories)
        engine.close()


def calls_of(scene: Scene, backend: WatchBackend | None) -> list[str]:
    """Return the calls of an undo that nothing disturbs."""
    here = scene.copy("count")
    injector = Injector()
    undo_with(here, injector, backend)
    shutil.rmtree(here)
    return injector.seen


def on_backends(
    every: int, unwatched: int = 1
) -> list[tuple[WatchBackend | None, int]]:
    """Return what watches, if anything, and that a run takes one of so many steps."""
    watching = (WatchBackend.INOTIFY, WatchBackend.WATCHFILES)
    shares = [(None, unwatched), *((backend, every) for backend in watching)]
    return [(backend, 1 if FULL else share) for backend, share in shares]


def kills(calls: list[str]) -> Iterator[tuple[int, int]]:
    """Yield every call that changes something."""
    for at, name in enumerate(calls, 1):
        if not name.endswith((".open", ".read", ".readlink", ".scandir")):
            yield at, _KILL


def errors(calls: list[str]) -> Iterator[tuple[int, int]]:
    """Yield every call into the kernel, each with one error, or in a long run with all."""
    for at, name in enumerate(calls, 1):
        if name.startswith("posix."):
            yield from ((at, one) for one in (_ERRORS if FULL else [_ERRORS[at % 3]]))


@pytest.mark.uncounted
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("faults", "backend", "every"),
    [
        *((kills, *one) for one in on_backends(40)),
        *((errors, *one) for one in on_backends(40, 3)),
    ],
)
def test_undo_is_whole_when_any_call_fails(
    scene: Scene,
    faults: Callable[[list[str]], Iterator[tuple[int, int]]],
    backend: WatchBackend | None,
    every: int,
) -> None:
    """ROB-01, ROB-08: done, partial as reported, or rolled back; the next command says so."""
    calls = calls_of(scene, backend)
    assert {"posix.rename", "posix.unlink", "posix.mkdir", "posix.rmdir"} <= set(calls)
    assert {"posix.chmod", "posix.fsync", "pygit2.set_target"} <= set(calls)
    stands: set[bool] = set()
    for at, fault in [*faults(calls)][::every]:
        step = f"{at} {calls[at - 1]} {fault}"
        here = scene.copy(f"at-{at}-{fault}")
        outcome = outcome_of(here, Injector(at, fault), backend)
        assert outcome in (("killed",) if fault == _KILL else ("done", "error")), step
        stands.add(scene.check(here, step, is_killed=fault == _KILL))
        shutil.rmtree(here)
    assert (
        stands == {True, False} or every > 1
    )  # a part of the faults may be on one side


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", 4) as place:
        yield place


@pytest.mark.parametrize("filled_at", ["stage b'c'", "write b'b'", "applied"])
def test_undo_is_rolled_back_when_the_disk_fills_up_inside_it(
    disk: Path, filled_at: str
) -> None:
    """ROB-08: nothing of it stays, at once or with the next command after some is freed."""
    repo = Repo.create(disk / "repo")
    engine = Engine.open(repo.root)
    engine.by("human")
    for name in "abc":
        engine.write(name, os.urandom(30_000))
    before = engine.tree_now()
    engine.by("s1", "t1")
    for name in "abc":
        engine.write(name, "agent\n")
    after = engine.tree_now()

    def filling(step: str) -> None:
        if step == filled_at:
            fill(disk)

    with suppress(ShadowError):
        engine.oops(hook=filling)
    (disk / "ballast").unlink()
    found = recover(engine.port)
    newest = ops.list_ops(engine.db)[0]
    assert newest.status in (OpStatus.DONE, OpStatus.ROLLED_BACK), found
    if newest.status is OpStatus.ROLLED_BACK:
        assert engine.tree_now() == after
        assert engine.oops().status == "reversed"
    assert engine.tree_now() == before
    assert engine.litter() == []
    engine.close()
