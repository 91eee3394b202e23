"""What is to be forgotten: whole units by age, number and size, oldest first. Pure.

A unit is a session with its subagents, or an agent program's session of which no files are known.
Invariant: never one that is open, nor one in whose time something was pinned, unless everything is
to go; never a part of one; never one whose chains hold the commits of rows of one that stays.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gitshadow.attribution.lifecycle import is_current
from gitshadow.model import Session
from gitshadow.store.journal.pins import Pin

Program = tuple[int, int, bool]


class RetentionUnit(NamedTuple):
    """Sessions and agent programs that are dropped together, and their first and last time.

    `is_kept` stands for one in whose time something was pinned, and for the person's present one.
    `owners` are sessions of other units of whose rows its chains hold the commits.
    """

    ids: tuple[str, ...]
    programs: tuple[str, ...]
    started_ns: int
    last_ns: int
    is_open: bool
    is_kept: bool = False
    owners: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the id that represents it."""
        return (*self.ids, *self.programs)[0]


class RetentionLimits(NamedTuple):
    """What is kept; None for no limit."""

    age_ns: int | None = None
    most: int | None = None
    size_bytes: int | None = None


def units(
    known: Sequence[Session],
    programs: Mapping[str, Program],
    pins: Sequence[Pin],
    now_ns: int,
    held: Iterable[tuple[str, str]] = (),
) -> list[RetentionUnit]:
    """Return what there is, oldest last write first.

    Args:
        known: The recorded sessions.
        programs: The sessions of agent programs.
        pins: What was pinned.
        now_ns: The present.
        held: Pairs of sessions: a chain of the first holds commits of rows that are the second's.
            The first lasts as long as the second does, and comes after it.
    """
    by_id = {one.id: one for one in known}
    families: dict[str, list[Session]] = {}
    for one in known:
        families.setdefault(_eldest(one, by_id).id, []).append(one)
    made = {name: _unit(one, programs, pins, now_ns) for name, one in families.items()}
    told = {name for unit in made.values() for name in unit.programs}
    eldest = {one.id: name for name, family in families.items() for one in family}
    held = [(eldest[a], eldest[b]) for a, b in held if a in eldest and b in eldest]
    ranked = [*_joined(made, _reached(made, held))]
    ranked += [
        (0, RetentionUnit((), (name,), begun, last, at_work))
        for name, (begun, last, at_work) in programs.items()
        if name not in told
    ]
    ranked.sort(key=lambda one: (one[1].last_ns, one[0], one[1].name))
    return [unit for _, unit in ranked]


def _reached(
    names: Iterable[str], held: Sequence[tuple[str, str]]
) -> dict[str, frozenset[str]]:
    """Return what must not outlive each family: itself, and all that leads on from `held`."""
    direct: dict[str, set[str]] = {}
    for holder, owner in held:
        direct.setdefault(holder, set()).add(owner)
    reached: dict[str, frozenset[str]] = {}
    for name in names:
        seen, left = {name}, [name]
        while left:
            fresh = direct.get(left.pop(), set()) - seen
            seen |= fresh
            left += fresh
        reached[name] = frozenset(seen)
    return reached


def _joined(
    made: Mapping[str, RetentionUnit], reached: Mapping[str, frozenset[str]]
) -> Iterator[tuple[int, RetentionUnit]]:
    """Yield units with how many each needs; those that need each other are one.

    Every family reaches itself, so two that reach the same reach each other.
    """
    groups: dict[frozenset[str], list[RetentionUnit]] = {}
    for name, unit in made.items():
        groups.setdefault(reached[name], []).append(unit)
    for names, group in groups.items():
        group.sort(key=lambda unit: (unit.started_ns, unit.name))
        ids = tuple(one for unit in group for one in unit.ids)
        others = [made[name] for name in names]
        unit = RetentionUnit(
            ids=ids,
            programs=tuple(sorted({one for unit in group for one in unit.programs})),
            started_ns=group[0].started_ns,
            last_ns=max(unit.last_ns for unit in others),
            is_open=any(unit.is_open for unit in group),
            is_kept=any(unit.is_kept for unit in group),
            owners=frozenset(one for unit in others for one in unit.ids) - {*ids},
        )
        yield len(names), unit


def everything(found: Sequence[RetentionUnit]) -> list[RetentionUnit]:
    """Return all that may go at all, if that is what somebody wants."""
    return _without(found, [unit for unit in found if unit.is_open])


def _without(
    found: Sequence[RetentionUnit], staying: Collection[RetentionUnit]
) -> list[RetentionUnit]:
    """Return units, but none that stays or that one of these needs."""
    ids = {one for unit in staying for one in unit.ids}
    out = set(staying)
    return [unit for unit in found if unit not in out and ids.isdisjoint(unit.owners)]


def needed(staying: Sequence[RetentionUnit]) -> int:
    """Return how many units stay only because an open or a kept one needs them."""
    fixed = [unit for unit in staying if unit.is_open or unit.is_kept]
    return len(staying) - len(fixed) - len(_without(staying, fixed))


class Weigher(Protocol):
    """Measure the disk usage of the history."""

    def total(self) -> int:
        """Return the bytes that all of it takes."""
        ...

    def frees(self, going: Sequence[RetentionUnit]) -> Iterator[int]:
        """Yield the bytes that each unit frees when it goes after those before it."""
        ...


def beyond(
    found: Sequence[RetentionUnit],
    limits: RetentionLimits,
    now_ns: int,
    scales: Weigher,
) -> list[RetentionUnit]:
    """Return what the limits leave no room for, oldest first; `found` is in that order too."""
    free = _without(found, [unit for unit in found if unit.is_open or unit.is_kept])
    going = []
    if limits.age_ns is not None:
        going = [unit for unit in free if now_ns - unit.last_ns >= limits.age_ns]
    if limits.most is not None:
        over = len(found) - limits.most
        # Both limits count, so the larger number of the oldest units goes.
        going = free[: max(len(going), over)]
    if limits.size_bytes is None:
        return going
    total = scales.total()
    if total <= limits.size_bytes:
        return going
    # What the other limits take is weighed as well, because its space is freed before.
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
) -> RetentionUnit:
    ordered = sorted(family, key=lambda one: (one.started_ns, one.id))
    started = ordered[0].started_ns
    last = max(max(s.started_ns, s.last_seen_ns or 0, s.ended_ns or 0) for s in family)
    own = sorted({s.native_id for s in family if s.agent} & programs.keys())
    at_work = any(programs[name][2] for name in own)
    return RetentionUnit(
        tuple(one.id for one in ordered),
        tuple(own),
        started,
        last,
        # A session that has not ended may still write, so no limit takes it.
        at_work or any(one.agent and one.ended_ns is None for one in family),
        any(started <= pin.ts_ns <= last for pin in pins)
        or any(one.agent is None and is_current(one, now_ns) for one in family),
    )
