"""Changes as rows: what is shown, what is not, and that the row says so."""

from collections.abc import Iterator

import pytest

from gitshadow.messages.codec import encode
from gitshadow.model import (
    Actor,
    Attribution,
    Confidence,
    EventKind,
    FileVersion,
    Oid,
    PathChange,
    RepoPath,
)
from gitshadow.reporting import patches
from gitshadow.reporting.patches import Patchwork
from gitshadow.store.repo import Repo as Store
from tests.support.repo import Repo
from tests.support.studio import layout_of

_MISSING = Oid("1" * 40)
WHO = Attribution(
    actor=Actor.UNKNOWN, session="s", confidence=Confidence.UNKNOWN, reason="r"
)


@pytest.fixture
def store(repo: Repo) -> Iterator[Store]:
    opened = Store.open(layout_of(repo))
    yield opened
    opened.close()


def event(
    store: Store,
    before: bytes | None,
    after: bytes | None,
    path: bytes = b"f",
    **fields: object,
) -> PathChange:
    def version(data: bytes | None) -> FileVersion | None:
        return None if data is None else FileVersion(store.write_blob(data), 0o100644)

    return PathChange(
        seq=1,
        ts_ns=1,
        worktree="main",
        kind=EventKind.MODIFY,
        path=RepoPath(path),
        attribution=WHO,
        commit=Oid("c" * 40),
        before=version(before),
        after=version(after),
        **fields,  # type: ignore[arg-type]
    )


def row(store: Store, *found: PathChange) -> dict[str, object]:
    ((_, only),) = Patchwork(store).rows(found)
    return encode(only)


def test_change_has_its_lines_counted(store: Store) -> None:
    assert row(store, event(store, b"a\nb\n", b"a\nc\nd\n")) == {
        "path": "f",
        "kind": "modify",
        "added": 2,
        "removed": 1,
        "patch": "@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d",
        "note": None,
    }


@pytest.mark.parametrize(
    ("before", "after", "kind"), [(None, b"x\n", "create"), (b"x\n", None, "delete")]
)
def test_file_comes_and_goes(
    store: Store, before: bytes | None, after: bytes | None, kind: str
) -> None:
    assert row(store, event(store, before, after))["kind"] == kind


def test_rename_names_both_paths(store: Store) -> None:
    moved = event(store, b"x\n", b"x\n", b"new", old_path=RepoPath(b"old"))
    found = row(store, moved)
    assert (found["kind"], found["old_path"], found["patch"]) == ("rename", "old", "")


def test_permissions_alone_are_a_change(store: Store) -> None:
    plain = event(store, b"x\n", b"x\n")
    assert plain.after is not None
    after = FileVersion(plain.after.oid, 0o100755)
    changed = plain._replace(kind=EventKind.MODE, after=after)
    found = row(store, changed)
    assert (found["kind"], found["modes"]) == ("mode", ["100644", "100755"])


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (b"a\0b", b"a\0c", "binary, 3 bytes before and 3 after"),
        (
            b"",
            b"x" * (patches.LARGEST_BYTES + 1),
            "too large to compare here: 1048577 bytes",
        ),
    ],
)
def test_content_that_is_no_text_or_too_much_has_no_lines(
    store: Store, before: bytes, after: bytes, note: str
) -> None:
    found = row(store, event(store, before, after))
    assert (found["patch"], found["note"]) == ("", note)
    assert "added" not in found


def test_content_that_is_gone_is_said_to_be(store: Store) -> None:
    plain = event(store, b"a\n", b"b\n")
    lost = plain._replace(after=FileVersion(_MISSING, 0o100644))
    note = "the content is missing from the object store"
    assert row(store, lost)["note"] == note


def test_long_patch_is_cut_and_counted_whole(store: Store) -> None:
    lines = b"".join(b"%d\n" % number for number in range(1000))
    work = Patchwork(store)
    ((_, found),) = work.rows([event(store, None, lines)])
    assert found.added == 1000
    assert found.patch.count("\n") == patches.FILE_LINES - 1
    assert found.note == "601 more lines are not shown"
    assert work.cut == 1


def test_long_line_is_cut(store: Store) -> None:
    found = row(store, event(store, None, b"x" * 10_000 + b"\n"))
    patch = str(found["patch"])
    assert len(patch.split("\n")[1]) == patches.LINE_CHARACTERS + 1
    assert found["note"] == "long lines are cut"


def test_all_patches_together_have_a_limit(store: Store) -> None:
    work = Patchwork(store, lines=3)
    events = [event(store, None, b"1\n2\n", name) for name in (b"f", b"g")]
    (_, first), (_, second) = work.rows(events)
    assert first.note is None
    assert (second.patch, second.note) == ("", "3 more lines are not shown")
