"""Diffstats as Git draws them: lines that come and go per path, a graph, and the sum of all."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from gitshadow.messages.states import StatRow
from gitshadow.messages.undo import FileItem
from gitshadow.render.style import View

_WIDTH = 80
_GRAPH_LEAST = 10


CountedFile: TypeAlias = StatRow | FileItem


def stat_lines(stat: Sequence[CountedFile], view: View) -> Iterator[str]:
    """Yield a diffstat as Git has it: lines per path, a graph, and the sum of all."""
    names = [_stat_name(row, view) for row in stat]
    width = max(map(len, names), default=0)
    most = max(map(_changes, stat), default=0)
    digits = max(len(str(most)), len("Bin"))
    graphs = graphed(stat, view, width + digits + len("  |  "))
    for row, name, graph in zip(stat, names, graphs, strict=True):
        counted = "Bin" if row.added is None else str(_changes(row))
        yield f" {name:<{width}} | {counted:>{digits}} {graph}".rstrip()
    if stat:
        yield stat_sum(stat)


def graphed(stat: Sequence[CountedFile], view: View, taken: int) -> Iterator[str]:
    """Yield the graph of each path, all to one scale, after `taken` columns of text."""
    most = max(map(_changes, stat), default=0)
    room = max(_GRAPH_LEAST, _WIDTH - taken)
    for row in stat:
        yield _graph(row, view, min(1.0, room / most if most else 1.0))


def _stat_name(row: CountedFile, view: View) -> str:
    path, old_path = view.path(row.path), row.old_path
    return f"{view.path(old_path)} => {path}" if old_path else path


def _changes(row: CountedFile) -> int:
    return (row.added or 0) + (row.removed or 0)


def _graph(row: CountedFile, view: View, scale: float) -> str:
    """Return a sign per line, fewer where there is no room, but one where there is any."""
    added, removed = (
        # One line added to a long file must still be seen.
        max(int(count * scale), bool(count))
        for count in (row.added or 0, row.removed or 0)
    )
    return view.paint("+" * added, "good") + view.paint("-" * removed, "bad")


def stat_sum(stat: Sequence[CountedFile]) -> str:
    """Return the last line of a diffstat."""

    def counted(count: int, noun: str, sign: str) -> str:
        return f", {count} {noun}{'' if count == 1 else 's'}({sign})" if count else ""

    files = f" {len(stat)} file{'' if len(stat) == 1 else 's'} changed"
    added = sum(row.added or 0 for row in stat)
    removed = sum(row.removed or 0 for row in stat)
    return files + counted(added, "insertion", "+") + counted(removed, "deletion", "-")
