"""What `oops`, `undo`, `redo` and `restore` have in common: plan, question, apply, report.

Invariant: without `--yes` or a token nothing is changed before a plan was shown, unless
`agent-undo.confirm` is false; what a person agreed to is applied by its token, as shown.
"""

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import click

from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.options import (
    ask_yes,
    colour_option,
    is_interactive,
    json_option,
    yes_option,
)
from gitshadow.commands.terminal import Screen, screen
from gitshadow.commands.user_hooks import told
from gitshadow.errors import ExitCode, UsageError
from gitshadow.render import json, output
from gitshadow.render.choosing import HELP, question_line, questions, taken
from gitshadow.render.document import Document, inner, rows, text
from gitshadow.render.report import (
    hunk_lines,
    item_line,
    left_lines,
    report_lines,
    would_overwrite,
)
from gitshadow.undo.hunk_selection import Choosing


def choose(plan: Document, shown: Screen) -> dict[str, list[int]]:
    """Ask for every hunk of a plan.

    Args:
        plan: A plan whose items have their hunks.
        shown: How to show them.

    Returns:
        The numbers of the parts that were taken, by the number of their item; empty where
        nothing was taken, or the input ended.
    """
    items = rows(plan, "items")
    output.show(left_lines(items, shown.view))
    forward = text(plan, "kind") == "redo"
    choosing, announced = questions(plan), -1
    while choosing.waiting:
        question = choosing.waiting[0]
        if question.item != announced:
            announced = question.item
            output.show([item_line(items[announced], shown.view, redo=forward)])
        output.show(hunk_lines(question.hunk.lines, shown.view))
        key = _answer(choosing, forward=forward)
        if key is None:
            return {}
        choosing = choosing.answer(key)
    return taken(choosing)


def _answer(choosing: Choosing, *, forward: bool) -> str | None:
    """Return one of the keys that are allowed now; None at the end of the input."""
    asked = question_line(choosing, forward=forward)
    asked += f" [{','.join(choosing.keys)},?]?"
    while True:
        sys.stdout.write(f"{asked} ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stdout.write("\n")
            return None
        key = line.strip()[:1].lower()
        if key and key in choosing.keys:
            return key
        output.show(f"{key} - {HELP[key]}" for key in choosing.keys)


_EXITS: Mapping[str, ExitCode] = {
    "reversed": ExitCode.DONE,
    "nothing_to_do": ExitCode.DONE,
    "planned": ExitCode.DONE,
    "compensated": ExitCode.RESIDUE,
    "partial": ExitCode.PARTIAL,
    "refused": ExitCode.REFUSED,
}


class UndoFlags(NamedTuple):
    """Hold the options that all four verbs take."""

    yes: bool
    as_json: bool
    dry_run: bool
    token: str | None
    on_conflict: str
    interactive: bool = False


class UndoCommand(NamedTuple):
    """Hold what one of the four verbs is asked to do; paths as documents spell them."""

    verb: str
    targets: Sequence[Mapping[str, object]] = ()
    only: Sequence[str] = ()
    leave: Sequence[str] = ()
    include_low: bool = False
    at: int | str | None = None
    pin: str | None = None
    choice: Mapping[str, object] | None = None
    hand_over: bool = False


class HandOverError(Exception):
    """Say that an undo is that of a program's turn, or of an undo of one: nothing was done.

    Of a whole session there is neither turn nor op; `before` is its first turn.
    """

    def __init__(
        self, session: str, turn: str | None, op: str | None, before: str | None = None
    ) -> None:
        super().__init__(session, turn, op, before)
        self.session, self.turn, self.op, self.before = session, turn, op, before


def manner_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options that make up a `UndoFlags`; hand it over as `manner`."""

    @functools.wraps(function)
    def gathered(
        *args: object,
        yes: bool,
        as_json: bool,
        dry_run: bool,
        token: str | None,
        on_conflict: str,
        interactive: bool,
        **others: object,
    ) -> int:
        manner = UndoFlags(yes, as_json, dry_run, token, on_conflict, interactive)
        return function(*args, manner=manner, **others)

    for option in (
        click.option(
            "--on-conflict",
            type=click.Choice(["skip", "overwrite", "markers"]),
            default="skip",
            show_default=True,
            help="What to do if later edits conflict.",
        ),
        click.option(
            "--token", help="Apply exactly the plan with this token, or nothing."
        ),
        click.option(
            "-i",
            "--interactive",
            is_flag=True,
            help="Choose hunk by hunk, as git add -p does.",
        ),
        click.option("--dry-run", is_flag=True, help="Print the plan, change nothing."),
    ):
        gathered = option(gathered)
    return yes_option(colour_option(json_option(gathered)))


def target(words: str, *, path_only: bool = False) -> Mapping[str, object]:
    """Return one target as the engine takes it."""
    return {"text": words, "path_only": path_only}


def carry_out(request: UndoCommand, manner: UndoFlags) -> int:
    """Plan, ask where a person has to be asked, apply, print, and return the exit code.

    A token counts as a yes: who has one has seen the plan.

    Raises:
        UsageError: hunks are to be chosen where nobody can be asked.
        HandOverError: it is a program's turn; only where the request says that this is handled.
    """
    if manner.interactive:
        return _carry_out_chosen(request, manner)
    shown = screen()  # before anything is applied: it may remove the current directory
    if manner.dry_run or manner.yes or manner.token:
        report = _ask(request, manner, apply=not manner.dry_run, token=manner.token)
        return _finish(report, manner, shown)
    plan = _ask(request, manner, apply=False, token=None)
    if text(plan, "status") != "planned":
        return _finish(plan, manner, shown)
    token = None  # nobody saw the plan, so the newest one is as good
    if plan.get("confirm") is not False:
        if not _agreed(plan, manner, shown):
            return int(ExitCode.REFUSED)
        token = text(plan, "token") or None
    report = _ask(request, manner, apply=True, token=token)
    return _finish(report, manner, shown)


def _carry_out_chosen(request: UndoCommand, manner: UndoFlags) -> int:
    """Plan, have a person choose hunk by hunk, apply just that, print; return the exit code.

    The answers are the yes: nothing else is asked. What is applied is the plan that was looked
    at, or nothing.

    Raises:
        UsageError: nobody can be asked, or an option was given that asks nobody.
    """
    if manner.as_json or manner.token or not is_interactive():
        raise UsageError(
            "cannot choose interactively: no terminal",
            hint="run it on a terminal, without --json and --token; or choose files"
            " with --only and --except",
        )
    shown = screen()
    plan = _ask(request, manner, apply=False, token=None, offer=True)
    if text(plan, "status") != "planned":
        return _finish(plan, manner, shown)
    taken = choose(plan, shown)
    if not taken:
        click.echo("nothing was changed")
        return int(ExitCode.REFUSED)
    choice = {"of": text(plan, "token"), "taken": taken}
    apply = not manner.dry_run
    report = _ask(request._replace(choice=choice), manner, apply=apply, token=None)
    return _finish(report, manner, shown)


def parameters(
    request: UndoCommand,
    *,
    on_conflict: str,
    apply: bool,
    token: str | None,
    offer: bool = False,
) -> Document:
    """Return what the engine's `undo` takes; without `apply` it plans alone.

    With `offer` the items of the plan come with their hunks, to choose among.
    """
    return {
        "verb": request.verb,
        "targets": [dict(item) for item in request.targets],
        "dry_run": not apply,
        "yes": apply,
        "token": token,
        "on_conflict": on_conflict,
        "only": list(request.only),
        "except": list(request.leave),
        "include_low": request.include_low,
        "at": request.at,
        "pin": request.pin,
        "offer": offer,
        "choice": request.choice,
        "runner": runner(),
        "hand_over": request.hand_over,
        "confirm": os.environ.get("GITSHADOW_CONFIRM"),
    }


def check_whole(document: Document) -> None:
    """Raise where an answer says that files are but a part of what is to be undone.

    Raises:
        HandOverError: it is a program's turn or session, or an undo of one.
    """
    found = inner(document, "hand_over")
    if found:
        turn, op, before = (
            text(found, name) or None for name in ("turn", "op", "before")
        )
        raise HandOverError(text(found, "session"), turn, op, before)


def _ask(
    request: UndoCommand,
    manner: UndoFlags,
    *,
    apply: bool,
    token: str | None,
    offer: bool = False,
) -> Document:
    params = parameters(
        request,
        on_conflict=manner.on_conflict,
        apply=apply,
        token=token,
        offer=offer,
    )
    document = told(lambda asked: ask("undo", asked), params, find_layout())
    check_whole(document)
    return document


def runner() -> str | None:
    """Return the agent's session that this command runs in, None for a person."""
    names = ("GITSHADOW_SESSION", "CLAUDE_CODE_SESSION_ID")
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _agreed(plan: Document, manner: UndoFlags, shown: Screen) -> bool:
    """Show the plan and ask; where nobody can be asked, say how to go on."""
    if manner.as_json or not is_interactive():
        if manner.as_json:
            json.show({**plan, "status": "refused", "hint": "--yes"})
        else:
            output.show(report_lines(plan, shown.view))
            click.echo("hint: nothing was changed; to apply this plan: --yes", err=True)
        return False
    output.show(report_lines({**plan, "token": ""}, shown.view))
    if ask_yes("apply this?", default=not would_overwrite(plan)):
        return True
    click.echo("nothing was changed")
    return False


def _finish(report: Document, manner: UndoFlags, shown: Screen) -> int:
    if manner.as_json:
        json.show(report)
    else:
        output.show(report_lines(report, shown.view))
    return int(_EXITS.get(text(report, "status"), ExitCode.ERROR))
