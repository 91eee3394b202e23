"""AN-37: a second session from a moment of the first, which is not touched."""

from pathlib import Path

import pytest

from gitshadow.errors import StoreError, UsageError
from gitshadow.sdk.turns.errors import InvocationNotFound, NothingToUndo
from tests.sdk.turns.front import Front, Session, in_journal
from tests.sdk.turns.recorded import Recorded
from tests.support.repo import Repo


async def worked(front: Front) -> Session:
    """Run three turns that talk, set state and save artifacts; the second one is rewound."""
    session = front.session()
    session.au.create({"tenant": "t1", "user:name": "ann"})
    for number in (1, 2, 3):
        async with session.turn() as turn:
            await turn.say("ann", f"prompt {number}", kind="user")
            await turn.set_state(n=number)
            await turn.call("draft.create", title=str(number))
            await turn.save("notes", b"%d" % number)
        if number == 2:
            await session.rewind("t-2")
    return session


def forked(session: Session, before: str, name: str = "fork") -> Session:
    """Fork a session of either front."""
    return Session(session.au.fork(before, name))


def everything(session: Session) -> list[object]:
    """Return all that a session's rows say."""
    au = session.au
    calls = [au.calls(turn.id) for turn in au.turns()]
    return [au.turns(), calls, au.events(), au.log(), au.state, au.attention()]


async def test_a_fork_begins_where_the_session_was(front: Front) -> None:
    """AN-37: state of every scope, artifacts by content, and what counted of the conversation."""
    session = await worked(front)
    fork = forked(session, "t-3")
    assert fork.au.state == {"tenant": "t1", "user:name": "ann", "n": 1}
    assert [one.text for one in fork.au.messages()] == ["prompt 1"]
    assert fork.au.artifacts.load("notes") == b"1"
    assert fork.au.artifacts.versions("notes") == (0,)
    assert (fork.au.turns(), fork.au.attention()) == ([], [])
    fork.au.close()


async def test_a_fork_of_what_was_rewound_has_it(front: Front) -> None:
    """AN-37, UC-04: also a moment that no longer counts in the first session."""
    session = await worked(front)
    async with session.turn() as turn:
        await turn.say("ann", "later", kind="user")
    fork = forked(session, "t-2")
    assert fork.au.state["n"] == 1
    assert [one.text for one in fork.au.messages()] == ["prompt 1"]
    fork.au.close()


async def test_the_first_session_is_not_touched(front: Front) -> None:
    """AN-37: byte-equal rows, while it is at work as well, and whatever the fork does."""
    session = await worked(front)
    async with session.turn() as turn:
        await turn.say("ann", "at work", kind="user")
        before = everything(session)
        fork = forked(session, "t-3")
        async with fork.turn() as other:
            assert other.inner.id == "t-1"
            await other.set_state(n=99)
            await other.save("notes", b"fork")
            await other.call("draft.create", title="of the fork")
        await fork.rewind("t-1")
        assert everything(session) == before
    assert session.au.artifacts.load("notes") == b"3"
    fork.au.close()


async def test_nothing_goes_back_before_a_fork(front: Front) -> None:
    """AN-37: what it was made with is its ground."""
    session = await worked(front)
    fork = forked(session, "t-3")
    with pytest.raises(NothingToUndo):
        await fork.undo_last()
    async with fork.turn() as turn:
        await turn.say("ann", "mine", kind="user")
    await fork.undo_last()
    assert [one.text for one in fork.au.messages()] == ["prompt 1"]
    with pytest.raises(NothingToUndo):
        await fork.undo_last()
    fork.au.close()


async def test_a_fork_needs_a_moment_and_a_new_name(front: Front) -> None:
    """AN-37: nothing is begun otherwise."""
    session = await worked(front)
    with pytest.raises(InvocationNotFound):
        forked(session, "nope")
    forked(session, "t-1").au.close()
    with pytest.raises(UsageError, match="session fork exists"):
        forked(session, "t-1")
    with pytest.raises(UsageError, match="session s exists"):
        forked(session, "t-1", "s")


@in_journal
async def test_a_fork_without_all_bytes_is_none(front: Front) -> None:
    """AN-37, AN-12: nothing is silently emptied."""
    session = await worked(front)
    for path in (front.root / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(StoreError):
        forked(session, "t-3")
    assert front.session("fork").au.events() == []


@pytest.mark.parametrize("name", ["sync", "async"])
async def test_files_of_a_fork_are_on_a_ref_of_its_own(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """AN-37: the first session's shadow ref stays where it is."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    recorded = Recorded.make(repo, tmp_path / "world", name)
    session = recorded.front.session()
    for text in ("one\n", "two\n"):
        await session.called("shell.run", path="f", text=text)
    before = refs(repo)
    fork = forked(session, "t-2")
    await fork.called("shell.run", path="g", text="fork\n")
    after = refs(repo)
    assert len(before) == 1
    assert before.items() < after.items()
    (new,) = after.keys() - before.keys()
    assert repo.git("show", f"{new}:g") == "fork"
    fork.au.close()
    recorded.front.close()


def refs(repo: Repo) -> dict[str, str]:
    """Return the shadow refs of agents, and where they stand."""
    how = "--format=%(refname) %(objectname)"
    said = repo.git("for-each-ref", how, "refs/agent-undo")
    pairs = (line.split() for line in said.splitlines())
    return {ref: oid for ref, oid in pairs if "generic" in ref}
