"""What `oops`, `undo`, `redo` and `restore` have in common: plan, question, apply, report.

Invariant: without `--yes` or a token nothing is changed before a plan was shown, unless
`agent-undo.confirm` is false; a plan that a person agreed to is applied by its token.
"""

import os
import sys
from typing import NamedTuple

from click import Choice, option

from gitshadow.commands.client import find_layout, send
from gitshadow.commands.options import (
    PLAN_OPTIONS,
    gathers,
    include_low_option,
    is_interactive,
    scope_option,
    session_option,
    token_option,
    tools_option,
    utf8,
)
from gitshadow.commands.terminal import PlanFlags, PlanFlow, Screen, screen
from gitshadow.commands.user_hooks import told
from gitshadow.errors import ExitCode, UsageError
from gitshadow.messages.undo import (
    UNDO,
    FileUndoAnswer,
    FileUndoRequest,
    HandOver,
    HunkChoice,
)
from gitshadow.render import output
from gitshadow.render.choosing import HELP, Choosing, question_line, questions
from gitshadow.render.report import (
    hunk_lines,
    item_line,
    left_lines,
    report_lines,
    would_overwrite,
)


def choose(plan: FileUndoAnswer, shown: Screen) -> HunkChoice | None:
    """Ask for every hunk of a plan.

    Args:
        plan: A plan whose items have their hunks.
        shown: How to show them.

    Returns:
        What was included; None if nothing was, or the input ended.
    """
    output.show(left_lines(plan.items, shown.view))
    forward = plan.kind == "redo"
    choosing, announced = questions(plan), -1
    while choosing.waiting:
        question = choosing.waiting[0]
        if question.item != announced:
            announced = question.item
            item = plan.items[announced]
            output.show([item_line(item, shown.view, redo=forward)])
        output.show(hunk_lines(question.hunk.lines, shown.view))
        key = _answer(choosing, forward=forward)
        if key is None:
            return None
        choosing = choosing.answer(key)
    return choosing.choice_of(plan) if choosing.taken else None


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


class UndoFlags(NamedTuple):
    """The options that all four verbs take; `request` has those that are part of it."""

    request: FileUndoRequest
    as_json: bool = False
    interactive: bool = False


class HandOverError(Exception):
    """Report that an undo is about more than files; nothing was done."""

    def __init__(self, whose: HandOver) -> None:
        super().__init__(whose)
        self.whose = whose


def _manner(
    yes: bool,
    dry_run: bool,
    token: str | None,
    on_conflict: str,
    as_json: bool,
    interactive: bool,
) -> UndoFlags:
    request = FileUndoRequest(
        yes=yes, dry_run=dry_run, token=token, on_conflict=on_conflict
    )
    return UndoFlags(request, as_json, interactive)


manner_options = gathers(
    "manner",
    _manner,
    *PLAN_OPTIONS,
    option(
        "-i",
        "--interactive",
        is_flag=True,
        help="Choose hunk by hunk, as git add -p does.",
    ),
    token_option,
    option(
        "--on-conflict",
        type=Choice(("skip", "overwrite", "markers")),
        default="skip",
        show_default=True,
        help="What to do if later edits conflict.",
    ),
)


def _with_unit(
    manner: UndoFlags, include_low: bool, include_unstored: bool
) -> UndoFlags:
    request = manner.request._replace(
        include_low=include_low, include_unstored=include_unstored
    )
    return manner._replace(request=request)


# What of a unit is undone: a part of the request of `manner`.
unit_options = gathers(
    "manner",
    _with_unit,
    include_low_option,
    option(
        "--include-unstored",
        is_flag=True,
        help="Also delete untracked data that was not stored, for good.",
    ),
)


class ProgramOptions(NamedTuple):
    """The options of `undo` for an agent program."""

    session: str | None
    tools: str | None
    on_drift: str
    scope: tuple[str, ...] = ()
    resume: str | None = None


program_options = gathers(
    "program",
    ProgramOptions,
    option(
        "--resume",
        metavar="OP",
        callback=utf8,
        help="Continue an undo of a program's turn that was left incomplete.",
    ),
    option(
        "--on-drift",
        type=Choice(("skip", "overwrite")),
        default="skip",
        show_default=True,
        help="For a program's turn: what to do if things have changed since.",
    ),
    scope_option,
    session_option,
    tools_option,
)


def carry_out(request: FileUndoRequest, manner: UndoFlags) -> int:
    """Plan, ask where a person has to be asked, apply, print, and return the exit code.

    Raises:
        UsageError: hunks are to be chosen where nobody can be asked.
        HandOverError: it is a program's turn; only if the request has `hand_over`.
    """
    flags = PlanFlags(request.yes, request.dry_run, request.token, manner.as_json)

    def ask(yes: bool, token: str | None) -> FileUndoAnswer:
        return _ask(request._replace(yes=yes, token=token))

    flow = PlanFlow(
        ask, flags, report_lines, default=lambda plan: not would_overwrite(plan)
    )
    return _carry_out_chosen(request, flow) if manner.interactive else flow.carry_out()


def _carry_out_chosen(request: FileUndoRequest, flow: PlanFlow[FileUndoAnswer]) -> int:
    """Plan, have a person choose hunk by hunk, apply just that, print; return the exit code.

    The answers are the yes: nothing else is asked. What is applied is the plan that was shown,
    or nothing.

    Raises:
        UsageError: nobody can be asked, or an option was given that asks nobody.
    """
    if flow.flags.as_json or request.token or not is_interactive():
        raise UsageError(
            "cannot choose interactively: no terminal",
            hint="run it on a terminal, without --json and --token; or choose files"
            " with --only and --except",
        )
    shown = screen()
    plan = _ask(request._replace(yes=False, offer=True))
    if plan.status != "planned":
        return flow.finish(plan, shown.view)
    choice = choose(plan, shown)
    if choice is None:
        print("nothing was changed", flush=True)
        return int(ExitCode.REFUSED)
    report = _ask(request._replace(choice=choice, yes=not request.dry_run))
    return flow.finish(report, shown.view)


def of_here(request: FileUndoRequest) -> FileUndoRequest:
    """Return a request with what the environment of this process says about it."""
    confirm = os.environ.get("GITSHADOW_CONFIRM")
    return request._replace(runner=runner(), confirm=confirm)


def check_whole(answer: FileUndoAnswer) -> FileUndoAnswer:
    """Return an answer, unless it says that files are only a part of what is to be undone.

    Raises:
        HandOverError: it is a program's turn or session, or an undo of one.
    """
    if answer.hand_over is not None:
        raise HandOverError(answer.hand_over)
    return answer


def _ask(request: FileUndoRequest) -> FileUndoAnswer:
    return check_whole(
        told(lambda one: send(UNDO, one).answer, of_here(request), find_layout())
    )


def runner() -> str | None:
    """Return the agent's session that this command runs in, None for a person."""
    # An agent's program sets one of these for the commands that it runs.
    names = ("GITSHADOW_SESSION", "CLAUDE_CODE_SESSION_ID")
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
