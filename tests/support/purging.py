"""A secret in a recorded repository, and where it still stands: for tests of purging."""

import os
from itertools import count
from pathlib import Path

import pytest

from gitshadow.maintenance.upkeep import pack_now
from tests.support.repo import Repo
from tests.support.studio import Studio

SECRET = b"sk-live-0123456789abcdef"


def holders(repo: Repo) -> list[str]:
    """Return every object of the repository, reachable or not, that has the secret in it."""
    listed = repo.git("cat-file", "--batch-all-objects", "--batch-check", "--unordered")
    found = []
    for line in listed.splitlines():
        oid, kind, _ = line.split()
        if SECRET.decode() in repo.git("cat-file", kind, oid):
            found.append(oid)
    return found


def leaks(repo: Repo) -> list[str]:
    """Return the files of ours that have the secret in them."""
    return [
        os.path.join(top, name)
        for top, _, names in os.walk(repo.state_dir)
        for name in names
        if SECRET in Path(top, name).read_bytes()
    ]


def die_at(
    monkeypatch: pytest.MonkeyPatch, at: int, *places: tuple[object, str]
) -> None:
    """Make call number `at`, of all calls of some functions, raise `Killed`.

    Args:
        monkeypatch: Gives the functions back.
        at: Counted from 1.
        places: Owners and names of the functions.
    """
    steps = count(1)
    for owner, name in places:
        real = getattr(owner, name)

        def dying(*args: object, _real: object = real, **named: object) -> object:
            if next(steps) == at:
                raise Killed
            assert callable(_real)
            return _real(*args, **named)

        monkeypatch.setattr(owner, name, dying)


def play(studio: Studio) -> None:
    """Write a secret in three sessions, partly packed, among other work."""
    layout = studio.context.workspace.layout
    studio.write("S1", "k", b"one " + SECRET)
    studio.write("S1", "a", "agent one\n")
    pack_now(layout, os.environ)
    studio.write("S2", "k", b"two " + SECRET)
    studio.write("S2", "b", "agent two\n")
    studio.hand("k", b"mine " + SECRET)
    studio.hand("c", "mine\n")
    studio.run("pin", name="good")
    studio.repo.delete("k")
    studio.context.observer.settle()
    studio.end("S1", "S2")


def remains(document: dict[str, object]) -> dict[str, object]:
    """Return what a purge says is left."""
    left = document["remains"]
    assert isinstance(left, dict)
    return left


class Killed(BaseException):
    """A kill: nothing in the program catches it."""
