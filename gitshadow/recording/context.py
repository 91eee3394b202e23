"""Wire one workspace and its workers, and the journals of other machines stored with it.

claimant → pipeline → walker → observer. Verbs and hooks get the context and use what they need.
Invariant: one thread, one context. Nothing is recorded in the journal of another machine, and
nothing from it is treated as ours.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from gitshadow.errors import UsageError
from gitshadow.model import Actor, RepoPath
from gitshadow.recording.agent_processes import AgentProcesses
from gitshadow.recording.attributor import Claimant
from gitshadow.recording.commit_window import CommitWindow
from gitshadow.recording.observer import Observer, StillObserver
from gitshadow.recording.pipeline import Pipeline
from gitshadow.recording.spool import Spool
from gitshadow.recording.walker import Walker
from gitshadow.recording.workspace import Workspace, open_workspace
from gitshadow.store.disk import LooseObjects
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout, machine_layout, machines

_LOOK_LOCK_S = 10.0
_NUMBERED = re.compile(r"([0-9a-f]{4,12}):([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class RecorderContext:
    """One opened worktree: its workspace and its workers."""

    workspace: Workspace
    claimant: Claimant
    commits: CommitWindow
    pipeline: Pipeline
    walker: Walker
    observer: Observer
    spool: Spool
    others: "Others"
    loose: LooseObjects

    @property
    def processes(self) -> AgentProcesses:
        """Return what is known of the processes of agents."""
        return self.claimant.processes

    def hold_present(self) -> None:
        """Publish the files on disk if no ref contains them: call it before a write."""
        # That is so after `prune` has dropped all sessions. The first write after it could not be
        # undone, because its earlier content would be nowhere.
        if self.workspace.states.apart:
            unknown = self.claimant.personal(Actor.UNKNOWN)
            self.workspace.recorder.ensure_baseline(unknown, synced=True)

    def close(self) -> None:
        """Close the workspace and the journals of other machines."""
        self.others.close()
        self.processes.close()
        self.workspace.close()


class Others:
    """Open the journals of other machines whose history was fetched, to read them.

    Nothing is recorded in them. `close` closes every journal that was opened.
    """

    def __init__(self, layout: Layout, environ: Mapping[str, str]) -> None:
        self._layout = layout
        self._environ = environ
        self._machines: list[str] | None = None
        self._contexts: dict[str, RecorderContext] = {}
        self._wrote: dict[tuple[str, RepoPath], bool] = {}

    def close(self) -> None:
        """Close the open journals; the next question opens them again."""
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

    def context(self, machine: str) -> RecorderContext:
        """Return the context on a machine's journal, opened at the first call."""
        if machine not in self._contexts:
            place = machine_layout(self._layout, machine)
            opened = open_context(place, self._environ, lock_timeout_s=_LOOK_LOCK_S)
            still = StillObserver(opened.workspace, opened.pipeline, opened.walker)
            self._contexts[machine] = replace(opened, observer=still)
        return self._contexts[machine]

    def contexts(self) -> Iterator[tuple[str, RecorderContext]]:
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
        with closing(Db.open(place.journal, create=False)) as db:
            yield db


def open_context(
    layout: Layout, environ: Mapping[str, str], *, lock_timeout_s: float
) -> RecorderContext:
    """Open a worktree and wire its workers; errors as `open_workspace`."""
    workspace = open_workspace(layout, environ, lock_timeout_s=lock_timeout_s)
    return wire(workspace, Claimant(workspace))


def wire(workspace: Workspace, claimant: Claimant) -> RecorderContext:
    """Wire the workers of an opened worktree to who finds the authors of writes."""
    layout = workspace.layout
    commits = CommitWindow(layout)
    pipeline = Pipeline(workspace, claimant, commits)
    walker = Walker(workspace, pipeline)
    observer = Observer(workspace, pipeline, walker)
    spool = Spool(layout)
    others = Others(layout, workspace.environ)
    return RecorderContext(
        workspace=workspace,
        claimant=claimant,
        commits=commits,
        pipeline=pipeline,
        walker=walker,
        observer=observer,
        spool=spool,
        others=others,
        loose=LooseObjects(layout.objects_dir),
    )
