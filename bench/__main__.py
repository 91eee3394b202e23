"""Run the benchmarks and print the table: `python -m bench [NAME…] [--scale F] [--write FILE]`.

`accuracy`, `rewrites` and `damage` run alone, and fail where a requirement is missed. `plot` draws
how the history grows on disk, `spread` how long things take.
"""

import argparse
import os
import platform
import sys
from datetime import date
from pathlib import Path

from bench import (
    accuracy,
    damage,
    growth,
    limited,
    prototype,
    real,
    rewrites,
    scale,
    spread,
    stores,
    versions,
)
from bench.budgets import BUDGETS
from bench.measure import Row, table

_HEAD = """# Benchmarks

*For people who ask what recording costs, and for those who make it cheaper.*

Run all benchmarks with `make bench`. The values are medians with their spread, of whole processes
if the row says so, and every yardstick is measured in the same run. No test depends on timing.
Machine: {machine}. It is shared and noisy: compare only rows of one run.

"""

_ACCURACY = """# Accuracy of attribution

*For people who ask how often an author is wrong: agents, shells and a person measured, then
authors after rewritten commits.*

`make bench BENCH_ARGS=accuracy` on {date}, {load}: {machine}.

Scripted agents and a person write files in one repository. Each agent is a process with the name
of Claude Code that lives as long as its session. It runs the commands of the installed settings
file for each event, and its shells run real programs. Every write has unique content, so its author
is known. The scripted agents do not report which files a command changed, as Claude Code itself
does.

There are three levels of evidence for a write that no hook names:

- *nothing*: only the time of the write and open files (`agent-undo.ledger=false`).
- *ledger*: also whether each agent's processes ran, and what they wrote. This is the default.
- *witness*: also the process of each write, from the kernel (`agent-undo.witness=true`).

In each round, every agent has a shell call open, and the person saves six files during it: by a
plain write, by a temporary file and a rename, and as JetBrains IDEs do, each once in a small file
(one character of 120 bytes changes) and once in a large one (400 bytes are inserted before 6,000).
The levels take turns. The shells do one of the following, *mixed* several of them in parallel:

- *sleep*: wait. *print*: print a line every 20 ms.
- *test*: write a test and run `unittest`, which writes its caches. *build*: compile and link three
  C files with `make`, again and again. *write*: write short and long files.

A person's save is *right* if its author is unknown (`you?`) or a person. An agent's write is right
if it is that session's. A *gap* names nobody: `ambiguous`, for an agent also unknown. The other
columns are *wrong*: they name somebody who did not write it. After each count is the 95 % interval
of its share (Wilson), because few writes prove little: none of 12 still means up to 24 %. *Right by
round* is the median of the rounds, and their range.

The command fails if a wrong author is `high` or `certain` at the levels *ledger* and *witness*, if
a write has no row, or if a requirement of the last two tables is missed.

{tables}"""

_REWRITES_HEAD = "\n## After Git rewrites commits\n"
_REWRITES = (
    _REWRITES_HEAD
    + """
`make bench BENCH_ARGS=rewrites` on {date}: {machine}.

Random histories of two agents and a person in real files (Python, Markdown, JSON). More than half
of the new lines are as short as `}}`, `else:` or an empty line, the others copies of lines that the
file has elsewhere. The agents commit on a branch while the person's commits move the base. Then the
branch is rewritten in one of the ways below, in half of the histories with a record after each
command, in the others only at the end. Each history has a twin, in which the same commands run on
lines that are all different, so Git itself says where each line ends up.

*Kept*: `blame` names the agent that wrote the line. *Unknown*: nobody. *Wrong*: somebody else. Not
counted are lines whose author was already another one before the rewriting, and those that plain
`git blame` takes for lines of the first commit: of equal lines, the diff decides which is new.
Histories that the twins merge differently are left out. Plain `git blame` names the person who
commits for every line, so it keeps none of the agents. whogitit 1.0.0 saw a sixth of the histories,
each write as one of an edit tool; it does not tell agents apart, so *kept* means any agent.

{table}
"""
)

_DAMAGE = """# How much of your work each undo method destroys

*For people who choose: what each way of undoing destroys, and [what agents' own checkpoints
do](#comparison-with-agents-own-checkpoints).*

This page plays one afternoon once for each way of undoing an agent's work, and counts what each
method damages. `python -m bench damage --write docs/comparison.md` generates it. No time is
measured, so the result is the same on every run.

The user starts with one staged change, one untracked file, one ignored log and an untouched file
with an old mtime. The agent edits `a.py` and the first line of `both.py` and creates
`agent_new.py`, each with its edit tool. Then the user appends a line to `both.py`, edits and
commits `b.py`, creates `user_new.txt`, adds `data/` to `.gitignore` and fills it. Then the agent's
work is undone. The result is right if the agent's three changes are gone and everything else is
unchanged, byte for byte and mtime for mtime, with HEAD, index and stash untouched.

The columns are methods, not products: plain commands, run here exactly as written
(`bench/recipes.py`). Where a public document says that a tool works like that, the document is
listed; the tool may do more than its column, and may have changed since.
What each tool documents about itself stands [below](#comparison-with-agents-own-checkpoints), with
sources.

{tables}
In **bold**: wrong. *changed*: the bytes differ from those right before the undo. *new mtime*: the
same bytes, rewritten, so that build tools and editors see a change. *index*:
`git ls-files --stage`.

The results follow from what each method records. A to C, E and F record states of the whole tree:
going back to one also reverts what anybody else did since. If the ignore rules are reverted first,
cleaning up then removes the files that they protected. D records files, so it overwrites only
files that both edited; it sees the edits of tools that name their file, but none made by a shell.
gitshadow records writes and their authors: it undoes those of the agent, line by line if others
wrote to the same file, and reports where it cannot ([recovery](recovery.md)).

"""
_CHECKPOINTS_HEAD = "## Comparison with agents' own checkpoints\n"
"""Where the part of the page begins that is written by hand."""


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
    today = f"{date.today():%Y-%m-%d}"

    def write(tables: str) -> None:
        print(tables)
        if chosen.write is not None:
            text = _ACCURACY.format(
                machine=machine(), date=today, load=load, tables=tables
            )
            page = chosen.write.read_text(encoding="utf-8")
            _, head, rest = page.partition(_REWRITES_HEAD)
            chosen.write.write_text(text + head + rest, encoding="utf-8")

    return accuracy.main(chosen.scale, write)


def _rewrites(chosen: argparse.Namespace) -> int:
    def write(table: str) -> None:
        text = _REWRITES.format(
            machine=machine(), date=f"{date.today():%Y-%m-%d}", table=table
        )
        print(text)
        if chosen.write is not None:
            page = chosen.write.read_text(encoding="utf-8")
            kept, _, _ = page.partition(_REWRITES_HEAD)
            chosen.write.write_text(kept + text, encoding="utf-8")

    return rewrites.main(chosen.scale, write)


def _damage(chosen: argparse.Namespace) -> int:
    def write(tables: str) -> None:
        print(tables)
        if chosen.write is not None:
            page = chosen.write.read_text(encoding="utf-8")
            _, head, rest = page.partition(_CHECKPOINTS_HEAD)
            text = damage_page(tables) + head + rest
            chosen.write.write_text(text, encoding="utf-8")

    return damage.main(write)


def damage_page(tables: str) -> str:
    """Return the part of the page with the tables of the damage timeline."""
    return _DAMAGE.format(tables=tables)


def _plot(chosen: argparse.Namespace) -> int:
    growth.write_plot(chosen.scale, chosen.write or Path("docs/img/growth.svg"))
    return 0


def _spread(chosen: argparse.Namespace) -> int:
    rows = spread.write_plot(chosen.scale, chosen.write or Path("docs/img/latency.svg"))
    print(table(rows))
    return 0


_ALONE = {
    "accuracy": _accuracy,
    "rewrites": _rewrites,
    "damage": _damage,
    "plot": _plot,
    "spread": _spread,
}
_LONG = {
    "sizes": scale.sizes,
    "huge": scale.huge,
    "linux": scale.linux,
    "loose": growth.loose,
    "session": scale.session,
    "wide": scale.wide,
    "sessions": scale.sessions,
    "prototype": prototype.prototype,
    "real": real.real,
    "versions": versions.versions,
    "limited": limited.limited,
    "stores": stores.stores,
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
