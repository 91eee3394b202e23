"""The test command runs the suite and the checks and sums up, whatever either of them finds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import whole_run
from tests.support.whole_run import Half, Outcome

_TESTS = """\
import pytest

def test_good(): pass

def test_bad(): assert 1 == 2

@pytest.fixture
def broken(): raise ValueError

def test_error(broken): pass

@pytest.mark.skip(reason="for the count")
def test_skipped(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def _half(suite: Path, *args: str) -> Half:
    plain = "--rootdir", str(suite), "-c", str(suite / "pytest.ini"), "-q", str(suite)
    return Half("half", (*plain, "-p", "no:cacheprovider", *args))


def test_half_counts_each_test_once(suite: Path) -> None:
    outcome = whole_run.run(_half(suite))
    assert outcome == Outcome(1, 1, 1, ("test_it::test_bad", "test_it::test_error"))


def test_half_that_could_not_start_fails(suite: Path) -> None:
    outcome = whole_run.run(_half(suite, "--no-such-option"))
    assert outcome == Outcome(4, 0, 0, ())
    assert whole_run.exit_code([outcome, Outcome(0, 1, 0, ())]) == 1


@pytest.mark.parametrize(
    ("codes", "code"), [((0, 0), 0), ((0, 5), 0), ((5, 5), 1), ((1, 0), 1), ((0, 2), 1)]
)
def test_run_is_green_where_both_halves_are(codes: tuple[int, int], code: int) -> None:
    assert whole_run.exit_code([Outcome(each, 0, 0, ()) for each in codes]) == code


def test_summary_ends_with_the_counts_of_both_halves() -> None:
    named = [("first", Outcome(1, 7, 1, ("a::b",))), ("second", Outcome(0, 3, 2, ()))]
    assert list(whole_run.summary(named)) == [
        "first: failed (pytest exit code 1)",
        "  a::b",
        "10 passed, 1 failed, 3 skipped",
    ]


def _whole_run(suite: Path, checks: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.whole_run", *_half(suite).args],
        env={**os.environ, "JOBS": "1", "CHECKS": checks},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_checks_are_shown_and_the_tests_counted_after_a_failure(suite: Path) -> None:
    done = _whole_run(suite, "sh -c 'echo checked'")
    assert done.returncode == 1
    assert "\nchecked\n" in done.stdout
    assert done.stdout.endswith("\n1 passed, 2 failed, 1 skipped\n"), done.stdout


def test_run_fails_where_a_check_does(suite: Path) -> None:
    (suite / "test_it.py").write_text("def test_good(): pass\n")
    done = _whole_run(suite, "sh -c 'echo wrong >&2; exit 3'")
    assert done.returncode == 1
    assert "\nwrong\n" in done.stdout
    assert "exit 3'" in done.stdout
    assert done.stdout.endswith(": failed\n1 passed, 0 failed, 0 skipped\n")
