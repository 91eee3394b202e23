"""Every key of the view: one table, of which bindings, help screen and documentation are made.

Invariant: a key means one thing on the main screen, whichever pane has the focus; what the diff
has of its own is told apart.
"""

from collections.abc import Iterator
from typing import NamedTuple

from textual.binding import Binding, BindingType


class Key(NamedTuple):
    """Say what some keys do: textual's names of them, the action, and a sentence."""

    keys: str
    action: str
    says: str


MOVING = (
    Key("j,down", "down", "one line down"),
    Key("k,up", "up", "one line up"),
    Key("ctrl+d,pagedown", "page_down", "a page down"),
    Key("ctrl+u,pageup", "page_up", "a page up"),
    Key("g,home", "first", "the newest; in a list the first line"),
    Key("G,end", "last", "the oldest; in a list the last line"),
)
LOOKING = (
    Key("enter,l,right", "into", "into the files of a block, then into the diff"),
    Key(
        "escape,h,left", "back", "back to the pane before; on the time line: no filter"
    ),
    Key("tab", "next_pane", "the next pane"),
    Key("shift+tab", "previous_pane", "the pane before"),
    Key("z", "zoom", "this pane alone, and back"),
    Key("space", "open", "show the single writes of a block, or hide them"),
    Key("right_square_bracket", "older_in_lane", "the next older block of this lane"),
    Key("left_square_bracket", "newer_in_lane", "the next newer block of this lane"),
    Key("slash", "search", "search paths and prompts"),
    Key("n", "search_on", "the next older find"),
    Key("N", "search_back", "the next newer find"),
    Key("f", "filter", "filter: agent:, session:, file:, kind:, since:, until:, text"),
    Key("at", "go_to", "go to a moment: 10m, 2h ago, 2026-11-21 14:00"),
    Key(
        "m", "moment", "files: what the block changed, or what differs from then to now"
    ),
    Key("v", "content", "the file as it was at that moment"),
    Key("b", "blame", "who wrote each line of the file, and by which prompt"),
    Key("p", "pins", "pins: make, restore, delete"),
    Key("O", "ops", "what was undone, redone and restored, with reports"),
)
CHANGING = (
    Key("u", "undo", "undo the block; in the files: what it did to this file"),
    Key("t", "undo_turn", "undo the whole turn"),
    Key("U", "undo_session", "undo the session"),
    Key("i", "undo_hunk", "in the diff: undo the hunk that the cursor stands on"),
    Key("o", "oops", "oops: undo the newest agent burst"),
    Key(
        "r", "redo", "redo what an undo took back: that of this block, else the newest"
    ),
    Key("R", "restore", "restore this file, or all files, as they were then"),
)
DIFF = (
    Key("n", "", "the next hunk"),
    Key("N", "", "the hunk before"),
    Key("]", "", "the next file"),
    Key("[", "", "the file before"),
    Key("h", "", "to the left"),
    Key("l", "", "to the right"),
    Key("s", "", "side by side, or one below the other"),
    Key("F", "", "find in the lines"),
)
"""What the diff binds by itself; there these come before the others."""
OTHER = (
    Key("ctrl+r,f5", "reload", "look again"),
    Key("D", "dark", "dark or light"),
    Key("question_mark,f1", "help", "these keys"),
    Key("q,ctrl+c", "leave", "leave"),
)
GROUPS = {
    "Move": MOVING,
    "Look": LOOKING,
    "Undo, always by a plan that you see first": CHANGING,
    "In the diff": DIFF,
    "Other": OTHER,
}
_NAMES = {
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "slash": "/",
    "at": "@",
    "question_mark": "?",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "ctrl+d": "Ctrl-D",
    "ctrl+u": "Ctrl-U",
    "ctrl+r": "Ctrl-R",
    "ctrl+c": "Ctrl-C",
    "shift+tab": "Shift-Tab",
    "escape": "Esc",
    "f1": "F1",
    "f5": "F5",
}
_PLAIN = frozenset(
    {"down", "up", "left", "right", "home", "end", "enter", "tab", "space"}
)


def spelled(keys: str) -> str:
    """Return keys as people write them: `j Down`."""
    return " ".join(
        name.capitalize() if name in _PLAIN else _NAMES.get(name, name)
        for name in keys.split(",")
    )


def bindings(*groups: tuple[Key, ...]) -> list[BindingType]:
    """Return the bindings of some groups."""
    return [
        Binding(key.keys, key.action, key.says, show=False)
        for group in groups
        for key in group
    ]


def table() -> Iterator[str]:
    """Yield the keys as the rows of a table in Markdown."""
    yield "| keys | what they do |"
    yield "| --- | --- |"
    for title, keys in GROUPS.items():
        yield f"| **{title}** | |"
        for key in keys:
            shown = " ".join(f"`{one}`" for one in spelled(key.keys).split())
            yield f"| {shown} | {key.says} |"
