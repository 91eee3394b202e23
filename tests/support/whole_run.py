"""The test command: the suite, with the checks of the code beside it, then one summary.

The suite runs even if a check fails, so that one run shows everything that is wrong.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """The result of a run: its exit code, and the counts of its JUnit report.

    `skipped` says how many tests were skipped for each reason, `failed` holds the name of each
    test that failed or had an error.
    """

    exit_code: int
    passed: int
    skipped: Counter[str]
    failed: Sequence[str]

    @property
    def is_green(self) -> bool:
        """Whether tests ran and none of them failed."""
        return not self.failed and self.exit_code == 0


def run(args: Sequence[str]) -> Outcome:
    """Run pytest with its output on the terminal and return the result."""
    with tempfile.TemporaryDirectory(prefix="gitshadow-run-") as directory:
        report = Path(directory, "report.xml")
        command = [sys.executable, "-m", "pytest", *args, f"--junitxml={report}"]
        done = subprocess.run(command, check=False)
        return read(done.returncode, report)


def compile_tests(args: Sequence[str]) -> None:
    """Fill pytest's cache of compiled tests, unless an earlier run has done so.

    The processes of a run load all tests at the same moment. Each would compile all of them, which
    takes three times as long as to load them: 27 s of CPU, not 10.
    """
    if not any(_TESTS.rglob("__pycache__/*-pytest-*.pyc")):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", *args]
        quiet = subprocess.DEVNULL
        subprocess.run(command, stdout=quiet, stderr=quiet, check=False)


def read(exit_code: int, report: Path) -> Outcome:
    """Return what a JUnit report says; without one only the exit code is known."""
    if not report.exists():
        return Outcome(exit_code, 0, Counter(), ())
    passed, skipped = 0, Counter[str]()
    failed: dict[str, None] = {}  # a test may fail and then have an error at its end
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag: child.get("message", "") for child in case}
        if kinds.keys() & {"failure", "error"}:
            failed[f"{case.get('classname')}::{case.get('name')}"] = None
        elif "skipped" in kinds:
            skipped[kinds["skipped"]] += 1
        else:
            passed += 1
    return Outcome(exit_code, passed, skipped, tuple(failed))


def summary(outcome: Outcome) -> Iterator[str]:
    """Yield the lines that end a run; the last one holds the counts."""
    if not outcome.is_green:
        yield f"tests: failed (pytest exit code {outcome.exit_code})"
        yield from (f"  {test}" for test in outcome.failed)
    for reason, count in outcome.skipped.most_common():
        yield f"{count:6} skipped: {reason}"
    failed, skipped = len(outcome.failed), outcome.skipped.total()
    yield f"{outcome.passed} passed, {failed} failed, {skipped} skipped"


def main(more: Sequence[str]) -> int:
    """Run the suite and the checks; `more` goes to pytest, after its own arguments.

    JOBS sets how many processes run tests. CHECKS is a command that runs at the same time: the
    tests wait part of their time, so that it costs little. Its output is printed at the end.
    """
    begun = time.monotonic()
    words = shlex.split(os.environ.get("CHECKS", ""))
    with tempfile.TemporaryFile("w+") as output:
        checks = (
            subprocess.Popen(words, stdout=output, stderr=output) if words else None
        )
        compile_tests(more)
        # The table of reasons takes the place of pytest's lines, one for each place that skips.
        args = ("-rfEX", "-n", os.environ["JOBS"], "--dist", "worksteal")
        outcome = run((*args, "-m", "not release", *more))
        failed = checks is not None and checks.wait() != 0
        output.seek(0)
        print(f"\n{output.read()}\nthe run took {time.monotonic() - begun:.0f} s")
    if failed:
        print(f"{shlex.join(words)}: failed")
    for line in summary(outcome):
        print(line)
    return 1 if failed or not outcome.is_green else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
