"""The spool: payloads that no process could take when they came, and which of them are whose.

The worktrees of a repository share one directory. A payload for another worktree is renamed
after a while, so that it is read once and not at each barrier of this one.
Invariant: a file is deleted only when it was taken, or if no worktree is left that could take it.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import NamedTuple

from gitshadow.adapters import event_json, registry
from gitshadow.adapters.base import BadPayload, HookEvent
from gitshadow.adapters.generic import NAME as GENERIC
from gitshadow.attribution.delivery import (
    HookDelivery,
    Reach,
    format_body,
    parse_spool,
)
from gitshadow.attribution.intake import Intake
from gitshadow.attribution.process import ProcessId
from gitshadow.ipc import spool
from gitshadow.store.layout import MAIN_WORKTREE, Layout

FOREIGN_NS = 5_000_000_000
"""How long a payload for another worktree keeps the name that its hook waits for."""

_KEPT_ASIDE = 16
_MOST_DELIVERED = 1024
_JSON = ".json"
_ASIDE = ".refused"
_PART = ".part"
_FOR = ".for-"


class SpooledFile(NamedTuple):
    """One file of the spool; no delivery if it could not be read."""

    path: str
    delivery: HookDelivery | None
    at_ns: int = 0

    @property
    def is_addressed(self) -> bool:
        """Return whether the name has a worktree, which is then this one."""
        return _worktree_of(os.path.basename(self.path)) is not None


class LateEnd(NamedTuple):
    """The end of a call that came through the spool, and what it did to the journal."""

    event: HookEvent
    around: Reach
    done: Intake


@dataclass(slots=True)
class Spool:
    """Read the spool for one worktree; remember which of its files were taken.

    `ended` are ends of calls that were taken, until their writes are compared with the reports.
    """

    layout: Layout
    taken: dict[str, None] = field(default_factory=dict)
    ended: list[LateEnd] = field(default_factory=list)
    _delivered: dict[tuple[ProcessId | None, int], None] = field(default_factory=dict)

    def is_second(self, own: ProcessId | None, found: HookEvent | BadPayload) -> bool:
        """Return whether what a hook program reported was processed before.

        One that gets no answer in time leaves its payload here, and the daemon may still come to
        the request.
        """
        return _key_of(own, found) in self._delivered

    def note(self, own: ProcessId | None, found: HookEvent | BadPayload) -> None:
        """Remember that it was processed."""
        if own is not None:
            self._delivered[_key_of(own, found)] = None
            # Dictionaries keep the order of insertion.
            for old in list(self._delivered)[:-_MOST_DELIVERED]:
                del self._delivered[old]

    def waiting(self) -> list[SpooledFile]:
        """Return the files that are not known as taken or another worktree's, oldest first."""
        found = [self._read(path) for path in self._paths() if path not in self.taken]
        return sorted(found, key=lambda one: (one.at_ns, one.path))

    def pass_on(self, one: SpooledFile, worktree: str, now_ns: int) -> None:
        """Rename a payload for the worktree that it is for, unless its hook may still wait."""
        if now_ns - one.at_ns < FOREIGN_NS:
            return
        stem = os.path.basename(one.path).removesuffix(_JSON)
        pid = stem.rpartition("-")[2]
        name = _name_for(worktree, one.at_ns, pid)
        with suppress(FileNotFoundError):
            os.rename(one.path, os.path.join(self.layout.spool_dir, name))

    def set_aside(self, one: SpooledFile) -> str:
        """Rename a payload that cannot be processed, so that no verb reads it again."""
        aside = one.path + _ASIDE
        with suppress(FileNotFoundError):
            os.rename(one.path, aside)
        kept = sorted(name for name in self._names() if name.endswith(_ASIDE))
        for name in kept[:-_KEPT_ASIDE]:
            discard(os.path.join(self.layout.spool_dir, name))
        return aside

    def clear(self) -> int:
        """Delete the files that were processed, and return their number; hooks wait for it."""
        done = len(self.taken)
        for path in self.taken:
            discard(path)
        self.taken.clear()
        return done

    def _names(self) -> list[str]:
        return os.listdir(self.layout.spool_dir)

    def _paths(self) -> Iterator[str]:
        for name in sorted(self._names()):
            path = os.path.join(self.layout.spool_dir, name)
            worktree = _worktree_of(name)
            if not name.endswith(_JSON):
                continue
            if worktree in (None, self.layout.worktree):
                yield path
            # Nobody else reads the payloads of a worktree that was removed.
            elif worktree not in ("", MAIN_WORKTREE) and not os.path.isdir(
                f"{self.layout.common_dir}/worktrees/{worktree}"
            ):
                discard(path)

    def _read(self, path: str) -> SpooledFile:
        delivery = parse_spool(path)
        at_ns = 0 if delivery is None else delivery.at_ns or 0
        name = os.path.basename(path)
        stamp = name.partition("-")[0]
        # A rename changes the ctime of a file, so an addressed payload has its time in the name.
        if _worktree_of(name) is not None and stamp.isdecimal():
            at_ns = int(stamp)
            delivery = None if delivery is None else replace(delivery, at_ns=at_ns)
        return SpooledFile(path, delivery, at_ns)


def forward(layout: Layout, delivery: HookDelivery) -> None:
    """Leave a delivery in the spool of another worktree, with the time at which it came.

    Raises:
        OSError: it could not be written.
        StoreError: its spool is a link.
    """
    spool.write(
        layout,
        format_body(delivery),
        lambda ctime_ns: _free_name(layout, delivery.at_ns or ctime_ns),
    )


def clear_prompts(layout: Layout) -> None:
    """Take the prompts out of what waits, or was set aside; raises as `rewrite`."""
    for name in os.listdir(layout.spool_dir):
        path = os.path.join(layout.spool_dir, name)
        rewrite(layout, path, partial(spool.without_prompt, layout))


def rewrite(
    layout: Layout,
    path: str,
    change: Callable[[HookEvent | BadPayload], HookEvent | BadPayload],
) -> None:
    """Change what a payload reports that waits, or was set aside; name and time stay.

    One that cannot be read is deleted.

    Raises:
        OSError: the file could not be written.
        StoreError: the spool is a link.
    """
    name = os.path.basename(path)
    delivery = None if name.endswith(_PART) else parse_spool(path)
    event = None
    if delivery is not None:
        event = registry.parse(delivery.agent, delivery.payload, delivery.env)
    if delivery is None or event is None:
        discard(path)
        return
    told = event_json.document(change(event))
    with open(path, "rb") as handle:
        document = json.load(handle)
    if document["payload"] != told:
        # The file is a new one, so its ctime says no longer when the payload came.
        found = {"agent": event_json.NAME, "payload": told, "at_ns": delivery.at_ns}
        spool.put(layout, document | found, lambda _: name)


def _free_name(layout: Layout, at_ns: int) -> str:
    """Return a name for the other worktree that no file has; the clock is coarse."""
    pids = count(os.getpid())
    names = (_name_for(layout.worktree, at_ns, str(pid)) for pid in pids)
    return next(
        name
        for name in names
        if not os.path.lexists(os.path.join(layout.spool_dir, name))
    )


def _name_for(worktree: str, at_ns: int, pid: str) -> str:
    """Return the name of a payload for one worktree that came at a moment."""
    return f"{at_ns}-{pid}{_FOR}{worktree}{_JSON}"


def discard(path: str) -> None:
    """Delete a payload; another worktree's process may have done it already."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def _worktree_of(name: str) -> str | None:
    """Return the worktree in a file's name, None if there is none."""
    _, found, worktree = name.removesuffix(_JSON).partition(_FOR)
    return worktree if found else None


def _key_of(
    own: ProcessId | None, found: HookEvent | BadPayload
) -> tuple[ProcessId | None, int]:
    """Return what no other payload has."""
    # A hook program delivers one payload. A program of the SDK delivers all of its own.
    is_program = isinstance(found, HookEvent) and found.host == GENERIC
    return own, hash(found) if is_program else 0
