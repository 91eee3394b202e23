"""The result of a proof that a script can be rolled back: a finding per step, as readable text.

Invariant: frozen; a proof is good only if each step was observed to change the state, and to be
undone as its tool declares.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, takewhile
from operator import eq

_SHOWN = 5
_AROUND = 20
_WIDTH = 60


class Finding(StrEnum):
    """The finding about a step's inverse: four are as declared, the others are flaws."""

    REVERSED = "reversed"
    COMPENSATED = "compensated"
    STAYS = "stays"
    NO_EFFECT = "no_effect"
    LIES = "lies"
    RESIDUE = "residue"
    NOT_IDEMPOTENT = "not_idempotent"
    ORDER = "order"
    IMPURE = "impure"
    FAILS = "fails"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A difference from the declaration; `when` names the trial that found it."""

    finding: Finding
    when: str
    detail: str


@dataclass(frozen=True, slots=True)
class StepProof:
    """The findings about one step, counted from 1.

    `proven` is the observed result of its rollback; `said` names a residue or a follow-up.
    """

    number: int
    tool: str
    proven: Finding
    said: str | None = None
    flaws: tuple[Flaw, ...] = ()

    @property
    def finding(self) -> Finding:
        """Return the first flaw, or `proven` if there is none."""
        return self.flaws[0].finding if self.flaws else self.proven

    def lines(self) -> Iterator[str]:
        """Return the step for people: one line, and one for each flaw."""
        word = self.finding.upper() if self.flaws else self.finding.value
        said = f": {self.said}" if self.said and not self.flaws else ""
        yield f"  step {self.number} {self.tool}: {word}{said}"
        for flaw in self.flaws:
            yield f"    {flaw.finding.upper()}, {flaw.when}: {flaw.detail}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The findings about a script; `notes` name the parts that could not be proven."""

    steps: tuple[StepProof, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no step has a flaw."""
        return not any(step.flaws for step in self.steps)

    @property
    def findings(self) -> list[Finding]:
        """Return the finding of each step."""
        return [step.finding for step in self.steps]

    def without(self, *accepted: Finding) -> "Proof":
        """Return the proof without these flaws."""
        steps = (
            replace(
                step,
                flaws=tuple(f for f in step.flaws if f.finding not in accepted),
            )
            for step in self.steps
        )
        return replace(self, steps=tuple(steps))

    def render(self) -> str:
        """Return the proof for people: `assert proof.ok, proof` shows it."""
        flawed = sum(bool(step.flaws) for step in self.steps)
        lines = [f"rollback of {len(self.steps)} steps: {flawed} flawed"]
        for step in self.steps:
            lines += step.lines()
        lines += [f"  not proven: {note}" for note in self.notes]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


def difference(before: object, after: object) -> str:
    """Return the first few differences of two observations as text."""
    found = _differences(before, after, "")
    shown = list(islice(found, _SHOWN))
    more = sum(1 for _ in found)
    return "; ".join([*shown, f"and {more} more"] if more else shown)


def _differences(before: object, after: object, place: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = dict.fromkeys([*before, *after])
        yield from _parts(before, after, keys, place)
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        keys = dict.fromkeys(range(max(len(before), len(after))))
        yield from _parts(dict(enumerate(before)), dict(enumerate(after)), keys, place)
    else:
        was, now = _cut(before, after)
        yield f"{place or 'the world'} was {was}, is {now}"


def _parts(
    before: Mapping[object, object],
    after: Mapping[object, object],
    keys: Iterable[object],
    place: str,
) -> Iterator[str]:
    for key in keys:
        inner = f"{place}.{key}" if place else str(key)
        if key not in before:
            yield f"{inner} is new: {_short(after[key])}"
        elif key not in after:
            yield f"{inner} is missing: {_short(before[key])}"
        else:
            yield from _differences(before[key], after[key], inner)


def _cut(before: object, after: object) -> tuple[str, str]:
    """Return two values as short texts; long ones from just before their first difference."""
    if not (isinstance(before, str | bytes) and isinstance(after, str | bytes)):
        return _short(before), _short(after)
    same = sum(1 for _ in takewhile(bool, map(eq, before, after)))
    first = max(0, same - _AROUND)
    return _short(before[first:]), _short(after[first:])


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
