"""What the kernel reports of real processes; needs privilege."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.platform import current
from gitshadow.platform.linux.witness import record as record_module
from gitshadow.platform.linux.witness.fanotify import FileEvents
from gitshadow.platform.linux.witness.record import KernelWitness
from gitshadow.platform.writers import (
    FileAction,
    WitnessGoneError,
    WriterAnswer,
    WriterQuery,
    WriterReport,
    opened,
)
from tests.support.waiting import until


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def witness(top: int) -> Iterator[KernelWitness]:
    try:
        found = KernelWitness(top)
    except OSError as error:
        pytest.skip(f"the kernel reports no writes to this process: {error}")
    yield found
    found.close()


def me() -> ProcessId:
    """Return this process."""
    started = process_start(os.getpid())
    assert started is not None
    return ProcessId(os.getpid(), started)


def ask(
    witness: KernelWitness,
    top: int,
    path: bytes,
    *agents: ProcessId,
    since_ns: int = 0,
    has_moved: bool = False,
) -> WriterAnswer:
    """Ask who wrote a path."""
    with opened(top, path) as places:
        answer = witness.ask(WriterQuery(places, agents, since_ns, has_moved))
    assert answer is not None
    return answer


def one(answer: WriterAnswer) -> WriterReport:
    """Return the only report."""
    (report,) = answer.reports
    return report


def sh(command: str, where: Path) -> None:
    """Run a command in a shell."""
    subprocess.run(["sh", "-c", command], cwd=where, check=True)


def test_a_writer_that_is_gone_is_known_with_who_started_it(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    sh("(sh -c 'echo x > a; true' ; true)", tmp_path)
    report = one(ask(witness, top, b"a", me()))
    assert report.agent == 0
    assert report.tool_ns is not None
    assert report.is_sure
    assert FileAction.CREATED | FileAction.MODIFIED in report.change


def test_a_program_that_began_after_the_write_is_not_named(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    shell = "echo x > a; exec sleep 60"
    with subprocess.Popen(["sh", "-c", shell], cwd=tmp_path) as process:
        until(lambda: named("sleep", tmp_path))
        report = one(ask(witness, top, b"a", me()))
        process.kill()
    assert (report.pid, report.name) == (process.pid, "")


def test_nobody_waits_until_others_stop_writing(
    top: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build writes faster than its events are read."""
    read, reads = os.read, list[int]()

    def busy(fd: int, size: int) -> bytes:
        reads.append(fd)
        (tmp_path / str(len(reads))).touch()
        return read(fd, size)

    with closing(events_of(top)) as events:
        (tmp_path / "a").touch()
        monkeypatch.setattr(os, "read", busy)
        names: set[bytes] = set()
        for event in events.read():
            names.update(entry.name for entry in event.entries)
            assert len(reads) < 100
    assert b"a" in names


def events_of(top: int) -> FileEvents:
    """Return the events of the file system of a directory."""
    try:
        events = FileEvents()
    except OSError as error:
        pytest.skip(f"the kernel reports no writes to this process: {error}")
    events.mark(top)
    return events


def test_a_process_outside_the_agents_is_below_none(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        started = process_start(other.pid)
        assert started is not None
        sh("echo x > a", tmp_path)
        report = one(ask(witness, top, b"a", ProcessId(other.pid, started)))
        other.kill()
    assert (report.agent, report.is_sure) == (None, True)


def test_two_writers_of_a_file_are_both_known(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    sh("echo x > a", tmp_path)
    sh("echo y >> a", tmp_path)
    answer = ask(witness, top, b"a", me())
    assert len({report.pid for report in answer.reports}) == 2


def test_a_writer_by_another_name_of_the_file_is_known(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    sh("echo y >> b", tmp_path)
    assert one(ask(witness, top, b"a", me())).change & FileAction.MODIFIED


def test_who_replaced_deleted_or_moved_a_file_is_known(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    for name in ("a", "b", "d/f"):
        (tmp_path / name).write_text("x\n")
    sh("sed -i s/x/y/ a; rm b; mv d e", tmp_path)
    assert one(ask(witness, top, b"a", me())).change & FileAction.RENAMED
    assert one(ask(witness, top, b"b", me())).change == FileAction.DELETED
    assert one(ask(witness, top, b"e/f", me())).change & FileAction.RENAMED


def test_who_wrote_a_file_that_has_another_name_by_now_is_known(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    """Also who wrote it under a name that it had before."""
    for command in ("echo x > a", "mv a b", "ln b c", "mv b d", "echo y > b"):
        sh(f"{command}; true", tmp_path)
    reports = ask(witness, top, b"b", me(), has_moved=True).reports
    assert len(reports) == 5
    assert len(ask(witness, top, b"b", me()).reports) == 3
    assert {report.agent for report in reports} == {0}


def test_what_was_written_before_a_moment_is_left_out(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    sh("echo x > a", tmp_path)
    witness.drain()
    (tmp_path / "now").touch()
    since_ns = (tmp_path / "now").stat().st_ctime_ns + 20_000_000
    assert ask(witness, top, b"a", me(), since_ns=since_ns).reports == ()


def test_a_process_that_lost_its_parents_is_still_the_agents(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    sh("setsid -f sh -c 'echo x > a'; while [ ! -s a ]; do :; done", tmp_path)
    assert one(ask(witness, top, b"a", me())).agent == 0


def test_an_orphan_from_before_the_record_is_not_sure(top: int, tmp_path: Path) -> None:
    command = "setsid -f sh -c 'read x < go; echo x > a; echo > done'"
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "done")
    with subprocess.Popen(["sleep", "60"]) as agent:
        started = process_start(agent.pid)
        assert started is not None
        # A process is older than another one if it started in an earlier clock tick.
        sh(f"sleep 0.05; {command}", tmp_path)
        try:
            witness = KernelWitness(top)
        except OSError as error:
            agent.kill()
            pytest.skip(f"the kernel reports no writes to this process: {error}")
        (tmp_path / "go").write_text("x\n")
        (tmp_path / "done").read_text()
        report = one(ask(witness, top, b"a", ProcessId(agent.pid, started)))
        witness.close()
        agent.kill()
    assert (report.agent, report.is_sure) == (None, False)


def test_our_own_writes_are_left_out(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("x")
    assert ask(witness, top, b"a", me()).reports == ()


def test_coverage_begins_anew_after_the_kernel_dropped_events(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    before = ask(witness, top, b"a", me()).covered_since_ns
    most = int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text())
    # The thread that reads waits for the same lock.
    with witness._lock:
        code = (
            "import os\nfor n in range({n}):"
            " os.close(os.open('f%d' % n, os.O_CREAT | os.O_WRONLY))"
        )
        script = code.format(n=most + 10)
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    answer = ask(witness, top, b"f1", me())
    assert answer.covered_since_ns > before
    assert answer.reports == ()


def test_a_record_whose_reports_cannot_be_read_any_more_says_so(
    witness: KernelWitness, top: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh("echo x > a", tmp_path)
    assert one(ask(witness, top, b"a", me()))

    def fail(_: FileEvents) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(FileEvents, "read", fail)
    with pytest.raises(WitnessGoneError):
        witness.drain()
    assert witness.has_failed
    monkeypatch.undo()
    with pytest.raises(WitnessGoneError):
        ask(witness, top, b"a", me())


def test_very_many_writers_of_one_name_are_all_known(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    sh("for n in $(seq 100); do (echo $n > a); done; echo x > a", tmp_path)
    writers = {report.pid for report in ask(witness, top, b"a", me()).reports}
    assert len(writers) == 101


def test_what_is_dropped_here_is_not_covered(
    witness: KernelWitness,
    top: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began_ns = ask(witness, top, b"a", me()).covered_since_ns
    sh("echo x > a", tmp_path)
    kept = ask(witness, top, b"a", me())
    assert (kept.covered_since_ns, len(kept.reports)) == (began_ns, 1)
    monkeypatch.setattr(record_module, "_MOST_RECORDS", 2)
    sh("echo x > b; echo x > c; echo x > d", tmp_path)
    gone = ask(witness, top, b"a", me())
    assert gone.covered_since_ns > began_ns
    assert gone.reports == ()


def test_what_runs_in_a_terminal_that_an_agent_started_is_not_sure(
    witness: KernelWitness, top: int, tmp_path: Path
) -> None:
    """A person may type there."""
    (tmp_path / "tmux").symlink_to("/bin/sh")
    # The name is read while the program runs.
    sh(
        "./tmux -c 'while [ ! -e go ]; do sleep 0.01; done; sh -c \"echo x > a\"; true' &",
        tmp_path,
    )
    until(lambda: named("tmux", tmp_path))
    witness.drain()
    (tmp_path / "go").touch()
    until((tmp_path / "a").exists)
    report = one(ask(witness, top, b"a", me()))
    assert (report.agent, report.is_sure) == (0, False)


def named(name: str, where: Path) -> bool:
    """Return whether a process of that name lives in a directory: other tests have theirs."""
    for one in current().process_facts().own():
        with suppress(OSError):
            if one.name == name and Path(f"/proc/{one.id.pid}/cwd").samefile(where):
                return True
    return False


def test_nothing_is_said_of_another_file_system(
    witness: KernelWitness, tmp_path: Path
) -> None:
    fd = os.open("/dev/shm", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert witness.ask(WriterQuery(((fd, b"a"),), (), 0)) is None
    finally:
        os.close(fd)


def test_a_path_below_a_link_is_not_asked_about(top: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(OSError, match="link"), opened(top, b"link/passwd"):
        pass
