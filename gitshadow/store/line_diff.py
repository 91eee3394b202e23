"""The line diff that needs no search: two contents that differ in one place only. Pure.

Most writes are of that kind, and a replay compares thousands: this takes a tenth of libgit2's time.
It returns what libgit2 would return, or None where it cannot be sure.
"""

from typing import Literal

Hunk = tuple[int, int, int, int]
"""One place where two contents differ: old start, old lines, new start, new lines.

Starts count from 1; where a side has no lines, its start is the line before.
"""

_MOST = 256
# So many bytes are compared as two numbers, which takes as long as two or three halvings.
_WINDOW = 256
# Git looks at that many bytes (xdiff-interface.c, buffer_is_binary).
_BINARY_BYTES = 8000


def is_binary(data: bytes) -> bool:
    """Return whether Git takes a content for one without lines."""
    return b"\0" in data[:_BINARY_BYTES]


def only_hunk(old: bytes, new: bytes) -> list[Hunk] | None:
    r"""Return the only hunk between two contents whose last lines end with `\n`.

    Returns:
        None where there may be several hunks, or where the hunk could be shifted along equal
        lines, so that libgit2's rules decide its place.
    """
    start = _common_start(old, new)
    begin = old.rfind(b"\n", 0, start) + 1
    end = _common_end(old, new, min(len(old), len(new)) - begin)
    gone, come = old[begin : len(old) - end], new[begin : len(new) - end]
    if not gone and not come:
        return []
    olds, news = gone.split(b"\n")[:-1], come.split(b"\n")[:-1]
    # A line that is on both sides inside the hunk would be common, so xdiff splits the hunk there.
    if len(olds) > _MOST or len(news) > _MOST or not set(olds).isdisjoint(news):
        return None
    line_before = old[old.rfind(b"\n", 0, begin - 1) + 1 : begin - 1] if begin else None
    rest = len(old) - end
    line_after = old[rest : old.find(b"\n", rest)] if end else None
    # If the hunk can be moved along equal lines, xdiff's heuristics decide where it is
    # (`xdl_change_compact`).
    for lines in (olds, news):
        if lines and (lines[-1] == line_before or lines[0] == line_after):
            return None
    first = old.count(b"\n", 0, begin)
    return [
        (
            first + 1 if olds else first,
            len(olds),
            first + 1 if news else first,
            len(news),
        )
    ]


def _common_start(old: bytes, new: bytes) -> int:
    """Return how many bytes are equal from the start."""
    # By halves, because comparing slices is a memcmp, far quicker than a loop over bytes in Python.
    low, high = 0, min(len(old), len(new))
    if old[:high] == new[:high]:
        return high
    while high - low > _WINDOW:
        middle = (low + high) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle
    # The highest bit in which two numbers differ is in the first byte that differs.
    return high - _bytes_of_difference(old[low:high], new[low:high], "big")


def _common_end(old: bytes, new: bytes, most: int) -> int:
    """Return how many bytes of whole lines are equal at the end, at most so many."""
    a, b = len(old), len(new)
    low, high = 0, most
    if old[a - most :] == new[b - most :]:
        low = most
    while high - low > _WINDOW:
        middle = (low + high) // 2
        if old[a - middle : a - low] == new[b - middle : b - low]:
            low = middle
        else:
            high = middle
    low = high - _bytes_of_difference(
        old[a - high : a - low], new[b - high : b - low], "little"
    )
    if low == 0 or (_begins(old, a - low) and _begins(new, b - low)):
        return low
    next_line = old.find(b"\n", a - low) + 1
    return a - next_line if next_line else 0


def _bytes_of_difference(
    old: bytes, new: bytes, order: Literal["big", "little"]
) -> int:
    """Return how many bytes there are from the first that differs to the end of the order."""
    difference = int.from_bytes(old, order) ^ int.from_bytes(new, order)
    return (difference.bit_length() + 7) // 8


def _begins(data: bytes, at: int) -> bool:
    return at == 0 or data[at - 1 : at] == b"\n"
