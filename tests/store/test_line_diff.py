"""The short way of a line diff gives what libgit2 gives, or nothing."""

import random

import pygit2
import pytest
from pygit2.enums import DiffOption

from gitshadow.store.content_diff import line_hunks
from gitshadow.store.line_diff import Hunk, only_hunk

_FLAG = DiffOption.FORCE_TEXT | DiffOption.INDENT_HEURISTIC


def slow(old: bytes, new: bytes) -> list[Hunk]:
    patch = pygit2.Patch.create_from(
        old, new, flag=_FLAG, context_lines=0, interhunk_lines=0
    )
    return [(h.old_start, h.old_lines, h.new_start, h.new_lines) for h in patch.hunks]


def text(rng: random.Random, kinds: int) -> list[bytes]:
    words = [b"", b"}", b"  x", b"a", b"ab", b"abc", b"\r", b"\0"][:kinds]
    return [rng.choice(words) for _ in range(rng.randint(0, 8))]


def test_short_way_is_libgit2s_way() -> None:
    rng = random.Random(1)
    short = 0
    for _ in range(30_000):
        lines = text(rng, rng.randint(2, 8))
        changed = list(lines)
        at = rng.randint(0, len(lines))
        changed[at : at + rng.randint(0, 3)] = text(rng, 8)[: rng.randint(0, 3)]
        old, new = (b"".join(line + b"\n" for line in one) for one in (lines, changed))
        found = only_hunk(old, new)
        assert found in (None, slow(old, new)), (old, new)
        short += found is not None
    assert short > 10_000


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"a", b"a\n"), (b"a\nb", b"a\nc"), (b"", b"x\n"), (b"x\n", b""), (b"", b"")],
)
def test_last_lines_without_newline_go_the_long_way(old: bytes, new: bytes) -> None:
    assert line_hunks(old, new) == slow(old, new)


def test_short_way_is_libgit2s_way_in_long_files() -> None:
    rng = random.Random(2)
    short = 0
    for number in range(2_000):
        most = 9_000 if number % 2 else 30
        lines = [b"%d\n" % rng.randint(0, most) for _ in range(300)]
        changed, at = list(lines), rng.randint(0, 300)
        changed[at : at + rng.randint(0, 3)] = [b"x%d\n" % at] * rng.randint(0, 2)
        old, new = b"".join(lines), b"".join(changed)
        found = only_hunk(old, new)
        assert found in (None, slow(old, new)), (old, new)
        short += found is not None
    assert short > 1_000


def test_one_change_in_a_long_file_is_found() -> None:
    lines = [b"line %d\n" % number for number in range(5_000)]
    old = b"".join(lines)
    new = b"".join([*lines[:2_000], b"new\n", b"more\n", *lines[2_003:]])
    assert only_hunk(old, new) == [(2_001, 3, 2_001, 2)]
