"""The rooms of the house and what they import, drawn from the code: part of `make docs`.

    python -m tests.support.rooms    draw docs/img/rooms.svg

Rooms stand in the order of their layers, each with its purpose, the first line of its docstring. A
bar is longer the more code it has, an arc is an import of a room further down; values are left out.
Invariant: a picture changes only if a room, an import or about a twentieth of a room's lines does.
"""

import ast
import math
import tomllib
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "img" / "rooms.svg"
_PACKAGE = ROOT / "gitshadow"
_STYLE = """\
text{font:13px system-ui,sans-serif;fill:var(--ink)}.name{font-weight:600}.faint{fill:var(--faint)}
.paper{fill:var(--paper)}.bar{fill:var(--bar)}.arc{fill:none;stroke:var(--arc);opacity:.45}
svg{--paper:#fff;--ink:#1f2430;--faint:#5b6270;--bar:#0072b2;--arc:#b35900}
@media(prefers-color-scheme:dark){svg{--paper:#1b1f27;--ink:#e3e7ee;--faint:#9aa3b2;--bar:#5cb5f0;
--arc:#f0a03c}}
"""
_ROW, _TOP, _WIDTH = 25, 20, 1120
_NAME, _BAR, _WORDS, _ARCS = 130, 140, 300, 905
_LONGEST = 150
_VALUES = ("config", "model", "messages", "errors", "words")
"""Nearly every room imports these."""


def rooms() -> list[str]:
    """Return the packages, and the modules beside them, in the order of their layers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["id"] == "layers")
    return [name.strip(" ()") for layer in layers for name in layer.split("|")]


def draw() -> str:
    """Return the picture as SVG."""
    names = rooms()
    heights = {name: _TOP + _ROW * at for at, name in enumerate(names)}
    bottom = _TOP + _ROW * len(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{bottom}"/>',
    ]
    for name, y in heights.items():
        parts += _room(name, y)
        parts += _arcs(y, {heights[to]: n for to, n in _imports(name, names).items()})
    return "\n".join([*parts, "</svg>", ""])


def _room(name: str, y: int) -> Iterable[str]:
    lines = sum(len(one.read_text("utf-8").splitlines()) for one in _modules(name))
    # The square root, so that small rooms can be seen, in steps.
    wide = _LONGEST * math.exp(round(math.log(lines / 25_000) * 10) / 20)
    yield f'<text class="name" x="{_NAME}" y="{y + 4}" text-anchor="end">{name}</text>'
    yield f'<rect class="bar" x="{_BAR}" y="{y - 6}" width="{wide:.0f}" height="12"/>'
    text = escape(_purpose(name))
    yield f'<text class="faint" x="{_WORDS}" y="{y + 4}">{text}</text>'


def _arcs(y: int, targets: dict[int, int]) -> Iterable[str]:
    for to, count in targets.items():
        # Thicker where more modules are imported, in steps.
        thick = 1 + round(math.log2(count)) / 2
        far = _ARCS + (_WIDTH - _ARCS) * 1.25 * math.sqrt((to - y) / (_ROW * 30))
        path = f"M{_ARCS},{y} C{far:.0f},{y} {far:.0f},{to} {_ARCS},{to}"
        yield f'<path class="arc" stroke-width="{thick}" d="{path}"/>'


def _purpose(name: str) -> str:
    """Return what a room is for, the part before details."""
    package = _PACKAGE / name / "__init__.py"
    source = package if package.exists() else _PACKAGE / f"{name}.py"
    said = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return said.partition("\n")[0].partition(";")[0].removesuffix(".")


def _imports(name: str, names: list[str]) -> Counter[str]:
    """Return how many modules of each other room a room imports."""
    found = {
        target
        for module in _modules(name)
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        for target in _targets(node)
    }
    found_rooms = Counter(target.split(".")[1] for target in found)
    shown = [one for one in names if one not in (name, *_VALUES)]
    return Counter({one: found_rooms[one] for one in shown if found_rooms[one]})


def _targets(node: ast.ImportFrom) -> Iterable[str]:
    named = node.module or ""
    if named == "gitshadow":
        return [f"gitshadow.{one.name}" for one in node.names]
    return [named] if named.startswith("gitshadow.") else []


def _modules(name: str) -> list[Path]:
    one = _PACKAGE / f"{name}.py"
    return [one] if one.exists() else sorted((_PACKAGE / name).rglob("*.py"))


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
