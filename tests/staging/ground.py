"""Staging by turn as sentences: `ground.stage("s1:t1")`, `ground.staged("a")`."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gitshadow.api import staging as verbs
from gitshadow.messages.staging import (
    AdoptRequest,
    CarriedRequest,
    CarryRequest,
    CommitRequest,
    PreparedCommit,
    SplitRequest,
    StageRequest,
    StagingAnswer,
    UnitRequest,
)
from gitshadow.messages.undo import UndoTarget
from gitshadow.store.layout import discover
from gitshadow.store.user_git import UserGit
from tests.support.engine import Engine


def unit(*targets: str, only: Sequence[str] = ()) -> UnitRequest:
    """Return a unit of what a person would type."""
    return UnitRequest(tuple(map(UndoTarget, targets)), tuple(only))


def states(answer: StagingAnswer) -> dict[str, str]:
    """Return what becomes of each file: the action, or the reason for which it is skipped."""
    return {
        item.path: item.action
        if item.state == "included"
        else item.reason or item.state
        for item in answer.items
    }


@dataclass(slots=True)
class Ground:
    """One recorded worktree."""

    engine: Engine

    def by(self, who: str, turn: str = "t1") -> Engine:
        """Set who writes from now on."""
        return self.engine.by(who, turn if who[0] == "s" else None)

    # The verbs

    def stage(self, *targets: str, only: Sequence[str] = ()) -> StagingAnswer:
        """Run `stage --yes`."""
        asked = StageRequest(unit(*targets, only=only), yes=True)
        return verbs.stage(self.engine.context, self._here(asked))

    def plan(self, *targets: str) -> StagingAnswer:
        """Run `stage --dry-run`."""
        return verbs.stage(
            self.engine.context, self._here(StageRequest(unit(*targets)))
        )

    def unstage(self) -> StagingAnswer:
        """Run `stage --undo --yes`."""
        return verbs.stage(self.engine.context, StageRequest(undo=True, yes=True))

    def commit(
        self, *targets: str, message: str | None = None, options: Sequence[str] = ()
    ) -> StagingAnswer:
        """Do what `commit --yes` does."""
        asked = CommitRequest(
            unit(*targets), message, yes=True, cwd=str(self.engine.root)
        )
        answer = verbs.commit(self.engine.context, asked)
        if answer.prepared is not None:
            self._commit(answer, answer.prepared, options)
        return answer

    def _commit(
        self, answer: StagingAnswer, prepared: PreparedCommit, options: Sequence[str]
    ) -> None:
        layout = discover(str(self.engine.root))
        assert layout is not None
        git = UserGit(layout, os.environ)
        assert prepared.index_ is not None
        assert git.commit(prepared.index_, answer.commits[0].message, options) == 0
        os.unlink(prepared.index_)
        head = git.head()
        assert head is not None
        verbs.adopt(self.engine.context, AdoptRequest(head, prepared.parent))

    def split(self) -> StagingAnswer:
        """Run `split --dry-run`."""
        return verbs.split(self.engine.context, SplitRequest())

    def carry_from(self, *targets: str) -> CarryRequest:
        """Return what `apply --worktree` sends there."""
        found = verbs.carried(self.engine.context, CarriedRequest(unit(*targets)))
        return CarryRequest(found.files, " ".join(targets), yes=True)

    def carry(self, asked: CarryRequest) -> StagingAnswer:
        """Do what `apply --worktree` does there."""
        return verbs.carry(self.engine.context, asked)

    def _here(self, asked: StageRequest) -> StageRequest:
        return asked._replace(cwd=str(self.engine.root))

    # What is there

    def git(self, *words: str | bytes, data: bytes = b"") -> bytes:
        """Run git; return its output."""
        command = ["git", *words]
        root = self.engine.root
        done = subprocess.run(command, cwd=root, input=data, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def staged(self, path: str) -> bytes | None:
        """Return what the index has at a path."""
        return self._show(f":{path}")

    def committed(self, path: str, where: str = "HEAD") -> bytes | None:
        """Return what a commit has at a path."""
        return self._show(f"{where}:{path}")

    def _show(self, name: str) -> bytes | None:
        done = subprocess.run(
            ["git", "cat-file", "blob", name], cwd=self.engine.root, capture_output=True
        )
        return done.stdout if done.returncode == 0 else None

    def index(self) -> bytes:
        """Return every entry of the index."""
        return self.git("ls-files", "--stage")

    def changed(self) -> list[str]:
        """Return the status of every path that differs, as git has it."""
        out = self.git("status", "--porcelain", "-uall").decode()
        return [line for line in out.splitlines() if line]

    def worktree(self, name: str) -> Path:
        """Make another worktree."""
        there = self.engine.root.parent / name
        self.git("worktree", "add", "-q", "--detach", str(there))
        return there


@contextmanager
def opened(root: Path) -> Iterator[Ground]:
    """Open another worktree for a while."""
    made = Engine.open(root)
    try:
        yield Ground(made)
    finally:
        made.close()
