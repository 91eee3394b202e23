"""The history of one session in memory: events, and what they set by key and by artifact.

Invariant: nothing is taken out or changed, so any moment can be asked for.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from gitshadow.store.journal.saga_rows import NewEvent, SessionEvent


@dataclass(slots=True)
class ValueHistory:
    """Hold what one key, or one artifact, was set to: event numbers and values, oldest first."""

    seqs: list[int] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)

    def before(self, seq: int | None) -> str | None:
        """Return the value before an event (None: now)."""
        found = self.number_before(seq)
        return None if found is None else self.values[found]

    def number_before(self, seq: int | None) -> int | None:
        """Return the index of that value; None where there was none."""
        known = [n for n, at in enumerate(self.seqs) if seq is None or at < seq]
        return known[-1] if known else None

    def since(self, seq: int) -> bool:
        """Tell whether anything was set from an event on."""
        return bool(self.seqs) and self.seqs[-1] >= seq


@dataclass(slots=True)
class SessionEvents:
    """Hold the events of one session, and what they set by key and by artifact."""

    events: list[SessionEvent] = field(default_factory=list)
    state: dict[str, ValueHistory] = field(
        default_factory=lambda: defaultdict(ValueHistory)
    )
    files: dict[str, ValueHistory] = field(
        default_factory=lambda: defaultdict(ValueHistory)
    )

    def add(self, event: NewEvent) -> None:
        """Add an event with its number, values and versions."""
        seq = len(self.events)
        self.events.append(
            SessionEvent(
                session=event.session,
                seq=seq,
                invocation=event.invocation,
                author=event.author,
                kind=event.kind,
                ts_ns=event.ts_ns,
                text=event.text,
                body=event.body,
            )
        )
        for changes, values in (
            (self.state, event.delta),
            (self.files, event.artifacts),
        ):
            for name, value in values.items():
                changes[name].seqs.append(seq)
                changes[name].values.append(value)
