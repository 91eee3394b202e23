"""Which writes a session cannot have made, with a real process that ran but wrote nothing."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitshadow.attribution.native_ids import ProcessMarks
from gitshadow.attribution.process import process_of, process_start
from gitshadow.attribution.windows import Scene
from gitshadow.capture.drafts import Draft
from gitshadow.model import (
    Actor,
    Call,
    EventKind,
    FileState,
    FileVersion,
    RepoPath,
    Session,
    StatKey,
    ToolClass,
)
from gitshadow.platform.linux.processes import ProcFiles
from gitshadow.platform.port import FileSystem
from gitshadow.recording.activity import AgentActivity
from gitshadow.recording.workspace import Workspace
from tests.support.context import desk_of
from tests.support.repo import Repo
from tests.support.waiting import until

TEXT = b"by a person\n" * 40
_TICK_NS = 1_000
CALL = frozenset({("s", "call")})


@contextmanager
def agent() -> Iterator["subprocess.Popen[bytes]"]:
    """Start a shell that runs a program for each line, and writes nothing."""
    words = ["/bin/sh", "-c", "while read line; do /bin/true; echo >&2; done"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("path", ["there", "gone"])
def test_agent_that_wrote_too_little_is_excluded_also_when_the_file_is_gone(
    repo: Repo, path: str
) -> None:
    """A temporary file may have been renamed before its row is judged."""
    repo.write("there", TEXT)
    with desk_of(repo) as context, agent() as process:
        ws = context.workspace
        session = session_of(process)
        evidence = AgentActivity(ws, ProcessMarks())
        evidence.watch(process_of(session))
        evidence.begin_barrier(())
        evidence.take(())
        run_a_program(process)
        assert evidence.excluded(draft_of(ws, path), scene_of(session)) == CALL


@pytest.mark.parametrize("ticks", [0, 1])
def test_a_file_that_may_have_been_made_elsewhere_needs_no_bytes(
    repo: Repo, ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where stamps are coarse, it may be older than the last look at its path."""
    repo.write("there", TEXT)
    with desk_of(repo) as context, agent() as process:
        ws, session = context.workspace, session_of(process)
        evidence = AgentActivity(ws, ProcessMarks())
        evidence.watch(process_of(session))
        evidence.begin_barrier(())
        evidence.take(())
        run_a_program(process)
        draft = draft_of(ws, "there")
        monkeypatch.setattr(type(ws.clock), "tolerance_ns", _TICK_NS)
        draft = draft._replace(begin_ns=draft.end_ns - ticks * _TICK_NS)
        excluded = evidence.excluded(draft, scene_of(session))
        assert excluded == (CALL if ticks else frozenset())


@pytest.mark.linux  # only its counters show that the shell slept
def test_a_file_may_be_gone_since_a_later_moment_than_its_event(repo: Repo) -> None:
    """An event may be of a change that is recorded already; the next one is still to come."""
    repo.write("there", TEXT)
    with desk_of(repo) as context, agent() as process:
        ws, session = context.workspace, session_of(process)
        evidence = AgentActivity(ws, ProcessMarks())
        evidence.watch(process_of(session))
        run_a_program(process)
        until(lambda: state_of(process) == "S")
        evidence.begin_barrier(())
        evidence.end(evidence.begin())
        evidence.settled(1)
        draft = draft_of(ws, "there")
        evidence.see(draft.path, is_finished=True)
        assert evidence.look()
        run_a_program(process)
        evidence.take([draft.path])
        gone = draft._replace(
            kind=EventKind.DELETE,
            before=draft.after,
            after=None,
            end_ns=ws.clock.now_ns(),
        )
        assert not evidence.excluded(gone, scene_of(session))


@pytest.mark.linux  # only its counters show that the shell wrote nothing
@pytest.mark.parametrize("is_moved", [True, False])
def test_who_did_not_make_a_file_may_delete_its_other_name(
    repo: Repo, is_moved: bool
) -> None:
    """A temporary file that is moved to its place is deleted by whoever made it."""
    repo.write("temporary", TEXT)
    with desk_of(repo) as context, agent() as process:
        ws, session = context.workspace, session_of(process)
        evidence = AgentActivity(ws, ProcessMarks())
        evidence.watch(process_of(session))
        evidence.begin_barrier(())
        run_a_program(process)
        (os.rename if is_moved else os.link)(repo.path("temporary"), repo.path("place"))
        evidence.take(())
        made = draft_of(ws, "place")
        assert evidence.excluded(made, scene_of(session)) == CALL
        gone = made._replace(
            kind=EventKind.DELETE,
            path=RepoPath(b"temporary"),
            before=made.after,
            after=None,
            end_ns=ws.clock.now_ns(),
        )
        evidence.take(())
        assert bool(evidence.excluded(gone, scene_of(session))) is is_moved


def test_file_system_that_is_mounted_at_a_number_of_another_is_looked_at(
    repo: Repo,
) -> None:
    """A number that is free after an umount is given to the next mount."""
    repo.write("there", TEXT)
    with desk_of(repo) as context, agent() as process:
        ws = context.workspace
        mounts = Mounts()
        session = session_of(process)
        evidence = AgentActivity(ws, ProcessMarks(), counters=mounts)
        evidence.watch(process_of(session))
        for known in (False, True):
            mounts.mounted = FileSystem(known, known)
            evidence.begin_barrier(())
            evidence.take(())
            run_a_program(process)
            excluded = evidence.excluded(draft_of(ws, "there"), scene_of(session))
            assert excluded == (CALL if known else frozenset())
            evidence.settled(ws.clock.now_ns())


class Mounts(ProcFiles):
    """What is mounted, as the test says."""

    mounted: FileSystem

    def file_system(self, device: int) -> FileSystem:
        return self.mounted


@pytest.mark.linux  # its counters are files
def test_no_file_of_a_process_stays_open(repo: Repo) -> None:
    """A program that opens worktrees again and again would run out of descriptors."""
    with agent() as process:
        with desk_of(repo) as context:
            before = len(os.listdir("/proc/self/fd"))
            context.processes.activity.watch(process_of(session_of(process)))
            context.processes.begin_barrier()
            assert len(os.listdir("/proc/self/fd")) > before
        assert not any(f"/proc/{process.pid}/" in target for target in open_files()), (
            open_files()
        )


def state_of(process: "subprocess.Popen[bytes]") -> str:
    with open(f"/proc/{process.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def open_files() -> list[str]:
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return [os.readlink(link) for link in links if os.path.lexists(link)]


def session_of(process: "subprocess.Popen[bytes]") -> Session:
    return Session(
        id="s",
        native_id="s",
        actor=Actor.AGENT,
        agent="claude-code",
        started_ns=1,
        pid=process.pid,
        pid_started=process_start(process.pid),
    )


def draft_of(ws: Workspace, path: str) -> Draft:
    """Return the draft of a file that was made just now."""
    born_ns = ws.clock.now_ns() + ws.clock.tolerance_ns
    version = FileVersion(ws.repo.write_blob(TEXT), 0o100644)
    stat = StatKey(len(TEXT), born_ns, born_ns, 1)
    return Draft(
        kind=EventKind.CREATE,
        path=RepoPath(path.encode()),
        before=None,
        after=FileState(version, stat, born_ns),
        begin_ns=1,
        end_ns=born_ns,
        born_ns=born_ns,
    )


def scene_of(session: Session) -> Scene:
    call = Call(
        id="call",
        session="s",
        turn=None,
        tool="Bash",
        tool_class=ToolClass.SHELL,
        opened_ns=1,
    )
    return Scene(windows=(call,), sessions=(session,))


def run_a_program(process: "subprocess.Popen[bytes]") -> None:
    """Let the shell run a program, and wait until it has."""
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()
    process.stderr.readline()
