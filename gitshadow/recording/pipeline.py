"""Record a write: path → look and reading → draft → claim → commit and row.

Invariant: nothing here waits. One bad path never stops the others; what could not be captured
becomes a gap row.
"""

import codecs
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace

from gitshadow.adapters.base import FileEdit
from gitshadow.attribution.intake import Doubt
from gitshadow.capture.commit_plan import (
    INEXACT,
    MOVED_IN,
    OFFLINE,
    STORM_PATHS,
    AttributedDraft,
)
from gitshadow.capture.coverage import IGNORED, OWN_RULE, TOO_LARGE, UNTRACKED_DATA
from gitshadow.capture.drafts import BatchTime, Draft, Seen, draft_changes
from gitshadow.capture.reconcile import Change, ObservedChanges, observe
from gitshadow.errors import StoreError, raise_shortage
from gitshadow.model import (
    GITLINK_MODE,
    TREE_MODE,
    Attribution,
    Call,
    CommitEvent,
    Confidence,
    Event,
    EventKind,
    Excluded,
    FileState,
    FileVersion,
    Gap,
    PathChange,
    RepoPath,
    Session,
    StatKey,
)
from gitshadow.recording.attributor import Claimant
from gitshadow.recording.catch_up import adopt
from gitshadow.recording.commit_window import CommitWindow
from gitshadow.recording.data_limit import DataLimit
from gitshadow.recording.head import HeadFollower, HeadMove, HeadStep, carry
from gitshadow.recording.index import ExcludedIndex
from gitshadow.recording.related_files import Kin
from gitshadow.recording.switches import SwitchStage, Witness, split_switched
from gitshadow.recording.workspace import Workspace
from gitshadow.store.disk import spare_bytes
from gitshadow.store.files import Look
from gitshadow.store.journal import bursts, events, state
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.state import uncollected
from gitshadow.store.refs import exact_mode
from gitshadow.store.replay import CatchUp
from gitshadow.store.trees import Entry

_PLACES_LOOKED_AT = 1000  # about 15 ms, when each is in a directory of its own
# Fewer paths get a file for each object. If one of these cannot be written, the others can.
_GATHERED_FROM = 16
_SECOND_NS = 1_000_000_000
_ALMOST_FULL = "the disk is almost full, so its content was not stored"
_MOST_GAPS = 10_000


@dataclass(slots=True)
class Captured:
    """Collect what one capture recorded, and whether coverage rules were among it.

    `unreadable` are files that exist and were never read, with their stat; `excluded` are paths
    that are not covered.
    """

    events: list[CommitEvent] = field(default_factory=list)
    rules_changed: bool = False
    unreadable: dict[RepoPath, StatKey] = field(default_factory=dict)
    excluded: list[RepoPath] = field(default_factory=list)


class Pipeline:
    """Capture paths of one workspace.

    `missed` are the paths whose changes could not be stored: every barrier looks at them again.
    `before_claims` is called when writes were seen, before their authors are found.
    """

    def __init__(
        self, workspace: Workspace, claimant: Claimant, commits: CommitWindow
    ) -> None:
        self._ws = workspace
        self._claimant = claimant
        self.processes = claimant.processes
        self._commits = commits
        self._data = DataLimit(workspace, self.gap)
        self._gaps: dict[tuple[RepoPath | None, str], Look | None] = {}
        self.uncovered = ExcludedIndex(workspace.db, workspace.layout.worktree)
        self._kin = Kin(workspace)
        self.settled_ns = workspace.recorder.row.walked_ns
        self.missed: dict[RepoPath, StoreError] = {}
        self._head = HeadFollower(workspace)
        self.before_claims: Callable[[], None] = lambda: None

    @uncollected()
    def capture(
        self, paths: Collection[RepoPath], *, offline: bool = False
    ) -> Captured:
        """Record what differs at these paths; vanished directories take theirs along.

        Args:
            paths: Hinted paths, covered or not, files or directories.
            offline: Nothing watched when they were written.
        """
        if self._ws.recorder.behind:
            self.catch_up()
        many = len(paths) >= _GATHERED_FROM
        with self._ws.repo.gathering() if many else nullcontext():
            return self._capture(paths, offline=offline)

    def _capture(self, paths: Collection[RepoPath], *, offline: bool) -> Captured:
        ws = self._ws
        noticed = ws.clock.now_ns()
        ws.states.fetch(paths)
        wanted = self._lost_below(paths).union(paths)
        self.processes.activity.take(wanted)
        for path in wanted:
            self.missed.pop(path, None)
        self._note_vanished(wanted)
        self._kin.begin()
        observed, moves = self._observe(wanted, noticed)
        done = Captured()
        done.rules_changed = any(ws.coverage.is_rule_file(path) for path in wanted)
        for path, why in observed.unreadable:
            self.gap(f"could not read it: {why}", path)
            look = ws.files.glance(path)
            if look is not None and ws.states.get(path) is None:
                # Who makes it readable has not created it.
                done.unreadable[path] = look.stat
                self.uncovered.add(path)
        self._touch(observed.excluded, noticed)
        done.excluded = [path for path, _ in observed.excluded]
        if observed.restat:
            ws.recorder.restat(dict(observed.restat))
        self._data.add_up(observed.changes)
        seen = self._store_blobs(observed.changes, noticed)
        old, new = self._split_entering(seen)
        done.events += self._record(new, noticed, moves, offline=offline)
        done.events += self.record_coverage("coverage grew", old)
        self.leave(observed.left)
        unread = {path for path, _ in observed.unreadable}
        self.processes.activity.spoil(unread | self.missed.keys())
        self._journal_missed(wanted)
        for finding in ws.recorder.take_findings():
            self.gap(finding.note, finding.path)
            # Who writes there next has created nothing.
            if finding.path is not None and ws.states.get(finding.path) is None:
                self.uncovered.add(finding.path)
        return done

    def judge_again(self, doubts: Collection[Doubt]) -> None:
        """Correct the authors of rows, once the windows of calls are known better."""
        if not doubts:
            return
        if self._ws.recorder.behind:
            self.catch_up()
        self.correct(self._claimant.judge_again(doubts))

    def correct(self, judged: Mapping[PathChange, Attribution]) -> None:
        """Record other authors of rows."""
        if not judged:
            return
        ws = self._ws
        try:
            ws.recorder.correct(judged, ws.clock.now_ns())
        except StoreError as error:
            self.gap(
                f"could not record who made {len(judged)} earlier changes: {error}"
            )

    def record_found(self, path: RepoPath, edit: FileEdit, call: Call) -> None:
        """Record what a file tool found at its path, if that was not recorded yet."""
        # Somebody else wrote it before. Without a watcher that write and the tool's after it would
        # look like one write of the tool.
        ws, known = self._ws, self._ws.states.get(path)
        if edit.found is None or known is None or known.version.is_link:
            return
        # The tool's own write may be recorded already.
        blob_oid = ws.repo.format.blob
        if known.holds(blob_oid(edit.found)) or known.holds(blob_oid(edit.left)):
            return
        try:
            old, now = ws.repo.read_blob(known.version.oid), ws.files.read(path)
        except (StoreError, OSError):  # the capture that follows says so
            return
        # The payload has no line ends and byte order marks, so the found bytes of such a
        # file are not known.
        is_odd = b"\r" in old or old.startswith(codecs.BOM_UTF8)
        if now is None or now.data != edit.left or is_odd:
            return
        version = FileVersion(ws.repo.write_blob(edit.found), known.version.mode)
        stat = StatKey(len(edit.found), 0, 0, 0)
        at_ns = call.runs_from_ns
        draft = Draft(
            kind=EventKind.MODIFY,
            path=path,
            before=known,
            after=FileState(version, stat, at_ns, racy=True),
            begin_ns=call.opened_ns,
            end_ns=at_ns,
        )
        self.processes.activity.take(())
        (who,) = self._claimant.claim([draft], self.processes.live(), before=call)
        ws.recorder.record([AttributedDraft(draft, who)])

    def _note_vanished(self, paths: Collection[RepoPath]) -> None:
        """Note uncovered places that are gone: who writes there next has created something."""
        for path in self.uncovered.among(paths):
            if self._ws.files.glance(path) is None:
                last = self.uncovered.known().get(path)
                why = last and self._ws.coverage.of(path, None, last)
                self.touched([(path, why.reason)] if why else [])
                self.uncovered.forget(path)

    def look_at_uncovered(self) -> bool:
        """Note what changed at the known places that are not recorded, but not below them.

        Returns:
            Whether it looked, and found no new rules and none of the places recorded by now.
        """
        # The watcher does not watch them, so a barrier has to look.
        ws, known = self._ws, self.uncovered.known()
        if len(known) > _PLACES_LOOKED_AT:  # the walk in the background looks at them
            return False
        is_same = True
        moved: list[tuple[RepoPath, str]] = []
        now: dict[RepoPath, StatKey] = {}
        with ws.files.together():
            for path, key in sorted(known.items()):
                look = ws.files.glance(path)
                if look is not None:
                    now[path] = look.stat
                if look is not None and look.stat == key:
                    continue
                if look is not None and look.is_dir:
                    # It may be another repository no more.
                    ws.coverage.refresh([RepoPath(path + b"/.git")])
                why = ws.coverage.of(path, look, key)
                is_same &= why is not None and not ws.coverage.is_rule_file(path)
                why = why or self.uncovered.was_not(path, look, key)
                moved += [(path, why.reason)] if why is not None else []
        self.touched(moved)
        self.uncovered.update(now)
        return is_same

    def admit(self, paths: Iterable[RepoPath]) -> None:
        """Record what is at paths that are not covered, because an undo will cover them."""
        noticed = self._ws.clock.now_ns()
        changes: list[Change] = []
        for path in paths:
            reading = self._ws.files.read(path)
            if reading is not None and self._ws.states.get(path) is None:
                oid = self._ws.repo.format.blob(reading.data)
                changes.append(Change(path, None, reading, oid))
        seen = self._store_blobs(changes, noticed)
        self.record_coverage("coverage grew", seen)

    def settled(self, began_ns: int) -> bool:
        """Note that all that was written before a moment is recorded; return whether it is."""
        if not self.missed:
            self.settled_ns = began_ns
            self.processes.activity.settled(began_ns)
        return not self.missed

    def catch_up(self, told: Collection[str] = ()) -> CatchUp:
        """Add the rows of commits that have none; a chain that is lost is a gap.

        Args:
            told: Refs that have a gap already.
        """
        done = adopt(self._ws)
        for lost in done.lost:
            if lost.chain.ref in told:
                continue
            how = "is gone" if lost.tip is None else "was changed to something else"
            ref = lost.chain.ref
            self.gap(f"ref {ref} {how}; its changes can no longer be undone")
        return done

    def _journal_missed(self, wanted: Collection[RepoPath]) -> None:
        """Journal a gap for every path that could not be stored; one for very many."""
        missed = [path for path in wanted if path in self.missed]
        for path in missed[:STORM_PATHS]:
            self.gap(str(self.missed[path]), path)
        if len(missed) > STORM_PATHS:
            self.gap(
                f"and {len(missed) - STORM_PATHS} other paths could not be recorded"
            )

    def _observe(
        self, wanted: Collection[RepoPath], noticed_ns: int
    ) -> tuple[ObservedChanges, Sequence[HeadMove]]:
        """Look at paths; if HEAD turns out to have moved, at all that Git switched as well."""
        # A path that is recorded later than the row of the move would be an ordinary write. So this
        # looks again until HEAD does not move. Many paths are a checkout more often than not: if
        # HEAD is read first, they are looked at once.
        moves = self._head.moves() if len(wanted) > STORM_PATHS else ()
        while True:
            more = self._head.switched(moves).difference(wanted)
            written = self._head.written(moves)
            found = self._look(more.union(wanted), noticed_ns, written)
            moved = self._head.moves()
            if moved == moves:
                break
            moves = moved
        found.excluded = [one for one in found.excluded if one[0] not in more]
        return found, moves

    def _look(
        self, wanted: Set[RepoPath], noticed_ns: int, written: Mapping[RepoPath, Entry]
    ) -> ObservedChanges:
        """Look at paths, and at the other names of the files there, old ones and hard links."""
        ws = self._ws
        self._data.leave_out(wanted)
        found = observe(
            ws.files,
            ws.coverage,
            ws.states,
            sorted(wanted),
            noticed_ns,
            ws.index.stored if ws.index.is_cheaper(len(wanted)) else None,
        )
        others = sorted(self._kin.others(found.changes, noticed_ns, written) - wanted)
        if others:
            found.extend(observe(ws.files, ws.coverage, ws.states, others, noticed_ns))
        return found

    def _record(
        self,
        seen: Sequence[Seen],
        noticed_ns: int,
        moves: Sequence[HeadMove],
        *,
        offline: bool,
    ) -> list[CommitEvent]:
        """Draft, claim and publish what was seen, the moves of HEAD in their order first."""
        # A hook without a daemon leaves its payload in the spool before its tool writes. Read after
        # the write was seen, the spool has the window of that tool.
        if seen or moves:
            self.before_claims()
        live = self.processes.close_gone(noticed_ns)
        folds = self._ws.files.folds
        moment = BatchTime(self.settled_ns, noticed_ns, self._ctime_of, folds)
        recorded, rest = list[CommitEvent](), seen
        try:
            if moves:
                steps = self._head.steps(moves)
                self._head.forget()
                stages, rest = split_switched(seen, steps, moment, self._witness())
                for stage, step in zip(stages, steps, strict=True):
                    recorded += self._record_writes(stage.written, live, offline)
                    newest = stage is stages[-1]
                    recorded += self._record_head(
                        stage, step, noticed_ns, newest=newest
                    )
                    # Finding an author can open a session.
                    live = self.processes.live()
            drafts = draft_changes(rest, moment)
            return recorded + self._record_writes(drafts, live, offline)
        except StoreError as error:
            raise_shortage(error)
            self.missed |= dict.fromkeys((one.path for one in seen), error)
            return recorded

    def _record_writes(
        self, drafts: Sequence[Draft], live: Sequence[Session], offline: bool
    ) -> list[CommitEvent]:
        found = self._claimant.claim(drafts, live, offline=offline)
        claims = self._commits.revise(
            drafts, found, self._claimant.nobody, self._newest_at
        )
        claimed = self._claimed(drafts, claims, offline=offline)
        return self._ws.recorder.record(claimed)

    def _witness(self) -> Witness:
        ws = self._ws
        return Witness(
            data_of=ws.repo.read_blob,
            staged=ws.index.staged,
            converted=ws.index.converted,
            quiet=self._is_gits,
            ordered=ws.clock.tolerance_ns == 0,
            modes=ws.recorder.modes,
        )

    def _is_gits(self, path: RepoPath) -> bool:
        """Return whether nobody has written a path since Git last did, as far as is known."""
        newest = self._newest_at(path)
        if isinstance(newest, PathChange):
            return newest.switched
        return not isinstance(newest, Gap)

    def _claimed(
        self, drafts: Sequence[Draft], claims: Sequence[Attribution], *, offline: bool
    ) -> list[AttributedDraft]:
        """Return drafts with who made them, each with what it is marked with."""
        moved_in = self._kin.moved_in(drafts, claims)
        found: list[AttributedDraft] = []
        for draft, claim, is_moved_in in zip(drafts, claims, moved_in, strict=True):
            marks = {OFFLINE: offline, MOVED_IN: is_moved_in, INEXACT: not draft.exact}
            flags = tuple(mark for mark, is_set in marks.items() if is_set)
            found.append(AttributedDraft(draft, claim, flags))
        return found

    def leave(self, paths: Iterable[RepoPath]) -> None:
        """Record paths that are not covered any more; nothing on the disk changed."""
        states = self._ws.states
        seen = [Seen(path, states.get(path), None) for path in paths]
        self.record_coverage("coverage shrank", seen)

    def record_coverage(self, note: str, seen: Sequence[Seen]) -> list[CommitEvent]:
        """Record paths that enter or leave because coverage itself changed."""
        if not seen:
            return []
        noticed = self._ws.clock.now_ns()
        moment = BatchTime(noticed, noticed, self._ctime_of)
        drafts = [draft for one in seen for draft in draft_changes([one], moment)]
        claim = self._claimant.nobody("coverage changed")
        return self._ws.recorder.record_coverage(note, claim, drafts)

    def _split_entering(self, seen: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
        """Split off what existed before it was recorded: nobody created it now."""
        # The tree carries from HEAD what is not recorded. If the file still has that content, only
        # its state is new. Where a sparse checkout leaves a path out there was no file, so a write
        # there changes what Git has of it.
        entering: list[Seen] = []
        others: list[Seen] = []
        same: dict[RepoPath, FileState] = {}
        held = {one.path: self._carried(one) for one in seen if one.before is None}
        left_out = self._left_out([one for one in seen if held.get(one.path)])
        for one in seen:
            carried = held.get(one.path)
            if carried and one.after and carried.version == one.after.version:
                same[one.path] = one.after
            elif carried is not None and one.path in left_out:
                known = replace(carried, seen_ns=self.settled_ns)
                others.append(one._replace(before=known))
            elif carried is not None:
                entering.append(Seen(one.path, carried, one.after))
            elif one.before is None and self._was_out(one):
                entering.append(one)
                # What it replaced is not known.
                if one.after is not None and one.after.stat.ctime_ns > self.settled_ns:
                    why = "changed before it was first recorded"
                    self.touched([(one.path, why)])
            else:
                others.append(one)
        if same:
            self._ws.recorder.restat(same)
        return entering, others

    def _was_out(self, one: Seen) -> bool:
        """Return whether a path was not covered before."""
        if self.uncovered.holds(one.path):
            return True
        data, after = self._ws.coverage.data, one.after
        return bool(data and after and data.held(one.path, after.stat.size))

    def _left_out(self, seen: Sequence[Seen]) -> set[RepoPath]:
        """Return what a sparse checkout left out, and somebody else than Git wrote."""
        index, held = self._ws.index, self.uncovered.holds
        if not seen or not index.sparse():
            return set()
        stats = {one.path: one.after.stat for one in seen if one.after is not None}
        return {path for path in stats if not held(path)} - index.from_head(stats)

    def _carried(self, one: Seen) -> FileState | None:
        """Return what the tree holds at a path that is not recorded, None for a submodule."""
        recorder = self._ws.recorder
        try:
            entry = self._ws.repo.trees.entry(recorder.tree, one.path)
        # If the tree is gone, the recorder builds a new one and reports what was lost.
        except StoreError:
            return None
        if entry is None or entry[0] in (TREE_MODE, GITLINK_MODE) or one.after is None:
            return None
        version = FileVersion(entry[1], exact_mode(entry[0], recorder.modes))
        return replace(one.after, version=version)

    def _newest_at(self, path: RepoPath) -> Event | None:
        here = self._ws.layout.worktree
        wanted = EventFilter(worktree=here, paths=(path,), limit=1)
        # Nobody wrote what has no row: that Git may have switched it changes no answer here.
        found = events.own_rows(self._ws.db, wanted)
        if found:
            found = events.with_switches(self._ws.db, wanted, found)
        return next(iter(found), None)

    def gap(self, why: str, path: RepoPath | None = None) -> None:
        """Journal a gap once for as long as its path looks the same."""
        if path is not None:
            look, key = self._ws.files.glance(path), (path, why)
            known = key in self._gaps and self._gaps[key] == look
            known = known or self._is_journalled(why, path, look)
            # Programs may make unreadable files with ever new names. The journal knows them, too.
            if len(self._gaps) >= _MOST_GAPS:
                self._gaps.clear()
            self._gaps[key] = look
            if known:
                return
        self._ws.recorder.gap(why, self._ws.clock.now_ns(), path)

    def _is_journalled(self, why: str, path: RepoPath, look: Look | None) -> bool:
        """Return whether an earlier process journaled this gap for the same state of a path."""
        wanted = EventFilter(
            limit=1,
            worktree=self._ws.layout.worktree,
            kinds=(EventKind.GAP,),
            paths=(path,),
            since_ns=look.stat.ctime_ns if look is not None else None,
        )
        rows = events.rows(self._ws.db, wanted) if look is not None else []
        return any(
            isinstance(row, Gap) and row.path == path and row.note == why
            for row in rows
        )

    def touched(self, paths: Iterable[tuple[RepoPath, str]]) -> None:
        """Note writes to paths that are not covered, each with why it is not."""
        # To ask the clock changes a file, and there is seldom anything to note.
        if found := list(paths):
            self._note([(*one, one[0]) for one in found], self._ws.clock.now_ns())

    def _note(
        self, writes: Collection[tuple[RepoPath, str, RepoPath]], now_ns: int
    ) -> None:
        """Note writes: a place, why it is not covered, and what was written there."""
        if not writes:
            return
        self.processes.close_gone(now_ns)
        touches = self._claimant.touches(
            [
                (place, why, self._written_ns(path, now_ns))
                for place, why, path in writes
            ]
        )
        with self._ws.db.write():
            state.put_touches(self._ws.db, touches)

    def _written_ns(self, path: RepoPath, now_ns: int) -> int:
        """Return by when a path was written: it may be noticed after its call has ended."""
        look = self._ws.files.glance(path)
        # What is in a directory can change without another time of the directory itself.
        if look is not None and look.is_dir:
            return now_ns
        while look is None and path:
            path = RepoPath(path.rpartition(b"/")[0])
            look = self._ws.files.glance(path)
        return now_ns if look is None else min(now_ns, look.stat.ctime_ns)

    def _lost_below(self, paths: Iterable[RepoPath]) -> set[RepoPath]:
        """Return the known paths below paths that are no directories any more."""
        states, lost = self._ws.states, set[RepoPath]()
        # Most paths are files, with nothing below them: they need no look at the disk.
        tops = (one for one in sorted(paths) if states.get(one) is None)
        known = [(one, below) for one in tops if (below := states.below(one))]
        if known:
            with self._ws.files.together():
                for path, below in known:
                    look = self._ws.files.glance(path)
                    if look is None or not look.is_dir:
                        lost.update(below)
        return lost

    def _store_blobs(self, changes: Iterable[Change], noticed_ns: int) -> list[Seen]:
        seen: list[Seen] = []
        # Others need the rest of the disk more than we do.
        spare = sys.maxsize
        with suppress(OSError):
            spare = spare_bytes(self._ws.layout.common_dir)
        for change in changes:
            spare -= _new_bytes(change)
            try:
                if spare < 0 and _new_bytes(change):
                    raise StoreError(_ALMOST_FULL)
                after = self._after(change, noticed_ns)
            except StoreError as error:
                raise_shortage(error)
                self.missed[change.path] = error
                continue
            seen.append(self._kin.seen(change, after))
        return seen

    def _after(self, change: Change, noticed_ns: int) -> FileState | None:
        reading = change.after
        if reading is None or change.oid is None:
            return None
        before = change.before
        version = FileVersion(change.oid, reading.mode)
        digest = None
        if before is not None and before.version.oid == change.oid:
            digest = before.digest
        elif not change.stored:
            self._ws.repo.write_blob(reading.data)
        return FileState(version, reading.stat, noticed_ns, reading.racy, digest)

    def _record_head(
        self, stage: SwitchStage, step: HeadStep, noticed_ns: int, *, newest: bool
    ) -> list[CommitEvent]:
        ws, move = self._ws, stage.move
        at_s = None if newest else move.at_s
        claim = self._claimant.head(noticed_ns, at_s, self.settled_ns)
        at_ns = noticed_ns if at_s is None else min(noticed_ns, at_s * _SECOND_NS)
        # What was written after the switch and noticed with it must not be older than the switch,
        # or `restore --at` its time would be without it; and what was committed not newer than its
        # commit. Git's log has only whole seconds.
        drafts = stage.switched or stage.written
        wrote_ns = max((draft.end_ns for draft in drafts), default=at_ns)
        at_ns = min(noticed_ns, wrote_ns)
        moved = replace(
            ws.recorder.row,
            tree=carry(ws.repo, ws.recorder.tree, step, self._is_absent),
            head=move.new,
            head_ref=move.new_ref,
            head_mark=move.mark,
        )
        recorded = ws.recorder.record_head(
            move.describe(), claim, stage.switched, at_ns, moved, stage.trees
        )
        if move.is_checkout or stage.switched:
            # An open turn alone does not say that its session moved HEAD.
            mover = None if claim.confidence is Confidence.LOW else claim.session
            with ws.db.write():
                bursts.close_for_checkout(ws.db, moved.id, mover)
        return recorded

    def _is_unknown(self, path: RepoPath) -> bool:
        """Return whether something is at a path of which nothing is recorded."""
        known = self._ws.states.get(path)
        return known is None and self._ws.files.glance(path) is not None

    def _is_absent(self, path: RepoPath) -> bool:
        """Return whether nothing is at a path, and nothing is recorded of it."""
        known = self._ws.states.get(path)
        return known is None and self._ws.files.glance(path) is None

    def _touch(
        self, excluded: Sequence[tuple[RepoPath, Excluded]], now_ns: int
    ) -> None:
        """Note writes to what is not covered, and a gap for what is too large."""
        self.uncovered.saw(found for _, found in excluded)
        for path, found in excluded:
            # Its rule may be changed before a walk sees the file: nobody creates it then.
            if found.reason in (IGNORED, OWN_RULE) and self._is_unknown(path):
                self.uncovered.add(path)
        # Of untracked data, the whole is named once; one of its files says when it was written.
        places = {
            found.path if found.reason == UNTRACKED_DATA else path: (found.reason, path)
            for path, found in excluded
        }
        self._note([(place, *one) for place, one in places.items()], now_ns)
        for place, (why, _) in places.items():
            if why == TOO_LARGE:
                self.gap(TOO_LARGE, place)

    def _ctime_of(self, directory: RepoPath) -> int | None:
        look = self._ws.files.glance(directory)
        return look.stat.ctime_ns if look is not None else None


def _new_bytes(change: Change) -> int:
    """Return how many bytes of content a change brings that may have to be stored."""
    known = change.before is not None and change.before.version.oid == change.oid
    is_stored = change.after is None or change.stored or known
    return 0 if is_stored or change.after is None else len(change.after.data)
