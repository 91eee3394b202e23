"""Every key of the UI: one table for bindings, help screen and documentation.

Invariant: a key means one thing on the main screen, whichever pane has the focus; the keys of the
diff are a group of their own.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingType


class KeyBinding(NamedTuple):
    """Keys by their names in textual, their action, and what they do."""

    keys: str
    action: str
    says: str


MOVING = (
    KeyBinding("j,down", "line(1)", "one line down"),
    KeyBinding("k,up", "line(-1)", "one line up"),
    KeyBinding("ctrl+d,pagedown", "page(1)", "page down"),
    KeyBinding("ctrl+u,pageup", "page(-1)", "page up"),
    KeyBinding("g,home", "first", "newest; in a list the first line"),
    KeyBinding("G,end", "last", "oldest; in a list the last line"),
)
LOOKING = (
    KeyBinding("enter,l,right", "into", "open the files of a block, then the diff"),
    KeyBinding(
        "escape,h,left",
        "back",
        "back to the previous pane; on the timeline twice: clear the filter",
    ),
    KeyBinding("tab", "pane(1)", "next pane"),
    KeyBinding("shift+tab", "pane(-1)", "previous pane"),
    KeyBinding("z", "zoom", "zoom this pane, and back"),
    KeyBinding("space", "open", "show or hide the single changes of a block"),
    KeyBinding("right_square_bracket", "in_lane(1)", "next older block in this lane"),
    KeyBinding("left_square_bracket", "in_lane(-1)", "next newer block in this lane"),
    KeyBinding("slash", "search", "search paths and prompts"),
    KeyBinding("n", "match(True)", "next older match"),
    KeyBinding("N", "match(False)", "next newer match"),
    KeyBinding(
        "f", "filter", "filter: agent:, session:, file:, kind:, since:, until:, text"
    ),
    KeyBinding("w", "worktrees", "changes of all worktrees, or of this one only"),
    KeyBinding("at", "go_to", "go to a time: 10m, 2h ago, 2026-11-21 14:00"),
    KeyBinding("m", "moment", "files: changes of the block, or from then to now"),
    KeyBinding("v", "content", "the file at that time"),
    KeyBinding(
        "b", "blame", "who wrote each line of the file, and the prompt behind it"
    ),
    KeyBinding("p", "pins", "pins: create, restore, delete"),
    KeyBinding("O", "ops", "undos, redos and restores, with reports"),
)
CHANGING = (
    KeyBinding("u", "undo", "undo the block; in the files: its changes to this file"),
    KeyBinding("t", "undo_turn", "undo the whole turn"),
    KeyBinding("U", "undo_session", "undo the session"),
    KeyBinding("i", "undo_hunk", "in the diff: undo the hunk at the cursor"),
    KeyBinding("o", "oops", "oops: undo the latest agent changes"),
    KeyBinding("r", "redo", "redo: reverse the undo of this block, else the last undo"),
    KeyBinding("R", "restore", "restore this file, or all files, to that time"),
)
TEXT = (
    KeyBinding("h", "sideways(-1)", "to the left"),
    KeyBinding("l", "sideways(1)", "to the right"),
    KeyBinding("F", "find", "find in the text"),
)
DIFF = (
    KeyBinding("n", "next(1)", "next hunk"),
    KeyBinding("N", "next(-1)", "previous hunk"),
    KeyBinding("right_square_bracket", "next_file(1)", "next file"),
    KeyBinding("left_square_bracket", "next_file(-1)", "previous file"),
    *TEXT[:2],
    KeyBinding("s", "toggle_side", "side by side or unified"),
    *TEXT[2:],
)
"""The keys of the diff itself; there they come before the others."""
OTHER = (
    KeyBinding("ctrl+r,f5", "reload", "refresh"),
    KeyBinding("D", "dark", "switch dark or light theme"),
    KeyBinding("question_mark,f1", "help", "these keys"),
    KeyBinding("q,ctrl+c", "leave", "leave"),
)
GROUPS = {
    "Move": MOVING,
    "Inspect": LOOKING,
    "Undo, always with a plan first": CHANGING,
    "In the diff": DIFF,
    "Other": OTHER,
}
HELP_LEFT: Mapping[str, Mapping[str, str]] = {
    "Everywhere": {
        "j k": "line down, up",
        "Ctrl-D Ctrl-U": "page down, up",
        "g G": "first (newest), last",
        "Enter Esc": "next pane, back",
        "Tab Shift-Tab": "next, previous pane",
        "z": "zoom, and back",
        "p O": "pins; undos and reports",
        "Ctrl-R": "refresh",
        "D": "dark or light",
        "? q": "help; quit",
    },
    "Timeline": {
        "Space": "single changes",
        "] [": "older, newer in lane",
        "/ n N": "search, older, newer",
        "f": "filter",
        "@": "go to a time",
        "w": "all worktrees, or this",
    },
}
HELP_RIGHT: Mapping[str, Mapping[str, str]] = {
    "Undo, with a plan first": {
        "u": "block; in files: file",
        "t U": "turn; session",
        "i": "hunk, in the diff",
        "o": "latest agent changes",
        "r": "redo",
        "R": "restore that time",
    },
    "Files": {
        "m": "changes, or then to now",
        "v": "the file at that time",
        "b": "who wrote each line",
    },
    "Diff": {
        "n N": "next, previous hunk",
        "] [": "next, previous file",
        "h l": "left, right",
        "s": "side by side, unified",
        "F": "find",
    },
}
"""The help: two columns on 80x24, by pane, several keys a line."""
HINTS: Mapping[str, tuple[str, ...]] = {
    "history": (
        "Enter files",
        "u undo",
        "/ search",
        "f filter",
        "Space changes",
        "r redo",
        "R restore",
        "t turn",
        "U session",
        "o oops",
        "m then to now",
        "w worktrees",
        "@ time",
        "] [ in lane",
        "p pins",
        "O undos",
    ),
    "files": (
        "Enter diff",
        "u undo file",
        "R restore file",
        "b blame",
        "v view",
        "Esc back",
        "m then to now",
        "r redo",
    ),
    "diff": (
        "i undo hunk",
        "n N hunk",
        "u undo file",
        "s side by side",
        "F find",
        "Esc back",
        "h l sideways",
        "b blame",
        "R restore file",
        "v view",
    ),
}
"""What the last line of the screen offers in each pane, the most useful first."""
ALWAYS = ("? help", "q quit")
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


def bindings(*groups: tuple[KeyBinding, ...]) -> list[BindingType]:
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
