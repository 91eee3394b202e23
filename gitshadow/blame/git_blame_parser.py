"""Lines older than the recording: the answer of `git blame`, parsed.

The format is that of git-blame(1), "THE PORCELAIN FORMAT": a header line for each line, facts of a
commit once, the line itself behind a tab.
Invariant: pure; what is not in that format is an error, never a guess.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid, RepoPath
from gitshadow.store.quoting import unquote

_HEADER = re.compile(rb"([0-9a-f]{40}) ([0-9]{1,9}) ([0-9]{1,9})(?: [0-9]{1,9})?")


@dataclass(slots=True)
class Facts:
    """Hold what Git says once of a commit: its own words by their keys (`author-mail`).

    `boundary` is a key without a word. `path` and `previous` may change from line to line.
    """

    words: dict[str, bytes] = field(default_factory=dict)
    path: RepoPath | None = None
    previous: tuple[Oid, RepoPath] | None = None


class GitLine(NamedTuple):
    """Hold what Git says of one line: commit, name of the file there, number there from 1.

    `previous` is the commit before, and the file's name in it; None where Git names none.
    """

    commit: Oid
    path: RepoPath
    line: int
    previous: tuple[Oid, RepoPath] | None
    facts: Facts


def parse_porcelain(output: bytes) -> list[GitLine]:
    """Return what `git blame --porcelain` printed of each line, in order.

    Raises:
        StoreError: it is not in that format.
    """
    found: list[GitLine] = []
    facts: dict[Oid, Facts] = {}
    header: tuple[Oid, int] | None = None
    for row in output.split(b"\n")[:-1]:
        if header is None:
            header = _header(row)[:2]
        elif row.startswith(b"\t"):
            found.append(_line(*header, facts.get(header[0], Facts())))
            header = None
        else:
            _learn(facts.setdefault(header[0], Facts()), row)
    return found


def parse_lines(output: bytes) -> list[int]:
    """Return the numbers, in the file that was asked for, of the lines that were printed.

    Raises:
        StoreError: it is not in that format.
    """
    found: list[int] = []
    expects_header = True
    for row in output.split(b"\n")[:-1]:
        if expects_header:
            found.append(_header(row)[2])
        expects_header = row.startswith(b"\t")
    return found


def _learn(facts: Facts, row: bytes) -> None:
    key, _, value = row.partition(b" ")
    if key == b"filename":
        facts.path = _name(value)
    elif key == b"previous":
        commit, _, name = value.partition(b" ")
        facts.previous = Oid(commit.decode("ascii")), _name(name)
    else:
        facts.words[key.decode("ascii", "replace")] = value


def _line(commit: Oid, line: int, facts: Facts) -> GitLine:
    if facts.path is None:
        raise StoreError("cannot read the output of git blame: no filename")
    return GitLine(commit, facts.path, line, facts.previous, facts)


def _header(row: bytes) -> tuple[Oid, int, int]:
    match = _HEADER.fullmatch(row)
    if match is None:
        raise StoreError("cannot read the output of git blame: no header")
    return Oid(match[1].decode("ascii")), int(match[2]), int(match[3])


def _name(word: bytes) -> RepoPath:
    if not word.startswith(b'"'):
        return RepoPath(word)
    return RepoPath(unquote(word.decode("ascii")))
