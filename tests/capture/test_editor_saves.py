"""Names by which editors save, and what they tell of the file beside."""

import pytest

from gitshadow.capture.fs_events import (
    TRACE_S,
    EditorTraces,
    edited,
    is_temporary,
    saved_as,
)
from gitshadow.model import RepoPath


@pytest.mark.parametrize(
    ("trace", "target"),
    [
        (b"d/.a.txt.swp", b"d/a.txt"),
        (b".a.swpx", b"a"),
        (b".a.swo", b"a"),
        (b"d/.#a", b"d/a"),
        (b"d/#a#", b"d/a"),
        (b"d/a.py___jb_tmp___", b"d/a.py"),
        (b"a.py___jb_old___", b"a.py"),
        (b"..hidden.swp", b".hidden"),
    ],
)
def test_trace_tells_of_the_file_that_is_edited(trace: bytes, target: bytes) -> None:
    assert edited(RepoPath(trace)) == target


@pytest.mark.parametrize(
    "name",
    [b"a", b"a~", b"4913", b"a.tmp", b"a.swp", b".swp", b"d/a.txt.vsctmp", b"##"],
)
def test_name_tells_of_nobody_when_tools_save_like_that_too(name: bytes) -> None:
    assert edited(RepoPath(name)) is None


def test_editor_is_remembered_for_a_moment() -> None:
    now_s = 100.0
    traces = EditorTraces(lambda: now_s)
    traces.note([RepoPath(b"d/.a.swp"), RepoPath(b"d/b")])
    assert traces.tell_of(RepoPath(b"d/a"))
    assert not traces.tell_of(RepoPath(b"d/b"))
    now_s += TRACE_S + 0.1
    assert not traces.tell_of(RepoPath(b"d/a"))


@pytest.mark.parametrize(
    ("temporary", "target"),
    [
        (b"d/a.txt.tmp.77.abcdef", b"d/a.txt"),
        (b"d/app.py.47dd0dce8676.tmp", b"d/app.py"),
        (b"main.3f2a9c1b.tmp", b"main.3f2a9c1b"),
        (b"a.tmp", b"a"),
        (b"a.tmp.1234.1700000000", b"a"),
        (b"a.tmpAbC123", b"a"),
        (b"a.temp-4", b"a"),
        (b"a.part", b"a"),
        (b"a.new", b"a"),
    ],
)
def test_name_of_a_temporary_tells_what_it_is_renamed_to(
    temporary: bytes, target: bytes
) -> None:
    assert saved_as(RepoPath(temporary)) == target


@pytest.mark.parametrize(
    "name", [b"a", b".tmp", b"a.bak", b"a~", b"tmp/a", b"a.tmpl/b"]
)
def test_other_names_tell_of_no_target(name: bytes) -> None:
    assert saved_as(RepoPath(name)) is None


@pytest.mark.parametrize("name", [b"a.tmp.77.abcdef", b"a.tmp", b"a.tmp.1.2", b"a.new"])
def test_temporary_is_known_by_its_name(name: bytes) -> None:
    assert is_temporary(RepoPath(name))
