"""`git agent-undo ui`: browse the history on a screen, and undo from there."""

import locale
import os
import time
from importlib.util import find_spec

import click

from gitshadow.commands.client import find_layout
from gitshadow.commands.here import HereEngine
from gitshadow.commands.options import is_interactive
from gitshadow.commands.times import parse_moment
from gitshadow.errors import NotInitialisedError, ShadowError, UsageError
from gitshadow.render.style import is_plain_locale, named_locale
from gitshadow.store.layout import Layout

_DARK_GROUNDS = frozenset({"0", "1", "2", "3", "4", "5", "6", "8"})


@click.command("ui")
@click.option("--light/--dark", default=None, help="For a light or a dark terminal.")
@click.option(
    "--ascii",
    is_flag=True,
    help="Draw with ASCII only; the default without a UTF-8 locale.",
)
@click.argument("words", nargs=-1, metavar="[FILTER]...")
def command(light: bool | None, ascii: bool, words: tuple[str, ...]) -> None:
    """Browse the history in a terminal UI, and undo from there.

    FILTER is what `f` accepts in the UI: words to search for, `agent:NAME`, `session:ID`,
    `file:PATH`, `kind:KIND`, `since:WHEN`, `until:WHEN`. `?` shows the keys. Everything it
    shows is also in `log`, `show`, `diff`, `ops` and `pin --list`, there with `--json`.
    """
    _check_terminal()
    layout = find_layout()
    if not layout.initialised:
        raise NotInitialisedError(
            "cannot show the history: nothing is recorded here",
            hint="git agent-undo init",
        )
    # textual is an optional dependency (the extra `ui`).
    if find_spec("textual") is None:
        raise ShadowError(
            "cannot start the terminal UI: textual is not installed",
            hint="pip install 'gitshadow[ui]', or: pipx inject gitshadow textual",
        )
    _show(
        layout, light=_is_light() if light is None else light, ascii=ascii, words=words
    )


def _show(layout: Layout, *, light: bool, ascii: bool, words: tuple[str, ...]) -> None:
    from gitshadow.ui.app import UiSettings, ViewApp
    from gitshadow.ui.filters import parse

    setting = UiSettings(
        name=os.path.basename(layout.root),
        moment=lambda said: parse_moment(said, time.time_ns()),
        unicode=not ascii and _has_unicode(),
        light=light,
        filter=parse(" ".join(words)),
    )
    app = ViewApp(lambda told: HereEngine(layout, told), setting)
    app.run()
    if app.unexpected is not None:
        raise app.unexpected
    if app.return_code:
        raise SystemExit(app.return_code)


def _check_terminal() -> None:
    """Refuse to start if nothing can be drawn.

    Raises:
        UsageError: there is no terminal, or it cannot move its cursor.
    """
    others = "git agent-undo log, and git agent-undo show ID"
    if not is_interactive():
        raise UsageError("the terminal UI needs a terminal", hint=others)
    # A dumb terminal has no cursor movement; textual would print escape sequences as text.
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise UsageError(
            "the terminal UI cannot run on this terminal (TERM=dumb)",
            hint=others,
        )


def _has_unicode() -> bool:
    """Return whether the terminal shows UTF-8, by the locale."""
    if is_plain_locale(os.environ):
        return False
    try:
        locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:
        return "utf" in named_locale(os.environ).lower()
    return locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8"


def _is_light() -> bool:
    """Return whether the background is light, as some terminals report in COLORFGBG."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return ground.isdigit() and ground not in _DARK_GROUNDS
