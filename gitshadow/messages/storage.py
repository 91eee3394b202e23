"""du, pack, prune, purge, reindex: what the history takes, and what is deleted from it."""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.messages.codec import Verb


class TotalCost(NamedTuple):
    """What some objects take; `bytes` is their size in the object store."""

    objects: int
    bytes: int


class SessionCost(NamedTuple):
    """What one session takes, by the refs that reach its objects."""

    id: str
    refs: tuple[str, ...]
    objects: int
    bytes: int


class OtherCost(NamedTuple):
    """What belongs to no session; `kind` is pins, reviews, artifacts, or other."""

    kind: str
    refs: tuple[str, ...]
    objects: int
    bytes: int


class PacksCost(NamedTuple):
    """Our own packs."""

    count_: int
    bytes: int


class DiskFigures(NamedTuple):
    """Loose objects and packs of the whole repository, and the bytes of our own files."""

    loose: int
    packed: int
    bytes: int


class DuAnswer(NamedTuple):
    """What the history takes; the first three fields are those of `DiskFigures`."""

    loose: int
    packed: int
    bytes: int
    total: TotalCost
    packs: PacksCost
    sessions: tuple[SessionCost, ...]
    other: tuple[OtherCost, ...]


class PackAnswer(NamedTuple):
    """Objects that were packed, packs that were merged, and the packs that there are now."""

    packed: int
    merged: int
    packs: int
    bytes: int


class ReindexRequest(NamedTuple):
    """Rebuild the journal from the refs."""


class ReindexAnswer(NamedTuple):
    """What was rebuilt from the refs, and what could not be read.

    `salvaged` are other rows of the old journal, `damaged` its tables that were not wholly
    readable, `set_aside` is where the old journal was moved.
    """

    events: int
    sessions: int
    salvaged: int
    damaged: tuple[str, ...]
    unreadable: tuple[str, ...]
    set_aside: str | None


class PruneRequest(NamedTuple):
    """Which sessions to delete: `all`, those beyond the settings, or beyond these limits.

    `older_than` is an age in nanoseconds, `keep` a number of sessions, `size` in bytes.
    """

    all: bool = False
    retention: bool = False
    older_than: int | None = None
    keep: int | None = None
    size: int | None = None
    dry_run: bool = False


class PrunedUnit(NamedTuple):
    """A session with its subagents, or a program, that went or would go."""

    id: str
    sessions: tuple[str, ...]
    programs: tuple[str, ...]
    started: str | None


class ClearedMirror(NamedTuple):
    """What became of one mirror.

    `dropped` are refs of ours that it alone had and that held what was purged; `held` refs of the
    user's there that still do; `trouble` is what kept us from it.
    """

    place: str
    dropped: tuple[str, ...]
    held: tuple[str, ...]
    trouble: str | None


class PruneAnswer(NamedTuple):
    """What went, and how many sessions stay because they are open, kept or needed."""

    dropped: tuple[PrunedUnit, ...]
    dry_run: bool
    mirror: str | None
    mirrors: tuple[ClearedMirror, ...]
    open: int
    kept: int
    needed: int


class PurgeRequest(NamedTuple):
    """What to erase: the content of paths, texts in base64, or all prompts; none: only look."""

    paths: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    prompts: bool = False
    fetched: bool = False
    dry_run: bool = False
    cwd: str | None = None


class RemainingCommit(NamedTuple):
    """A commit of the user's that brought or took a content, and what reaches it.

    The path is None where the commit's own words hold it; no ref: a reflog alone reaches it.
    """

    commit: str
    path: str | None
    refs: tuple[str, ...]


class Remaining(NamedTuple):
    """Where what was purged still is.

    `objects` counts those that nothing of ours reaches: Git's next gc takes them, but for those
    that the user's commits or index hold (`commits`, `staged`). `history` are other names in our
    history that have the same content, `fetched` refs of other machines, `standing` commits that
    the user has left and on which chains of ours are built until the same purge runs again.
    """

    objects: int
    commits: tuple[RemainingCommit, ...]
    staged: tuple[str, ...]
    history: tuple[str, ...]
    fetched: tuple[str, ...]
    standing: tuple[str, ...]


class PurgeAnswer(NamedTuple):
    """What was purged, or would be.

    `rows` and `named` count rows by column of the journal; `journal_holds` are files that
    another process kept from being cleared. `prompts` is set if those were asked for.
    """

    dry_run: bool
    names: tuple[str, ...]
    contents: int
    rewritten: tuple[str, ...]
    rows: Mapping[str, int]
    named: Mapping[str, int]
    named_files: int
    effects: int
    files: tuple[str, ...]
    holding: int
    unsearched: int
    texts: int
    prompts: int | None
    journal_holds: tuple[str, ...]
    fetched_dropped: tuple[str, ...]
    mirror: str | None
    mirrors: tuple[ClearedMirror, ...]
    on_disk: tuple[str, ...]
    remains: Remaining


REINDEX = Verb("reindex", ReindexRequest, ReindexAnswer)
PRUNE = Verb("prune", PruneRequest, PruneAnswer)
PURGE = Verb("purge", PurgeRequest, PurgeAnswer)
