"""Paths of the patch envelope that several agents send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters.shape import is_patch, patched_paths

PATCH = """*** Begin Patch
*** Add File: src/money.py
+def cents():
+*** Delete File: not/a/header.py
*** Update File: src/cart.py
*** Move to: src/basket.py
@@ def total():
-    return 0
+    return 1
 *** Update File: nor/this.py
*** Delete File: /home/dev/app/old name.py
*** End Patch
"""


def test_paths_come_in_order_with_both_names_of_a_move() -> None:
    assert patched_paths(PATCH) == (
        b"src/money.py",
        b"src/cart.py",
        b"src/basket.py",
        b"/home/dev/app/old name.py",
    )


def test_paths_are_named_once_when_a_patch_names_them_twice() -> None:
    twice = "*** Update File: a\n@@\n-1\n+2\n*** Update File: a\n"
    assert patched_paths(twice) == (b"a",)


def test_paths_of_the_beginning_are_known_when_a_patch_is_cut() -> None:
    assert patched_paths(PATCH[: PATCH.index("basket") + 3]) == (
        b"src/money.py",
        b"src/cart.py",
        b"src/bas",
    )


def test_paths_are_read_when_lines_end_with_carriage_returns() -> None:
    assert patched_paths("*** Begin Patch\r\n*** Add File: a.py\r\n+x\r\n") == (
        b"a.py",
    )


@pytest.mark.parametrize("value", [None, 7, ["*** Add File: a"], {}, "", "no patch"])
def test_nothing_is_named_when_a_value_is_no_patch(value: object) -> None:
    assert patched_paths(value) == ()
    assert is_patch(value) is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PATCH, True),
        ("\n" + PATCH, True),
        ("apply_patch <<'EOF'\n" + PATCH + "EOF", False),
        ("cat f; rm g", False),
    ],
)
def test_patch_is_told_from_a_command_that_holds_one(text: str, expected: bool) -> None:
    assert is_patch(text) is expected


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=5))
def test_paths_are_those_that_were_written_when_names_are_odd(names: list[str]) -> None:
    clean = [name for name in names if name == name.strip() and "\0" not in name]
    clean = [name for name in clean if not set(name) & set("\r\n")]
    text = "".join(f"*** Add File: {name}\n+x\n" for name in clean)
    assert patched_paths(text) == tuple(dict.fromkeys(n.encode() for n in clean))
