"""Review marks: who looked at which lines and when, one commit on a ref of its own for each.

Marks are only in refs, so they survive a lost journal, and a build server, where they are needed
most, gets them with a fetch. A mark is never changed; it is removed by deleting its ref.
"""

from collections.abc import Iterable, Set
from datetime import UTC, datetime
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid, RepoPath
from gitshadow.store import refs
from gitshadow.store.digests import digest
from gitshadow.store.objects import NewCommit
from gitshadow.store.paths import c_quoted, parse_path
from gitshadow.store.refs import ShadowCommit
from gitshadow.store.repo import Repo

_FILE = RepoPath(b"reviewed")
_MODE = 0o100644
# What was reviewed is named by digests and not by oids: so a mark keeps no pruned session alive,
# and a line that is written again later is not covered.
_SUBJECT_CHARS = 60


class Reviewed(NamedTuple):
    """One reviewed line or file, named by the digest of its content.

    `session` is its author's, None if the author is unknown.
    """

    digest: bytes
    path: RepoPath
    session: str | None = None
    line: bool = True


class ReviewMark(NamedTuple):
    """One review: by whom (`name <email>`), when, and its target as it was typed.

    `machine` is the copy of the repository in which it was made, None in older marks.
    """

    id: str
    ref: str
    commit: Oid
    who: str
    ts_ns: int
    target: str
    items: tuple[Reviewed, ...]
    machine: str | None = None

    @property
    def sessions(self) -> frozenset[str]:
        """Return the sessions whose lines it names."""
        return frozenset(one.session for one in self.items if one.session is not None)


def line_digest(written: tuple[str, int] | None, path: RepoPath, text: bytes) -> bytes:
    """Return the digest of a line: of its text, and of the write that brought it.

    Args:
        written: The session and the number of the recorded event. None if there is none: the
            file's name is used instead.
        path: The file's name in the state that the line came with.
        text: The line.
    """
    source = (
        b"%b\0" % path
        if written is None
        else b"%b %d\0" % (written[0].encode("utf-8", "surrogateescape"), written[1])
    )
    return _digest(b"line\0", source, text)


def file_digest(path: RepoPath, data: bytes) -> bytes:
    """Return the digest of a whole content under its name."""
    return _digest(b"file\0", path + b"\0", data)


def publish(
    repo: Repo,
    target: str,
    items: Iterable[Reviewed],
    now_ns: int,
    head: Oid | None,
    *,
    machine: str | None = None,
) -> ReviewMark:
    """Record a review by the user of this repository.

    Raises:
        StoreError: it could not be written; then there is no mark.
    """
    rows = sorted(items, key=lambda one: (one.path, one.session or "", one.digest))
    blob = repo.write_blob(_listing(rows))
    mark_id = _id(now_ns, blob)
    ref = refs.REF_PREFIX + mark_id
    name, email = repo.identity()
    message = ShadowCommit(
        subject=f"Review {target}"[:_SUBJECT_CHARS],
        kind="review",
        time_ns=now_ns,
        target=target,
        machine=machine,
    )
    commit = repo.write_commit(
        NewCommit(
            tree=repo.trees.splice(None, {_FILE: (_MODE, blob)}),
            parents=(),
            author_name=name,
            author_email=email,
            author_time=now_ns // 1_000_000_000,
            committer_time=repo.date_before(head),
            message=refs.format_message(message),
        )
    )
    repo.create_ref(ref, commit)
    return _read(repo, ref, commit)


def list_marks(repo: Repo) -> list[ReviewMark]:
    """Return every mark that can be read, newest first."""
    found: list[ReviewMark] = []
    for ref, tip in repo.refs().items():
        if refs.is_mark(ref):
            try:
                found.append(_read(repo, ref, tip))
            except StoreError:
                # Anybody can create a ref by that name; it marks nothing.
                continue
    return sorted(found, key=lambda mark: (-mark.ts_ns, mark.id))


def drop_orphans(repo: Repo, dropped: Set[str]) -> None:
    """Delete the marks that name only sessions which were dropped."""
    # A session that is unknown here is another machine's: its marks stay.
    for mark in list_marks(repo):
        if mark.sessions and mark.sessions <= dropped:
            repo.delete_ref(mark.ref)


def _read(repo: Repo, ref: str, tip: Oid) -> ReviewMark:
    info = repo.commit(tip)
    message = refs.parse_message(info.message)
    entry = repo.trees.entry(info.tree, _FILE)
    if message is None or message.kind != "review" or entry is None:
        raise StoreError(f"cannot read {ref}: it is not a review mark")
    return ReviewMark(
        id=ref.removeprefix(refs.REF_PREFIX),
        ref=ref,
        commit=tip,
        who=info.author.decode("utf-8", "backslashreplace"),
        ts_ns=message.time_ns,
        target=message.target or "",
        items=_items(repo.read_blob(entry[1]), ref),
        machine=message.machine,
    )


def _listing(rows: Iterable[Reviewed]) -> bytes:
    lines = (
        f"{'line' if one.line else 'file'} {one.digest.hex()} {one.session or '-'}"
        f" {c_quoted(one.path)}\n"
        for one in rows
    )
    return "".join(lines).encode("ascii")


def _items(data: bytes, ref: str) -> tuple[Reviewed, ...]:
    found: list[Reviewed] = []
    for row in data.decode("ascii", "replace").splitlines():
        what, _, rest = row.partition(" ")
        digest, _, rest = rest.partition(" ")
        session, _, path = rest.partition(" ")
        try:
            one = Reviewed(
                bytes.fromhex(digest),
                RepoPath(parse_path(path)),
                None if session == "-" else session,
                what == "line",
            )
        except ValueError as error:
            raise StoreError(f"could not read {ref}: {error}") from error
        found.append(one)
    return tuple(found)


def _digest(*parts: bytes) -> bytes:
    return bytes.fromhex(digest(b"".join(parts)))


def _id(now_ns: int, blob: Oid) -> str:
    day = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC).strftime("%Y%m%d")
    digits = digest(f"{now_ns} {blob}", 5)
    return f"{refs.MARK_PREFIX}{day}-{digits}"
