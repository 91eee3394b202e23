"""The engine in this process, on one worktree: the world in which undo and histories are tested.

Everything is the product's own, from the scan of the files to the journal. Only who writes is told
by the test, where no hook says it: `engine.by("s1", "t1").write("a", "x")`. A worktree below
`memory_directory` touches no disk. A file system or an object store made of dicts would be one more
thing to be wrong, and hardly quicker: the system's calls take a tenth of the time.
"""

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

from gitshadow.api import run as run_verb
from gitshadow.capture.drafts import Draft
from gitshadow.capture.recorder import Recorder
from gitshadow.maintenance import setup
from gitshadow.messages.undo import FileUndoRequest, HunkChoice
from gitshadow.model import (
    LINK_MODE,
    Actor,
    Attribution,
    Call,
    Confidence,
    Event,
    OpKind,
    PathChange,
    RepoPath,
    Session,
    ToolClass,
    Turn,
    micro,
)
from gitshadow.recording.attributor import Claimant
from gitshadow.recording.context import RecorderContext, wire
from gitshadow.recording.workspace import open_workspace
from gitshadow.store.clock import StampClock
from gitshadow.store.files import TEMP_PREFIX, WorkFiles
from gitshadow.store.journal import events, pins, sessions, state, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.layout import Layout, discover
from gitshadow.store.repo import Repo
from gitshadow.undo.apply import StepHook, no_hook
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.report import Report
from gitshadow.undo.run import ResolvedUndo, run
from gitshadow.undo.targets import Target

_SHM = Path("/dev/shm")
_ACTORS = {"human": Actor.HUMAN, "unknown": Actor.UNKNOWN}


def memory_directory(fallback: Path) -> Path:
    """Return a directory in memory where there is one."""
    return _SHM if os.access(_SHM, os.W_OK) else fallback


class Options(TypedDict, total=False):
    """Name the options of the four verbs."""

    apply: bool
    on_conflict: str
    only: Sequence[str]
    leave: Sequence[str]
    include_low: bool
    at_ns: int | None
    pin: str | None
    token: str | None
    offer: bool
    choice: HunkChoice | None
    hook: StepHook


class ToldClaimant(Claimant):
    """Claim a write for whom the test names as the `writer`; without one, for nobody."""

    writer: Attribution | None = None

    def claim(
        self,
        drafts: Sequence[Draft],
        live: Sequence[Session],
        *,
        offline: bool = False,
        before: Call | None = None,
    ) -> list[Attribution]:
        """Return the writer for each draft."""
        return [self._told()] * len(drafts)

    def head(
        self, now_ns: int, at_s: int | None = None, settled_ns: int = 0
    ) -> Attribution:
        """Return the writer: whoever runs git moves HEAD."""
        return self._told()

    def personal(self, actor: Actor) -> Session:
        """Return the session of human or unknown writes, named after the actor."""
        known = sessions.get(self._db, actor.value)
        if known is not None:
            return known
        return start_session(self._db, actor.value, self._clock.now_ns())

    def _told(self) -> Attribution:
        return self.writer or self.nobody("the test names nobody")


def start_session(db: Db, who: str, now_ns: int, parent: str | None = None) -> Session:
    """Open a session by the name that the test has for it."""
    actor = _ACTORS.get(who, Actor.AGENT)
    made = Session(
        id=who,
        native_id=f"native-{who}",
        actor=actor,
        agent="claude-code" if actor is Actor.AGENT else None,
        started_ns=micro(now_ns),
        parent=parent,
    )
    with db.write():
        sessions.put(db, made)
    return made


@contextmanager
def refusing(root: Path, *what: str) -> Iterator[None]:
    """Have the journal refuse some statements, as a full disk would."""
    path = root / ".git" / "agent-undo" / "journal.db"
    names = [f"refusing_{number}" for number in range(len(what))]
    with closing(sqlite3.connect(path)) as db:
        for name, event in zip(names, what, strict=True):
            db.execute(
                f"CREATE TRIGGER {name} BEFORE {event}"
                " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
    try:
        yield
    finally:
        with closing(sqlite3.connect(path)) as db:
            for name in names:
                db.execute(f"DROP TRIGGER {name}")


@dataclass(slots=True)
class Engine:
    """One opened worktree, in sentences; `port_type` is what undo works on."""

    context: RecorderContext
    port_type: type[UndoEngine] = UndoEngine
    who: Attribution | None = field(default=None, init=False)

    @classmethod
    def open(cls, root: Path) -> "Engine":
        """Open a worktree, initialised where it is new; a copy counts as what was copied."""
        layout = discover(str(root))
        assert layout is not None
        if not layout.initialised:
            setup.make_journal(layout)
        _take_over(layout)
        ws = open_workspace(layout, os.environ, lock_timeout_s=1.0)
        setup.root_worktree(ws)
        claimant = ToldClaimant(ws)
        return cls(wire(ws, claimant))

    def close(self) -> None:
        """Close everything and let others have the worktree."""
        self.context.close()

    # Its parts

    @property
    def root(self) -> Path:
        """Return the top of the worktree."""
        return Path(self.context.workspace.layout.root)

    @property
    def worktree(self) -> str:
        """Return the worktree's name in the journal."""
        return self.context.workspace.layout.worktree

    @property
    def repo(self) -> Repo:
        """Return the object store and the refs."""
        return self.context.workspace.repo

    @property
    def db(self) -> Db:
        """Return the journal."""
        return self.context.workspace.db

    @property
    def clock(self) -> StampClock:
        """Return the clock of the file system."""
        return self.context.workspace.clock

    @property
    def recorder(self) -> Recorder:
        """Return what publishes snapshots."""
        return self.context.workspace.recorder

    @property
    def port(self) -> UndoEngine:
        """Return what undo works on."""
        return self.port_type(self.context, None)

    def use_files(self, kind: type[WorkFiles]) -> None:
        """Read and write the working tree through other functions from now on."""
        self.context.workspace.files = kind(
            str(self.root), self.context.workspace.repo.format
        )

    # Who writes what

    def by(
        self,
        who: str,
        turn: str | None = None,
        call: str | None = None,
        confidence: Confidence | None = None,
        candidates: tuple[str, ...] = (),
    ) -> "Engine":
        """Set who writes from now on: a session, `human` or `unknown`."""
        if not isinstance(self.context.claimant, ToldClaimant):
            return self  # hooks say it
        if sessions.get(self.db, who) is None:
            self.start(who)
        if turn is not None and turns.get_turn(self.db, who, turn) is None:
            self._begin_turn(who, turn)
        if call is not None and turns.get_call(self.db, who, call) is None:
            self._begin_call(who, turn, call)
        actor = _ACTORS.get(who, Actor.AGENT)
        sure = Confidence.CERTAIN if actor is not Actor.UNKNOWN else Confidence.UNKNOWN
        self.who = Attribution(
            actor=actor,
            session=who,
            agent="claude-code" if actor is Actor.AGENT else None,
            turn=turn,
            call=call,
            tool="Edit" if call is not None else None,
            confidence=confidence or sure,
            reason="the test says so",
            candidates=candidates,
        )
        return self

    def start(self, who: str, parent: str | None = None) -> None:
        """Open a session."""
        start_session(self.db, who, self.clock.now_ns(), parent)

    def _begin_turn(self, who: str, turn: str) -> None:
        ordinal = len(turns.list_turns(self.db, who)) + 1
        now = self.clock.now_ns()
        with self.db.write():
            opened = turns.open_turn_of(self.db, who)
            if opened is not None:
                turns.close_turn(self.db, who, opened.id, now)
            fresh = Turn(session=who, id=turn, ordinal=ordinal, started_ns=micro(now))
            turns.put_turn(self.db, fresh)

    def _begin_call(self, who: str, turn: str | None, call: str) -> None:
        fresh = Call(
            id=call,
            session=who,
            turn=turn,
            tool="Edit",
            tool_class=ToolClass.WRITE,
            opened_ns=micro(self.clock.now_ns()),
            worktree=self.worktree,
        )
        with self.db.write():
            turns.open_call(self.db, fresh)

    def record(self, *, offline: bool = False) -> list[Event]:
        """Record whatever differs from what is recorded, as written by whoever writes now.

        `offline` says that nothing watched when it was written.
        """
        newest = events.newest_seq(self.db, self.worktree)
        claimant = self.context.claimant
        if isinstance(claimant, ToldClaimant):
            claimant.writer = self.who
        try:
            if offline:
                self.context.walker.full(offline=True)
            else:
                self.flush()
        finally:
            if isinstance(claimant, ToldClaimant):
                claimant.writer = None
        fresh = EventFilter(worktree=self.worktree, after_seq=newest)
        return list(events.unfolded(self.db, events.rows(self.db, fresh)[::-1]))

    def flush(self) -> None:
        """Record whatever differs; nobody is named as its writer."""
        self.context.observer.settle()

    def write(
        self, path: str | bytes, data: str | bytes, mode: int | None = None
    ) -> list[Event]:
        """Write a file in place, or create it, and record that."""
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(fd, "wb") as handle:
            handle.write(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            os.chmod(full, mode)
        return self.record()

    def put(self, path: str | bytes, mode: int, data: bytes) -> None:
        """Write a file in place where one is, or a link (`LINK_MODE`); empty directories go."""
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        self.clear(full)
        if os.path.lexists(full) and (os.path.islink(full) or mode == LINK_MODE):
            os.unlink(full)
        if mode == LINK_MODE:
            os.symlink(data, full)
            return
        fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
        os.chmod(full, mode & 0o777)

    def clear(self, path: str | bytes) -> None:
        """Remove empty directories from where a file is to be."""
        full = self.path(path)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)

    def remove(self, path: str | bytes) -> list[Event]:
        """Remove a file or link and record that."""
        os.unlink(self.path(path))
        return self.record()

    def move(self, old: str, new: str) -> list[Event]:
        """Rename and record that."""
        os.makedirs(os.path.dirname(self.path(new)), exist_ok=True)
        os.rename(self.path(old), self.path(new))
        return self.record()

    def git(self, *words: str) -> list[Event]:
        """Run a git command and record what it did."""
        assert self.run_git(*words) == 0
        return self.record()

    def run_git(self, *words: str) -> int:
        """Run a git command; return its exit code."""
        options = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
        command = ["git", *options, *words]
        return subprocess.run(command, cwd=self.root, capture_output=True).returncode

    def pin(self, name: str) -> None:
        """Pin the present under a name that may be in use."""
        cwd = str(self.root)
        if pins.get(self.db, name) is not None:
            run_verb(self.context, "unpin", {"cwd": cwd, "name": name})
        run_verb(self.context, "pin", {"cwd": cwd, "name": name})

    # What is there

    def path(self, path: str | bytes) -> bytes:
        """Return a full path."""
        return os.path.join(os.fsencode(self.root), os.fsencode(path))

    def read(self, path: str | bytes) -> bytes:
        """Return a file's bytes."""
        with open(self.path(path), "rb") as handle:
            return handle.read()

    def mode(self, path: str | bytes) -> int:
        """Return a file's permission bits."""
        return stat.S_IMODE(os.lstat(self.path(path)).st_mode)

    def exists(self, path: str | bytes) -> bool:
        """Return whether anything exists at a path."""
        return os.path.lexists(self.path(path))

    def tree_now(self) -> dict[str, tuple[int, bytes]]:
        """Return mode and bytes of every file and link, ours left out."""
        found = {os.fsdecode(path): entry for path, entry in self.entries().items()}
        return {path: entry for path, entry in found.items() if not _is_temp(path)}

    def entries(self) -> dict[bytes, tuple[int, bytes]]:
        """Return mode and bytes of every file and link."""
        found: dict[bytes, tuple[int, bytes]] = {}
        todo = [b""]
        while todo:
            above = todo.pop()
            with os.scandir(self.path(above)) as listed:
                inside = [one for one in listed if one.name != b".git"]
            for one in inside:
                path = above + one.name
                if one.is_dir(follow_symlinks=False):
                    todo.append(path + b"/")
                else:
                    found[path] = _entry(one)
        return found

    def directories(self) -> set[str]:
        """Return every directory but Git's."""
        found: set[str] = set()
        for top, names, _ in os.walk(self.root):
            if ".git" in names:
                names.remove(".git")
            found |= {os.path.relpath(os.path.join(top, n), self.root) for n in names}
        return found

    def litter(self) -> list[bytes]:
        """Return temporary files of ours."""
        return [path for path in self.entries() if _is_temp(os.fsdecode(path))]

    def log(self) -> list[Event]:
        """Return all events, newest first."""
        found = events.rows(self.db, EventFilter())[::-1]
        return list(events.unfolded(self.db, found))[::-1]

    def changes(self) -> list[PathChange]:
        """Return the changes of paths, newest first; no other event is newer."""
        found = self.log()
        assert isinstance(found[0], PathChange)
        return events.path_changes(found)

    # Undo

    def oops(self, **options: Unpack[Options]) -> Report:
        """Run `oops --yes`."""
        return self.ask(OpKind.OOPS, **options)

    def undo(self, *typed: str, **options: Unpack[Options]) -> Report:
        """Run `undo --yes`."""
        return self.ask(OpKind.UNDO, *typed, **options)

    def redo(self, **options: Unpack[Options]) -> Report:
        """Run `redo --yes`."""
        return self.ask(OpKind.REDO, **options)

    def restore(self, *typed: str, **options: Unpack[Options]) -> Report:
        """Run `restore --yes`."""
        return self.ask(OpKind.RESTORE, *typed, **options)

    def ask(self, kind: OpKind, *typed: str, **options: Unpack[Options]) -> Report:
        """Run one of the four verbs as the person at the keyboard, who writes from then on."""
        self.by("human")
        only = tuple(map(_path, options.get("only", ())))
        leave = tuple(map(_path, options.get("leave", ())))
        asked = FileUndoRequest(
            verb=kind.value,
            on_conflict=options.get("on_conflict", "skip"),
            include_low=options.get("include_low", False),
            pin=options.get("pin"),
            yes=options.get("apply", True),
            token=options.get("token"),
            offer=options.get("offer", False),
            choice=options.get("choice"),
        )
        request = ResolvedUndo(
            asked,
            targets=tuple(Target(one, _path(one)) for one in typed),
            paths=PathFilter(only, leave),
            at_ns=options.get("at_ns"),
        )
        return run(self.port, request, options.get("hook", no_hook))


def _take_over(layout: Layout) -> None:
    """Have a copied worktree count as the one that was recorded."""
    db = Db.open(layout.journal, create=False)
    try:
        known, path = state.get_worktree(db, layout.worktree), os.fsencode(layout.root)
        if known is not None and known.path != path:
            with db.write():
                state.put_worktree(db, replace(known, path=path))
    finally:
        db.close()


def _entry(one: os.DirEntry[bytes]) -> tuple[int, bytes]:
    if one.is_symlink():
        return LINK_MODE, os.readlink(one.path)
    with open(one.path, "rb") as handle:
        mode = os.fstat(handle.fileno()).st_mode
        return stat.S_IFREG | stat.S_IMODE(mode), handle.read()


def _path(text: str) -> RepoPath:
    return RepoPath(os.fsencode(text))


def _is_temp(path: str) -> bool:
    return path.rpartition("/")[2].startswith(os.fsdecode(TEMP_PREFIX))
