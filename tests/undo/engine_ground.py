"""Histories on the engine: real files, refs, git and journal in memory-backed storage.

A repository is copied from a template, which takes a few milliseconds.
"""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pygit2

from gitshadow.config import WatchBackend
from gitshadow.errors import UsageError
from gitshadow.messages.undo import HunkChoice
from gitshadow.model import FileVersion, OpKind, PathChange
from gitshadow.store.journal import events, ops
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.machine import ours
from gitshadow.store.replay import rebuild
from gitshadow.undo.report import Report, Status
from gitshadow.undo.targets import events_of, is_undoable, unit_of_ids
from tests.support.audit import audit, contradictions, open_journal, stale
from tests.support.context import watched
from tests.support.engine import Engine
from tests.support.journal_dump import dump_all
from tests.support.repo import Repo
from tests.undo.histories import Change, Entry, Tree, base
from tests.undo.trial import Outcome, Wanted, some_parts
from tests.undo.words import choice_of

_CORRECTIONS = "SELECT * FROM corrections ORDER BY seq"
_COMMANDS: Mapping[str, Sequence[str]] = {
    "commit": ("commit", "-q", "--allow-empty", "-m", "x"),
    "amend": ("commit", "-q", "--allow-empty", "--amend", "-m", "y"),
    "switch": ("checkout", "-q", "-"),
    "reset": ("reset", "-q", "--hard", "HEAD~1"),
    "discard": ("reset", "-q", "--hard"),
    "stash": ("stash", "push", "-q"),
}


def make_template(at: Path) -> Path:
    """Make a recorded repository in which every history begins, with the user's index and HEAD."""
    repo = Repo.create(at, ())
    repo.git("commit", "-q", "--allow-empty", "-m", "nothing")
    for path, (mode, data) in base().items():
        repo.write(path, data, mode & 0o777)
    repo.commit("first")
    for branch in ("other", "main"):  # so that `-` names the other one
        repo.git("checkout", "-qB", branch)
    shutil.rmtree(at / ".git" / "hooks", ignore_errors=True)
    Engine.open(at).close()
    return at


@contextmanager
def ground_of(
    template: Path, at: Path, backend: WatchBackend | None
) -> Iterator["EngineGround"]:
    """Give a copy of the template, watched or not, and take it away again."""
    shutil.copytree(template, at, symlinks=True)
    made = EngineGround(Engine.open(at))
    try:
        with watched(made.engine.context, backend):
            yield made
    finally:
        made.close()


@dataclass(slots=True)
class EngineGround:
    """Run histories in one worktree; `users` is what Git's own files contained at the start."""

    engine: Engine
    users: dict[bytes, bytes] = field(default_factory=dict)
    pin_name: str = "pin"

    def __post_init__(self) -> None:
        self.users = dict(self._users())

    def check(self) -> None:
        """Check LAW-02 and LAW-07, V4, and V5 but for reachability."""
        self._check_users()
        layout = self.engine.context.workspace.layout
        with (
            TemporaryDirectory(dir=layout.state_dir) as top,
            closing(Db.open(os.path.join(top, "new"), create=True)) as fresh,
        ):
            with fresh.write():
                assert rebuild(fresh, self.engine.repo, ours(layout)).broken == ()
            assert dump_all(fresh) == dump_all(self.engine.db)
            assert fresh.rows(_CORRECTIONS) == self.engine.db.rows(_CORRECTIONS)

    def _check_users(self) -> None:
        assert dict(self._users()) == self.users
        assert self.engine.litter() == []
        with closing(open_journal(Repo(self.engine.root))) as db:
            assert list(stale(db)) == []
            assert list(contradictions(db, self._diff)) == []

    def _diff(self, commit: str) -> Iterator[tuple[bytes, str, str]]:
        repository = pygit2.Repository(os.fsdecode(self.engine.root))
        made = repository[commit].peel(pygit2.Commit)
        flags = pygit2.enums.DiffOption.INCLUDE_TYPECHANGE
        for delta in repository.diff(made.parents[0], made, flags=flags).deltas:
            new = delta.new_file
            yield new.raw_path, f"{new.mode:06o}", str(new.id)

    def check_with_git(self) -> None:
        """Check V2 and the whole of V5, which takes two git processes."""
        repo = Repo(self.engine.root)
        repo.fsck()
        audit(repo)

    def _users(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all files of the Git directory that are neither objects nor ours."""
        top = self.engine.path(b".git")
        for directory, names, files in os.walk(top):
            for name in {b"objects", b"agent-undo"}.intersection(names):
                names.remove(name)
            for name in files:
                full = os.path.join(directory, name)
                with open(full, "rb") as handle:
                    yield full, handle.read()

    def close(self) -> None:
        """Give everything back and remove it."""
        self.engine.close()
        shutil.rmtree(self.engine.root)

    def tree(self) -> Tree:
        """Read the whole tree."""
        return self.engine.entries()

    def play(
        self, who: str, turn: str | None, changes: Sequence[Change]
    ) -> Collection[PathChange]:
        """Make changes with the calls that programs use, and record them."""
        self.bring_near(changes)
        self.engine.flush()
        for verb, path, what in changes:
            self._change(verb, path, what)
        rows = events.path_changes(self.engine.by(who, turn).record())
        brought = {path for verb, path, _ in changes if verb == "bring"}
        assert all(row.moved_in for row in rows if row.path in brought)
        return rows

    def git(
        self,
        verbs: Sequence[str],
        who: str,
        turn: str | None,
        changes: Sequence[Change] = (),
    ) -> Collection[PathChange]:
        """Run the git commands; where one refuses, that is all it does."""
        for change, path, what in changes:
            self._change(change, path, what)
        self.command(verbs)
        return events.path_changes(self.engine.by(who, turn).record())

    def command(self, verbs: Sequence[str]) -> None:
        """Run git commands, which may change Git's own files."""
        for verb in verbs:
            if verb in ("commit", "amend"):
                self.engine.run_git("add", "-A")
            popped = verb == "stash" and (self.engine.root / ".git/refs/stash").exists()
            command = ("stash", "pop", "-q") if popped else _COMMANDS[verb]
            self.engine.run_git(*command)
        self.note_users()

    def note_users(self) -> None:
        """Remember what Git's own files hold now."""
        self.users = dict(self._users())

    def pin(self) -> None:
        """Pin the present."""
        self.engine.pin(self.pin_name)

    def data(self, version: FileVersion) -> bytes:
        """Return recorded bytes."""
        return self.engine.repo.read_blob(version.oid)

    def undo(self, wanted: Wanted) -> Outcome:
        """Plan, then run the verb; both must agree."""
        try:
            plan = self._ask(wanted, apply=False)
        except UsageError:
            return Outcome()
        before = self.tree()
        report = self._ask(wanted, apply=True)
        assert plan.items == report.items or report.op_id is None
        assert plan.token == report.token
        assert before == self.tree() or report.op_id is not None
        assert sum(report.counts.values()) == len(report.items)
        if report.op_id is None:
            assert report.status in (Status.NOTHING_TO_DO, Status.PARTIAL)
            return Outcome(items=report.items)
        return self._outcome(report, wanted)

    def _outcome(self, report: Report, wanted: Wanted) -> Outcome:
        db = self.engine.db
        assert report.op_id is not None
        op = ops.get(db, report.op_id)
        assert op is not None
        undoes = op.undoes
        if wanted.verb == "hunks":  # what was taken in part is not among them
            undoes = (self._target(wanted),)
        taken = events_of(db, self.engine.worktree, unit_of_ids(db, undoes))
        rows = events.changes(db, EventFilter(op=op.id))
        return Outcome(items=report.items, taken=taken, op=op.id, rows=rows)

    def _ask(self, wanted: Wanted, *, apply: bool) -> Report:
        engine, manner = self.engine, wanted.on_conflict
        if wanted.verb in ("oops", "redo"):
            return engine.ask(OpKind(wanted.verb), apply=apply, on_conflict=manner)
        if wanted.verb in ("at", "restored"):
            return engine.restore(apply=apply, at_ns=wanted.at_ns)
        if wanted.verb == "pinned":
            return engine.restore(apply=apply, pin=self.pin_name)
        typed = self._target(wanted)
        choice: HunkChoice | None = None
        if wanted.verb == "hunks":
            offer = engine.undo(typed, apply=False, offer=True, on_conflict=manner)
            choice = choice_of(offer.token, some_parts(offer.items, wanted.pick))
        only = [os.fsdecode(wanted.path)] if wanted.verb == "only" else ()
        return engine.undo(
            typed, apply=apply, on_conflict=manner, choice=choice, only=only
        )

    def _target(self, wanted: Wanted) -> str:
        db, pick = self.engine.db, wanted.pick
        if wanted.verb == "session":
            return wanted.who
        if wanted.verb in ("turn_back", "hunks", "only"):
            return f"{wanted.who}:{wanted.turn}"
        if wanted.verb == "op":
            known = [op.id for op in ops.list_ops(db)]
        elif wanted.verb == "event":
            known = [str(one.seq) for one in self.engine.log() if is_undoable(one)]
        else:
            known = [path.decode() for path in sorted(self.tree()) if path.isascii()]
        return known[pick % len(known)] if known else "none"

    def _change(self, verb: str, path: bytes, what: Entry | bytes | None) -> None:
        full = self.engine.path(path)
        if verb == "drop":
            os.unlink(full)
        elif isinstance(what, bytes):
            os.makedirs(os.path.dirname(self.engine.path(what)), exist_ok=True)
            self.engine.clear(self.engine.path(what))
            os.rename(full, self.engine.path(what))
        elif verb == "bring":
            self._bring(full)
        else:
            assert what is not None
            self.engine.put(full, *what)

    def bring_near(self, changes: Sequence[Change]) -> None:
        """Make the files that are to be moved in, before anybody begins."""
        for verb, path, what in changes:
            if verb == "bring":
                assert isinstance(what, tuple)
                self.engine.put(self._outside(self.engine.path(path)), *what)

    def _bring(self, full: bytes) -> None:
        """Move a file in from beside the repository."""
        os.makedirs(os.path.dirname(full), exist_ok=True)
        self.engine.clear(full)
        os.rename(self._outside(full), full)

    def _outside(self, full: bytes) -> bytes:
        return os.fsencode(self.engine.root) + b"-" + os.path.basename(full)
