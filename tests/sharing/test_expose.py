"""expose and unexpose: what they write, and that nothing else is touched."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.errors import RefusedError, UsageError
from gitshadow.store.layout import page_of
from tests.support.kept import kept
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of

PREFIX = "refs/remotes/agent-undo/"


@pytest.fixture
def studio(repo: Repo) -> Iterator[Studio]:
    with studio_of(repo) as made:
        made.write("S1", "a", "agent\n")
        yield made


def refs(repo: Repo) -> dict[str, str]:
    listed = repo.git("for-each-ref", "--format=%(refname) %(objectname)", PREFIX)
    return dict(line.split() for line in listed.splitlines())


def test_session_is_shown_as_it_is_now_and_moved_on_by_a_second_expose(
    studio: Studio,
) -> None:
    session = studio.session("S1")
    shown = PREFIX + session
    assert studio.run("expose", session=session) == {"exposed": [shown]}
    first = refs(studio.repo)[shown]
    studio.write("S1", "b", "agent\n")
    assert refs(studio.repo)[shown] == first
    studio.run("expose", session=session)
    assert (
        refs(studio.repo)[shown]
        == studio.repo.shadow_refs()[f"refs/agent-undo/{session}"]
    )


@pytest.mark.parametrize("reflogs", ["false", "always"])
def test_unexpose_leaves_nothing_behind(studio: Studio, reflogs: str) -> None:
    repo = studio.repo
    repo.git("config", "core.logAllRefUpdates", reflogs)
    logs = list(os.walk(repo.root / ".git" / "logs"))
    with kept(repo):
        studio.run("expose", session=studio.session("S1"))
        repo.git("pack-refs", "--all", "--no-prune")
        studio.run("unexpose", session=studio.session("S1"))
    assert refs(repo) == {}
    # An empty refs/remotes stays, as Git leaves it when the last remote branch goes.
    assert not repo.exists(".git/refs/remotes/agent-undo")
    assert list(os.walk(repo.root / ".git" / "logs")) == logs


def test_unexpose_all_takes_back_every_session_and_nothing_else(
    studio: Studio,
) -> None:
    studio.write("S2", "b", "agent\n")
    for who in ("S1", "S2"):
        studio.run("expose", session=studio.session(who))
    theirs = f"{PREFIX}main"
    studio.repo.git("update-ref", theirs, "HEAD")
    document = studio.run("unexpose", all=True)
    gone = [PREFIX + studio.session(who) for who in ("S1", "S2")]
    assert document == {"unexposed": sorted(gone), "left": [theirs]}
    assert list(refs(studio.repo)) == [theirs]


def test_unexpose_wants_to_know_which(studio: Studio) -> None:
    with pytest.raises(UsageError, match="missing argument: SESSION, or --all"):
        studio.run("unexpose")


def test_ref_of_somebody_else_is_neither_moved_nor_deleted(studio: Studio) -> None:
    session = studio.session("S1")
    studio.repo.git("update-ref", PREFIX + session, "HEAD")
    before = refs(studio.repo)
    with pytest.raises(RefusedError, match="was not created by gitshadow"):
        studio.run("expose", session=session)
    document = studio.run("unexpose", session=session)
    assert document == {"unexposed": [], "left": [PREFIX + session]}
    assert refs(studio.repo) == before


def test_prune_takes_what_is_shown_and_written_of_a_session_and_nothing_else(
    studio: Studio,
) -> None:
    studio.write("S2", "b", "agent\n")
    one, two = studio.session("S1"), studio.session("S2")
    studio.run("expose", session=one)
    studio.repo.git("update-ref", PREFIX + two, "HEAD")
    layout = studio.context.workspace.layout
    os.mkdir(layout.pages_dir)
    for name in (one, "kept"):
        Path(page_of(layout, name)).write_text("prompts and source")
    for who in ("S1", "S2"):
        studio.hook(who, "SessionEnd", reason="other")
    studio.run("prune", all=True)
    assert list(refs(studio.repo)) == [PREFIX + two]
    assert os.listdir(layout.pages_dir) == ["kept.html"]


def test_remote_of_our_name_is_left_to_its_owner(studio: Studio) -> None:
    """`git fetch --prune` of that remote would delete what we show."""
    studio.repo.git("config", "remote.agent-undo.url", "/nowhere")
    with pytest.raises(RefusedError, match="you have a remote named agent-undo"):
        studio.run("expose", session=studio.session("S1"))
    assert refs(studio.repo) == {}
