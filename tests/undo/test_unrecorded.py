"""An op whose commit or rows could not be stored: the next command ends it, either way."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitshadow.errors import JournalError, StoreError
from gitshadow.model import Op, OpStatus
from gitshadow.store.journal import ops, sessions
from gitshadow.undo.effective import take_notes
from gitshadow.undo.run import recover
from tests.support.engine import Engine, refusing
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Shadow

_NO_ROWS = "INSERT ON events WHEN NEW.kind = 'restore'"
_NO_END = "UPDATE OF status ON ops"


@contextmanager
def locked(root: Path, ref: str) -> Iterator[None]:
    """Leave a lock beside a ref, so that nothing can be published on it."""
    lock = root / ".git" / f"{ref}.lock"
    lock.write_text("")
    # One that is new is waited for.
    os.utime(lock, (1, 1))
    try:
        yield
    finally:
        lock.unlink()


def newest_op(engine: Engine) -> Op:
    return ops.list_ops(engine.db)[0]


def test_op_is_finished_when_its_commit_stands_without_rows(engine: Engine) -> None:
    """ROB-01: the ref decides; what is on the disk is never called rolled back."""
    engine.by("s1", "t1").write("a", "agent\n")
    with refusing(engine.root, _NO_ROWS), pytest.raises(JournalError):
        engine.oops()
    assert newest_op(engine).status is OpStatus.APPLYING
    assert engine.read("a").decode() == ten_lines("a")
    (found,) = recover(engine.port)
    assert found.finished
    assert newest_op(engine).status is OpStatus.DONE
    assert "is now finished" in take_notes(engine.db, engine.worktree)[0]
    assert [row.op for row in engine.changes()[:2]] == [newest_op(engine).id, None]
    assert engine.redo().status == "reversed"
    assert engine.read("a") == b"agent\n"


def test_op_is_rolled_back_when_its_end_could_not_be_stored(engine: Engine) -> None:
    """ROB-01: the files are back at once, the journal follows with the next command."""
    engine.by("human").write("b", "mine\n")
    engine.by("s1", "t1").write("a", "agent\n")
    chain = sessions.get_chain(engine.db, "human", "main")
    assert chain is not None
    with locked(engine.root, chain.ref), refusing(engine.root, _NO_END):
        with pytest.raises(StoreError):
            engine.oops()
        assert newest_op(engine).status is OpStatus.APPLYING
        assert engine.read("a") == b"agent\n"
    report = engine.oops()
    assert "rolled back" in report.notes[0]
    assert report.status == "reversed"
    assert [op.status for op in ops.list_ops(engine.db)] == [
        OpStatus.DONE,
        OpStatus.ROLLED_BACK,
    ]


def agents_turn(repo: Repo, shadow: Shadow) -> None:
    """Have a command write as an agent, and be undone and redone once: all chains stand."""
    shadow.ok("exec", "--agent", "x", "--", "sh", "-c", "echo agent > a")
    assert shadow.oops()["status"] == "reversed"
    shadow.ok("redo", "--yes")
    assert repo.read("a") == b"agent\n"


def statuses(shadow: Shadow) -> list[object]:
    return [row["status"] for row in shadow.ok("ops", "--json").rows()]


def test_look_finishes_an_op_in_the_daemon_in_which_it_failed(
    repo: Repo, shadow_d: Shadow
) -> None:
    """ROB-01: no undo verb and no new daemon is needed."""
    agents_turn(repo, shadow_d)
    daemon = shadow_d.status()["daemon"]
    with refusing(repo.root, _NO_ROWS):
        result = shadow_d("oops", "--yes")
        assert result.code == 1
        assert "journal" in result.err
    assert statuses(shadow_d)[0] == "done"
    assert shadow_d.status()["daemon"] == daemon
    assert repo.read("a") != b"agent\n"
    shadow_d.ok("redo", "--yes")
    assert repo.read("a") == b"agent\n"


def test_look_rolls_an_op_back_in_the_daemon_in_which_it_failed(
    repo: Repo, shadow_d: Shadow
) -> None:
    """ROB-01, ROB-06: a lock beside the person's ref is named and never removed."""
    agents_turn(repo, shadow_d)
    (ref,) = [name for name in repo.shadow_refs() if "human" in name]
    with locked(repo.root, ref), refusing(repo.root, _NO_END):
        result = shadow_d("oops", "--yes")
        assert result.code == 1
        assert ".lock" in result.err
        assert repo.exists(f".git/{ref}.lock")
    assert repo.read("a") == b"agent\n"
    assert statuses(shadow_d)[0] == "rolled_back"
    assert shadow_d.oops()["status"] == "reversed"
