"""Measure what the history costs on disk, and pack and prune it when due.

Git counts the objects that our refs reach and the user's do not: one that two sessions reach counts
for both, and once in the total. Upkeep runs in the daemon between its other work, or after a
command. Git's own maintenance must never start because of us, so loose objects are counted as Git
counts them. The work is done by child processes of Git; the thread that waits for them uses nothing
else of the worktree.
Invariant: a failure here never stops recording, and only who asked for upkeep waits for it.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from gitshadow.errors import JournalError, LockedError, ShadowError, StoreError
from gitshadow.maintenance.prune import finish, forget, limits_of, units_of
from gitshadow.maintenance.retention import RetentionLimits, RetentionUnit, beyond
from gitshadow.messages.storage import (
    DuAnswer,
    OtherCost,
    PackAnswer,
    PacksCost,
    SessionCost,
    TotalCost,
)
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store import refs
from gitshadow.store.artifacts import artifact_ref
from gitshadow.store.disk import LooseObjects, Weights, disk
from gitshadow.store.git import Git, StoppedError
from gitshadow.store.journal import meta, sessions
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout
from gitshadow.store.packs import MOST_PACKS, Packed, Packer, PackingWork, Packs
from gitshadow.store.repo import Repo

# Git's defaults: gc.auto (git-config(1)), and the limits of its maintenance tasks
# (git-maintenance(1)).
_FANS = 256
_GC_AUTO = 6700
_TASK_AUTO = 100
_GEOMETRIC_SINCE = (2, 54)
_OFF = frozenset({"false", "no", "off", "0", ""})
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_KINDS = (
    ("pins", refs.is_pin),
    ("reviews", refs.is_mark),
    ("artifacts", lambda ref: ref.startswith(refs.REF_PREFIX + refs.ARTIFACT_PREFIX)),
)
QUIET_S = 2.0
_STORM_OBJECTS = 1_000
_LOCKED_S = 5.0
_PACK_LOCK_S = 20.0
_FAILED_S = 60.0
_LIMIT_S = 60.0
_AT_END_S = 3.0
_FIRST_LOOK_S = 60.0
_DAY_S = 24 * 3600.0
_SEQ = "next_seq"
TROUBLE = "packing_trouble"
"""The key of what keeps us from packing, as the journal has it; empty where nothing does."""


def pack_at(version: tuple[int, ...], setting: Callable[[str], str | None]) -> int:
    """Return how many files in `objects/17` are enough to pack even while somebody writes.

    Half of what makes Git start maintenance, at least one. Git estimates the number of loose
    objects from one directory of 256 (`too_many_loose_objects` in builtin/gc.c), at the end of
    the user's own commits: git-gc(1) `gc.auto`, git-maintenance(1).

    Args:
        version: Git's.
        setting: Gives the value of a key of Git's configuration, None where it is not set.
    """
    limits = [max(0, _number(setting("gc.auto"), _GC_AUTO))]
    strategy = setting("maintenance.strategy")
    geometric = strategy == "geometric" or (
        strategy is None and version >= _GEOMETRIC_SINCE
    )
    if geometric or _is_on(setting("maintenance.geometric-repack.enabled")):
        limits.append(_number(setting("maintenance.geometric-repack.auto"), _TASK_AUTO))
    if strategy == "incremental" or _is_on(
        setting("maintenance.loose-objects.enabled")
    ):
        limits.append(_number(setting("maintenance.loose-objects.auto"), _TASK_AUTO))
    # 0 switches a task off, less than 0 has it run each time; of gc both switch it off.
    files = [-(-limit // _FANS) if limit > 0 else 1 for limit in limits if limit != 0]
    return max(1, (min(files, default=-(-_GC_AUTO // _FANS)) + 1) // 2)


def _number(text: str | None, default: int) -> int:
    """Return a number as git-config(1) reads it, with its unit."""
    if not text:
        return default
    unit = _UNITS.get(text[-1].lower())
    try:
        return int(text[:-1]) * unit if unit else int(text)
    except ValueError:
        return default


def _is_on(text: str | None) -> bool:
    return text is not None and text.lower() not in _OFF


class Scales:
    """Weigh the history; made where the repository is open, used by any thread.

    All objects are found and weighed in one walk, at the first question, which raises StoreError
    where they cannot be read.
    """

    def __init__(self, git: Git, repo: Repo, db: Db) -> None:
        """Read the refs and chains."""
        self.refs = repo.refs()
        self.chains: dict[str, list[str]] = {}
        for chain in sessions.chains(db):
            self.chains.setdefault(chain.session, []).append(chain.ref)
        self._weights = Weights(git, self.refs, repo.tips_of_user())

    @classmethod
    def of(cls, ws: Workspace) -> "Scales":
        """Return those of an open worktree, with a git of their own."""
        return cls(Git(ws.layout, dict(ws.environ)), ws.repo, ws.db)

    def cost(self, names: Sequence[str] | None = None) -> TotalCost:
        """Return what some refs keep, or all of them."""
        sizes = self._weights.sizes
        kept = range(len(sizes)) if names is None else self._weights.kept_by(names)
        return TotalCost(len(kept), sum(sizes[one] for one in kept))

    def total(self) -> int:
        """Return the bytes that all of the history takes."""
        return self.cost().bytes

    def frees(self, going: Sequence[RetentionUnit]) -> Iterator[int]:
        """Yield the bytes that each unit frees when it goes after those before it."""
        left = set(self.refs)
        # An object is freed when the last ref that reaches it goes.
        holders = Counter(one for ref in left for one in self._weights.kept_by([ref]))
        for unit in going:
            own = [ref for one in unit.ids for ref in self.chains.get(one, ())]
            gone = left.intersection((*own, *map(artifact_ref, unit.programs)))
            left -= gone
            lost = Counter(one for ref in gone for one in self._weights.kept_by([ref]))
            holders.subtract(lost)
            yield sum(self._weights.sizes[one] for one in lost if not holders[one])


def usage(layout: Layout, environ: Mapping[str, str]) -> DuAnswer:
    """Return what the history takes, session by session, dearest first, and in total.

    Raises:
        StoreError, JournalError: refs, objects or journal could not be read.
    """
    with (
        closing(Repo.open(layout)) as repo,
        closing(Db.open(layout.journal, create=False)) as db,
    ):
        scales = Scales(Git(layout, dict(environ)), repo, db)
    chains = scales.chains
    costs = {name: scales.cost(found) for name, found in chains.items()}
    dearest = sorted(chains, key=lambda name: (-costs[name].bytes, name))
    known = {ref for found in chains.values() for ref in found}
    other = []
    left = [ref for ref in scales.refs if ref not in known]
    for kind, is_one in _KINDS:
        found = [ref for ref in left if is_one(ref)]
        left = [ref for ref in left if ref not in found]
        other.append((kind, found))
    other.append(("other", left))
    packs = Packs(layout.objects_dir, layout.packing_dir).ours()
    return DuAnswer(
        *disk(layout.state_dir, layout.common_dir, LooseObjects(layout.objects_dir)),
        total=scales.cost(),
        packs=PacksCost(len(packs), sum(one.size_bytes for one in packs)),
        sessions=tuple(
            SessionCost(name, tuple(sorted(chains[name])), *costs[name])
            for name in dearest
        ),
        other=tuple(
            OtherCost(kind, tuple(sorted(found)), *scales.cost(found))
            for kind, found in other
            if found
        ),
    )


def work_of(repo: Repo) -> PackingWork:
    """Return what there is to pack.

    Raises:
        StoreError: the refs could not be read.
    """
    is_precious = repo.config_is("extensions.preciousObjects", unset=False)
    return PackingWork(repo.refs(), repo.tips_of_user(), is_precious)


class Upkeep:
    """Pack and forget in parallel to the daemon's work; its main thread calls every method."""

    def __init__(
        self, context: RecorderContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._ws = ws = context.workspace
        self._clock = clock
        self._packs = Packs(ws.layout.objects_dir, ws.layout.packing_dir)
        self._seen: str | None = None
        self._packed: str | None = None
        self._merged = 0
        self._changed_at = clock()
        self._again_at = 0.0
        self._limit, self._limit_until = 1, 0.0
        self._retain_at = self._changed_at + _FIRST_LOOK_S
        self._run: _Run | None = None
        self._choice: _Choice | None = None
        self._forgetting: Iterator[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether something is under way that goes on at each tick."""
        return self._run is not None or self._forgetting is not None

    def tick(self) -> None:
        """Do a step of what is due."""
        now = self._clock()
        if self._run is not None:
            if self._run.is_alive():
                return
            self._finish(self._run, now)
        seq = meta.get(self._ws.db, _SEQ)
        if seq != self._seen:
            self._seen, self._changed_at = seq, now
        if seq != self._packed and now >= self._again_at and self._is_due(now):
            with suppress(StoreError):
                work = work_of(self._ws.repo)
                self._merged = self._ws.repo.packs_added
                self._run = _Run(self._ws, work, seq)
                self._run.start()
        elif now - self._changed_at >= QUIET_S:
            self._retain(now)

    def close(self) -> None:
        """Stop what is going on; what it has done stays."""
        if self._run is not None:
            self._run.stop()
            self._run = None
        # The chooser only reads, so it may go on until the process ends.
        self._choice = None

    def _retain(self, now: float) -> None:
        """Forget what the settings leave no room for: choose once a day, then step by step."""
        if self._forgetting is not None:
            self._step(self._forgetting, now)
        elif self._choice is not None:
            if not self._choice.is_alive():
                going, self._choice = self._choice.going, None
                self._forgetting = forget(self._context, going, wait_s=0.0)
        elif now >= self._retain_at:
            self._retain_at = now + _DAY_S
            limits = limits_of(self._ws)
            if limits != RetentionLimits():
                self._choice = _Choice(self._ws, limits)
                self._choice.start()

    def _step(self, forgetting: Iterator[None], now: float) -> None:
        try:
            next(forgetting)
        except StopIteration:
            self._forgetting = None
        except (
            LockedError,
            StoreError,
            JournalError,
        ):
            # `finish` continues what was begun before the error.
            self._forgetting, self._retain_at = None, now + _FAILED_S
            with suppress(ShadowError):
                finish(self._context)

    def _is_due(self, now: float) -> bool:
        if self._ws.repo.packs_added - self._merged >= MOST_PACKS:
            return True
        lying = self._packs.sampled()
        if not lying:
            return False
        if now - self._changed_at >= QUIET_S:
            return True
        # The limit depends on git's version, which costs a child process.
        if now >= self._limit_until:
            self._limit, self._limit_until = busy_limit(self._ws), now + _LIMIT_S
        return lying >= self._limit

    def _finish(self, run: "_Run", now: float) -> None:
        self._run = None
        # In a storm, too many new objects would come in a pause.
        is_storm = run.done is not None and run.done.objects >= _STORM_OBJECTS
        self._again_at = now if is_storm else now + QUIET_S
        if run.done is not None:
            self._packed = run.seq
            if run.done.merged:
                self._ws.repo.let_go()
        elif run.trouble is None:
            self._again_at = now + _LOCKED_S
        else:
            self._again_at = now + _FAILED_S
        _tell(self._ws, run.trouble)


class _Run(threading.Thread):
    """Pack once, away from the daemon's own thread."""

    def __init__(self, ws: Workspace, work: PackingWork, seq: str | None) -> None:
        super().__init__(name="packer", daemon=True)
        self._stopping = threading.Event()
        git = Git(ws.layout, dict(ws.environ))
        self._packer = Packer(ws.layout, git, self._stopping.is_set)
        self._work = work
        self.seq = seq
        self.done: Packed | None = None
        self.trouble: str | None = "the packing process died"

    def run(self) -> None:
        """Pack; called by the new thread."""
        try:
            self.done = self._packer.pack(self._work)
            self.trouble = None
        except (LockedError, StoppedError):
            self.trouble = None
        except (ShadowError, OSError) as error:
            self.trouble = str(error)

    def stop(self) -> None:
        """End it and wait for that."""
        self._stopping.set()
        self.join()


class _Choice(threading.Thread):
    """Choose what is to be forgotten: to weigh it takes Git a while."""

    def __init__(self, ws: Workspace, limits: RetentionLimits) -> None:
        super().__init__(name="chooser", daemon=True)
        self._units, self._limits = units_of(ws), limits
        self._now_ns = ws.clock.now_ns()
        self._scales = Scales.of(ws)
        self.going: list[RetentionUnit] = []

    def run(self) -> None:
        """Choose; called by the new thread."""
        with suppress(StoreError):
            self.going = beyond(self._units, self._limits, self._now_ns, self._scales)


def busy_limit(ws: Workspace) -> int:
    """Return how many files in the sampled directory are too many even while others write."""
    try:
        return pack_at(ws.git.version(), ws.repo.config_get)
    # Without git's version its limit is unknown. Packing too early costs a moment; too late,
    # Git's own maintenance would start because of our objects.
    except StoreError:
        return 1


def at_end(ws: Workspace) -> Callable[[], None] | None:
    """Return what a command without a daemon is to do once its worktree is closed.

    Returns:
        None where packing is not due. What fails or takes too long is left to the next command.
    """
    packs = Packs(ws.layout.objects_dir, ws.layout.packing_dir)
    lying = packs.sampled() if ws.config.enabled else 0
    crowded = bool(ws.repo.packs_added) and len(packs.ours()) > MOST_PACKS
    if not crowded and (not lying or lying < busy_limit(ws)):
        return None
    work, git = work_of(ws.repo), Git(ws.layout, dict(ws.environ))

    def run() -> None:
        until = time.monotonic() + _AT_END_S
        packer = Packer(ws.layout, git, lambda: time.monotonic() > until)
        with suppress(ShadowError, OSError):
            packer.pack(work)

    return run


def pack_now(layout: Layout, environ: Mapping[str, str]) -> PackAnswer:
    """Pack whatever of the history is loose, and say what there is then.

    Raises:
        LockedError: another process packs, for too long.
        StoreError, UnsupportedError: it could not be done; what was done stays.
    """
    with closing(Repo.open(layout)) as repo:
        work = work_of(repo)
    packer = Packer(layout, Git(layout, dict(environ)))
    done = packer.pack(work, wait_s=_PACK_LOCK_S, afresh=True)
    packs = packer.packs.ours()
    return PackAnswer(
        packed=done.objects,
        merged=done.merged,
        packs=len(packs),
        bytes=sum(pack.size_bytes for pack in packs),
    )


def _tell(ws: Workspace, trouble: str | None) -> None:
    """Leave in the journal what is in the way, for `doctor`."""
    text = trouble or ""
    # On a full disk the journal cannot be written either.
    with suppress(JournalError):
        if (meta.get(ws.db, TROUBLE) or "") != text:
            with ws.db.write():
                meta.put(ws.db, TROUBLE, text)
