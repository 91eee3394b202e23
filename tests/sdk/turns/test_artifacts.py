"""ART rows: versions of artifacts, current again by content, none ever lost."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from gitshadow.model import Oid
from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.errors import TurnClosed
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.store import artifacts, refs
from gitshadow.store.replay import agree
from tests.sdk.turns.front import Front, Session, in_journal, journal_of
from tests.sdk.turns.world import BoomError


async def saved(session: Session, *contents: tuple[str, bytes]) -> None:
    """Save artifacts in one turn."""
    async with session.turn() as turn:
        for name, data in contents:
            await turn.save(name, data)


def git(root: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout


async def test_the_version_before_the_target_is_current_again(front: Front) -> None:
    """ART-01, ART-04: v3 is current, as a new version beside all the old ones."""
    session = front.session()
    for number in range(5):
        await saved(session, ("report.pdf", b"v%d" % number))
    report = await session.rewind("t-5")
    kept = session.au.artifacts
    assert kept.load("report.pdf") == b"v3"
    assert report.artifact_delta == {"report.pdf": 3}
    assert kept.versions("report.pdf") == (0, 1, 2, 3, 4, 5)
    assert [kept.load("report.pdf", number) for number in range(6)] == [
        *(b"v0", b"v1", b"v2", b"v3", b"v4", b"v3")
    ]


async def test_each_artifact_goes_back_to_its_own_version(front: Front) -> None:
    """ART-02, ART-05: what was not modified since gets no new version."""
    session = front.session()
    await saved(session, ("a", b"a0"), ("same", b"s0"))
    await saved(session, ("a", b"a1"), ("b", b"b0"))
    await saved(session, ("a", b"a2"), ("b", b"b1"))
    report = await session.rewind("t-3")
    kept = session.au.artifacts
    assert (kept.load("a"), kept.load("b")) == (b"a1", b"b0")
    assert report.artifact_delta == {"a": 1, "b": 0}
    assert kept.versions("same") == (0,)


async def test_what_did_not_exist_is_absent_again(front: Front) -> None:
    """ART-03: and an explicit version can still be loaded."""
    session = front.session()
    await saved(session, ("f1", b"x"))
    await saved(session, ("f2", b"y"))
    report = await session.rewind("t-2")
    kept = session.au.artifacts
    assert kept.load("f2") is None
    assert kept.list() == ["f1"]
    assert kept.load("f2", version=0) == b"y"
    assert report.artifact_delta == {"f2": None}


async def test_without_artifacts_there_is_no_delta(front: Front) -> None:
    """ART-06."""
    session = front.session()
    await saved(session)
    assert (await session.rewind("t-1")).artifact_delta == {}
    assert session.au.artifacts.load("none") is None


async def test_an_empty_file_is_a_file(front: Front) -> None:
    """ART-07."""
    session = front.session()
    await saved(session, ("empty", b""))
    await saved(session, ("empty", b"full"), ("other", b"x"))
    await session.rewind("t-2")
    assert session.au.artifacts.load("empty") == b""
    assert session.au.artifacts.list() == ["empty"]


async def test_a_failed_turn_gives_artifacts_back(front: Front) -> None:
    session = front.session()
    await saved(session, ("a", b"a0"))
    with pytest.raises(BoomError):
        async with session.turn() as turn:
            await turn.save("a", b"a1")
            await turn.save("b", b"b0")
            await turn.call("toy.boom")
    assert session.au.artifacts.load("a") == b"a0"
    assert session.au.artifacts.list() == ["a"]


async def test_artifacts_of_the_user_stay(front: Front) -> None:
    """AN-25."""
    session = front.session()
    await saved(session, ("user:avatar", b"x"), ("own", b"x"))
    await session.rewind("t-1")
    assert session.au.artifacts.list() == ["user:avatar"]


@in_journal
async def test_bytes_are_blobs_that_git_shows(front: Front) -> None:
    """Reachable from a ref of the session, whatever the names; fsck is content."""
    session = front.session()
    names = ["report.pdf", "a/b", "..", ".git", "ü\n", "%2E"]
    await saved(session, *((name, name.encode()) for name in names))
    await saved(session, ("report.pdf", b"again"))
    ref = artifacts.artifact_ref("s")
    assert not refs.is_chain(ref)
    assert git(front.root, "show", f"{ref}:report.pdf/1") == "again"
    assert len(git(front.root, "ls-tree", "-r", ref).splitlines()) == 7
    assert git(front.root, "rev-list", "--count", ref) == "7\n"
    assert agree(
        journal_of(session.au).db, {ref: Oid(git(front.root, "rev-parse", ref))}
    )
    git(front.root, "fsck", "--strict", "--no-dangling")
    git(front.root, "gc", "-q", "--prune=now")
    for name in names[1:]:
        assert session.au.artifacts.load(name) == name.encode()
    message = refs.parse_message(
        git(front.root, "log", "-1", "--format=%B", ref).encode()
    )
    assert message is not None
    assert (message.kind, message.native) == ("artifact", "s")


@in_journal
async def test_missing_bytes_are_named_and_nothing_is_emptied(front: Front) -> None:
    """AN-12."""
    session = front.session()
    await saved(session, ("a", b"a0 is unique"), ("b", b"b0"))
    await saved(session, ("a", b"a1"), ("b", b"b1"))
    oid = git(front.root, "rev-parse", f"{artifacts.artifact_ref('s')}:a/0").strip()
    (front.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    journal_of(session.au)._repo.refresh()
    report = await session.rewind("t-2")
    assert [(item.path, item.state, item.reason) for item in report.items] == [
        ("a", "not_reversed", "no_inverse"),
        ("b", "reversed", None),
    ]
    assert report.items[0].detail == "the content of version 0 is missing"
    assert (report.status, report.artifact_delta) == ("partial", {"b": 0})
    assert session.au.artifacts.load("a") == b"a1"
    assert session.au.artifacts.load("b") == b"b0"


async def test_a_turn_that_ended_saves_nothing(front: Front) -> None:
    session = front.session()
    async with session.turn() as turn:
        pass
    with pytest.raises(TurnClosed):
        await turn.save("a", b"x")
    assert session.au.artifacts.list() == []


async def test_versions_saved_at_the_same_time_have_numbers_of_their_own(
    place: Path,
) -> None:
    contents = [b"%d" % number for number in range(9)]
    async with AsyncAgentUndo.open(place, session="s", tools=ToolRegistry()) as au:
        async with au.turn("go") as turn:
            found = await asyncio.gather(
                *(turn.save_artifact("a", data) for data in contents)
            )
        assert [au.artifacts.load("a", number) for number in found] == contents
    tree = git(place, "ls-tree", "-r", "--name-only", artifacts.artifact_ref("s"))
    assert tree.splitlines() == [f"a/{number}" for number in range(9)]
