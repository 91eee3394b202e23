"""What recorders below a command of `exec` wrote, with real processes of each shape."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.platform.port import Counts
from gitshadow.recording.own_bytes import OwnBytes

pytestmark = pytest.mark.linux  # nothing else counts what is written

_MADE = 5000
_RECORDER = """
import os, subprocess, sys, threading
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.recording.own_bytes import OwnBytes

notes, shape = sys.argv[1:]
top = os.getppid() if shape == "below" else os.getpid()
root = ProcessId(top, process_start(top))
hold = threading.Event()
if shape == "threads":
    threading.Thread(target=hold.wait).start()
own = OwnBytes(notes)
subprocess.run(["head", "-c", "5000", "/dev/zero"], stdout=subprocess.PIPE)
os.write(os.open(os.devnull, os.O_WRONLY), bytes(70))
found = [own.below(root).written]
own.publish([root])
hold.set()
later = OwnBytes(notes)
subprocess.run(["head", "-c", "100", "/dev/zero"], stdout=subprocess.PIPE)
found.append(later.below(root).written)
later.publish([root])
print(*found)
"""
"""A recorder whose child writes 5000 bytes and it 70; it notes that, and 100 bytes of another."""


def run(notes: Path, shape: str) -> list[int]:
    """Run it; return what it says after each child of what recorders wrote below the wrapper."""
    words = [sys.executable, "-c", _RECORDER, str(notes), shape]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return [int(line) for line in done.stdout.split()]


def here() -> ProcessId:
    """Return this process."""
    started = process_start(os.getpid())
    assert started is not None
    return ProcessId(os.getpid(), started)


def test_children_of_the_wrapper_itself_are_measured(tmp_path: Path) -> None:
    """What its own threads write is no child's: the ledger leaves it out."""
    assert run(tmp_path / "notes", "self") == [_MADE, _MADE + 100]


def test_nothing_is_said_of_children_where_other_threads_may_have_any(
    tmp_path: Path,
) -> None:
    first, later = run(tmp_path / "notes", "threads")
    assert first == 0
    assert later <= 100


def test_all_that_a_process_below_the_wrapper_wrote_is_measured(
    tmp_path: Path,
) -> None:
    """With the notes themselves, and once it has ended; while it judges it does not count."""
    notes = tmp_path / "notes"
    assert run(notes, "below") == [0, 0]
    lengths = 2 * notes.stat().st_size
    found = OwnBytes(str(notes)).below(here()).written
    assert _MADE + 70 + 100 < found <= _MADE + 70 + 100 + lengths
    run(notes, "below")
    assert OwnBytes(str(notes)).below(here()).written > 2 * found - lengths
    assert OwnBytes(str(notes)).below(ProcessId(1, 0)) == Counts()


def test_notes_of_ended_processes_are_one_and_those_of_other_wrappers_none(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    for shape in ("self", "below", "below", "below"):
        run(notes, shape)
    (_, _, last), (_, _, before) = json.loads(notes.read_bytes())
    assert {len(last), len(before)} == {1, 2}
    assert tuple(last[-1]) == tuple(before[-1]) == here()


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '[[[1], "x", []]]', "[[[1], [1], [[]]]]"]
)
def test_damaged_notes_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes").write_text(text)
    assert OwnBytes(str(tmp_path / "notes")).below(here()) == Counts()


def test_no_note_is_left_where_no_command_runs(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    own = OwnBytes(str(notes))
    own.publish([ProcessId(1, 0)])
    assert not own.is_noted
    run(notes, "self")
    again = OwnBytes(str(notes))
    assert again.is_noted
    again.publish([])
    assert list(tmp_path.iterdir()) == []
