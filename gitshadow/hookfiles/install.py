"""Plan first, then apply: which files get or lose our entries, and their content after that.

A plan reads everything and writes nothing. The plan that was shown is what is written; a file
that changed between the two is kept.
Invariant: `apply(plan_uninstall(...))` after `apply(plan_install(...))` leaves every byte,
and every directory, as it was.
"""

import difflib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gitshadow.errors import RefusedError, ShadowError, UsageError
from gitshadow.hookfiles import files, merge, packaged, places
from gitshadow.hookfiles.catalog import AGENTS, SERVED_BY
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.entries import Want
from gitshadow.hookfiles.files import Content
from gitshadow.hookfiles.ledger import Ledger, LedgerRecord
from gitshadow.hookfiles.placement import (
    Agent,
    Extra,
    InstallScope,
    Owned,
    PackagedPiece,
    Placement,
)
from gitshadow.hookfiles.places import HookSite, SharedFile
from gitshadow.store.digests import digest
from gitshadow.words import did_you_mean


class FileAction(StrEnum):
    """What happens to a file."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    NONE = "none"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStep:
    """The planned action on one file, or the reason why it is impossible.

    Attributes:
        record: The ledger's entry to write (install) or to delete (uninstall).
        former: The bytes for the backup.
        shown_as: The one line of the difference, for a symbolic link.
        entries: How many entries of ours the file has, after an install or before a removal.
        note: What a person should know about the file.
        is_extra: The file is of a command or skill, not of hooks.
    """

    agent: str
    scope: InstallScope
    path: str
    real: str = ""
    action: FileAction = FileAction.NONE
    before: Content | None = None
    after: bytes | None = None
    mode: int | None = None
    record: LedgerRecord | None = None
    former: bytes | None = None
    shown_as: str = ""
    entries: int = 0
    note: str = ""
    is_extra: bool = False
    error: ShadowError | None = None

    @property
    def is_found(self) -> bool:
        """Return whether a removal has something to do, if only with a record."""
        return self.action is not FileAction.NONE or self.record is not None

    def diff(self) -> list[str]:
        """Return the change in the form of `diff -u`, without its two file names."""
        if self.action in (FileAction.NONE, FileAction.FAIL):
            return []
        if self.shown_as:
            return [("-" if self.action is FileAction.DELETE else "+") + self.shown_as]
        old = _lines(None if self.before is None else self.before.data)
        new = _lines(self.after)
        return list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]


def _lines(data: bytes | None) -> list[str]:
    """Return the lines of a file as a difference shows them."""
    if data is None:
        return []
    *lines, last = data.decode("utf-8", "replace").split("\n")
    return [*lines, f"{last}  (no newline at the end)"] if last else lines


def find_agent(name: str) -> Agent:
    """Return what is known about an agent, by its own name or that of one it shares with.

    Raises:
        UsageError: nothing can be installed for it.
    """
    agent = AGENTS.get(SERVED_BY.get(name, name))
    if agent is None:
        raise UsageError(
            f"cannot find hooks for agent {name!r}",
            hint=did_you_mean(name, AGENTS) or "see: git agent-undo hooks list",
        )
    return agent


def plan_install(
    agent: Agent,
    scope: InstallScope,
    around: InstallEnvironment,
    extras: Collection[Extra] = (),
) -> list[FileStep]:
    """Return what installing an agent's hooks and extras would write; nothing is written.

    A file that cannot be used gives a failed step with its reason. Extras that were installed
    before are brought up to date, also if they are not named.

    Raises:
        UsageError: the agent has no such scope, or there is no worktree here.
    """
    site = HookSite(agent, scope, around)
    hooks = _plan_hooks(site, line=Extra.STATUSLINE in extras)
    return [*hooks, *_plan_extras(site, extras)]


def _plan_extras(site: HookSite, extras: Collection[Extra]) -> Iterator[FileStep]:
    for extra, piece in site.extras():
        step = _put_piece(site, piece)
        if extra in extras or site.ledger.find(step.real):
            yield replace(step, is_extra=True)


def _plan_hooks(site: HookSite, *, line: bool) -> list[FileStep]:
    placement = _placement(site)
    if isinstance(placement, Owned):
        return [_put_piece(site, piece) for piece in placement.pieces]
    path = site.path(placement.files[0])
    try:
        file = places.choose(placement, site.around)
        path = file.path
        return [_put_in(site, file, line=line)]
    except ShadowError as error:
        return [_failed(site, path, error)]


def _placement(site: HookSite) -> Placement:
    agent, scope, around = site
    found = agent.placements.get(scope)
    if found is None:
        only = agent.default_scope
        whose = "the user" if only is InstallScope.USER else "a project"
        raise UsageError(
            f"{agent.name} reads only hooks of {whose}", hint=f"use --{only}"
        )
    if scope is InstallScope.PROJECT and around.worktree is None:
        raise UsageError(
            "not in a Git working tree: no project to install into",
            hint="change to a repository, or install for yourself: --user",
        )
    return found


def _put_in(site: HookSite, file: SharedFile, *, line: bool) -> FileStep:
    wanted, ledger = site.want(file.shape, adds_line=line), site.ledger
    old = ledger.find(file.real)
    text = file.editor.put_in(file.text, wanted)
    data = packaged.encoded(text)
    note = _OWN_LINE if line and merge.has_line(file.text, wanted) else ""
    step = replace(
        _step(site, file.path, file.real, file.content),
        entries=len(file.editor.entries(text, wanted)),
        note=note,
    )
    if text == file.text and file.content is not None:
        return step
    former = _former(file, wanted, ledger, old)
    return _writing(step, data, former, old)


def _step(
    site: HookSite, path: str, real: str = "", before: Content | None = None
) -> FileStep:
    return FileStep(
        agent=site.agent.name, scope=site.scope, path=path, real=real, before=before
    )


def _former(
    file: SharedFile, wanted: Want, ledger: Ledger, old: LedgerRecord | None
) -> bytes | None:
    """Return what an uninstallation restores: the file without our entries."""
    if file.content is None:
        return None
    known = _backup(ledger, old)
    text = file.editor.take_out(file.text, wanted, _text(known))
    if text == file.text:
        return file.content.data
    if old is not None and known is not _LOST and old.has(file.content.data):
        return known
    return None if text is None else packaged.encoded(text)


_OWN_LINE = "your own status line is kept; it can print: git-agent-undo prompt"


# None already means that there was no file before. A settings file cannot begin with NUL.
_LOST = b"\0lost"


def _backup(ledger: Ledger, record: LedgerRecord | None) -> bytes | None:
    """Return the bytes before the installation, None for no file, `_LOST` if unknown."""
    if record is None:
        return _LOST
    try:
        return ledger.backup(record)
    except ShadowError:
        return _LOST


def _text(known: bytes | None) -> str | None:
    if known is _LOST:
        return None
    return (known or b"").decode("utf-8", "replace")


def _writing(
    step: FileStep, data: bytes, former: bytes | None, old: LedgerRecord | None
) -> FileStep:
    record = LedgerRecord(
        path=step.real,
        agent=step.agent,
        before=None if former is None else digest(former),
        after=digest(data),
        mode=None if step.before is None else step.before.mode,
        made=() if old is None else old.made,
    )
    action = FileAction.CREATE if step.before is None else FileAction.CHANGE
    mode = step.mode if step.before is None else step.before.mode
    return replace(
        step, action=action, after=data, mode=mode, record=record, former=former
    )


def _put_piece(site: HookSite, piece: PackagedPiece) -> FileStep:
    path = site.path(piece.target)
    try:
        real, there = site.read(piece)
        data, old = site.packaged(piece), site.ledger.find(real)
    except ShadowError as error:
        return _failed(site, path, error)
    step = _step(site, path, real, there)
    if there is None:
        mode = 0o755 if piece.executable else None
        return _writing(replace(step, mode=mode), data, None, old)
    if there.data == data:
        return step
    refused = None
    if not packaged.is_ours(there.data):
        refused = RefusedError(
            f"could not write {path}: a file that gitshadow did not create is there",
            hint="move it away, or call git-agent-undo from it",
        )
    elif old is not None and not old.has(there.data):
        refused = RefusedError(
            f"could not write {path}: it was changed since it was installed",
            hint="move it away to reinstall",
        )
    if refused is not None:
        return _failed(site, path, refused)
    return _writing(step, data, None, old)


def plan_uninstall(
    agent: Agent, scope: InstallScope, around: InstallEnvironment
) -> list[FileStep]:
    """Return what uninstalling an agent's hooks would write; nothing is written.

    Raises:
        UsageError: as `plan_install`.
    """
    site = HookSite(agent, scope, around)
    hooks = _plan_removal(site)
    extras = (_take_piece(site, piece) for _, piece in site.extras())
    return [*hooks, *(step for step in extras if step.is_found)]


def _plan_removal(site: HookSite) -> list[FileStep]:
    placement = _placement(site)
    if isinstance(placement, Owned):
        return [_take_piece(site, piece) for piece in placement.pieces]
    try:
        found = list(places.candidates(placement, site.around))
    except ShadowError as error:
        return [_failed(site, site.path(placement.files[0]), error)]
    steps = [_take_out(site, file) for file in found]
    return [one for one in steps if one.is_found] or [_step(site, found[0].path)]


def _take_out(site: HookSite, file: SharedFile) -> FileStep:
    try:
        return _taking(site, file)
    except ShadowError as error:
        return _failed(site, file.path, error)


def _taking(site: HookSite, file: SharedFile) -> FileStep:
    wanted, ledger = site.want(file.shape), site.ledger
    record = ledger.find(file.real)
    step = _step(site, file.path, file.real, file.content)
    step = replace(step, record=record)
    if file.content is None:
        return step
    step = replace(step, entries=len(file.editor.entries(file.text, wanted)))
    known = _backup(ledger, record)
    untouched = record is not None and record.has(file.content.data)
    if untouched and known is not _LOST:
        return _leaving(step, known)
    text = file.editor.take_out(file.text, wanted, _text(known))
    if text == file.text:
        return step
    # Only our entries are left, but the file is older than they are: it stays, empty.
    if text is None and record is not None and record.before is not None:
        text = ""
    return _leaving(step, None if text is None else packaged.encoded(text))


def _leaving(step: FileStep, data: bytes | None) -> FileStep:
    if data is None:
        return replace(step, action=FileAction.DELETE)
    mode = None if step.before is None else step.before.mode
    return replace(step, action=FileAction.CHANGE, after=data, mode=mode)


def _take_piece(site: HookSite, piece: PackagedPiece) -> FileStep:
    path = site.path(piece.target)
    try:
        real, there = site.read(piece)
        record = site.ledger.find(real)
    except ShadowError as error:
        return _failed(site, path, error)
    step = replace(_step(site, path, real, there), record=record)
    if there is None or not packaged.is_ours(there.data):
        return step
    if record is not None and not record.has(there.data):
        changed = RefusedError(
            f"cannot delete {path}: it was changed since it was installed",
            hint="delete it yourself if you no longer need its content",
        )
        return _failed(site, path, changed)
    return replace(step, action=FileAction.DELETE)


def _failed(site: HookSite, path: str, error: ShadowError) -> FileStep:
    error = places.named(path, error)
    return replace(_step(site, path), action=FileAction.FAIL, error=error)


def apply(
    steps: Sequence[FileStep], around: InstallEnvironment, *, installing: bool
) -> list[FileStep]:
    """Apply a plan, file by file; return the steps with their results.

    If a file changed since the plan was made, or cannot be written, its step fails and the file is
    unchanged.
    """
    return [_applied(step, around, installing=installing) for step in steps]


def _applied(
    step: FileStep, around: InstallEnvironment, *, installing: bool
) -> FileStep:
    if step.action is FileAction.FAIL:
        return step
    ledger = Ledger(around.states[step.scope])
    try:
        if step.action is not FileAction.NONE:
            _check_unchanged(step)
        if installing:
            _install(step, ledger)
        else:
            _uninstall(step, ledger)
    except ShadowError as error:
        return replace(step, action=FileAction.FAIL, error=error)
    return step


def _check_unchanged(step: FileStep) -> None:
    now = files.read(step.real)
    was = None if step.before is None else step.before.data
    if (None if now is None else now.data) != was:
        raise RefusedError(
            f"cannot change {step.path}: it has changed", hint="try again"
        )


def _install(step: FileStep, ledger: Ledger) -> None:
    if step.record is None or step.after is None:
        return
    # The record comes first, so that `uninstall` knows the file even after a crash between the two.
    old = ledger.find(step.real)
    kept = _backup(ledger, old)
    ledger.remember(step.record, step.former)
    try:
        made = files.write(step.real, step.after, step.mode)
    except ShadowError:
        if old is None:
            ledger.forget(step.record, [])
        else:
            ledger.remember(old, None if kept is _LOST else kept)
        raise
    if made:
        record = replace(step.record, made=(*made, *step.record.made))
        ledger.remember(record, step.former)


def _uninstall(step: FileStep, ledger: Ledger) -> None:
    if step.action is FileAction.DELETE:
        files.delete(step.real)
    elif step.after is not None:
        files.write(step.real, step.after, step.mode)
    # Read again: a file that was removed before may have passed its directories to this one.
    record = ledger.find(step.real)
    if record is None:
        return
    gone = not os.path.lexists(step.real)
    made = list(record.made) if gone else []
    ledger.forget(record, files.remove_directories(made))
