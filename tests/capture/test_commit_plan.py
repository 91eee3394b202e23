"""Batches into commits: one per write, storms as one, and no tree that never was."""

from gitshadow.capture.commit_plan import STORM_PATHS, AttributedDraft, split_writes
from gitshadow.capture.drafts import Draft
from gitshadow.model import (
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileState,
    FileVersion,
    Oid,
    RepoPath,
    StatKey,
)

HELD = FileState(FileVersion(Oid("1" * 40), 0o100644), StatKey(1, 0, 0, 1), 0)


def claimed(
    session: str, path: str, at_ns: int, *, gone: bool = False
) -> AttributedDraft:
    """Return a write of a session."""
    draft = Draft(
        path=RepoPath(path.encode()),
        kind=EventKind.DELETE if gone else EventKind.CREATE,
        before=HELD if gone else None,
        after=None if gone else HELD,
        begin_ns=at_ns,
        end_ns=at_ns,
    )
    who = Attribution(
        actor=Actor.AGENT,
        session=session,
        confidence=Confidence.HIGH,
        reason="its call was open",
    )
    return AttributedDraft(draft, who)


def storm(session: str, at_ns: int) -> list[AttributedDraft]:
    """Return more writes than are recorded one by one."""
    return [claimed(session, f"{session}/{n}", at_ns) for n in range(STORM_PATHS)]


def paths(part: list[AttributedDraft]) -> set[bytes]:
    """Return the paths of one commit."""
    return {one.draft.path for one in part}


def test_storm_is_one_commit_where_its_last_write_stood() -> None:
    batch = [*storm("one", 1), claimed("two", "x", 2), claimed("one", "last", 3)]
    parts = split_writes(batch)
    assert [len(part) for part in parts] == [1, STORM_PATHS + 1]


def test_file_is_gone_before_another_storm_fills_its_directory() -> None:
    """The storm that deletes it ends later: as a whole it would take the directory along."""
    batch = [
        *storm("one", 1),
        claimed("one", "d", 2, gone=True),
        *storm("two", 3),
        claimed("two", "d/x", 3),
        claimed("one", "last", 4),
    ]
    parts = split_writes(batch)
    assert [len(part) for part in parts] == [1, STORM_PATHS + 1, STORM_PATHS + 1]
    assert paths(parts[0]) == {b"d"}
    assert b"d/x" in paths(parts[1])


def test_directory_is_empty_before_another_storm_makes_it_a_file() -> None:
    batch = [
        *storm("one", 1),
        claimed("one", "d/x", 2, gone=True),
        *storm("two", 3),
        claimed("two", "d", 3),
        claimed("one", "last", 4),
    ]
    parts = split_writes(batch)
    assert [len(part) for part in parts] == [1, STORM_PATHS + 1, STORM_PATHS + 1]
    assert paths(parts[0]) == {b"d/x"}
