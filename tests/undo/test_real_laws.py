"""The laws of undo once more, with real files, refs and journal."""

import os
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.repo import Repo
from tests.undo.test_laws import MOVES, Move
from tests.undo.yard import Yard

_NAMES = ("a", "b", "c", "sub/d")


def play(yard: Yard, move: Move, number: int) -> None:
    """Make one move of the random history on the disk, if it is possible."""
    who, verb, first, second, at = move
    path, other = _NAMES[first], _NAMES[second]
    yard.by(who)
    if verb == "create" or (verb == "insert" and not yard.exists(path)):
        if not yard.exists(path):
            yard.write(path, f"{who} {number}\n")
        return
    if not yard.exists(path):
        return
    lines = yard.read(path).splitlines(keepends=True)
    if verb == "insert":
        lines.insert(min(at, len(lines)), f"{who} {number}\n".encode())
        yard.write(path, b"".join(lines))
    elif verb == "cut":
        yard.write(path, b"".join(lines[:at] + lines[at + 1 :]))
    elif verb == "chmod":
        os.chmod(yard.path(path), (0o644, 0o600, 0o755)[at % 3])
        yard.record()
    elif verb == "delete":
        yard.remove(path)
    elif not yard.exists(other):
        yard.move(path, other)


@given(moves=MOVES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_redo_of_undo_is_identity_on_the_disk(
    tmp_path_factory: pytest.TempPathFactory, moves: Sequence[Move]
) -> None:
    repo = Repo.create(tmp_path_factory.mktemp("law") / "repo", _NAMES[:3])
    yard = Yard.open(repo.root)
    try:
        for number, move in enumerate(moves):
            play(yard, move, number)
        yard.by("s1")
        before = yard.tree_now()
        human = {
            line
            for _, data in before.values()
            for line in data.splitlines()
            if line.startswith(b"human")
        }
        done = yard.undo("s1")
        now = yard.tree_now()
        kept = {line for _, data in now.values() for line in data.splitlines()}
        assert human <= kept
        states = [item.state.value for item in done.items]
        assert sum(done.counts.values()) == len(states)
        if done.op_id is not None:
            yard.redo()
        assert yard.tree_now() == before
        assert yard.litter() == []
        repo.fsck()
    finally:
        yard.close()
