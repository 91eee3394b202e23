"""Stage units, and plan commits of them: the plan, its token, and what applies it.

Invariant: the index changes only in `stage`, `unstage` and `adopt`, and only as the plan says that
was shown. HEAD and branches are not moved here: `git commit` does that, in the user's own process.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.codec import decode, encode
from gitshadow.messages.staging import (
    CommitPlan,
    PreparedCommit,
    StagingAnswer,
    StagingItem,
)
from gitshadow.model import FileVersion, Oid, RepoPath
from gitshadow.query.rows import about_row
from gitshadow.recording.workspace import Workspace
from gitshadow.staging.graft import (
    Grafted,
    Grafter,
    GraftTarget,
    Overlay,
    Writes,
    as_stored,
    combined,
)
from gitshadow.staging.index import (
    GitCleaner,
    IndexBase,
    IndexEntry,
    IndexFile,
    TreeBase,
    abandoned,
    check_settled,
    drop,
    prepare,
)
from gitshadow.staging.survivors import ChangeStep, Survivor
from gitshadow.staging.unit import SurvivingUnit, UnitReader
from gitshadow.store.digests import digest
from gitshadow.store.journal import meta
from gitshadow.store.refs import display_path, parse_path
from gitshadow.store.trees import Entry
from gitshadow.undo import merge
from gitshadow.undo.engine import UndoEngine
from gitshadow.undo.lineage import LineageRecord
from gitshadow.undo.plan import PathFilter
from gitshadow.undo.targets import Target

_STAGED = "staged:"
_MOST_KEPT = 20
_TOKEN_DIGITS = 16
_LOCK_WAIT_S = 5.0
_LOCK_POLL_S = 0.05


class UnitWish(NamedTuple):
    """A unit as typed, with the paths that limit it."""

    targets: tuple[Target, ...]
    paths: PathFilter
    include_low: bool = False

    @property
    def name(self) -> str:
        """Return the words as typed."""
        return " ".join(one.text for one in self.targets)


class CommitWish(NamedTuple):
    """How a commit is wanted; `trailers` returns them for an index file."""

    message: str | None = None
    onto: str | None = None
    trailers: Callable[[str], Sequence[tuple[str, str]]] | None = None


class Go(NamedTuple):
    """Whether to apply a plan, and which one only."""

    yes: bool = False
    token: str | None = None


class _Former(NamedTuple):
    """What a staging replaced: the entries before and after, by path, at which HEAD."""

    target: str
    head: str | None
    before: Mapping[RepoPath, IndexEntry | None]
    after: Mapping[RepoPath, Entry | None]


class _StoredFormer(NamedTuple):
    """The same in the journal, with paths as they are shown."""

    target: str
    head: str | None
    before: Mapping[str, tuple[int, str, int] | None]
    after: Mapping[str, tuple[int, str] | None]


@dataclass(frozen=True, slots=True)
class Staging:
    """The verbs on the index and on commits of one worktree."""

    engine: UndoEngine
    ws: Workspace
    reader: UnitReader

    @classmethod
    def of(cls, engine: UndoEngine, ws: Workspace) -> "Staging":
        """Return the verbs for an opened worktree."""
        return cls(engine, ws, UnitReader(engine, ws))

    # The index

    def stage(self, wish: UnitWish, go: Go) -> StagingAnswer:
        """Plan to stage a unit, and do it if asked.

        Raises:
            UsageError: a target names nothing, or several things.
            RefusedError: the index cannot be changed now, or the token is that of another plan.
        """
        self._begin()
        self.reader.settle()
        unit = self._unit(wish)
        base = IndexBase(self.ws, _paths(unit))
        done = self._grafter(unit).graft(unit.survivors, base)
        writes = combined(done)
        answer = self._answer("stage", unit, self._items(done, base), writes)
        _check_token(go.token, answer)
        if not go.yes or not writes:
            return answer
        self._keep(writes)
        before = {path: base.entries.get(path) for path in writes}
        self._remember(_Former(wish.name, self._head(), before, writes))
        try:
            self._write(writes)
        except BaseException:
            self._forget()
            raise
        way_back = "git agent-undo stage --undo"
        return _ended(answer, way_back=way_back)

    def unstage(self, go: Go) -> StagingAnswer:
        """Plan to restore the index entries from before the last staging, and do it if asked."""
        self._begin()
        known = self._known()
        if not known or known[-1].head != self._head():
            why = "HEAD has moved since" if known else "nothing was staged by turn here"
            return StagingAnswer("unstage", "", "nothing_to_do", notes=(why,))
        former = known[-1]
        entries = IndexFile(self.ws).entries(former.before)
        items: list[StagingItem] = []
        writes: dict[RepoPath, Entry | None] = {}
        for path, before in former.before.items():
            item = self._unstaged(path, before, former.after[path], entries.get(path))
            items.append(item)
            if item.state == "included":
                writes[path] = (before.mode, before.oid) if before else None
        answer = self._finished("unstage", former.target, items, writes)
        _check_token(go.token, answer)
        if not go.yes:
            return answer
        promised = [
            path for path in writes if (was := former.before[path]) and was.is_promise
        ]
        index = IndexFile(self.ws)
        # git add -N adds a promise only where there is no entry.
        index.write({**writes, **dict.fromkeys(promised)})
        index.promise(promised)
        self._forget()
        return _ended(answer)

    def adopt(self, before: Oid | None, commit: Oid) -> StagingAnswer:
        """Let the index have what a commit brought, and keep what else is staged.

        Raises:
            RefusedError: another process keeps the index locked.
        """
        repo = self.ws.repo
        old = repo.commit(before).tree if before is not None else None
        changes = repo.trees.diff(old, repo.commit(commit).tree)
        found = [
            Survivor(
                one.path,
                frozenset({one.path}),
                None,
                _record(one.path, one.new),
                ChangeStep(_record(one.path, one.old), _record(one.path, one.new)),
            )
            for one in changes
        ]
        base = _Unbarred(self.ws, [one.path for one in found])
        done = Grafter(blobs=self.reader.blobs, clean=as_stored).graft(found, base)
        writes = combined(done)
        self._keep(writes)
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                self._write(writes)
            except RefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOCK_POLL_S)
            else:
                break
        kept = [display_path(one.survivor.path) for one in done if one.reason]
        notes = tuple(f"the index keeps its own version of {path}" for path in kept)
        return StagingAnswer("adopt", commit, "done", notes=notes)

    # Commits

    def commit(self, wish: UnitWish, how: CommitWish, go: Go) -> StagingAnswer:
        """Plan a commit of a unit, and prepare it if asked.

        Raises:
            UsageError: a target or the branch names nothing, or several things.
            RefusedError: Git is in the middle of something, or the token is that of another plan.
        """
        if how.onto is None:
            self._begin()
        self.reader.settle()
        unit = self._unit(wish)
        parent, base = self._parent(how.onto, _paths(unit))
        done = self._grafter(unit).graft(unit.survivors, base)
        writes = combined(done)
        items = self._items(done, base)
        message = how.message or self.reader.message(unit)
        about = tuple(map(about_row, self.reader.about(unit)))
        answer = self._answer("apply" if how.onto else "commit", unit, items, writes)
        if how.trailers is not None and writes:
            index = self._index(parent, writes)
            try:
                found = how.trailers(index)
            finally:
                drop(index)
            message = self.ws.git.with_trailers(message.encode(), found, "#").decode()
        plan = CommitPlan(wish.name, message, items, about)
        answer = answer._replace(commits=(plan,), token=_mixed(answer.token, parent))
        _check_token(go.token, answer)
        if not go.yes or not writes:
            return answer
        index = self._index(parent, writes)
        if how.onto is None:
            return answer._replace(prepared=PreparedCommit(parent, index_=index))
        try:
            tree = IndexFile(self.ws, index).write_tree()
        finally:
            drop(index)
        return answer._replace(prepared=PreparedCommit(parent, tree=tree))

    def commits(self, units: Sequence[UnitWish]) -> StagingAnswer:
        """Plan one commit for each unit, each on top of the one before.

        Units that have nothing uncommitted are left out.
        """
        self._begin()
        parent = self._head()
        plans: list[CommitPlan] = []
        over: Overlay | None = None
        for wish in units:
            unit = self._unit(wish)
            if not unit.survivors:
                continue
            _, base = self._parent(None, _paths(unit))
            over = _Stacked.on(base, over)
            done = self._grafter(unit).graft(unit.survivors, over)
            writes = combined(done)
            if not writes:
                continue
            items = self._items(done, over)
            over.changes.update(writes)
            about = tuple(map(about_row, self.reader.about(unit)))
            plans.append(CommitPlan(wish.name, self.reader.message(unit), items, about))
        status = "planned" if plans else "nothing_to_do"
        token = _mixed(repr(plans), parent)
        answer = StagingAnswer("split", "", status, token, commits=tuple(plans))
        return answer._replace(left=self._uncommitted(over))

    def _uncommitted(self, over: Overlay | None) -> tuple[str, ...]:
        """Return the paths that are not as on the disk when all commits are made."""
        dirty = dirty_paths(self.ws)
        cleaner = GitCleaner(self.ws, self.reader.blobs)
        cleaner.learn(dirty)
        world = self.reader.world(dirty)
        _, base = self._parent(None, dirty)
        final = _Stacked.on(base, over)
        left = []
        for path in sorted(dirty):
            version, entry = world.present.get(path), final.entry(path)
            on_disk = cleaner(path, version, entry) if version is not None else None
            if on_disk != entry:
                left.append(display_path(path))
        return tuple(left)

    def _parent(
        self, onto: str | None, paths: Collection[RepoPath]
    ) -> tuple[Oid | None, GraftTarget]:
        repo = self.ws.repo
        if onto is None:
            head = self._head()
            tree = repo.commit(head).tree if head is not None else None
            return head, _HeadBase(self.ws, tree, paths)
        name = f"refs/heads/{onto}"
        tip = repo.ref(name)
        if tip is None:
            raise UsageError(f"cannot find branch {onto}", hint="git branch")
        out = self.ws.git.run("for-each-ref", "--format=%(worktreepath)", name)
        where = os.fsdecode(out.strip())
        if where:
            raise UsageError(
                f"cannot commit onto {onto}: it is checked out in {where}",
                hint=f"git agent-undo apply --worktree {where}",
            )
        tree = repo.commit(tip).tree
        return tip, TreeBase(repo, tree, f"on {onto}", own=False)

    def _index(self, parent: Oid | None, writes: Writes) -> str:
        self._keep(writes)
        return prepare(self.ws, parent, writes)

    # What they share

    def _begin(self) -> None:
        """Refuse during a merge; let the index follow a commit whose maker died."""
        check_settled(self.ws)
        for one in abandoned(self.ws):
            self.adopt(one.parent, one.commit)
            drop(one.path)

    def _unit(self, wish: UnitWish) -> SurvivingUnit:
        return self.reader.unit(wish.targets, wish.paths, include_low=wish.include_low)

    def _grafter(self, unit: SurvivingUnit) -> Grafter:
        cleaner = GitCleaner(self.ws, self.reader.blobs)
        cleaner.learn(_paths(unit))
        return Grafter(
            blobs=self.reader.blobs,
            clean=cleaner,
            keeps_modes=not self.ws.repo.config_is("core.fileMode", unset=True),
        )

    def _head(self) -> Oid | None:
        return self.ws.repo.head()[1]

    def _keep(self, writes: Writes) -> None:
        """Store what merging made, so that no index names a blob that is missing."""
        made = self.reader.blobs.made
        for entry in writes.values():
            if entry is not None and entry[1] in made:
                self.ws.repo.write_blob(made[entry[1]])

    def _write(self, writes: Writes) -> None:
        index = IndexFile(self.ws)
        index.write(writes)
        index.refresh(path for path, entry in writes.items() if entry is not None)

    def _items(
        self, done: Sequence[Grafted], target: GraftTarget
    ) -> tuple[StagingItem, ...]:
        return tuple(item_of(one, target, self.reader) for one in done)

    def _answer(
        self,
        kind: str,
        unit: SurvivingUnit,
        items: tuple[StagingItem, ...],
        writes: Writes,
    ) -> StagingAnswer:
        answer = self._finished(kind, unit.selection.target, items, writes)
        why = unit.selection.headline.removeprefix("nothing to undo: ")
        notes = [] if items else [why or "nothing of it is left"]
        about = tuple(map(about_row, self.reader.about(unit)))
        return answer._replace(notes=tuple(notes), maybe=unit.maybe, about=about)

    def _finished(
        self, kind: str, target: str, items: Iterable[StagingItem], writes: Writes
    ) -> StagingAnswer:
        items = tuple(items)
        token = _mixed(repr((kind, items, sorted(writes.items()))), self._head())
        return StagingAnswer(kind, target, planned_status(items), token, items)

    # What the last stagings replaced

    def _known(self) -> list[_Former]:
        text = meta.get(self.engine.db, _STAGED + self.engine.worktree)
        rows = json.loads(text or "[]")
        return [_former(decode(_StoredFormer, row)) for row in rows]

    def _remember(self, former: _Former) -> None:
        self._store([*self._known(), former][-_MOST_KEPT:])

    def _forget(self) -> None:
        self._store(self._known()[:-1])

    def _store(self, known: Sequence[_Former]) -> None:
        text = json.dumps([encode(_stored(one)) for one in known])
        with self.engine.db.write():
            meta.put(self.engine.db, _STAGED + self.engine.worktree, text)

    def _unstaged(
        self,
        path: RepoPath,
        before: IndexEntry | None,
        after: Entry | None,
        now: IndexEntry | None,
    ) -> StagingItem:
        shown = display_path(path)
        standing = (now.mode, now.oid) if now is not None else None
        old = (before.mode, before.oid) if before is not None else None
        if standing == old:
            return StagingItem(shown, "none", "already")
        if standing != after:
            why = "staged again since"
            return StagingItem(shown, "none", "skipped", None, "conflict", why)
        if before is not None and not self.ws.repo.has(before.oid):
            why = "its former content is gone from the repository"
            return StagingItem(shown, "none", "skipped", None, "purged", why)
        return StagingItem(shown, _action(standing, old), "included")


class _Unbarred(IndexBase):
    """The index after a commit: every path must follow HEAD."""

    def barred(self, path: RepoPath) -> str | None:
        """Return None."""
        del path
        return None


class _HeadBase(TreeBase):
    """HEAD's tree, of which git add would not change what it bars in the index."""

    def __init__(
        self, ws: Workspace, tree: Oid | None, paths: Collection[RepoPath]
    ) -> None:
        super().__init__(ws.repo, tree, "in HEAD", own=True)
        self._index = IndexBase(ws, paths)

    def barred(self, path: RepoPath) -> str | None:
        """Return why git add would not change a path."""
        return self._index.barred(path)


class _Stacked(Overlay):
    """HEAD with the commits of a plan on top."""

    @classmethod
    def on(cls, base: GraftTarget, under: Overlay | None) -> "Overlay":
        """Return a target with another one's changes."""
        made = cls(base)
        if under is not None:
            made.changes = under.changes
        return made


def item_of(one: Grafted, target: GraftTarget, reader: UnitReader) -> StagingItem:
    """Return what becomes of one file, before it is done."""
    found, writes = one.survivor, one.writes
    shown = display_path(found.path)
    if one.reason is not None:
        reason, detail = one.reason.value, one.detail
        return StagingItem(shown, "none", "skipped", found.session, reason, detail)
    if not writes:
        return StagingItem(shown, "none", "already", found.session)
    into = next((path for path, entry in writes.items() if entry is not None), None)
    outof = next((path for path, entry in writes.items() if entry is None), None)
    path = into if into is not None else outof
    assert path is not None
    old = target.entry(path if outof is None else outof)
    new = writes[path]
    is_move = into is not None and outof is not None
    lines = _lines(old, new, reader)
    return StagingItem(
        display_path(path),
        "rename" if is_move else _action(old, new),
        "included",
        found.session,
        None,
        one.detail,
        display_path(outof) if is_move and outof is not None else None,
        *(lines or (None, None)),
    )


def planned_status(items: Iterable[StagingItem]) -> str:
    """Return the status of a plan: `partial` if all that there is would be skipped."""
    states = {item.state for item in items}
    if "included" in states:
        return "planned"
    return "partial" if "skipped" in states else "nothing_to_do"


def _action(old: Entry | None, new: Entry | None) -> str:
    if new is None:
        return "delete"
    if old is None:
        return "create"
    return "mode" if old[1] == new[1] else "modify"


def _lines(
    old: Entry | None, new: Entry | None, reader: UnitReader
) -> tuple[int, int] | None:
    texts = [b"" if one is None else reader.blobs.get(one[1]) for one in (old, new)]
    was, now = texts
    return None if was is None or now is None else merge.count_changes(was, now)


def dirty_paths(ws: Workspace) -> set[RepoPath]:
    """Return what differs between HEAD and the disk, untracked files among it."""
    head = ws.repo.head()[1]
    found: set[bytes] = set()
    if head is not None:
        how = ("diff-index", "--name-only", "-z", "--no-renames", "--ignore-submodules")
        found |= {*ws.git.run(*how, head, "--").split(b"\0")}
    else:
        found |= {*ws.git.run("ls-files", "-z", "--full-name", ":/").split(b"\0")}
    others = ("ls-files", "-z", "--others", "--exclude-standard", "--full-name", ":/")
    found |= {*ws.git.run(*others).split(b"\0")}
    return {RepoPath(path) for path in found if path and not path.endswith(b"/")}


def _paths(unit: SurvivingUnit) -> set[RepoPath]:
    return {path for one in unit.survivors for path in one.paths}


def _record(path: RepoPath, entry: Entry | None) -> LineageRecord:
    version = FileVersion(entry[1], entry[0]) if entry is not None else None
    return LineageRecord(path, version)


def _ended(answer: StagingAnswer, *, way_back: str | None = None) -> StagingAnswer:
    """Return the report of a plan that was carried out."""
    skipped = any(item.state == "skipped" for item in answer.items)
    status = "partial" if skipped else "done"
    return answer._replace(status=status, way_back=way_back)


def _mixed(text: str, head: Oid | None) -> str:
    return digest(f"{text}\0{head}")[:_TOKEN_DIGITS]


def _check_token(token: str | None, answer: StagingAnswer) -> None:
    if token is not None and token != answer.token:
        raise RefusedError(
            f"cannot apply plan {token}: the plan is different now",
            hint="nothing was changed; to see the new plan: --dry-run",
        )


def _stored(one: _Former) -> _StoredFormer:
    return _StoredFormer(
        one.target,
        one.head,
        {
            display_path(path): was and (was.mode, was.oid, was.flags)
            for path, was in one.before.items()
        },
        {display_path(path): entry for path, entry in one.after.items()},
    )


def _former(one: _StoredFormer) -> _Former:
    return _Former(
        one.target,
        one.head,
        {
            _path(path): was and IndexEntry(was[0], Oid(was[1]), was[2])
            for path, was in one.before.items()
        },
        {
            _path(path): entry and (entry[0], Oid(entry[1]))
            for path, entry in one.after.items()
        },
    )


def _path(shown: str) -> RepoPath:
    return RepoPath(parse_path(shown))
