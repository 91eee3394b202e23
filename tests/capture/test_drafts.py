"""What was seen becomes drafts: kinds, pairs and times; pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.capture.drafts import BatchTime, Draft, Seen, draft_changes
from gitshadow.model import (
    LINK_MODE,
    EventKind,
    FileState,
    FileVersion,
    RepoPath,
    StatKey,
)
from gitshadow.store.object_format import SHA1

SETTLED, NOTICED = 1_000, 2_000
PLAIN, EXECUTABLE = 0o100644, 0o100755


def state(
    content: str = "x",
    *,
    mode: int = PLAIN,
    mtime: int = 0,
    ctime: int = 0,
    inode: int = 1,
    seen: int = 0,
) -> FileState:
    """Return what a path held."""
    stat = StatKey(len(content), mtime, ctime, inode)
    return FileState(FileVersion(SHA1.blob(content.encode()), mode), stat, seen)


def seen(name: str, before: FileState | None, after: FileState | None) -> Seen:
    """Return one path that differs."""
    return Seen(RepoPath(name.encode()), before, after)


def drafts(*changes: Seen, ctimes: Mapping[bytes, int] | None = None) -> list[Draft]:
    """Return the drafts of one look; directories have these ctimes."""
    known = ctimes or {}
    moment = BatchTime(SETTLED, NOTICED, lambda path: known.get(path, 0))
    return draft_changes(changes, moment)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (None, state(), EventKind.CREATE),
        (state(), None, EventKind.DELETE),
        (state("x"), state("y"), EventKind.MODIFY),
        (state(), state(mode=EXECUTABLE), EventKind.MODE),
        (state("x"), state("y", mode=EXECUTABLE), EventKind.MODIFY),
        (state(), state(mode=LINK_MODE), EventKind.TYPE),
        (state("x", mode=LINK_MODE), state("y", mode=LINK_MODE), EventKind.MODIFY),
    ],
)
def test_kind_follows_from_both_sides(
    before: FileState | None, after: FileState | None, kind: EventKind
) -> None:
    """CAP-17: mode alone is `mode`, bytes are `modify`."""
    (draft,) = drafts(seen("a", before, after))
    assert (draft.kind, draft.path, draft.old_path) == (kind, b"a", None)
    assert (draft.before, draft.after) == (before, after)


def test_same_version_is_no_event() -> None:
    """CAP-17: another stat of the same bytes and mode is nothing."""
    assert (
        drafts(seen("a", state(mtime=1), state(mtime=9)), seen("b", None, None)) == []
    )


def test_deletion_and_creation_of_the_same_file_are_one_rename() -> None:
    """CAP-15: one draft with both names."""
    (draft,) = drafts(
        seen("a", state(), None), seen("d", None, state(ctime=1_500, mtime=7))
    )
    assert (draft.kind, draft.old_path, draft.path) == (EventKind.RENAME, b"a", b"d")
    assert draft.end_ns == 1_500


def test_write_has_its_mtime_where_that_lies_inside() -> None:
    (draft,) = drafts(seen("a", state("x"), state("y", mtime=1_200, ctime=1_300)))
    assert (draft.begin_ns, draft.end_ns) == (SETTLED, 1_200)


def test_write_with_an_older_mtime_has_its_ctime() -> None:
    """`cp -p` and `tar` set an old mtime; the ctime cannot be set."""
    (draft,) = drafts(seen("a", state("x"), state("y", mtime=5, ctime=1_300)))
    assert draft.end_ns == 1_300


def test_chmod_has_its_ctime() -> None:
    after = state(mode=EXECUTABLE, mtime=1_100, ctime=1_300)
    (draft,) = drafts(seen("a", state(), after))
    assert draft.end_ns == 1_300


def test_evidence_begins_with_the_last_state_that_was_seen() -> None:
    (draft,) = drafts(
        seen("a", state("x", seen=1_700), state("y", mtime=1_200, ctime=1_800))
    )
    assert (draft.begin_ns, draft.end_ns) == (1_700, 1_800)


def test_file_that_moved_with_its_directory_has_the_directory_s_time() -> None:
    """CAP-16: its own times name whoever wrote it last year."""
    old = seen("src/in/a", state(ctime=5), None)
    new = seen("lib/in/a", None, state(mtime=4, ctime=5))
    (draft,) = drafts(old, new, ctimes={b"lib/in": 6, b"lib": 1_400, b"": 1_450})
    assert (draft.kind, draft.end_ns) == (EventKind.RENAME, 1_400)


def test_old_file_in_an_old_directory_has_the_moment_of_noticing() -> None:
    (draft,) = drafts(seen("a", state("x"), state("y", mtime=4, ctime=5)))
    assert draft.end_ns == NOTICED


def test_deletion_has_the_time_of_the_nearest_changed_ancestor() -> None:
    (draft,) = drafts(seen("d/e/a", state(), None), ctimes={b"d": 1_600, b"": 1_900})
    assert draft.end_ns == 1_600


def test_deletion_is_never_later_than_the_moment_of_noticing() -> None:
    (draft,) = drafts(seen("a", state(), None), ctimes={b"": 9_999})
    assert draft.end_ns == NOTICED


def test_a_change_in_the_very_tick_of_the_look_before_keeps_that_time() -> None:
    """A file system's clock moves in steps: right after a look the time can be that of the look."""
    before = state("x", seen=1_500)
    (gone,) = drafts(seen("d/a", before, None), ctimes={b"d": 1_500})
    (moved,) = drafts(seen("d/a", None, state()), ctimes={b"d": SETTLED})
    (written,) = drafts(seen("a", before, state("y", mtime=1_500, ctime=1_500)))
    (changed,) = drafts(seen("a", before, state("x", mode=EXECUTABLE, ctime=1_500)))
    assert [one.end_ns for one in (gone, moved, written, changed)] == [
        1_500,
        SETTLED,
        1_500,
        1_500,
    ]


def test_drafts_are_in_order_of_time_then_path() -> None:
    found = drafts(
        seen("c", None, state("1", mtime=1_300, ctime=1_300)),
        seen("b", None, state("2", mtime=1_200, ctime=1_200)),
        seen("a", None, state("3", mtime=1_300, ctime=1_300)),
    )
    assert [draft.path for draft in found] == [b"b", b"a", b"c"]


def test_what_makes_room_comes_first() -> None:
    """A file in the place of a directory, and a directory in the place of a file."""
    found = drafts(
        seen("a", state("1"), None),
        seen("a/b", None, state("2", ctime=1_200)),
        seen("c", None, state("3", ctime=1_100)),
        seen("c/d", state("4"), None),
        seen("e", None, state("5", ctime=1_000 + 150)),
        ctimes={b"": 1_900},
    )
    assert [draft.path for draft in found] == [b"c/d", b"c", b"e", b"a", b"a/b"]


_STATES = st.none() | st.builds(
    state,
    st.sampled_from("xyz"),
    mode=st.sampled_from((PLAIN, EXECUTABLE, LINK_MODE)),
    ctime=st.integers(0, 3_000),
    inode=st.integers(0, 3),
)


@given(
    st.dictionaries(
        st.text("abc/", min_size=1, max_size=3), st.tuples(_STATES, _STATES)
    )
)
def test_replaying_the_drafts_gives_what_was_seen(
    changes: Mapping[str, tuple[FileState | None, FileState | None]],
) -> None:
    """CAP-10: no change is lost or invented, whatever is paired."""
    held = {name.encode(): sides[0] for name, sides in changes.items()}
    for draft in drafts(*(seen(name, *sides) for name, sides in changes.items())):
        assert draft.begin_ns == SETTLED
        assert draft.end_ns > 0
        if draft.old_path is not None:
            held[draft.old_path] = None
        held[draft.path] = draft.after
    wanted = {name.encode(): sides[1] for name, sides in changes.items()}
    versions = {path: one and one.version for path, one in held.items()}
    assert versions == {path: one and one.version for path, one in wanted.items()}


def test_order_makes_room_transitively() -> None:
    """A file goes, a directory takes its name, and a file takes the directory's name."""
    found = drafts(
        seen("U", state("u", inode=1), None),
        seen("a/f", state("f", inode=2), None),
        seen("U/f", None, state("f", inode=2, ctime=1_300)),
        seen("a", None, state("x", inode=3, mtime=1_100, ctime=1_100)),
        ctimes={b"": 1_900},
    )
    assert [draft.path for draft in found] == [b"U", b"U/f", b"a"]
    assert found[1].old_path == b"a/f"


def test_file_and_directory_that_change_places_are_no_two_renames() -> None:
    """Neither rename could be a commit of its own; one of them is a deletion and a creation."""
    found = drafts(
        seen("a/f", state("f", inode=1), None),
        seen("b", state("b", inode=2), None),
        seen("a", None, state("b", inode=2, ctime=1_200)),
        seen("b/f", None, state("f", inode=1, ctime=1_300)),
        ctimes={b"": 1_900},
    )
    assert len(found) == 3
    assert sum(draft.kind is EventKind.RENAME for draft in found) == 1
    assert_each_is_possible({b"a/f", b"b"}, found)


_NAMES = ("a", "b", "a/f", "b/f", "a/f/g", "c", "c/f")


def _is_tree(paths: Collection[bytes]) -> bool:
    return not any(one.startswith(up + b"/") for one in paths for up in paths)


_TREES = st.lists(
    st.sampled_from([name.encode() for name in _NAMES]), unique=True, max_size=5
).filter(_is_tree)


@given(_TREES, _TREES, st.lists(st.integers(1_001, 1_009), min_size=7, max_size=7))
def test_each_draft_leaves_a_tree_that_can_be(
    old: list[bytes], new: list[bytes], times: list[int]
) -> None:
    """Whatever changes places in one batch, each draft can be a commit of its own."""
    changes = [
        seen(
            path.decode(),
            state("old", inode=1 + old.index(path)) if path in old else None,
            state("new", inode=1 + new.index(path), ctime=times[new.index(path)])
            if path in new
            else None,
        )
        for path in {*old, *new}
    ]
    # The same bytes and inode at the same place of both lists: what can be a rename is one.
    same = [
        Seen(
            one.path,
            one.before,
            one.after and replace(one.after, version=state("old").version),
        )
        for one in changes
    ]
    assert_each_is_possible(set(old), drafts(*changes))
    assert assert_each_is_possible(set(old), drafts(*same)) == set(new)


def assert_each_is_possible(tree: set[bytes], found: list[Draft]) -> set[bytes]:
    """Apply drafts one by one; return the paths at the end."""
    for draft in found:
        if draft.old_path is not None:
            tree.remove(draft.old_path)
        if draft.after is None:
            tree.remove(draft.path)
        else:
            tree.add(draft.path)
        assert _is_tree(tree)
    return tree
