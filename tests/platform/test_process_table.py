"""The process table is read again where a process may be another one, or run another program."""

import shutil
from pathlib import Path

import pytest

from gitshadow.platform.linux.processes import ProcTable

LOOKS = 8


def put(proc: Path, pid: int, name: str, parent: int = 1, state: str = "S") -> None:
    """Write a process that was started at the boot."""
    directory = proc / str(pid)
    directory.mkdir(exist_ok=True)
    fields = [state, str(parent), *["0"] * 50]
    (directory / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def names(table: ProcTable) -> dict[int, str]:
    return {pid: stat.name for pid, stat in table.look().items()}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    put(tmp_path, 1, "init", 0)
    put(tmp_path, 10, "editor")
    return tmp_path


@pytest.fixture
def table(proc: Path) -> ProcTable:
    table = ProcTable(str(proc))
    table.look()
    return table


def test_new_process_is_found_and_ended_one_is_not(
    proc: Path, table: ProcTable
) -> None:
    put(proc, 11, "make", 10)
    assert names(table) == {1: "init", 10: "editor", 11: "make"}
    shutil.rmtree(proc / "11")
    assert names(table) == {1: "init", 10: "editor"}


def test_process_with_the_pid_of_another_is_read_at_once(
    proc: Path, table: ProcTable
) -> None:
    (proc / "10").rename(proc / "old")
    put(proc, 10, "agent")
    assert names(table)[10] == "agent"


def test_program_that_runs_another_one_is_read_within_some_looks(
    proc: Path, table: ProcTable
) -> None:
    put(proc, 10, "agent")
    assert "agent" in {names(table)[10] for _ in range(LOOKS)}


def test_shell_that_runs_an_agent_is_read_at_once(proc: Path, table: ProcTable) -> None:
    put(proc, 12, "bash")
    table.look()
    put(proc, 12, "agent")
    assert names(table)[12] == "agent"


def test_orphan_has_its_new_parent_at_once(proc: Path, table: ProcTable) -> None:
    put(proc, 11, "server", 10)
    table.look()
    shutil.rmtree(proc / "10")
    put(proc, 11, "server", 1)
    assert table.look()[11].parent == 1


def test_dead_process_is_left_out(proc: Path, table: ProcTable) -> None:
    put(proc, 11, "make", 10, state="Z")
    assert 11 not in table.look()


def test_every_process_is_read_after_forget(proc: Path, table: ProcTable) -> None:
    put(proc, 10, "agent")
    table.forget()
    assert names(table)[10] == "agent"


def test_table_is_empty_where_there_is_no_proc(tmp_path: Path) -> None:
    assert ProcTable(str(tmp_path / "none")).look() == {}
