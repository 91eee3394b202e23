"""A crash at any step: the next command finishes or rolls back as a whole."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.model import OpStatus
from gitshadow.store.files import TEMP_PREFIX
from gitshadow.store.journal import ops
from gitshadow.undo.run import recover
from tests.support.engine import Engine
from tests.support.repo import Repo

_KILLED = 9


def agent_at_work(engine: Engine) -> None:
    """Do in one turn everything that apply has a step for."""
    engine.by("human").write("d/one", "1\n", 0o600)
    engine.write("mode", "x\n", 0o640)
    engine.by("s1", "t1")
    engine.write("a", "agent\n")
    os.unlink(engine.path("b"))
    engine.record()
    engine.write("b/now/a/directory", "x\n")
    engine.move("c", "moved/c")
    shutil.rmtree(engine.path("d"))
    os.symlink("a", engine.path("d"))
    os.chmod(engine.path("mode"), 0o644)
    engine.record()
    engine.write("n/e/w", "new\n")


def die_at(step: int) -> Callable[[str], None]:
    """Return a hook that ends the process at the n-th step."""
    seen = 0

    def hook(_: str) -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os._exit(_KILLED)

    return hook


Verb = Callable[[Engine, Callable[[str], None]], object]


def undo(engine: Engine, hook: Callable[[str], None]) -> object:
    return engine.oops(hook=hook)


def rollback(engine: Engine, hook: Callable[[str], None]) -> object:
    return recover(engine.port, hook)


def in_child(root: Path, verb: Verb, hook: Callable[[str], None]) -> int:
    """Run something in a process of its own; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            verb(Engine.open(root), hook)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def copy_of(root: Path, name: str) -> Path:
    copy = root.parent / name
    shutil.copytree(root, copy, symlinks=True)
    return copy


def count_steps(root: Path, verb: Verb) -> int:
    names: list[str] = []
    engine = Engine.open(root)
    verb(engine, names.append)
    engine.close()
    return len(names)


@pytest.mark.uncounted
def test_kill_inside_a_rollback_when_the_next_command_recovers(repo: Repo) -> None:
    root = repo.root
    whole = Engine.open(root)
    agent_at_work(whole)
    after, made = whole.tree_now(), whole.directories()
    whole.close()
    base = copy_of(root, "base")
    total = count_steps(copy_of(root, "count"), undo)
    assert in_child(base, undo, die_at(total - 1)) == _KILLED
    steps = count_steps(copy_of(base, "count-back"), rollback)
    assert steps > 5
    for step in range(1, steps + 1):
        here = copy_of(base, f"back-{step}")
        code = in_child(here, rollback, die_at(step))
        assert code == _KILLED
        engine = Engine.open(here)
        recover(engine.port)
        assert engine.tree_now() == after
        assert engine.directories() == made
        assert engine.litter() == []
        engine.close()
        shutil.rmtree(here)


def test_recover_leaves_what_somebody_changed_after_the_crash(repo: Repo) -> None:
    engine = Engine.open(repo.root)
    engine.by("s1", "t1").write("a", "agent\n")
    engine.write("b", "agent\n")
    engine.close()

    def die(step: str) -> None:
        if step == "applied":
            os._exit(_KILLED)

    assert in_child(repo.root, undo, die) == _KILLED
    engine = Engine.open(repo.root)
    Path(repo.root, "a").write_text("human\n")
    (Path(repo.root) / os.fsdecode(TEMP_PREFIX + b"old")).write_text("litter")
    report = engine.redo()
    assert any("rolled back, but a changed since" in note for note in report.notes)
    assert (engine.read("a"), engine.read("b")) == (b"human\n", b"agent\n")
    assert engine.litter() == []
    assert ops.list_ops(engine.db)[0].status is OpStatus.ROLLED_BACK
    engine.close()


def test_interrupt_rolls_back(repo: Repo) -> None:
    """UX-09: Ctrl-C while apply runs changes nothing."""
    engine = Engine.open(repo.root)
    agent_at_work(engine)
    after = engine.tree_now()

    def interrupt(step: str) -> None:
        if step == "remove b'n/e/w'":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.oops(hook=interrupt)
    assert engine.tree_now() == after
    assert engine.litter() == []
    engine.close()
