"""The details of the selected line of the timeline: its files, and the diff of one of them.

Invariant: files and diff are asked for when the cursor has stopped, and an action concerns only
what belongs to the selected line. The cursor of the file list stops only at files.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.timer import Timer

from gitshadow.errors import UsageError
from gitshadow.messages.states import StatRow
from gitshadow.ui.data_source import DataSource, Listed, ask
from gitshadow.ui.diffs import DiffCursor, DiffView
from gitshadow.ui.glyphs import glyphs_of
from gitshadow.ui.layout import Bar, Pane
from gitshadow.ui.lines import Listing
from gitshadow.ui.patches import Patch
from gitshadow.ui.timeline import BlockKind, TimelineLine, heading
from gitshadow.words import counted

_SETTLES_S = 0.06
"""The cursor rests so long before the files under it are asked for."""
_FILES, _DIFF = "the files", "the diff"
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
    """One line of a tree: a directory, or a file below it."""

    directory: str = ""
    file: StatRow | None = None


def tree_of(files: Sequence[StatRow]) -> Iterator[TreeLine]:
    """Yield files below their directories, those of the top directory first."""
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
        """Another file is under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[TreeLine] = ()
        self._told: StatRow | None = None
        self.of = ""
        self.empty = ""

    @property
    def file(self) -> StatRow | None:
        """Return the file under the cursor."""
        return self._lines[self.cursor].file if self.cursor < len(self._lines) else None

    @property
    def files(self) -> int:
        """Return how many files there are."""
        return sum(line.file is not None for line in self._lines)

    def hold(self, files: Sequence[StatRow], of: str, empty: str) -> None:
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
        """Return how many lines there are; without files, one with a note."""
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
        counts = f" +{file.added} -{file.removed}" if file.added is not None else ""
        name = file.path.rpartition("/")[2] if line.directory else file.path
        if file.old_path and file.old_path != file.path:
            name += f" <- {file.old_path}"
        indent = "  " if line.directory else ""
        letter = _LETTERS.get(file.kind, " ")
        # A change of mode alone has no lines; binary content has no counts.
        if file.kind == "modify" and (file.added, file.removed) == (0, 0):
            letter = _LETTERS["mode"]
        room = width - len(indent) - len(counts) - 3
        return [
            Segment(f" {letter} {indent}"),
            Segment(glyphs.fit(name, room)),
            Segment(counts, self.faint()),
        ]

    def moved(self) -> None:
        """Report which file is selected."""
        if self.file != self._told:
            self._told = self.file
            self.post_message(self.Selected())


class Detail(Container):
    """Show the files and a diff of one line of the timeline."""

    def __init__(self, source: DataSource, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source = source
        self.files = FileList(id=Pane.FILES.value)
        self.diff = DiffView(id=Pane.DIFF.value)
        self._heading = Bar(id="heading")
        self._line: TimelineLine | None = None
        self._diff_of = ""
        self._moment = False
        self._is_cut = False
        self._settling: Timer | None = None

    def compose(self) -> ComposeResult:
        """Make heading, files and diff."""
        yield self._heading
        with Container(id="lower"):
            yield self.files
            yield self.diff

    @property
    def since(self) -> bool:
        """Return whether the differences from then to now are shown, as always for a pin."""
        line = self._line
        is_pin = line is not None and line.block.kind is BlockKind.PIN
        return self._moment or is_pin

    @property
    def selected(self) -> tuple[TimelineLine, StatRow]:
        """Return the selected file, and the line that it belongs to.

        Raises:
            UsageError: it is not on the screen yet, or there is none.
        """
        line, file = self._line, self.files.file
        if line is None or file is None or self.files.of != line.key:
            raise UsageError("no file is selected yet")
        return line, file

    @property
    def file(self) -> StatRow:
        """Return the selected file.

        Raises:
            UsageError: it is not on the screen yet, or there is none.
        """
        return self.selected[1]

    @property
    def place(self) -> DiffCursor:
        """Return the hunk that the diff is at; on the line of a file's name its first one.

        Raises:
            UsageError: there is no hunk under the cursor that can be undone.
        """
        found = self.diff.place
        if found is not None and found.hunk is None and found.file.hunks:
            found = found._replace(hunk=found.file.hunks[0])
        if found is None or found.hunk is None or self.since or not self.diff.has_focus:
            raise UsageError(
                "i undoes the hunk under the cursor: move into the diff first"
            )
        # While the diff of another line is on its way, the old one is still drawn: acting on it
        # would undo something that is not selected.
        if self._line is None or self._diff_of != self._line.key:
            raise UsageError("the diff is not shown yet")
        return found

    def show(self, line: TimelineLine | None) -> None:
        """Show the files of another line, as soon as no other one comes at once."""
        self._line = line
        if self._settling is not None:
            self._settling.stop()
        # Moving quickly through the timeline asks nothing for the blocks in between.
        self._settling = self.set_timer(_SETTLES_S, self.reload)

    def turn(self) -> None:
        """Switch between the change itself and the difference from then to now."""
        self._moment = not self._moment
        self.reload()

    def reload(self) -> None:
        """Ask for the files again."""
        line = self._line
        if line is None:
            self.files.hold((), "", "")
            self.diff.show(None)
            self.tell()
            return
        question = self.source.since if self.since else self.source.files
        empty = "nothing differs" if self.since else "no files"

        def hold(listed: Listed) -> None:
            # The cursor has moved on while the answer was on its way.
            if not self._is_selected(line):
                return
            self._is_cut = listed.is_cut
            self.files.hold(listed.files, line.key, empty)
            self.tell()
            self._show_diff()

        ask(self.screen, _FILES, lambda: question(line), hold)

    @on(FileList.Selected)
    def _show_diff(self) -> None:
        line, file = self._line, self.files.file
        if line is None or file is None:
            self.diff.show(None)
            return
        question = self.source.patch_since if self.since else self.source.patch

        def hold(patch: Patch | None) -> None:
            if self._is_selected(line):
                self._diff_of = line.key
                self.diff.show(patch, title=f"Diff of {file.path}")

        ask(self.screen, _DIFF, lambda: question(line, file.path), hold)

    def _is_selected(self, line: TimelineLine) -> bool:
        """Return whether an answer is about the line that is selected now."""
        return self._line is not None and self._line.key == line.key

    def tell(self) -> None:
        """Write the heading."""
        line, size = self._line, self._heading.size
        listed = counted(self.files.files, "file")
        listed = f"at least {listed}" if self._is_cut else listed
        said = heading(line, listed, moment=self._moment) if line else ""
        # It wraps, so only the last of its lines is cut.
        self._heading.show(glyphs_of(self).cut(said, size.width * max(1, size.height)))
        self.files.border_title = "Files"

    def on_resize(self) -> None:
        """Fit the heading to the new width."""
        self.tell()
