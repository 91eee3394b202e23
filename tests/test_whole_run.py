"""The test command runs the suite and the checks and sums up, whatever either of them finds."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import quick, whole_run
from tests.support.whole_run import Outcome

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
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The plug-ins of every package here would take longer to load than the tests to run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    (tmp_path / "test_it.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def _args(suite: Path, *args: str) -> tuple[str, ...]:
    plain = "--rootdir", str(suite), "-c", str(suite / "pytest.ini"), "-q", str(suite)
    # Otherwise it removes what earlier whole runs have left, which takes minutes.
    own = f"--basetemp={suite / 'temporary'}"
    return (*plain, own, "-p", "no:cacheprovider", *args)


def test_each_test_is_counted_once(suite: Path) -> None:
    outcome = whole_run.run(_args(suite))
    bad = ("test_it::test_bad", "test_it::test_error")
    assert outcome == Outcome(1, 1, Counter({"for the count": 1}), bad)


def test_a_run_that_could_not_start_fails(suite: Path) -> None:
    outcome = whole_run.run(_args(suite, "--no-such-option"))
    assert outcome == Outcome(4, 0, Counter(), ())
    assert not outcome.is_green


@pytest.mark.parametrize(
    ("code", "is_green"), [(0, True), (1, False), (2, False), (5, False)]
)
def test_a_run_is_green_if_tests_ran_and_pytest_says_so(
    code: int, is_green: bool
) -> None:
    """5 is pytest's exit code where no test matched."""
    assert Outcome(code, 0, Counter(), ()).is_green == is_green


def test_a_run_with_a_failed_test_is_not_green() -> None:
    assert not Outcome(0, 7, Counter(), ("a::b",)).is_green


def test_summary_ends_with_the_counts() -> None:
    assert list(whole_run.summary(Outcome(1, 7, Counter(), ("a::b",)))) == [
        "tests: failed (pytest exit code 1)",
        "  a::b",
        "7 passed, 1 failed, 0 skipped",
    ]


def test_each_reason_to_skip_is_said_once_with_its_count() -> None:
    skipped = Counter({"no tmux": 2, "a long run": 11})
    assert list(whole_run.summary(Outcome(0, 3, skipped, ()))) == [
        "    11 skipped: a long run",
        "     2 skipped: no tmux",
        "3 passed, 0 failed, 13 skipped",
    ]


def test_quick_run_has_the_tests_of_what_has_changed() -> None:
    names = (
        "docs/undo.md",
        "gitshadow/config.py",
        "gitshadow/errors.py",
        "gitshadow/store/journal/db.py",
        "gitshadow/store/backends/refs.py",
        "tests/support/repo.py",
        "tests/test_words.py",
        "tests/undo/test_gone.py",
    )
    assert list(quick.tests_of(names)) == [
        "tests/test_config.py",
        "tests/store",
        "tests/store/backends",
        "tests/test_words.py",
    ]


def _whole_run(suite: Path, checks: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.whole_run", *_args(suite)],
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
    ending = "\n     1 skipped: for the count\n1 passed, 2 failed, 1 skipped\n"
    assert done.stdout.endswith(ending), done.stdout


def test_run_fails_where_a_check_does(suite: Path) -> None:
    (suite / "test_it.py").write_text("def test_good(): pass\n")
    done = _whole_run(suite, "sh -c 'echo wrong >&2; exit 3'")
    assert done.returncode == 1
    assert "\nwrong\n" in done.stdout
    assert "exit 3'" in done.stdout
    assert done.stdout.endswith(": failed\n1 passed, 0 failed, 0 skipped\n")
