"""Commit objects as bytes and back: what libgit2 would decode, or refuse to write.

Invariant: an author is bytes, whatever its encoding; the committer of a new one is always ours.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid

OUR_NAME = b"gitshadow"
OUR_EMAIL = b"gitshadow@agent-undo.invalid"
_IDENT_STRIP = b"<>\n\r\0\t .,:;\"'\\"


class CommitInfo(NamedTuple):
    """Hold one commit: its author as `name <email>`, times in seconds since the epoch."""

    oid: Oid
    tree: Oid
    parents: tuple[Oid, ...]
    author: bytes
    author_time: int
    committer_time: int
    message: bytes


class NewCommit(NamedTuple):
    """Hold what a new shadow commit is made of; the committer's name is always ours."""

    tree: Oid
    parents: tuple[Oid, ...]
    author_name: bytes
    author_email: bytes
    author_time: int
    committer_time: int
    message: bytes


def format_commit(new: NewCommit) -> bytes:
    """Return the bytes of a commit object with our committer identity."""
    head = [b"tree " + new.tree.encode()]
    head += [b"parent " + parent.encode() for parent in new.parents]
    author = _ident(new.author_name, new.author_email, new.author_time)
    head += [b"author " + author]
    head += [b"committer " + _ident(OUR_NAME, OUR_EMAIL, new.committer_time)]
    return b"\n".join(head) + b"\n\n" + new.message


def on_tree(
    data: bytes, tree: Oid, parents: Sequence[Oid], message: bytes | None = None
) -> bytes:
    """Return a commit's bytes with another tree, other parents and perhaps another message."""
    head, blank, old = data.partition(b"\n\n")
    rest = [
        line
        for line in head.split(b"\n")
        if not line.startswith((b"tree ", b"parent "))
    ]
    lines = [b"tree " + tree.encode(), *(b"parent " + one.encode() for one in parents)]
    return b"\n".join([*lines, *rest]) + blank + (old if message is None else message)


def parse_commit(oid: Oid, data: bytes) -> CommitInfo:
    """Read a commit object; raise StoreError where it is none."""
    head, _, message = data.partition(b"\n\n")
    tree, parents, author, times = "", [], b"", [0, 0]
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree":
            tree = value.decode("ascii")
        elif key == b"parent":
            parents.append(Oid(value.decode("ascii")))
        elif key in (b"author", b"committer"):
            who, _, when = value.rpartition(b"> ")
            seconds = when.split(b" ")[0]
            times[key == b"committer"] = int(seconds) if seconds.isdigit() else 0
            author = who + b">" if key == b"author" else author
    if not tree:
        raise StoreError(f"could not read commit {oid}: it has no tree")
    return CommitInfo(
        oid, Oid(tree), tuple(parents), author, times[0], times[1], message
    )


def _ident(name: bytes, email: bytes, seconds: int) -> bytes:
    """Format an identity line part; bytes that would break the commit are left out."""
    clean_name = _plain(name).strip(_IDENT_STRIP) or b"unknown"
    clean_email = _plain(email).strip(_IDENT_STRIP) or b"unknown@agent-undo.invalid"
    return b"%b <%b> %d +0000" % (clean_name, clean_email, max(seconds, 1))


def _plain(text: bytes) -> bytes:
    return bytes(c for c in text if c >= 0x20 and c not in b"<>")
