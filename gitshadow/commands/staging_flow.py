"""What stage, commit, split, apply and move have in common: options, plan, question, report.

Invariant: nothing changes before a plan was shown, unless `--yes` or a token is given or
`agent-undo.confirm` is false; a plan that a person agreed to is applied by its token.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import click

from gitshadow.commands.client import spelled
from gitshadow.commands.options import (
    PLAN_OPTIONS,
    except_option,
    gathers,
    include_low_option,
    spelled_paths,
    token_option,
)
from gitshadow.commands.terminal import PlanFlags, PlanFlow
from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.codec import JsonObject, encode
from gitshadow.messages.staging import StagingAnswer, UnitRequest
from gitshadow.messages.undo import UndoTarget
from gitshadow.render.style import View

plan_options = gathers(
    "flags",
    PlanFlags,
    *PLAN_OPTIONS,
    token_option,
)


def _part(
    only: tuple[str, ...], leave: tuple[str, ...], include_low: bool
) -> UnitRequest:
    """Return what limits a unit, a request without targets."""
    chosen = tuple(spelled_paths(only)), tuple(spelled_paths(leave))
    return UnitRequest((), *chosen, include_low)


unit_options = gathers(
    "part",
    _part,
    click.option("--only", multiple=True, metavar="PATH", help="Only this path."),
    except_option,
    include_low_option,
)


class CommitFlags(NamedTuple):
    """The options for commits: the arguments of `git commit`, and whether to add trailers."""

    git: tuple[str, ...] = ()
    trailers: bool = False


def _commit_flags(no_verify: bool, trailers: bool, edit: bool = False) -> CommitFlags:
    words = ["--edit"] if edit else []
    words += ["--no-verify"] if no_verify else []
    return CommitFlags(tuple(words), trailers)


commit_options = gathers(
    "how",
    _commit_flags,
    click.option(
        "--trailers",
        is_flag=True,
        help="Name agents and sessions in trailers of the message.",
    ),
    click.option("--no-verify", is_flag=True, help="Skip Git's commit hooks."),
)


def unit_of(targets: Sequence[str], part: UnitRequest) -> UnitRequest:
    """Return a unit of what was typed, limited as `part` is.

    Raises:
        UsageError: nothing was typed.
    """
    if not targets:
        raise UsageError("no turn or session given", hint="git agent-undo turns")
    return part._replace(targets=tuple(UndoTarget(spelled(word)) for word in targets))


def joined_message(given: Sequence[str]) -> str | None:
    """Return a message of several paragraphs, None if none is given."""
    return "\n\n".join(given) + "\n" if given else None


def confirm() -> str | None:
    """Return what the environment says about questions."""
    return os.environ.get("GITSHADOW_CONFIRM")


def carry_out(
    ask: Callable[[bool, str | None], StagingAnswer],
    flags: PlanFlags,
    lines: Callable[[StagingAnswer, View], Iterator[str]],
) -> int:
    """Plan, ask where a person has to be asked, apply, print, and return the exit code."""
    return PlanFlow(ask, flags, lines, _document).carry_out()


def _document(answer: StagingAnswer) -> JsonObject:
    """Return an answer without what only this process needs."""
    return encode(answer._replace(confirm=None, prepared=None, files=()))


def done(answer: StagingAnswer) -> StagingAnswer:
    """Return the report of a plan that was carried out."""
    skipped = any(item.state == "skipped" for item in answer.items)
    return answer._replace(status="partial" if skipped else "done")


def check_token(token: str | None, plan: StagingAnswer) -> None:
    """Refuse where what somebody has looked at is not what would be done now.

    Raises:
        RefusedError: the token is that of another plan; nothing was changed.
    """
    if token is not None and token != plan.token:
        raise RefusedError(
            f"cannot apply plan {token}: the plan is different now",
            hint="nothing was changed; to see the new plan: --dry-run",
        )
