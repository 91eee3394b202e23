"""Print answers as JSON, or as text for this terminal or pipe.

Git's settings decide colour and pager. With `--json` nothing but JSON reaches standard output.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Generic, NamedTuple, TypeVar

from gitshadow.commands.client import Reply, current_directory, find_layout
from gitshadow.commands.options import ask_yes, chosen_colour, is_interactive
from gitshadow.errors import ExitCode
from gitshadow.messages.codec import A, JsonObject, M, decode, encode
from gitshadow.messages.staging import StagingAnswer
from gitshadow.messages.undo import EXITS, FileUndoAnswer
from gitshadow.render import output
from gitshadow.render.style import View
from gitshadow.store.git_settings import read_settings
from gitshadow.store.layout import Layout

P = TypeVar("P", FileUndoAnswer, StagingAnswer)
R = TypeVar("R")
_SETTINGS = ("color.ui", "core.pager")
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
    # A child process, which costs some milliseconds: git is asked once, and only if it matters.
    settings = cache(partial(read_settings, layout, os.environ, _SETTINGS))
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


def _colour(settings: Callable[[], Mapping[str, str]], *, terminal: bool) -> bool:
    """Decide as Git does: `--color`, then NO_COLOR and a dumb terminal, then color.ui."""
    chosen = chosen_colour()
    if chosen in ("always", "never"):
        return chosen == "always"
    if not terminal and chosen == "auto":
        return False
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    wanted = settings().get("color.ui", "auto").lower()
    # Git sets GIT_PAGER_IN_USE if its own pager reads our output, and that shows colour.
    piped = wanted == "always" or os.environ.get("GIT_PAGER_IN_USE") == "true"
    if not terminal and not piped:
        return False
    return wanted not in _NO or chosen == "auto"


def _pager(settings: Callable[[], Mapping[str, str]]) -> str | None:
    """Choose as git-var(1) does: GIT_PAGER, core.pager, PAGER, less; `cat` is none."""
    chosen = os.environ.get("GIT_PAGER")
    if chosen is None:
        chosen = settings().get("core.pager")
    if chosen is None:
        chosen = os.environ.get("PAGER")
    if chosen is None:
        import shutil

        chosen = _DEFAULT_PAGER if shutil.which(_DEFAULT_PAGER) else ""
    return None if chosen.strip() in ("", "cat") else chosen


def print_answer(
    reply: Reply[A],
    text_of: Callable[[A, View], Iterator[str]],
    *,
    as_json: bool,
    paged: bool = False,
) -> None:
    """Print one answer: its document as JSON, or text."""
    if as_json:
        output.show_json(reply.document)
        return
    shown = screen()
    lines = text_of(reply.answer, shown.view)
    output.show(lines, pager=shown.pager if paged else None)


def print_rows(
    found: Sequence[M],
    text_of: Callable[[Sequence[M], View], Iterator[str]],
    *,
    as_json: bool,
    empty: str,
) -> None:
    """Print rows: one JSON object per line, or text through the pager.

    Args:
        found: The rows.
        text_of: Formats rows.
        as_json: Print objects, and nothing where there are none.
        empty: What to say, on standard error, where there are none: and what to type next.
    """
    if as_json:
        output.show_json_lines(map(encode, found))
    else:
        _print_lines(found, text_of, empty)


def print_list(
    reply: Reply[A],
    rows_of: Callable[[A], Sequence[R]],
    text_of: Callable[[Sequence[R], View], Iterator[str]],
    *,
    as_json: bool,
    empty: str,
) -> None:
    """Print a list: one JSON object per line, or text through the pager.

    Args:
        reply: The answer; the `rows` of its document are the objects.
        rows_of: Returns its rows as values; not called for JSON.
        text_of: Formats rows.
        as_json: Print objects, and nothing where there are none.
        empty: What to print on standard error if there is no row.
    """
    if as_json:
        output.show_json_lines(decode(_Rows, reply.document).rows)
        return
    _print_lines(rows_of(reply.answer), text_of, empty)


class _Rows(NamedTuple):
    """The rows of a document as they came, with fields that this program may not know."""

    rows: tuple[JsonObject, ...]


def _print_lines(
    found: Sequence[R],
    text_of: Callable[[Sequence[R], View], Iterator[str]],
    empty: str,
) -> None:
    shown = screen()
    if found:
        output.show(text_of(found, shown.view), pager=shown.pager)
    else:
        print(empty, file=sys.stderr)


class PlanFlags(NamedTuple):
    """The options that all verbs take that show a plan first."""

    yes: bool
    dry_run: bool
    token: str | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class PlanFlow(Generic[P]):
    """How a command shows a plan, asks, applies it, and reports.

    Attributes:
        ask: Asks for the plan, or with `True` to apply it: that of a token, if there is one.
        flags: The options.
        lines: Formats plan and report.
        document: Returns a plan or report as the document of `--json`.
        default: Returns what Enter means to the question.
    """

    ask: Callable[[bool, str | None], P]
    flags: PlanFlags
    lines: Callable[[P, View], Iterator[str]]
    document: Callable[[P], JsonObject] = encode
    default: Callable[[P], bool] = lambda _plan: True

    def carry_out(self) -> int:
        """Plan, ask where a person has to be asked, apply, print, and return the exit code.

        A token counts as a yes: who has one has seen the plan.
        """
        # Before anything is applied, because an undo may remove the current directory.
        view, flags = screen().view, self.flags
        if flags.dry_run or flags.yes or flags.token:
            return self.finish(self.ask(not flags.dry_run, flags.token), view)
        plan = self.ask(False, None)
        if plan.status != "planned":
            return self.finish(plan, view)
        # Without a question nobody saw the plan, so the newest plan is as good.
        token = None
        # An answer of an older daemon has no `confirm`, and then the question is asked.
        if plan.confirm is not False:
            if not self._agreed(plan, view):
                return int(ExitCode.REFUSED)
            token = plan.token or None
        return self.finish(self.ask(True, token), view)

    def _agreed(self, plan: P, view: View) -> bool:
        """Show the plan and ask; without a terminal, print how to continue."""
        if self.flags.as_json:
            # A script gets the whole plan, so that it can apply it with --token.
            refused = {**self.document(plan), "status": "refused", "hint": "--yes"}
            output.show_json(refused)
            return False
        if not is_interactive():
            output.show(self.lines(plan, view))
            words = "hint: nothing was changed; to apply this plan: --yes"
            print(words, file=sys.stderr)
            return False
        output.show(self.lines(plan._replace(token=""), view))
        if ask_yes("apply this?", default=self.default(plan)):
            return True
        print("nothing was changed", flush=True)
        return False

    def finish(self, answer: P, view: View) -> int:
        """Print a plan or a report; return its exit code."""
        if self.flags.as_json:
            output.show_json(self.document(answer))
        else:
            output.show(self.lines(answer, view))
        return int(EXITS.get(answer.status, ExitCode.ERROR))
