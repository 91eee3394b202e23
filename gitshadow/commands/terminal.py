"""How this terminal, or pipe, wants to see things: colour and pager as Git decides them."""

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.commands.client import current_directory, find_layout
from gitshadow.commands.options import chosen_colour
from gitshadow.errors import ShadowError
from gitshadow.render.style import View
from gitshadow.store.layout import Layout

_DEFAULT_PAGER = "less"
_NO = frozenset({"never", "false", "no", "off", "0"})


class Screen(NamedTuple):
    """How to show text, and the pager for long text (None: no pager)."""

    view: View
    pager: str | None = None


def screen() -> Screen:
    """Look at standard output, the environment and, on a terminal, git's configuration.

    Raises:
        UnsupportedError: not in a working tree.
    """
    layout = find_layout()
    prefix = _prefix(layout)
    settings = _git_settings(layout)
    terminal = sys.stdout.isatty()
    colour = _colour(settings, terminal=terminal)
    if not terminal:
        return Screen(View(colour=colour, prefix=prefix))
    view = View(colour=colour, terminal=True, prefix=prefix, width=_columns())
    return Screen(view, _pager(settings))


def _columns() -> int:
    """Return the terminal's width, that of `COLUMNS` where it is set; 0 where none is known."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdigit():
        return int(wanted)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def _prefix(layout: Layout) -> bytes:
    here = os.path.relpath(os.path.realpath(current_directory()), layout.root)
    return b"" if here == "." else os.fsencode(here)


def _colour(settings: Mapping[str, str], *, terminal: bool) -> bool:
    """Decide as Git does: `--color`, then NO_COLOR and a dumb terminal, then color.ui."""
    chosen = chosen_colour()
    if chosen in ("always", "never"):
        return chosen == "always"
    wanted = settings.get("color.ui", "auto").lower()
    # Git sets GIT_PAGER_IN_USE if its own pager reads our output, and that shows colour.
    piped = wanted == "always" or os.environ.get("GIT_PAGER_IN_USE") == "true"
    if not terminal and (chosen == "auto" or not piped):
        return False
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return wanted not in _NO or chosen == "auto"


def _pager(settings: Mapping[str, str]) -> str | None:
    """Choose as git-var(1) does: GIT_PAGER, core.pager, PAGER, less; `cat` is none."""
    chosen = os.environ.get("GIT_PAGER")
    if chosen is None:
        chosen = settings.get("core.pager")
    if chosen is None:
        chosen = os.environ.get("PAGER")
    if chosen is None:
        import shutil

        chosen = _DEFAULT_PAGER if shutil.which(_DEFAULT_PAGER) else ""
    return None if chosen.strip() in ("", "cat") else chosen


def _git_settings(layout: Layout) -> Mapping[str, str]:
    """Return the two settings; without an answer from git, none."""
    # One child process for both: each costs a few milliseconds of every command.
    from gitshadow.store.git import Git

    wanted = r"^(color\.ui|core\.pager)$"
    try:
        out = Git(layout, dict(os.environ)).run(
            "config", "-z", "--get-regexp", wanted, ok=(0, 1)
        )
    except ShadowError:
        return {}
    found: dict[str, str] = {}
    for entry in out.split(b"\0"):
        name, _, value = entry.partition(b"\n")
        if name:
            found[name.decode("utf-8", "replace").lower()] = os.fsdecode(value)
    return found
