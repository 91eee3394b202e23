"""The journals of other machines, opened to look at: what was fetched, and whose it is.

Invariant: nothing is recorded in them, and nothing of them is taken for ours.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from gitshadow.errors import UsageError
from gitshadow.model import RepoPath
from gitshadow.recording.workspace import Workspace
from gitshadow.store import refs
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout, machine_layout, machines

_NUMBERED = re.compile(r"([0-9a-f]{4,12}):([0-9]{1,18})")


class Opened(Protocol):
    """The journal of another machine, opened to read it."""

    @property
    def workspace(self) -> Workspace:
        """Return the workspace on that journal."""

    def close(self) -> None:
        """Close the journal."""


D = TypeVar("D", bound=Opened)


class Others(Generic[D]):
    """The machines whose history is stored here; `close` closes what was opened.

    `opener` opens the journal of one of them, so that this module does not import who wires one.
    """

    def __init__(self, layout: Layout, opener: Callable[[Layout], D]) -> None:
        self._layout = layout
        self._opener = opener
        self._machines: list[str] | None = None
        self._contexts: dict[str, D] = {}
        self._wrote: dict[tuple[str, RepoPath], bool] = {}

    def close(self) -> None:
        """Close what was opened; the next question looks anew."""
        for context in self._contexts.values():
            context.close()
        self._contexts.clear()
        self._wrote.clear()
        self._machines = None

    def machines(self) -> list[str]:
        """Return the machines of which anything was fetched, sorted."""
        if self._machines is None:
            self._machines = machines(self._layout)
        return self._machines

    def context(self, machine: str) -> D:
        """Return the context on a machine's journal; whoever asked first pays for opening it."""
        if machine not in self._contexts:
            place = machine_layout(self._layout, machine)
            self._contexts[machine] = self._opener(place)
        return self._contexts[machine]

    def contexts(self) -> Iterator[tuple[str, D]]:
        """Yield every machine and its context."""
        for machine in self.machines():
            yield machine, self.context(machine)

    def who_wrote(self, path: RepoPath) -> list[str]:
        """Return the machines on which anything at a path was recorded."""
        return [one for one in self.machines() if self._has(one, path)]

    def numbered(self, typed: str) -> tuple[str, str] | None:
        """Return machine and number of an event's id as it is shown (`3f2a9c:17`).

        Raises:
            UsageError: several machines begin so.
        """
        match = _NUMBERED.fullmatch(typed)
        if match is None:
            return None
        found = [one for one in self.machines() if one.startswith(match[1])]
        if len(found) > 1:
            raise UsageError(
                f"ambiguous event {typed}: it matches {len(found)} machines"
            )
        return (found[0], match[2]) if found else None

    def _has(self, machine: str, path: RepoPath) -> bool:
        key = machine, path
        if key not in self._wrote:
            with self._journal(machine) as db:
                self._wrote[key] = events.is_written(db, path)
        return self._wrote[key]

    @contextmanager
    def _journal(self, machine: str) -> Iterator[Db]:
        if machine in self._contexts:
            yield self._contexts[machine].workspace.db
            return
        place = machine_layout(self._layout, machine)
        db = Db.open(place.journal, create=False)
        try:
            yield db
        finally:
            db.close()


def marked(document: Mapping[str, object], machine: str) -> dict[str, object]:
    """Return a document about another machine's history that says so, in every row too."""
    rows = document.get("rows")
    done = {**document, "machine": machine}
    if isinstance(rows, list):
        done["rows"] = [_marked_row(row, machine) for row in rows]
    return _with_ref(done)


def _marked_row(row: object, machine: str) -> object:
    return _with_ref({**row, "machine": machine}) if isinstance(row, dict) else row


def _with_ref(row: dict[str, object]) -> dict[str, object]:
    ref = row.get("ref")
    return {**row, "ref": local_ref(ref)} if isinstance(ref, str) else row


def local_ref(ref: str) -> str:
    """Return the name that another machine's ref has in this repository."""
    return refs.fetched_ref(ref) if refs.is_chain(ref) else ref
