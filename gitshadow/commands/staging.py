"""stage, commit and split: what one turn changed, in the index and in commits.

Invariant: `git commit` runs here, in the user's own process and environment.
"""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress

import click

from gitshadow.commands.client import find_layout, send, spelled
from gitshadow.commands.options import (
    SeparatingCommand,
    include_low_option,
    separated,
    spelled_paths,
)
from gitshadow.commands.staging_flow import (
    CommitFlags,
    carry_out,
    check_token,
    commit_options,
    confirm,
    done,
    joined_message,
    plan_options,
    unit_of,
    unit_options,
)
from gitshadow.commands.terminal import PlanFlags
from gitshadow.errors import RefusedError, ShadowError, UsageError
from gitshadow.messages.staging import (
    ADOPT,
    COMMIT,
    SPLIT,
    STAGE,
    AdoptRequest,
    CommitPlan,
    CommitRequest,
    SplitRequest,
    StageRequest,
    StagingAnswer,
    StagingItem,
    UnitRequest,
)
from gitshadow.messages.undo import UndoTarget
from gitshadow.render.staging import split_lines, staging_lines
from gitshadow.store.user_git import UserGit

_OID_DIGITS = 12


@click.command("stage", cls=SeparatingCommand)
@click.option(
    "--undo", is_flag=True, help="Restore the index from before the last one."
)
@include_low_option
@plan_options
@click.argument("target", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def stage_command(
    undo: bool,
    include_low: bool,
    target: str | None,
    paths: tuple[str, ...],
    flags: PlanFlags,
) -> int:
    """Stage what a turn or session changed, and nothing else.

    TARGET is any id that another command prints. What is staged already stays staged, and the
    files are not changed. Changes that depend on others, which are not staged, are skipped and
    listed.
    """
    if undo == (target is not None):
        raise UsageError(
            "stage what? no target given" if not undo else "--undo takes no target",
            hint="git agent-undo stage TURN, or stage --undo",
        )
    chosen = [*spelled_paths(paths), *separated()]
    targets = (UndoTarget(spelled(target)),) if target is not None else ()
    unit = UnitRequest(targets, tuple(chosen), (), include_low)
    request = StageRequest(unit, undo, confirm=confirm())

    def ask(yes: bool, token: str | None) -> StagingAnswer:
        return send(STAGE, request._replace(yes=yes, token=token)).answer

    return carry_out(ask, flags, staging_lines)


@click.command("commit")
@click.option(
    "-m",
    "--message",
    multiple=True,
    metavar="MSG",
    help="The message; the prompt by default. Several are paragraphs.",
)
@click.option("-e", "--edit", is_flag=True, help="Edit the message first.")
@commit_options
@unit_options
@plan_options
@click.argument("targets", nargs=-1, metavar="TURN...")
def commit_command(
    message: tuple[str, ...],
    targets: tuple[str, ...],
    how: CommitFlags,
    part: UnitRequest,
    flags: PlanFlags,
) -> int:
    """Commit what some turns or sessions changed, and nothing else.

    It runs `git commit`, so your hooks and your signing work as always. The message is the prompt.
    What else is changed or staged stays so.
    """
    request = CommitRequest(
        unit_of(targets, part),
        message=joined_message(message),
        trailers=how.trailers,
        confirm=confirm(),
    )

    def ask(yes: bool, token: str | None) -> StagingAnswer:
        asked = request._replace(yes=yes, token=token)
        return _committed(send(COMMIT, asked).answer, how.git)

    return carry_out(ask, flags, staging_lines)


@click.command("split")
@commit_options
@unit_options
@plan_options
def split_command(how: CommitFlags, part: UnitRequest, flags: PlanFlags) -> int:
    """Make one commit for each turn with uncommitted changes.

    The plan lists the commits, the oldest turn first, each with its files and its prompt as the
    message. What belongs to no turn stays uncommitted.
    """
    request = SplitRequest(part.only, part.except_, part.include_low, confirm=confirm())

    def ask(yes: bool, token: str | None) -> StagingAnswer:
        plan = send(SPLIT, request).answer
        check_token(token, plan)
        if not yes or plan.status != "planned":
            return plan
        each = CommitRequest(part, trailers=how.trailers, yes=True)
        return _split(plan, each, how.git)

    return carry_out(ask, flags, split_lines)


def _committed(answer: StagingAnswer, options: Sequence[str]) -> StagingAnswer:
    """Run `git commit` for what was prepared; return the report.

    Raises:
        RefusedError: HEAD has moved; nothing was changed.
        ShadowError: a hook or git refused the commit; nothing was committed.
    """
    prepared = answer.prepared
    if prepared is None or prepared.index_ is None:
        return answer
    git, index = UserGit(find_layout(), os.environ), prepared.index_
    try:
        if git.head() != prepared.parent:
            raise RefusedError(
                "cannot commit: HEAD has moved since the plan was made",
                hint="nothing was changed; run it again",
            )
        code = git.commit(index, answer.commits[0].message, options)
        commit = git.head()
    finally:
        for name in (index, f"{index}.lock"):
            with suppress(FileNotFoundError):
                os.unlink(name)
    if commit is None or commit == prepared.parent:
        raise ShadowError(
            f"could not commit: git commit exited with {code}",
            hint="nothing was committed; to skip the commit hooks: --no-verify",
        )
    notes = _adopt(commit, prepared.parent, answer.items)
    plan = answer.commits[0]._replace(commit=commit)
    back = "git update-ref -d HEAD"
    if prepared.parent is not None:
        back = f"git reset --soft {prepared.parent[:_OID_DIGITS]}"
    return done(answer)._replace(
        commits=(plan,), notes=(*answer.notes, *notes), way_back=back
    )


def _adopt(
    commit: str, parent: str | None, items: Sequence[StagingItem]
) -> tuple[str, ...]:
    """Let the index follow a commit; return what could not be done in sentences."""
    try:
        return send(ADOPT, AdoptRequest(commit, parent)).answer.notes
    except ShadowError as error:
        # The commit exists, so this is no failure of the verb; git itself can do the rest.
        paths = shlex.join(item.path for item in items if item.state == "included")
        return (f"{error.message}; to update it: git reset -q -- {paths}",)


def _split(
    plan: StagingAnswer, request: CommitRequest, options: Sequence[str]
) -> StagingAnswer:
    """Make the commits of a plan in order; each is planned again on top of the one before."""
    first = UserGit(find_layout(), os.environ).head()
    made: list[CommitPlan] = []
    notes: list[str] = []
    for one in plan.commits:
        targets = (UndoTarget(one.target),)
        asked = request._replace(unit=request.unit._replace(targets=targets))
        try:
            done = _committed(send(COMMIT, asked).answer, options)
        except ShadowError as error:
            if not made:
                raise
            notes.append(f"stopped: {error.message}")
            break
        made += done.commits if done.status in ("done", "partial") else ()
        notes += done.notes
    rest = plan.commits[len(made) :]
    back = (
        f"git reset --soft {first[:_OID_DIGITS]}" if first else "git update-ref -d HEAD"
    )
    skipped = any(item.state == "skipped" for one in made for item in one.items)
    return plan._replace(
        status="partial" if rest or skipped else "done",
        commits=(*made, *rest),
        notes=tuple(notes),
        way_back=back,
    )
