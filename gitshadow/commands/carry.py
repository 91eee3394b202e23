"""apply and move: what one turn changed, on another branch or in another worktree.

Invariant: a move applies there before it undoes here, so that until its end nothing is missing
anywhere; what cannot be undone here is undone there again.
"""

import os
import shlex
from collections.abc import Sequence
from typing import NamedTuple

import click

from gitshadow.commands.client import find_layout, send
from gitshadow.commands.staging_flow import (
    carry_out,
    check_token,
    confirm,
    done,
    joined_message,
    plan_options,
    unit_of,
    unit_options,
)
from gitshadow.commands.terminal import PlanFlags
from gitshadow.commands.undo_flow import runner
from gitshadow.errors import UsageError
from gitshadow.messages.staging import (
    CARRIED,
    CARRY,
    COMMIT,
    CarriedFile,
    CarriedRequest,
    CarryRequest,
    CommitRequest,
    StagingAnswer,
    StagingItem,
    UnitRequest,
)
from gitshadow.messages.undo import UNDO, FileUndoAnswer, FileUndoRequest, UndoTarget
from gitshadow.render.staging import staging_lines
from gitshadow.store.user_git import UserGit

_OID_DIGITS = 12


@click.command("apply")
@click.option("--onto", metavar="BRANCH", help="Commit it on a branch.")
@click.option("--worktree", metavar="DIR", help="Apply it to the files of a worktree.")
@click.option(
    "-m",
    "--message",
    multiple=True,
    metavar="MSG",
    help="For --onto: the message; the prompt by default.",
)
@unit_options
@plan_options
@click.argument("targets", nargs=-1, metavar="TURN...")
def apply_command(
    onto: str | None,
    worktree: str | None,
    message: tuple[str, ...],
    targets: tuple[str, ...],
    part: UnitRequest,
    flags: PlanFlags,
) -> int:
    """Apply what a turn changed to another branch or worktree.

    With --onto it becomes a commit on a branch that is not checked out; no hook runs. With
    --worktree it becomes uncommitted changes there. Nothing changes here.
    """
    if (onto is None) == (worktree is None):
        raise UsageError(
            "apply where? give --onto BRANCH or --worktree DIR",
            hint="git branch, or: git worktree list",
        )
    unit = unit_of(targets, part)
    if worktree is not None:
        carrier = _Carrier(unit, _other_worktree(worktree))
        return carry_out(carrier.apply, flags, staging_lines)
    branch = onto or ""
    request = CommitRequest(
        unit, joined_message(message), onto=branch, confirm=confirm()
    )

    def ask(yes: bool, token: str | None) -> StagingAnswer:
        asked = request._replace(yes=yes, token=token)
        return _committed_onto(send(COMMIT, asked).answer, branch)

    return carry_out(ask, flags, staging_lines)


@click.command("move")
@unit_options
@plan_options
@click.argument("target")
@click.argument("worktree")
def move_command(
    target: str, worktree: str, part: UnitRequest, flags: PlanFlags
) -> int:
    """Move what a turn changed to another worktree.

    It is applied there and undone here, each file in both places or in neither. A file that can
    only be changed in one of them is skipped.
    """
    unit = unit_of((target,), part)
    carrier = _Carrier(unit, _other_worktree(worktree))
    return carry_out(carrier.move, flags, staging_lines)


def _committed_onto(answer: StagingAnswer, branch: str) -> StagingAnswer:
    """Make the prepared commit on a branch; return the report.

    Raises:
        StoreError: the branch has moved, or git could not do it; nothing was changed.
    """
    prepared = answer.prepared
    if prepared is None or prepared.tree is None or prepared.parent is None:
        return answer
    git, plan = UserGit(find_layout(), os.environ), answer.commits[0]
    commit = git.commit_tree(prepared.tree, prepared.parent, plan.message)
    subject = plan.message.split("\n", 1)[0]
    git.move_branch(branch, commit, prepared.parent, f"agent-undo apply: {subject}")
    old, new = prepared.parent[:_OID_DIGITS], commit[:_OID_DIGITS]
    back = shlex.join(("git", "update-ref", f"refs/heads/{branch}", old, new))
    plan = plan._replace(commit=commit)
    return done(answer)._replace(commits=(plan,), way_back=back)


def _other_worktree(typed: str) -> str:
    """Return the top of another worktree of this repository.

    Raises:
        UsageError: the directory is none.
    """
    here, there = find_layout(), find_layout(os.path.realpath(typed))
    if there.common_dir != here.common_dir or there.root == here.root:
        raise UsageError(
            f"cannot use {typed}: not another worktree of this repository",
            hint="git worktree list",
        )
    return there.root


class _Carrier(NamedTuple):
    """A unit that is to be applied to another worktree, or moved there."""

    unit: UnitRequest
    root: str

    @property
    def name(self) -> str:
        """Return the unit's name."""
        return " ".join(one.text for one in self.unit.targets)

    def carried(self) -> StagingAnswer:
        """Return what the unit changed here."""
        return send(CARRIED, CarriedRequest(self.unit)).answer

    def carry(
        self, files: Sequence[CarriedFile], *, yes: bool, token: str | None = None
    ) -> StagingAnswer:
        """Apply files there."""
        request = CarryRequest(
            tuple(files), self.name, yes, token, runner(), confirm=confirm()
        )
        return send(CARRY, request, root_hint=self.root).answer

    def apply(self, yes: bool, token: str | None) -> StagingAnswer:
        """Plan to apply the unit there, and do it if asked."""
        found = self.carried()
        answer = self.carry(found.files, yes=yes, token=token)
        # What could not be separated here is skipped there, and makes the whole a part.
        answer = answer._replace(items=(*found.items, *answer.items), maybe=found.maybe)
        if found.items and answer.status in ("done", "nothing_to_do"):
            answer = answer._replace(status="partial")
        if not answer.items:
            return answer._replace(notes=found.notes)
        return answer._replace(way_back=self.way_back(answer))

    def way_back(self, done: StagingAnswer) -> str | None:
        """Return the command that undoes what was done there, None if nothing was."""
        op = done.op_short or done.op_id
        if op is None:
            return None
        return shlex.join(("git", "-C", self.root, "agent-undo", "undo", op))

    def move(self, yes: bool, token: str | None) -> StagingAnswer:
        """Plan the move, and do it if asked."""
        found = self.carried()
        there = self.carry(found.files, yes=False)
        here = self._undo(yes=False)
        items = tuple(
            _moved(item, one, here)
            for item, one in zip(there.items, found.files, strict=True)
        )
        chosen = [
            one
            for item, one in zip(items, found.files, strict=True)
            if item.state == "included"
        ]
        plan = StagingAnswer(
            "move",
            self.name,
            "planned"
            if chosen
            else "partial"
            if found.items or items
            else "nothing_to_do",
            f"{there.token}-{here.token}" if there.token and here.token else "",
            (*found.items, *items),
            maybe=found.maybe,
            notes=found.notes if not found.files and not found.items else (),
            confirm=there.confirm,
        )
        check_token(token, plan)
        return self._move(plan, chosen) if yes and chosen else plan

    def _move(
        self, plan: StagingAnswer, chosen: Sequence[CarriedFile]
    ) -> StagingAnswer:
        """Apply there first: until it is undone here, nothing is missing anywhere."""
        there = self.carry(chosen, yes=True)
        landed = [
            one
            for item, one in zip(there.items, chosen, strict=True)
            if item.state in ("included", "already")
        ]
        try:
            here = self._undo(yes=True, files=landed) if landed else None
        except BaseException:
            self._take_back(there.op_id, landed)
            raise
        kept = [one for one in landed if here is None or not _is_undone(one, here)]
        self._take_back(there.op_id, kept)
        gone = {one.after.path for one in landed if one not in kept}
        items = tuple(
            item
            if item.state != "included"
            or not {item.path, item.old_path}.isdisjoint(gone)
            else item._replace(
                action="none",
                state="skipped",
                reason="conflict",
                detail="it changed while it was moved",
            )
            for item in plan.items
        )
        skipped = any(item.state == "skipped" for item in items)
        backs = [self.way_back(there)]
        if here is not None and here.op_id is not None:
            backs.insert(0, f"git agent-undo redo {here.op_short or here.op_id}")
        return plan._replace(
            status="partial" if skipped else "done",
            items=items,
            op_id=here.op_id if here is not None else None,
            way_back=" && ".join(filter(None, backs)) or None,
        )

    def _undo(
        self, *, yes: bool, files: Sequence[CarriedFile] | None = None
    ) -> FileUndoAnswer:
        unit = self.unit
        request = FileUndoRequest(
            targets=unit.targets,
            only=unit.only if files is None else _named(files, find_layout().root),
            except_=unit.except_,
            include_low=unit.include_low,
            yes=yes,
            runner=runner(),
        )
        return send(UNDO, request).answer

    def _take_back(self, op: str | None, files: Sequence[CarriedFile]) -> None:
        """Undo there what could not be undone here."""
        if op is None or not files:
            return
        request = FileUndoRequest(
            targets=(UndoTarget(op),),
            only=_named(files, self.root),
            yes=True,
            runner=runner(),
        )
        send(UNDO, request, root_hint=self.root)


def _named(files: Sequence[CarriedFile], root: str) -> tuple[str, ...]:
    """Return all names of some files, from the top of a worktree."""
    return tuple(dict.fromkeys(f"{root}/{path}" for one in files for path in one.paths))


def _moved(item: StagingItem, one: CarriedFile, here: FileUndoAnswer) -> StagingItem:
    """Return what becomes of a file that is to be moved."""
    if item.state == "skipped":
        return item
    if not _is_undone(one, here):
        reasons = [row for row in here.items if {row.path, row.old_path} & _ends(one)]
        why = reasons[0] if reasons else None
        return item._replace(
            action="none",
            state="skipped",
            reason=why.reason if why else "conflict",
            detail=(why.detail if why else None) or "it cannot be undone here",
        )
    # It may be there already; then it is only undone here.
    return item._replace(state="included")


def _is_undone(one: CarriedFile, here: FileUndoAnswer) -> bool:
    return any(
        row.state == "reversed" and {row.path, row.old_path} & _ends(one)
        for row in here.items
    )


def _ends(one: CarriedFile) -> set[str | None]:
    return {one.before.path, one.after.path}
