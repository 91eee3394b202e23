"""Paths of payloads and of the worktree: absolute, inside, below another."""

import pytest

from gitshadow.model import RepoPath
from gitshadow.store.paths import absolute, inside, is_within


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        (b"/repo/a", None, b"/repo/a"),
        (b"a", b"/repo/sub", b"/repo/sub/a"),
        (b"a", None, b"/repo/a"),
        (b"a", b"relative", b"/repo/a"),
        (b"../a//b/./c", b"/repo/sub", b"/repo/a/b/c"),
        (b"//repo/a", None, b"/repo/a"),
        (b"../../../../x", b"/repo", b"/x"),
    ],
)
def test_path_is_absolute_and_normal(
    path: bytes, cwd: bytes | None, expected: bytes
) -> None:
    assert absolute(path, cwd, b"/repo") == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/repo/src/a", b"src/a"),
        (b"/repository/a", None),
        (b"/repo", None),
        (b"/repo/.git/config", None),
        (b"/repo/.gitignore", b".gitignore"),
        (b"/etc/passwd", None),
    ],
)
def test_path_is_relative_when_inside(path: bytes, expected: bytes | None) -> None:
    assert inside(path, b"/repo") == expected


def test_path_is_inside_when_the_root_is_the_top() -> None:
    assert inside(b"/a", b"/") == b"a"


@pytest.mark.parametrize(
    ("named", "path", "expected"),
    [(b"a", b"a", True), (b"d", b"d/a", True), (b"a", b"ab", False)],
)
def test_named_path_covers_itself_and_what_is_below(
    named: bytes, path: bytes, expected: bool
) -> None:
    assert is_within(RepoPath(path), RepoPath(named)) is expected
