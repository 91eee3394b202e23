"""Lines that came in a commit from elsewhere: who wrote them, by the history of other machines.

Invariant: asked only where Git names a commit and nothing here tells more; an answer is a write
that was recorded on that machine.
"""

from collections.abc import Mapping

from gitshadow.blame.file_blame import BlameRequest, Blaming
from gitshadow.blame.owners import Origin, OriginSource
from gitshadow.errors import StoreError, UsageError
from gitshadow.model import Event, Oid, RepoPath
from gitshadow.recording.context import Others


class Foreign:
    """Ask the machines of which anything was fetched."""

    def __init__(self, others: Others) -> None:
        self._others = others
        self._lines: dict[tuple[str, Oid, RepoPath], Mapping[int, Origin]] = {}
        self._machines: dict[int, tuple[Event, str]] = {}

    def event(self, origin: Origin) -> Event | None:
        """Return the recorded write that brought a line of a commit; None for none known."""
        return self._asked(origin, frozenset())

    def machine(self, event: Event) -> str | None:
        """Return where a write was recorded; None for here."""
        found = self._machines.get(id(event))
        return None if found is None else found[1]

    def _asked(self, origin: Origin, asked: frozenset[str]) -> Event | None:
        """Ask each machine once; what one has of another, as a commit too, is asked there."""
        owner = origin.owner
        if owner.source is not OriginSource.COMMIT or owner.commit is None:
            return None
        for machine in self._others.who_wrote(owner.path):
            if machine in asked:
                continue
            theirs = self._of(machine, owner.commit, owner.path).get(origin.line)
            if theirs is None:
                continue
            if (
                theirs.owner.source is OriginSource.EVENT
                and theirs.owner.event is not None
            ):
                event = theirs.owner.event
                self._machines[id(event)] = event, machine
                return event
            found = self._asked(theirs, asked | {machine})
            if found is not None:
                return found
        return None

    def _of(self, machine: str, commit: Oid, path: RepoPath) -> Mapping[int, Origin]:
        key = machine, commit, path
        if key not in self._lines:
            context = self._others.context(machine)
            try:
                vector = (
                    Blaming(context, BlameRequest(path=path, commit=commit))
                    .answer()
                    .vector
                )
            except (StoreError, UsageError):
                vector = []
            self._lines[key] = dict(enumerate(vector, 1))
        return self._lines[key]
