"""`git agent-undo ui`: browse the history on a screen, and undo from there."""

import locale
import os
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import click

from gitshadow.commands.client import (
    find_layout,
    raise_if_error,
    recovered_notes,
    spelled,
)
from gitshadow.commands.options import is_interactive
from gitshadow.commands.times import parse_moment
from gitshadow.commands.undo_flow import HandOverError, check_whole, of_here
from gitshadow.commands.user_hooks import told
from gitshadow.errors import NotInitialisedError, RefusedError, ShadowError, UsageError
from gitshadow.messages.codec import A, Q, Verb, decode, encode
from gitshadow.messages.undo import UNDO, FileUndoAnswer, FileUndoRequest, HandOver
from gitshadow.render.style import is_plain_locale, named_locale
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout, journal_stamp, recorded

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


class HereEngine:
    """Answer about one worktree; paths are relative to its top, not to the current directory.

    Nothing is printed, because the UI draws on the screen; notes that come with an answer are
    passed to a callback.
    """

    def __init__(self, layout: Layout, told: Callable[[str], None]) -> None:
        self._layout, self._told = layout, told
        self._top = spelled(layout.root)
        # In this process each question opens the worktree under its lock: one after the other.
        self._one_at_a_time = threading.Lock()
        self._others: dict[str, HereEngine] = {}

    def send(self, verb: Verb[Q, A], request: Q, /) -> A:
        """Return a verb's answer; notes about interrupted undos go to the callback.

        Raises:
            ShadowError: what the verb raised.
        """
        params = {**encode(request), "cwd": self._top}
        with self._one_at_a_time:
            document = answer(self._layout, verb.name, params)
        raise_if_error(document)
        for note in recovered_notes(document):
            self._told(note)
        return decode(verb.answer, document)

    def plan(self, request: FileUndoRequest, /) -> FileUndoAnswer:
        """Return the plan of an undo.

        Raises:
            ShadowError: it cannot be planned.
        """
        return self._undo(request)

    def apply(self, request: FileUndoRequest, token: str, /) -> FileUndoAnswer:
        """Apply exactly the plan with a token, or nothing.

        Raises:
            ShadowError: files changed since, or another process is running.
        """
        return self._undo(request._replace(yes=True, token=token))

    def mark(self) -> object:
        """Return when the journal's files last changed, and how large they are."""
        return journal_stamp(self._layout)

    def worktrees(self) -> Sequence[str]:
        """Return the names of the recorded worktrees, this one first."""
        names = {one.worktree for one in recorded(self._layout)}
        here = self._layout.worktree
        return (here, *sorted(names - {here}))

    def there(self, worktree: str, /) -> "HereEngine":
        """Return the engine of another worktree.

        Raises:
            UsageError: it is gone.
        """
        if worktree == self._layout.worktree:
            return self
        if worktree not in self._others:
            found = [one for one in recorded(self._layout) if one.worktree == worktree]
            if not found:
                raise UsageError(
                    f"worktree {worktree} was removed",
                    hint="to list what is recorded: git agent-undo sessions",
                )
            self._others[worktree] = HereEngine(found[0], self._told)
        return self._others[worktree]

    def _undo(self, request: FileUndoRequest) -> FileUndoAnswer:
        whole = of_here(request)._replace(hand_over=True)
        answer = told(lambda one: self.send(UNDO, one), whole, self._layout)
        try:
            return check_whole(answer)
        except HandOverError as found:
            raise _refused(found.whose) from None


def _refused(found: HandOver) -> RefusedError:
    """Return the error that the files are only a part of this undo, with the command for all."""
    named = found.turn or found.op or f"session {found.session}"
    at = f"--session {shlex.quote(found.session)}"
    if found.op:
        command = f"redo {found.op}"
    elif found.before:
        command = f"rewind --before {found.before} --effects {at}"
    else:
        command = f"undo {found.turn} {at}"
    return RefusedError(
        f"cannot undo {named} here: it did more than change files",
        hint=f"in a shell: git agent-undo {command}",
    )
