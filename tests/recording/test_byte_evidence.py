"""Which writes a session cannot have made, with a real process that ran but wrote nothing."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitshadow.attribution.process import process_start
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
from gitshadow.recording.byte_evidence import ByteEvidence
from tests.support.context import desk_of
from tests.support.repo import Repo

TEXT = b"by a person\n" * 40


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
        session = Session(
            id="s",
            native_id="s",
            actor=Actor.AGENT,
            agent="claude-code",
            started_ns=1,
            pid=process.pid,
            pid_started=process_start(process.pid),
        )
        evidence = ByteEvidence(ws)
        evidence.watch(session)
        evidence.begin_barrier(())
        evidence.begin()
        run_a_program(process)
        born_ns = ws.clock.now_ns() + ws.clock.tolerance_ns
        version = FileVersion(ws.repo.write_blob(TEXT), 0o100644)
        stat = StatKey(len(TEXT), born_ns, born_ns, 1)
        draft = Draft(
            kind=EventKind.CREATE,
            path=RepoPath(path.encode()),
            before=None,
            after=FileState(version, stat, born_ns),
            begin_ns=1,
            end_ns=born_ns,
            born_ns=born_ns,
        )
        call = Call(
            id="call",
            session="s",
            turn=None,
            tool="Bash",
            tool_class=ToolClass.SHELL,
            opened_ns=1,
        )
        scene = Scene(windows=(call,), sessions=(session,))
        assert evidence.excluded(draft, scene) == {("s", "call")}


def run_a_program(process: "subprocess.Popen[bytes]") -> None:
    """Let the shell run a program, and wait until it has."""
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()
    process.stderr.readline()
