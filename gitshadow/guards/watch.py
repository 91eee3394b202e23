"""Look at what was recorded since the last look, and alert a person once per turn and kind.

The daemon calls it after its other work, so no hook waits for it. A first look begins at the newest
row: what happened before the daemon started raises no alert.
Invariant: a text names a path only in Git's quoting, so it has no control characters.
"""

import os
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitshadow.adapters.base import HookEvent, HookPhase
from gitshadow.attribution.delivery import reach
from gitshadow.attribution.process import ProcessId
from gitshadow.capture.patterns import RuleList, parse_patterns
from gitshadow.guards.outlets import Outlet
from gitshadow.model import Actor, PathChange, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import alerts, events, sessions, turns
from gitshadow.store.journal.alerts import Alert
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.paths import inside
from gitshadow.store.refs import display_path
from gitshadow.undo.targets import is_agents, is_undoable, root_of
from gitshadow.words import counted

_PAGE = 2_000
_MOST_TURNS = 64
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/dev")
_Key = tuple[str, str]


class GuardLimits(NamedTuple):
    """What is allowed without an alert: so many deletions per turn, and no path of these."""

    deletes: int
    protected: RuleList


@dataclass(slots=True)
class TurnRecord:
    """What one turn did so far that could be alarming."""

    deleted: set[RepoPath] = field(default_factory=set)
    protected: dict[RepoPath, None] = field(default_factory=dict)
    outside: dict[bytes, None] = field(default_factory=dict)

    def add(self, row: PathChange, limits: GuardLimits) -> None:
        """Note one change of the turn."""
        if row.after is None:
            self.deleted.add(row.path)
        else:
            self.deleted.discard(row.path)
        if row.old_path is not None and row.old_path != row.path:
            self.deleted.discard(row.old_path)
        for path in (row.path, row.old_path):
            if path is not None and is_protected(path, limits.protected):
                self.protected[path] = None

    def alerts(self, limits: GuardLimits) -> Iterable[tuple[str, str]]:
        """Yield kind and text of each alert that the turn deserves."""
        if len(self.deleted) > limits.deletes:
            yield "deletes", f"deleted {counted(len(self.deleted), 'file')}"
        if self.protected:
            yield "protected", _named("changed a protected path", list(self.protected))
        if self.outside:
            yield "outside", _named("wrote outside the repository", list(self.outside))


@dataclass(slots=True)
class Guard:
    """The guard of one worktree."""

    context: RecorderContext
    outlets: Sequence[Outlet]
    _seen: int = field(init=False)
    _turns: dict[_Key, TurnRecord] = field(default_factory=dict)
    _dirty: set[_Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._seen = events.last_seq(self.context.workspace.db)

    def saw(self, event: HookEvent, session: str, turn: str | None) -> None:
        """Note what a hook says of writes outside of the repository; nothing is read."""
        if event.phase is not HookPhase.AFTER or not event.paths:
            return
        root = self.context.workspace.layout.root
        # Through links and in any spelling: an agent may name the worktree by another path.
        others = reach(event, root).other_paths
        top = os.fsencode(root)
        outside = [one for one in others if one != top and inside(one, top) is None]
        tops = (*TEMPORARY, tempfile.gettempdir())
        found = alarming_outside(outside, {*tops, *map(os.path.realpath, tops)})
        if found and self.context.workspace.config.alerts:
            key = self._key(session, turn or "")
            self._record(key).outside.update(dict.fromkeys(found))

    def tick(self) -> None:
        """Look at some new changes, and alert; the next call continues where this one ends."""
        config, db = self.context.workspace.config, self.context.workspace.db
        newest = events.last_seq(db)
        if not config.alerts:
            self._seen = newest
            self._dirty.clear()
            return
        if self._seen >= newest and not self._dirty:
            return
        folds = self.context.workspace.coverage.folds
        protected = parse_patterns(config.protect, folds=folds)
        limits = GuardLimits(config.alert_deletes, protected)
        self._read(newest, limits)
        dirty, self._dirty = self._dirty, set()
        for key in dirty:
            for kind, text in self._turns[key].alerts(limits):
                self._alert(key, kind, text)
        while len(self._turns) > _MOST_TURNS:
            self._turns.pop(next(iter(self._turns)))

    def _read(self, newest: int, limits: GuardLimits) -> None:
        """Read one page of new rows: hooks wait for this thread, so it must not take long."""
        ws = self.context.workspace
        wanted = EventFilter(
            after_seq=self._seen, limit=_PAGE, worktree=ws.layout.worktree
        )
        rows = events.rows(ws.db, wanted)
        keys: dict[_Key, _Key] = {}
        for row in sorted(rows, key=lambda one: one.seq):
            if not is_undoable(row) or row.op is not None or not is_agents(row):
                continue
            own = row.attribution.session or "", row.attribution.turn or ""
            if own not in keys:
                keys[own] = self._key(*own)
            self._record(keys[own]).add(row, limits)
        is_all = len(rows) < _PAGE
        self._seen = newest if is_all else max(row.seq for row in rows)

    def _key(self, session: str, turn: str) -> _Key:
        """Return the turn that a person knows: a subagent's is its parent's."""
        root = root_of(self.context.workspace.db, session)
        return root, turn if root == session else turn.split("/", 1)[0]

    def _record(self, key: _Key) -> TurnRecord:
        self._dirty.add(key)
        return self._turns.setdefault(key, TurnRecord())

    def _alert(self, key: _Key, kind: str, text: str) -> None:
        ws, (name, turn) = self.context.workspace, key
        session = sessions.get(ws.db, name)
        if session is None or session.actor is not Actor.AGENT:
            return
        agent = session.agent or "an agent"
        is_new = alerts.put(
            ws.db, Alert(kind, ws.clock.now_ns(), name, agent, turn, text)
        )
        if not is_new:
            return
        known = turns.get_turn(ws.db, name, turn) if turn else None
        short = f" ({known.short_id})" if known is not None and known.short_id else ""
        process = None
        if session.pid is not None and session.pid_started is not None:
            process = ProcessId(session.pid, session.pid_started)
        for outlet in self.outlets:
            outlet.show(f"{agent} {text}{short}", process)


def is_protected(path: bytes, rules: RuleList) -> bool:
    """Return whether a path, or a directory above it, is protected."""
    parts = path.split(b"/")
    for depth in range(len(parts), 0, -1):
        rule = rules.decide(b"/".join(parts[:depth]), is_dir=depth < len(parts))
        if rule is not None:
            return not rule.negated
    return False


def alarming_outside(paths: Iterable[bytes], temporary: Collection[str]) -> list[bytes]:
    """Return the absolute paths that are not in a directory for temporary files."""
    tops = [os.fsencode(top) for top in temporary]
    return [
        path
        for path in paths
        if not any(path == top or path.startswith(top + b"/") for top in tops)
    ]


def _named(what: str, paths: Sequence[bytes]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{what}: {display_path(RepoPath(paths[0]))}{more}"
