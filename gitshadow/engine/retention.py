"""What is to be forgotten: whole units by age, number and size, oldest first. Pure.

A unit is a session with its subagents, or an agent program's session of which no files are known.
Invariant: never one that is open, nor one in whose time something was pinned, unless everything is
to go; never a part of one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gitshadow.attribution.personal import is_current
from gitshadow.model import Session
from gitshadow.store.journal.pins import Pin

Program = tuple[int, int, bool]


class Unit(NamedTuple):
    """Hold what goes together: recorded sessions, agent programs, and from when till when.

    `is_kept` stands for one in whose time something was pinned, and for the person's present one.
    """

    ids: tuple[str, ...]
    programs: tuple[str, ...]
    started_ns: int
    last_ns: int
    is_open: bool
    is_kept: bool = False

    @property
    def name(self) -> str:
        """Return the id that stands for it."""
        return (*self.ids, *self.programs)[0]


class Limits(NamedTuple):
    """Hold what is kept; None for no limit."""

    age_ns: int | None = None
    most: int | None = None
    size_bytes: int | None = None


def units(
    known: Sequence[Session],
    programs: Mapping[str, Program],
    pins: Sequence[Pin],
    now_ns: int,
) -> list[Unit]:
    """Return what there is, oldest last write first."""
    by_id = {one.id: one for one in known}
    families: dict[str, list[Session]] = {}
    for one in known:
        families.setdefault(_eldest(one, by_id).id, []).append(one)
    found = [_unit(family, programs, pins, now_ns) for family in families.values()]
    told = {name for unit in found for name in unit.programs}
    found += [
        Unit((), (name,), begun, last, at_work)
        for name, (begun, last, at_work) in programs.items()
        if name not in told
    ]
    return sorted(found, key=lambda unit: (unit.last_ns, unit.name))


def everything(found: Sequence[Unit]) -> list[Unit]:
    """Return all that may go at all, if that is what somebody wants."""
    return [unit for unit in found if not unit.is_open]


class Weigher(Protocol):
    """Know what the history takes on disk."""

    def total(self) -> int:
        """Return the bytes that all of it takes."""
        ...

    def frees(self, going: Sequence[Unit]) -> Iterator[int]:
        """Yield the bytes that each unit frees when it goes after those before it."""
        ...


def beyond(
    found: Sequence[Unit], limits: Limits, now_ns: int, scales: Weigher
) -> list[Unit]:
    """Return what the limits leave no room for, oldest first; `found` is in that order too."""
    free = [unit for unit in found if not (unit.is_open or unit.is_kept)]
    going = []
    if limits.age_ns is not None:
        going = [unit for unit in free if now_ns - unit.last_ns >= limits.age_ns]
    if limits.most is not None:
        over = len(found) - limits.most
        going = free[: max(len(going), over)]
    if limits.size_bytes is None:
        return going
    total = scales.total()
    if total <= limits.size_bytes:
        return going
    for at, size in enumerate(scales.frees(free)):
        if at >= len(going):
            if total <= limits.size_bytes:
                break
            going.append(free[at])
        total -= size
    return going


def _eldest(session: Session, by_id: Mapping[str, Session]) -> Session:
    seen = {session.id}
    above = by_id.get(session.parent or "")
    while above is not None and above.id not in seen:
        session = above
        seen.add(session.id)
        above = by_id.get(session.parent or "")
    return session


def _unit(
    family: Sequence[Session],
    programs: Mapping[str, Program],
    pins: Sequence[Pin],
    now_ns: int,
) -> Unit:
    ordered = sorted(family, key=lambda one: (one.started_ns, one.id))
    started = ordered[0].started_ns
    last = max(max(s.started_ns, s.last_seen_ns or 0, s.ended_ns or 0) for s in family)
    own = sorted({s.native_id for s in family if s.agent} & programs.keys())
    at_work = any(programs[name][2] for name in own)
    return Unit(
        tuple(one.id for one in ordered),
        tuple(own),
        started,
        last,
        at_work or any(one.agent and one.ended_ns is None for one in family),
        any(started <= pin.ts_ns <= last for pin in pins)
        or any(one.agent is None and is_current(one, now_ns) for one in family),
    )
