"""Directories that an undo brings back have the modes they had; Git's trees do not hold them."""

import os
from collections.abc import Iterator

import pytest

from gitshadow.model import RepoPath
from gitshadow.store.journal import meta
from tests.support.context import Near, desk_of
from tests.support.repo import Repo
from tests.support.reports import uncovered


@pytest.fixture
def fenced(repo: Repo) -> Repo:
    """Return R with a private and a shared directory."""
    repo.write("priv/in/key", "secret\n", mode=0o600)
    repo.write("shared/x", "x\n")
    repo.write("plain/x", "x\n")
    repo.chmod("priv/in", 0o750)
    repo.chmod("priv", 0o700)
    repo.chmod("shared", 0o2775)
    return repo


@pytest.fixture
def near(fenced: Repo) -> Iterator[Near]:
    with desk_of(fenced) as context:
        yield Near(fenced, context)


def modes(repo: Repo) -> list[int]:
    return [repo.mode(path) for path in ("priv", "priv/in", "shared", "plain")]


def remove_all(near: Near) -> None:
    agent = near.agent()
    agent.start()
    agent.prompt("remove them")
    agent.shell("rm -rf priv shared plain")


def test_directories_come_back_with_their_modes(repo: Repo, near: Near) -> None:
    remove_all(near)
    assert near.undo("oops")["status"] == "reversed"
    assert modes(repo) == [0o700, 0o750, 0o2775, 0o755]
    assert repo.mode("priv/in/key") == 0o600


def test_directories_come_back_with_their_modes_after_a_redo(
    repo: Repo, near: Near
) -> None:
    remove_all(near)
    near.undo("oops")
    near.undo("redo")
    assert not repo.exists("priv")
    near.undo("oops")
    assert modes(repo) == [0o700, 0o750, 0o2775, 0o755]


def test_modes_are_known_from_the_first_reading_on(fenced: Repo) -> None:
    """A daemon makes it, and none looks at all directories again until there is a doubt."""
    with desk_of(fenced) as context:
        found = [
            context.walker.modes.of(RepoPath(path)) for path in (b"priv", b"plain")
        ]
        assert found == [0o700, 0o755]


def test_modes_are_kept_when_another_process_undoes(fenced: Repo) -> None:
    with desk_of(fenced) as context:
        remove_all(Near(fenced, context))
    with desk_of(fenced) as context:
        assert Near(fenced, context).undo("oops")["status"] == "reversed"
        assert modes(fenced) == [0o700, 0o750, 0o2775, 0o755]


def test_modes_are_learned_again_when_the_journal_lost_them(fenced: Repo) -> None:
    with desk_of(fenced) as context:
        with context.workspace.db.write():
            meta.put(context.workspace.db, "directory_modes:main", "no json")
        remove_all(Near(fenced, context))
        assert Near(fenced, context).undo("oops")["status"] == "reversed"
        assert modes(fenced) == [0o700, 0o750, 0o2775, 0o755]


def test_mode_that_a_turn_gave_a_directory_is_named_with_the_former(
    repo: Repo, near: Near
) -> None:
    former = f"{repo.mode('.'):04o}"
    agent = near.agent()
    agent.start()
    agent.prompt("open all")
    agent.shell("chmod 755 priv; chmod 711 .; mkdir -m 711 new; echo x >new/x")
    agent.stop()
    report = near.undo("oops")
    assert {what: why for what, why in uncovered(report).items() if "mode" in why} == {
        "priv": "the mode of a directory is not undone; it was 0700",
        ".": "the mode of a directory is not undone; it was " + former,
    }
    assert repo.mode("priv") == 0o755
    agent.prompt("remove it")
    agent.shell("rm -r priv plain")
    agent.stop()
    # What an undo creates again has its last mode.
    near.undo("oops")
    agent.prompt("change")
    agent.write("a", "agent\n")
    agent.stop()
    assert uncovered(near.undo("oops")) == {}


def test_mode_of_a_directory_is_named_when_it_cannot_be_set(
    repo: Repo, near: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system may drop the setgid bit without a word, as for a group that is not ours."""
    remove_all(near)
    real = os.fchmod
    monkeypatch.setattr(os, "fchmod", lambda fd, mode: real(fd, mode & 0o777))
    report = near.undo("oops")
    assert modes(repo)[2] == 0o775
    assert "mode 2775 of shared" in uncovered(report)
