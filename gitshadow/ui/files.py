"""The files of what is selected, below their directories.

Invariant: every line but a directory's is one file; the cursor stands on files alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.segment import Segment
from textual.message import Message

from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.lines import Listing
from gitshadow.ui.rows import FileRow

_LETTERS: Mapping[str, str] = {
    "create": "A",
    "delete": "D",
    "modify": "M",
    "rename": "R",
    "mode": "X",
    "type": "T",
}
"""Git's letters of `git status --short`; X is a mode alone."""


class TreeLine(NamedTuple):
    """Hold one line of a tree: a directory, or a file below it."""

    directory: str = ""
    file: FileRow | None = None


def tree_of(files: Sequence[FileRow]) -> Iterator[TreeLine]:
    """Yield files below the directories that they lie in, those of the top first."""
    placed = sorted((file.path.rpartition("/")[0], file) for file in files)
    before = ""
    for directory, file in placed:
        if directory != before:
            yield TreeLine(directory + "/")
            before = directory
        yield TreeLine(directory, file)


class FileList(Listing):
    """Show the files that a block changed, or that differ between a moment and now."""

    class Selected(Message):
        """Tell that another file is under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[TreeLine] = ()
        self._told: FileRow | None = None
        self.of = ""
        self.empty = ""

    @property
    def file(self) -> FileRow | None:
        """Return the file under the cursor."""
        return self._lines[self.cursor].file if self.cursor < len(self._lines) else None

    @property
    def files(self) -> int:
        """Return how many files there are."""
        return sum(line.file is not None for line in self._lines)

    def hold(self, files: Sequence[FileRow], of: str, empty: str) -> None:
        """Show other files.

        Args:
            files: In any order.
            of: What they are the files of; of the same, the cursor stays on its path.
            empty: What to say where there are none.
        """
        path = self.file.path if self.file and of == self.of else ""
        self.of = of
        self._lines = tuple(tree_of(files))
        self._told, self.empty = None, empty
        numbers = {
            line.file.path: at for at, line in enumerate(self._lines) if line.file
        }
        self.changed(numbers.get(path, 0), top=0)

    def row_count(self) -> int:
        """Return how many lines there are; without files one that says so."""
        return len(self._lines) or 1

    def can_stop(self, row: int) -> bool:
        """Return whether a line is a file."""
        return not self._lines or self._lines[row].file is not None

    def draw(self, row: int, width: int) -> Sequence[Segment]:
        """Draw a directory or a file."""
        glyphs = glyphs_of(self)
        if not self._lines:
            return [Segment(" " + glyphs.cut(self.empty, width - 1), self.faint())]
        line = self._lines[row]
        if line.file is None:
            return [Segment(" " + glyphs.cut(line.directory, width - 1), self.faint())]
        file = line.file
        counts = f" +{file.added} -{file.removed}" if file.added >= 0 else ""
        name = file.path.rpartition("/")[2] if line.directory else file.path
        if file.old_path and file.old_path != file.path:
            name += f" <- {file.old_path}"
        indent = "  " if line.directory else ""
        letter = _LETTERS.get(file.kind, " ")
        room = width - len(indent) - len(counts) - 3
        return [
            Segment(f" {letter} {indent}"),
            Segment(glyphs.fit(name, room)),
            Segment(counts, self.faint()),
        ]

    def moved(self) -> None:
        """Tell which file is selected."""
        if self.file != self._told:
            self._told = self.file
            self.post_message(self.Selected())
