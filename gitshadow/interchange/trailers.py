"""Trailers of the final block of a commit message, as git-interpret-trailers(1) finds it.

Text elsewhere in a message can be a quotation or a forgery.
Invariant: pure; values come out bounded.
"""

import re
from collections.abc import Iterator

from gitshadow.interchange.claims import identifier

CHECKPOINT = "Entire-Checkpoint"
_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)[ \t]*:[ \t]*(.*)")
_LONGEST = 20_000
_CUT = b" ------------------------ >8 ------------------------"


def final_block(message: bytes) -> Iterator[tuple[str, str]]:
    """Yield key and value of each trailer of a message's last paragraph.

    A paragraph in which any line is neither a trailer nor the continuation of one is none, and
    neither is the subject.
    """
    text = message[-_LONGEST:].decode("utf-8", "replace").rstrip()
    before, gap, block = text.rpartition("\n\n")
    if not gap or not before.strip():
        return
    found: list[tuple[str, str]] = []
    for line in block.split("\n"):
        if line[:1] in (" ", "\t") and found:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            return
        found.append((match[1], match[2].strip()))
    yield from found


def checkpoints(message: bytes) -> list[str]:
    """Return the ids of Entire's checkpoints that a commit names (entireio/cli, trailers.go)."""
    return [
        identifier(value)
        for key, value in final_block(message)
        if key.lower() == CHECKPOINT.lower() and value
    ]


def own_text(message: bytes, comment: bytes) -> bytes:
    """Return what a person wrote of a message: without comments, and what lies behind a cut.

    Args:
        message: The file that Git has edited (git-commit(1), --cleanup and --verbose).
        comment: What a comment begins with.
    """
    kept: list[bytes] = []
    for line in message.split(b"\n"):
        if line.startswith(comment):
            if _CUT in line:
                break
            continue
        kept.append(line.rstrip())
    return b"\n".join(kept).strip()
