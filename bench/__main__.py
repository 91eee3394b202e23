"""Run the benchmarks and print the table: `python -m bench [NAME…] [--scale F] [--write FILE]`."""

import argparse
import os
import platform
import sys
from pathlib import Path

from bench.budgets import BUDGETS
from bench.measure import Row, table

_HEAD = """# Benchmarks

One command: `make bench`. Medians with spread, whole processes where the row says so, every
yardstick in the same run. Timing gates nothing. Machine: {machine}. It is shared and noisy:
compare rows of one run, not runs.

"""


def main() -> int:
    """Run what is asked for; all of it by default."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("names", nargs="*", choices=[[], *BUDGETS])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    rows: list[Row] = []
    for name in chosen.names or BUDGETS:
        for row in BUDGETS[name](chosen.scale):
            rows.append(row)
            print(" | ".join(row.cells()), flush=True)
    text = _HEAD.format(machine=machine()) + table(rows)
    if chosen.write is not None:
        chosen.write.write_text(text, encoding="utf-8")
    return 0


def machine() -> str:
    """Return what matters of the machine, without naming it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release().split('-')[0]},"
        f" Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
