"""The damage timeline: an agent and a user write, then the agent's work is taken back.

What each recipe of `recipes.py` leaves is compared with the moment before its undo.
Invariant: the same steps for every recipe; what is expected is derived from that moment alone.
"""

import os
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.places import Place, empty
from bench.recipes import RECIPES, Ours, Recipe

_OLD_S = 1_577_836_800  # 2020-01-01
_IGNORED = tuple(f"data/{name}" for name in ("raw.csv", "model.bin", "cache/one"))
_TEN = "".join(f"line {number}\n" for number in range(1, 11))
_AGENTS = "the agent wrote this\n"
_COMMITTED = f"{_TEN}the user's fix\n"


@dataclass(frozen=True, slots=True)
class Standing:
    """Hold all that the timeline compares; `files` are path → mode, mtime_ns, bytes."""

    files: Mapping[str, tuple[int, int, bytes]]
    head: str
    index: str
    index_bytes: bytes
    stash: str
    refs: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold one recipe's end: what stood before its undo, what after, what failed."""

    recipe: type[Recipe]
    before: Standing
    after: Standing
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one line of the table: what it looks at, and what is right."""

    what: str
    right: str
    look: Callable[[Outcome], str]


def run(recipe: type[Recipe]) -> Outcome:
    """Play the timeline once, in a repository of its own."""
    with empty() as place:
        _users_project(place)
        tool = recipe(place)
        _agent_works(place.root, tool)
        _user_works(place)
        before, failed = look(place), None
        try:
            tool.undo()
        except subprocess.CalledProcessError as error:
            failed = str(error)
        return Outcome(recipe, before, look(place), failed)


def _users_project(place: Place) -> None:
    """One staged change, one untracked file, one ignored log, an untouched file of old."""
    root = place.root
    for name in ("a.py", "b.py", "both.py", "staged.py", "old.py"):
        (root / name).write_text(_TEN, encoding="ascii")
    (root / ".gitignore").write_text("*.log\n", encoding="ascii")
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "project")
    (root / "staged.py").write_text(f"{_TEN}staged\n", encoding="ascii")
    place.git("add", "staged.py")
    (root / "notes.txt").write_text("my notes\n", encoding="ascii")
    (root / "debug.log").write_text("a log\n", encoding="ascii")
    os.utime(root / "old.py", (_OLD_S, _OLD_S))


def _agent_works(root: Path, tool: Recipe) -> None:
    """Edit `a.py` and the first line of `both.py`, create `agent_new.py`."""
    tool.begin()
    for name, text in (
        ("a.py", _TEN + _AGENTS),
        ("both.py", _TEN.replace("line 1\n", _AGENTS, 1)),
        ("agent_new.py", _AGENTS),
    ):
        tool.before(name)
        (root / name).write_text(text, encoding="ascii")
        tool.after(name)
    tool.end()


def _user_works(place: Place) -> None:
    """Append to `both.py`, edit and commit `b.py`, make `user_new.txt`, ignore and fill `data/`."""
    root = place.root
    with (root / "both.py").open("a", encoding="ascii") as stream:
        stream.write("and the user this\n")
    (root / "b.py").write_text(_COMMITTED, encoding="ascii")
    place.git("commit", "-q", "-m", "fix", "--", "b.py")
    (root / "user_new.txt").write_text("new\n", encoding="ascii")
    with (root / ".gitignore").open("a", encoding="ascii") as stream:
        stream.write("data/\n")
    for name in _IGNORED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n", encoding="ascii")


def look(place: Place) -> Standing:
    """Return what there is now; git is asked only what writes nothing."""
    files: dict[str, tuple[int, int, bytes]] = {}
    for path in place.root.rglob("*"):
        name = path.relative_to(place.root).as_posix()
        if path.is_file() and not name.startswith(".git/"):
            found = path.stat()
            mode = stat.S_IMODE(found.st_mode)
            files[name] = mode, found.st_mtime_ns, path.read_bytes()
    heads = place.git("for-each-ref", "refs/heads")
    return Standing(
        files=files,
        head=place.git("symbolic-ref", "HEAD") + place.git("rev-parse", "HEAD"),
        index=place.git("ls-files", "--stage"),
        index_bytes=(place.root / ".git" / "index").read_bytes(),
        stash=place.git("stash", "list"),
        refs=heads,
    )


# -- what is looked at -------------------------------------------------------------------------


def _edit(path: str) -> Callable[[Outcome], str]:
    """Tell whether the agent's text in a file is gone."""

    def told(outcome: Outcome) -> str:
        found = outcome.after.files.get(path)
        if found is None:
            return "file lost"
        return "left" if _AGENTS.encode() in found[2] else "gone"

    return told


def _created(outcome: Outcome) -> str:
    return "left" if "agent_new.py" in outcome.after.files else "gone"


def _line_of_user(outcome: Outcome) -> str:
    found = outcome.after.files.get("both.py", (0, 0, b""))
    return "kept" if found[2].endswith(b"\nand the user this\n") else "lost"


def _file(path: str) -> Callable[[Outcome], str]:
    """Tell what became of a file that is the user's alone."""
    return lambda outcome: _fate(path, outcome)


def _fate(path: str, outcome: Outcome) -> str:
    was, now = outcome.before.files[path], outcome.after.files.get(path)
    if now is None:
        return "lost"
    if (now[0], now[2]) != (was[0], was[2]):
        return "changed"
    return "kept" if now[1] == was[1] else "new mtime"


def _data(outcome: Outcome) -> str:
    fates = [_fate(path, outcome) for path in _IGNORED]
    gone = sum(fate != "kept" for fate in fates)
    return f"{gone} of {len(fates)} lost" if gone else "kept"


def _same(what: Callable[[Standing], object]) -> Callable[[Outcome], str]:
    def told(outcome: Outcome) -> str:
        return "same" if what(outcome.before) == what(outcome.after) else "changed"

    return told


def _stash(outcome: Outcome) -> str:
    entries = len(outcome.after.stash.splitlines())
    return f"{entries} entry more" if entries else "same"


LINES: Sequence[Line] = (
    Line("agent: its edit of `a.py`", "gone", _edit("a.py")),
    Line("agent: its line in `both.py`", "gone", _edit("both.py")),
    Line("agent: `agent_new.py`", "gone", _created),
    Line("user: the line appended to `both.py` later", "kept", _line_of_user),
    Line("user: `b.py`, edited and committed later", "kept", _file("b.py")),
    Line("user: `staged.py`, a staged change", "kept", _file("staged.py")),
    Line("user: `notes.txt`, untracked from the start", "kept", _file("notes.txt")),
    Line(
        "user: `user_new.txt`, untracked, created later", "kept", _file("user_new.txt")
    ),
    Line("user: `debug.log`, ignored from the start", "kept", _file("debug.log")),
    Line("user: `.gitignore`, a line added later", "kept", _file(".gitignore")),
    Line("user: `data/`, ignored and filled later", "kept", _data),
    Line("user: `old.py`, untouched, from 2020", "kept", _file("old.py")),
    Line("user: what is staged (index)", "same", _same(lambda one: one.index)),
    Line("user: HEAD and branches", "same", _same(lambda one: one.head + one.refs)),
    Line("user: the stash list", "same", _stash),
)


def harms(outcome: Outcome) -> tuple[int, int]:
    """Return how many of the agent's things remained, and how many of the user's were harmed."""
    wrong = [line.what for line in LINES if line.look(outcome) != line.right]
    left = sum(what.startswith("agent:") for what in wrong)
    return left, len(wrong) - left


# -- the table ---------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the damage as a Markdown table, what is wrong in bold."""
    names = [outcome.recipe.name for outcome in outcomes]
    rows = [[line.what, *(_cell(line, one) for one in outcomes)] for line in LINES]
    totals = [harms(outcome) for outcome in outcomes]
    rows.append(["**agent changes that remained**", *(str(left) for left, _ in totals)])
    rows.append(["**user items lost or changed**", *(str(hurt) for _, hurt in totals)])
    return _markdown(["", *names], rows)


def _cell(line: Line, outcome: Outcome) -> str:
    said = line.look(outcome)
    return said if said == line.right else f"**{said}**"


def legend(recipes: Iterable[type[Recipe]]) -> str:
    """Return what each column runs, as a Markdown table."""
    rows = [[one.name, one.saves, one.restores, one.source] for one in recipes]
    return _markdown(["", "to save", "to undo", "described in"], rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main(write: Callable[[str], None]) -> int:
    """Run every recipe and hand over both tables; 1 where ours is not exactly right."""
    outcomes = [run(recipe) for recipe in RECIPES]
    write(f"{legend(RECIPES)}\n{table(outcomes)}")
    for outcome in outcomes:
        if outcome.failed:
            print(f"{outcome.recipe.name}: {outcome.failed}")
    ours = next(outcome for outcome in outcomes if outcome.recipe is Ours)
    return 0 if harms(ours) == (0, 0) else 1
