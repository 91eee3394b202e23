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
    Key("ctrl+d,pagedown", "page_down", "page down"),
    Key("ctrl+u,pageup", "page_up", "page up"),
    Key("g,home", "first", "newest; in a list the first line"),
    Key("G,end", "last", "oldest; in a list the last line"),
)
LOOKING = (
    Key("enter,l,right", "into", "open the files of a block, then the diff"),
    Key(
        "escape,h,left",
        "back",
        "back to the previous pane; on the timeline: clear the filter",
    ),
    Key("tab", "next_pane", "next pane"),
    Key("shift+tab", "previous_pane", "previous pane"),
    Key("z", "zoom", "zoom this pane, and back"),
    Key("space", "open", "show or hide the single changes of a block"),
    Key("right_square_bracket", "older_in_lane", "next older block in this lane"),
    Key("left_square_bracket", "newer_in_lane", "next newer block in this lane"),
    Key("slash", "search", "search paths and prompts"),
    Key("n", "search_on", "next older match"),
    Key("N", "search_back", "next newer match"),
    Key("f", "filter", "filter: agent:, session:, file:, kind:, since:, until:, text"),
    Key("at", "go_to", "go to a time: 10m, 2h ago, 2026-11-21 14:00"),
    Key("m", "moment", "files: changes of the block, or from then to now"),
    Key("v", "content", "the file at that time"),
    Key("b", "blame", "who wrote each line of the file, and the prompt behind it"),
    Key("p", "pins", "pins: create, restore, delete"),
    Key("O", "ops", "undos, redos and restores, with reports"),
)
CHANGING = (
    Key("u", "undo", "undo the block; in the files: its changes to this file"),
    Key("t", "undo_turn", "undo the whole turn"),
    Key("U", "undo_session", "undo the session"),
    Key("i", "undo_hunk", "in the diff: undo the hunk at the cursor"),
    Key("o", "oops", "oops: undo the latest agent changes"),
    Key("r", "redo", "redo: reverse the undo of this block, else the last undo"),
    Key("R", "restore", "restore this file, or all files, to that time"),
)
DIFF = (
    Key("n", "", "next hunk"),
    Key("N", "", "previous hunk"),
    Key("]", "", "next file"),
    Key("[", "", "previous file"),
    Key("h", "", "to the left"),
    Key("l", "", "to the right"),
    Key("s", "", "side by side or unified"),
    Key("F", "", "find in the text"),
)
"""What the diff binds by itself; there these come before the others."""
OTHER = (
    Key("ctrl+r,f5", "reload", "refresh"),
    Key("D", "dark", "switch dark or light theme"),
    Key("question_mark,f1", "help", "these keys"),
    Key("q,ctrl+c", "leave", "leave"),
)
GROUPS = {
    "Move": MOVING,
    "Inspect": LOOKING,
    "Undo, always with a plan first": CHANGING,
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
    yield "| keys | action |"
    yield "| --- | --- |"
    for title, keys in GROUPS.items():
        yield f"| **{title}** | |"
        for key in keys:
            shown = " ".join(f"`{one}`" for one in spelled(key.keys).split())
            yield f"| {shown} | {key.says} |"
