"""The tests to run before each commit: those of what has changed, and a few of every flow.

A package has its tests in the directory of the same name. Long runs are left out.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support import whole_run

_ROOT = Path(__file__).parents[2]
_SHORT = "not release and (end_to_end or not uncounted)"
_ALWAYS = (
    "tests/e2e/test_undo.py",
    "tests/test_contract.py",
    "tests/test_layers.py",
    "tests/test_strings.py",
    "tests/test_words.py",
    "tests/undo/test_run.py",
)


def changed() -> list[str]:
    """Return the files that differ from HEAD, or that the last commit changed if none does."""
    for command in (
        ("status", "--porcelain", "-uall", "--no-renames"),
        ("show", "--name-status", "--format=", "--no-renames"),
    ):
        done = subprocess.run(
            ["git", *command], cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        if names := [line.split()[-1] for line in done.stdout.splitlines()]:
            return names
    return []


def tests_of(names: Iterable[str]) -> Iterator[str]:
    """Yield the tests of changed files: a test itself, or the directory of a package's."""
    for path in map(Path, names):
        if path.parts[0] == "tests" and path.name.startswith("test_"):
            found = path
        elif path.parts[0] == "gitshadow":
            found = Path("tests", *path.parts[1:-1])
            while not (_ROOT / found).is_dir():
                found = found.parent
            if found == Path("tests"):
                found /= f"test_{path.stem}.py"
        else:
            continue
        if (_ROOT / found).exists():
            yield str(found)


def main() -> int:
    """Run them; the command line goes to pytest."""
    chosen = sorted({*_ALWAYS, *tests_of(changed())})
    return whole_run.main(["-m", _SHORT, *chosen, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
