"""Run the benchmarks and print the table: `python -m bench [NAME…] [--scale F] [--write FILE]`.

`accuracy` and `damage` stand alone: they are no matter of time, and fail where a requirement is
missed. `plot` draws how the history grows on disk, `spread` how long things take.
"""

import argparse
import os
import platform
import sys
from datetime import date
from pathlib import Path

from bench import accuracy, damage, growth, limited, prototype, real, scale, spread
from bench.budgets import BUDGETS
from bench.measure import Row, table

_HEAD = """# Benchmarks

One command: `make bench`. Medians with spread, whole processes where the row says so, every
yardstick in the same run. Timing gates nothing. Machine: {machine}. It is shared and noisy:
compare rows of one run, not runs.

"""

_ACCURACY = """# Accuracy of attribution

`python -m bench accuracy` on {date}, {load}: {machine}.

Scripted agents, each a process of its own, and a person write files in one repository, through
the real hook program and the real daemon; every write has content of its own, so that who made
it is known. *named*: the hooks name the path. *shell*: they name none. *mixed*: agents of both
kinds side by side. *none*: no hooks, a program with a known agent's name. Precision is the share
of claims at a confidence that are right, recall that of all writes that are rightly claimed at
it. Required, or the command fails: every claim at `certain` and at `high` is right here, where
nobody else writes inside a window, every candidate list holds the writer, every write has a row,
and no edit outside every window is an agent's above its limit.

A plain write of a person inside a shell call looks like the shell's: Linux tells an unprivileged
watcher no pid. Plans mark such items *by time only*; how often it happens is in the second table,
where a person saves exactly once inside every shell call.

"""

_DAMAGE = """# What undoing costs the user

`python -m bench damage --write docs/comparison.md` made this page, and can make it again: no time
is measured, so it comes out the same each time.

One afternoon, played once for every way of taking an agent's work back. The user has one staged
change, one untracked file, one ignored log and an untouched file with an old mtime. The agent edits
`a.py` and the first line of `both.py` and creates `agent_new.py`, each by its edit tool. Then the
user appends a line to `both.py`, edits and commits `b.py`, creates `user_new.txt`, adds `data/` to
`.gitignore` and fills it. Then the agent's work is undone. Right is: its three changes are gone,
everything else is as it was, byte for byte and mtime for mtime; HEAD, index and stash untouched.

The columns are ways of doing it, not products: plain commands, run here as written
(`bench/recipes.py`). Where a public document of a tool says that the tool works like that, it is
named; the tool may do more than its column, and may have changed since. What each tool documents of
itself is in [another page](checkpoints.md), with sources.

{tables}
In **bold**: wrong. *changed*: other bytes than right before the undo. *new mtime*: the same bytes,
written anew, so that build tools and editors see a change. *index*: `git ls-files --stage`.

Why they come out so. A to C, E and F know states of a whole tree: going back to one takes along
what anybody else did since, and where the rules of what is ignored go back first, cleaning up
removes what they protected. D knows files, so it overwrites only what was edited by both; it sees
the edits of tools that name their file and no shell's. gitshadow knows writes and who made them: it
takes those of the agent out, line by line where others wrote to the same file, and says so where
it cannot ([recovery](recovery.md)).
"""


def main() -> int:
    """Run what is asked for; all of it by default."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("names", nargs="*", choices=[[], *_ALONE, *BUDGETS, *_LONG])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--loaded", action="store_true", help="say so in the text")
    chosen = parser.parse_args()
    for name, run in _ALONE.items():
        if chosen.names == [name]:
            return run(chosen)
        if name in chosen.names:
            parser.error(f"{name} runs alone")
    rows: list[Row] = []
    known = {**BUDGETS, **_LONG}
    for name in chosen.names or BUDGETS:
        for row in known[name](chosen.scale):
            rows.append(row)
            print(" | ".join(row.cells()), flush=True)
    text = _HEAD.format(machine=machine()) + table(rows)
    if chosen.write is not None:
        chosen.write.write_text(text, encoding="utf-8")
    return 0


def _accuracy(chosen: argparse.Namespace) -> int:
    load = "loaded machine" if chosen.loaded else "quiet machine"
    text = _ACCURACY.format(
        machine=machine(), date=f"{date.today():%Y-%m-%d}", load=load
    )

    def write(tables: str) -> None:
        print(tables)
        if chosen.write is not None:
            chosen.write.write_text(text + tables, encoding="utf-8")

    return accuracy.main(chosen.scale, write)


def _damage(chosen: argparse.Namespace) -> int:
    def write(tables: str) -> None:
        print(tables)
        if chosen.write is not None:
            chosen.write.write_text(damage_page(tables), encoding="utf-8")

    return damage.main(write)


def damage_page(tables: str) -> str:
    """Return the whole page that the tables of the damage timeline stand in."""
    return _DAMAGE.format(tables=tables)


def _plot(chosen: argparse.Namespace) -> int:
    growth.write_plot(chosen.scale, chosen.write or Path("docs/img/growth.svg"))
    return 0


def _spread(chosen: argparse.Namespace) -> int:
    rows = spread.write_plot(chosen.scale, chosen.write or Path("docs/img/latency.svg"))
    print(table(rows))
    return 0


_ALONE = {"accuracy": _accuracy, "damage": _damage, "plot": _plot, "spread": _spread}
_LONG = {
    "sizes": scale.sizes,
    "huge": scale.huge,
    "session": scale.session,
    "wide": scale.wide,
    "sessions": scale.sessions,
    "prototype": prototype.prototype,
    "real": real.real,
    "limited": limited.limited,
}
"""Rows that take minutes each: run by name alone."""


def machine() -> str:
    """Return what matters of the machine, without naming it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release().split('-')[0]},"
        f" Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
