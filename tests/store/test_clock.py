"""The clock of the file system: what it says can be held against file times."""

import os
import stat
import time
from itertools import pairwise
from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.store.clock import COARSE_TICK_NS, StampClock

_CLOCK_REALTIME_COARSE = 5  # clock_gettime(2); Python has no name for it


@pytest.fixture
def stamp(tmp_path: Path) -> Path:
    return tmp_path / "stamp"


def test_now_is_never_before_a_write_that_ended(stamp: Path, tmp_path: Path) -> None:
    clock = StampClock(str(stamp))
    for number in range(50):
        written = tmp_path / f"f{number}"
        written.write_text("x")
        assert clock.now_ns() >= written.stat().st_ctime_ns
    clock.close()


def test_now_is_newer_than_a_write_at_the_beginning_of_a_tick(
    stamp: Path, tmp_path: Path
) -> None:
    clock = StampClock(str(stamp))
    with (tmp_path / "f").open("wb", buffering=0) as written:
        for _ in range(20):
            _wait_for_the_next_tick()
            written.write(b"x")
            now = clock.now_ns()
            wrote = os.fstat(written.fileno()).st_ctime_ns
            assert wrote < now or (wrote == now and clock.tolerance_ns)
    clock.close()


def _wait_for_the_next_tick() -> None:
    tick = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    while time.clock_gettime_ns(_CLOCK_REALTIME_COARSE) == tick:
        pass


def test_now_is_not_after_a_write_that_follows(stamp: Path, tmp_path: Path) -> None:
    clock = StampClock(str(stamp))
    for number in range(50):
        now = clock.now_ns()
        written = tmp_path / f"f{number}"
        written.write_text("x")
        assert written.stat().st_ctime_ns >= now - clock.tolerance_ns
    clock.close()


def test_now_never_goes_back(stamp: Path) -> None:
    clock = StampClock(str(stamp))
    stamps = [clock.now_ns() for _ in range(200)]
    assert stamps == sorted(stamps)
    if clock.tolerance_ns == 0:
        assert all(a < b for a, b in pairwise(stamps))
    clock.close()


def test_tolerance_is_none_or_one_tick(stamp: Path) -> None:
    clock = StampClock(str(stamp))
    assert clock.tolerance_ns in (0, COARSE_TICK_NS)
    clock.close()


def test_now_is_near_the_time_of_the_machine(stamp: Path) -> None:
    clock = StampClock(str(stamp))
    before = time.time_ns()
    assert before - COARSE_TICK_NS <= clock.now_ns() <= time.time_ns()
    clock.close()


def test_now_is_still_told_when_the_stamp_cannot_be_written(stamp: Path) -> None:
    clock = StampClock(str(stamp))
    clock.close()
    before = time.time_ns()
    assert before <= clock.now_ns() <= time.time_ns()


def test_stamp_file_is_private_and_follows_no_link(stamp: Path, tmp_path: Path) -> None:
    StampClock(str(stamp)).close()
    assert stat.S_IMODE(stamp.stat().st_mode) == 0o600
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.utime(victim, ns=(1, 1))
    link = tmp_path / "link"
    link.symlink_to(victim)
    with pytest.raises(StoreError, match="symbolic links"):
        StampClock(str(link))
    assert victim.stat().st_mtime_ns == 1
