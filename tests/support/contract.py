"""tests/contract.md: the sentences are written there by hand, the tests below each are found.

A test carries a promise if its lines name the ID. `python -m tests.support.contract`, which is part
of `make docs`, writes the page again.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests/contract.md"

_ID = r"(?:[A-Z]{2,5}-\d{2}|V[1-9])(?![\w-])"
_CITED = re.compile(rf"(?<![\w-])({_ID})(?: to ({_ID}))?")
_PROMISE = re.compile(rf"- \*\*({_ID})\*\* ")
# Names of the field that look like an ID.
_OTHERS = ("SHA-", "UTF-")
_WITHOUT = "    - no test: "
_TESTS = "    - `"

Places = Mapping[str, frozenset[str]]
"""Names of test functions by file; the name is empty for a citation outside any of them."""


def cited(text: str) -> Iterator[str]:
    """Yield the IDs that a text names; `EN-05 to EN-08` names four."""
    for match in _CITED.finditer(text):
        first, last = match.groups()
        if first.startswith(_OTHERS):
            continue
        if last is None:
            yield first
        else:
            prefix = first[:-2]
            for number in range(int(first[-2:]), int(last[-2:]) + 1):
                yield f"{prefix}{number:02}"


def sources() -> Iterator[Path]:
    """Yield each Python file of the tests but this one, in order."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path != Path(__file__):
            yield path


def carried(paths: Iterable[Path]) -> Mapping[str, Places]:
    """Return where each ID is cited: in which test functions of which files."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in paths:
        text = path.read_text(encoding="utf-8")
        owners = _owners(ast.parse(text))
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(text.splitlines(), 1):
            for promise in cited(line):
                found[promise][name].add(owners.get(number, ""))
    return {
        promise: {name: frozenset(tests) for name, tests in places.items()}
        for promise, places in found.items()
    }


def _owners(tree: ast.Module) -> Mapping[int, str]:
    """Return the test function of each line that belongs to one, decorators included."""
    owners: dict[int, str] = {}
    within = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in chain(tree.body, *within):
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef
        ) and node.name.startswith("test_"):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            owners |= dict.fromkeys(
                range(first, (node.end_lineno or first) + 1), node.name
            )
    return owners


def promises(page: str) -> list[str]:
    """Return the IDs of a page in its order."""
    return [match[1] for line in page.splitlines() if (match := _PROMISE.match(line))]


def excused(page: str) -> frozenset[str]:
    """Return the IDs whose line says why no test carries them."""
    lines = page.splitlines()
    return frozenset(
        match[1]
        for line, after in pairwise(lines)
        if (match := _PROMISE.match(line)) and after.startswith(_WITHOUT)
    )


def renewed(page: str, found: Mapping[str, Places]) -> str:
    """Return the page with the present tests below each promise."""
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith(_TESTS):
            continue
        lines.append(line)
        if match := _PROMISE.match(line):
            lines += _listed(found.get(match[1], {}))
    return "\n".join(lines) + "\n"


def _listed(places: Places) -> Iterator[str]:
    """Yield a line per file; functions are only named where the file has any."""
    for name in sorted(places):
        tests = ", ".join(f"`{test}`" for test in sorted(places[name]) if test)
        yield f"{_TESTS}{name}`" + (f": {tests}" if tests else "")


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8"), carried(sources())), "utf-8")
