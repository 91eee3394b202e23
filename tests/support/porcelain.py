"""A parser of blame's porcelain, written from git-blame(1) alone, for the tests.

"Each blame entry always starts with a line of: <40-byte hex sha1> <sourceline> <resultline>
<num-lines>": the last one only on the first line of a group. Then header lines, at least once for
each commit; then the content, behind a TAB.
"""

import re
from dataclasses import dataclass, field

from gitshadow.store.object_format import OID_PATTERN

_NUMBER = "[1-9][0-9]*"
_ENTRY = re.compile(
    f"({OID_PATTERN}) ({_NUMBER}) ({_NUMBER})( {_NUMBER})?".encode("ascii")
)
_NEEDED = {
    b"author",
    b"author-mail",
    b"author-time",
    b"author-tz",
    b"committer",
    b"committer-mail",
    b"committer-time",
    b"committer-tz",
    b"summary",
    b"filename",
}
_KNOWN = _NEEDED | {b"previous", b"boundary"}


@dataclass(slots=True)
class Entry:
    """One line of a blamed file."""

    commit: str
    source_line: int
    line: int
    text: bytes
    facts: dict[bytes, bytes] = field(default_factory=dict)


def parse(output: bytes, *, every_line: bool = False) -> list[Entry]:
    """Return the entries; assert whatever the manual promises."""
    entries: list[Entry] = []
    known: dict[bytes, dict[bytes, bytes]] = {}
    left = 0
    rows = output.split(b"\n")
    assert rows.pop() == b""
    while rows:
        head = _ENTRY.fullmatch(rows.pop(0))
        assert head is not None
        commit = head[1]
        if head[4]:
            assert left == 0, "a group ended early"
            left = int(head[4])
        assert left > 0, "a line outside every group"
        left -= 1
        facts: dict[bytes, bytes] = {}
        while not rows[0].startswith(b"\t"):
            key, _, value = rows.pop(0).partition(b" ")
            assert key in _KNOWN, key
            assert key not in facts
            facts[key] = value
        if every_line:
            assert facts.keys() >= _NEEDED
        known.setdefault(commit, {}).update(facts)
        assert known[commit].keys() >= _NEEDED
        entries.append(
            Entry(
                commit.decode(),
                int(head[2]),
                int(head[3]),
                rows.pop(0)[1:],
                dict(known[commit]),
            )
        )
    assert left == 0
    return entries
