"""A session worth looking at: turns, a second agent, a person, undo and redo, a gap.

All of it really happens, in milliseconds; the times in the journal are then stretched to an
afternoon, so that a picture of them shows something.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of, studio_of

PARSER = '''\
"""Reads orders."""


def parse(line):
    name, amount = line.split(",")
    return name, int(amount)


def total(lines):
    return sum(parse(line)[1] for line in lines)
'''
BETTER = '''\
"""Reads orders."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    """One line of an order."""

    name: str
    amount: int


def parse(line: str) -> Order:
    """Return the order that a line holds."""
    name, _, amount = line.partition(",")
    if not amount:
        raise ValueError(f"no amount in {line!r}")
    return Order(name.strip(), int(amount))


def total(lines: list[str]) -> int:
    """Return the sum of all amounts."""
    return sum(parse(line).amount for line in lines)
'''
TESTS = """\
import pytest

from shop.orders import Order, parse, total


def test_line_is_an_order() -> None:
    assert parse("tea, 3") == Order("tea", 3)


def test_line_without_an_amount_is_refused() -> None:
    with pytest.raises(ValueError, match="no amount"):
        parse("tea")


def test_total_is_the_sum() -> None:
    assert total(["tea,3", "pot,1"]) == 4
"""
_TIMES = {
    "events": ("ts_ns",),
    "turns": ("started_ns", "ended_ns"),
    "calls": ("opened_ns", "closed_ns"),
    "bursts": ("started_ns", "ended_ns"),
    "sessions": ("started_ns", "ended_ns", "last_seen_ns"),
    "ops": ("ts_ns",),
    "touches": ("ts_ns",),
    "models": ("since_ns",),
}
AFTERNOON_S = 46 * 60


def shop(root: Path) -> Repo:
    """Make a repository with a session in it; the id of its agent's session is `main`."""
    repo = Repo.create(root, files=())
    repo.git("config", "user.name", "You")
    repo.git("config", "user.email", "you@example.com")
    repo.write("shop/orders.py", PARSER)
    repo.write("README.md", "# Shop\n\nOrders, one a line: `name,amount`.\n")
    repo.write(".gitignore", "build/\n.env\n")
    repo.write("logo.bin", bytes(range(256)))
    repo.commit("Start")
    repo.write("build/out.txt", "made\n")
    repo.write(".env", "TOKEN=x\n")
    with studio_of(repo) as studio:
        _morning(studio)
        _afternoon(studio)
    stretch(repo, AFTERNOON_S)
    return repo


def _morning(studio: Studio) -> None:
    studio.start("main")
    studio.prompt(
        "main", "Make the order parser strict\n\nUse a dataclass and add tests."
    )
    studio.write("main", "shop/orders.py", BETTER)
    studio.write("main", "tests/test_orders.py", TESTS)
    studio.stop("main")
    studio.write("other", "docs/guide.md", "# Guide\n\nStart here.\n")
    studio.stop("other")
    studio.hand("README.md", "# Shop\n\nOrders, one a line: `name, amount`.\n")
    studio.prompt("main", "Which files use parse()?")
    studio.stop("main")
    studio.prompt("main", "Add a command line")
    studio.write("main", "shop/cli.py", "import sys\n\nprint(sys.argv)\n" * 30)
    studio.write("main", "shop/__init__.py", "")
    studio.stop("main")
    studio.run("undo", verb="oops", yes=True)


def _afternoon(studio: Studio) -> None:
    studio.prompt("main", "Add a smaller command line instead")
    studio.write("main", "shop/cli.py", "import sys\n\nprint(len(sys.argv))\n")
    studio.write("main", "logo.bin", bytes(range(255, -1, -1)))
    studio.stop("main")
    studio.run("journal_gap", why="the daemon was killed; a walk followed")
    studio.prompt("main", "Tidy up the docstrings")
    studio.write("main", "shop/orders.py", BETTER.replace("Reads orders.", "Orders."))
    studio.stop("main")
    studio.hand("shop/orders.py", BETTER.replace("Reads", "Read"))
    studio.hook("main", "SessionEnd", reason="prompt_input_exit")


def stretch(repo: Repo, seconds: int) -> None:
    """Stretch the times of a journal that nobody has open: the last stays, turns last so long."""
    with closing(sqlite3.connect(layout_of(repo).journal)) as db, db:
        (first,) = db.execute("SELECT MIN(started_ns) FROM turns").fetchone()
        (last,) = db.execute("SELECT MAX(ts_ns) FROM events").fetchone()
        factor = seconds * 1_000_000_000 // (last - first)
        for table, columns in _TIMES.items():
            for column in columns:
                db.execute(
                    f"UPDATE {table} SET {column} = ?1 - (?1 - {column}) * ?2"
                    f" WHERE {column} IS NOT NULL",
                    (last, factor),
                )
