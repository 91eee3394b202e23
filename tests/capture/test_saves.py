"""Names by which editors save, and what they tell of the file beside."""

import pytest

from gitshadow.capture.saves import TRACE_S, EditorTraces, edited
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
