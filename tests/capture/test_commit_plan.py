"""Batches into commits: one per write, storms as one, and no tree that never was."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.capture.commit_plan import (
    STORM_PATHS,
    AttributedDraft,
    split_writes,
    subject_for,
)
from gitshadow.capture.drafts import Draft
from gitshadow.model import (
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileState,
    FileVersion,
    Oid,
    OpKind,
    PathChange,
    RepoPath,
    StatKey,
)

names = st.binary(min_size=1, max_size=250).map(
    lambda data: RepoPath(data.replace(b"\0", b"_"))
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


def row(kind: EventKind, path: bytes, old_path: bytes | None = None) -> PathChange:
    return PathChange(
        seq=1,
        ts_ns=0,
        worktree="main",
        kind=kind,
        path=RepoPath(path),
        old_path=None if old_path is None else RepoPath(old_path),
        commit=Oid("c" * 40),
        attribution=Attribution(
            actor=Actor.UNKNOWN, session="s", confidence=Confidence.LOW, reason="r"
        ),
    )


@pytest.mark.parametrize(
    ("kind", "rows", "subject"),
    [
        ("write", [row(EventKind.MODIFY, b"src/app.py")], "Edit src/app.py"),
        ("write", [row(EventKind.CREATE, b"a")], "Create a"),
        ("write", [row(EventKind.DELETE, b"a")], "Delete a"),
        ("write", [row(EventKind.MODE, b"a")], "Chmod a"),
        ("write", [row(EventKind.TYPE, b"a")], "Retype a"),
        ("write", [row(EventKind.RENAME, b"b", b"a")], "Rename a → b"),
        ("write", [row(EventKind.MODIFY, b"a\n\x1b[31m")], 'Edit "a\\n\\033[31m"'),
        (
            "write",
            [row(EventKind.MODIFY, "\u202eb".encode())],
            'Edit "\\342\\200\\256b"',
        ),
        ("write", [row(EventKind.CREATE, b"a")] * 70, "Write 70 files"),
        ("head", [row(EventKind.MODIFY, b"a")], "Switch 1 file"),
        ("head", [], "Switch 0 files"),
        ("coverage", [row(EventKind.COVERAGE, b"a")] * 2, "Cover 2 files"),
    ],
)
def test_subject_says_what_was_done(
    kind: str, rows: list[PathChange], subject: str
) -> None:
    assert subject_for(kind, rows) == subject


def test_subject_of_a_restore_names_the_verb() -> None:
    rows = [row(EventKind.RESTORE, b"a")] * 3
    assert subject_for("restore", rows, OpKind.OOPS) == "Restore 3 files (oops)"


@given(names, names)
def test_subject_is_one_short_printable_line(path: RepoPath, old: RepoPath) -> None:
    subject = subject_for("write", [row(EventKind.RENAME, path, old)])
    assert len(subject) <= 72
    assert subject.splitlines() == [subject]
    assert re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]", subject) is None
