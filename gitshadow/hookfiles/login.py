"""A daemon at login: the files in which the system's service manager finds it.

Which files these are, the platform says; here they are planned, written, noted and removed.
Invariant: everything that was created is removed with the last worktree.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gitshadow.errors import RefusedError, ShadowError, UnsupportedError
from gitshadow.hookfiles import files, install
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.hookfiles.ledger import Ledger, LedgerRecord
from gitshadow.hookfiles.placement import (
    Agent,
    FileLocation,
    InstallScope,
    Owned,
    PackagedPiece,
    Root,
)
from gitshadow.platform import current
from gitshadow.platform.port import LoginEntry, LoginService
from gitshadow.store.digests import digest

_HINT = "add `git agent-undo daemon start` to your shell profile; hooks start it too"


@dataclass(frozen=True, slots=True)
class LoginPlan:
    """The planned steps; a plan writes nothing."""

    unit: Sequence[FileStep]
    links: Sequence[FileStep]
    installing: bool
    entry: LoginEntry | None = None

    @property
    def steps(self) -> Sequence[FileStep]:
        """Return the steps of the unit, then those of the links."""
        return [*self.unit, *self.links]


def service(environ: Mapping[str, str]) -> LoginService:
    """Return what starts programs when this user logs in.

    Raises:
        UnsupportedError: there is nothing, or it does not serve this user.
    """
    found = current().login_service()
    why = (
        "no service manager of this system is known"
        if found is None
        else found.problem(environ)
    )
    if found is None or why is not None:
        raise UnsupportedError(f"cannot start at login: {why}", hint=_HINT)
    return found


def plan(root: str, around: InstallEnvironment) -> LoginPlan:
    """Return the steps that make the daemon of a worktree start at login.

    Raises:
        UnsupportedError: the service cannot start our program, or not in this worktree.
    """
    found = current().login_service()
    if found is None:
        return LoginPlan([], [], True)
    entry = found.entry(root, around.executable)
    path = os.path.join(_entries(found, around), entry.name)
    action, error = FileAction.CREATE, None
    if found.is_ours(path):
        action = FileAction.NONE
    elif os.path.lexists(path):
        action = FileAction.FAIL
        error = RefusedError(
            f"could not write {path}: a file that gitshadow did not create is there"
        )
    unit: Sequence[FileStep] = ()
    if found.packaged is not None:
        unit = install.plan_install(_agent(found), InstallScope.USER, around)
    return LoginPlan(unit, [_step(found, path, action, error)], True, entry)


def plan_removal(roots: Sequence[str], around: InstallEnvironment) -> LoginPlan:
    """Return the steps that remove these worktrees; the unit is removed with the last one."""
    found = current().login_service()
    if found is None:
        return LoginPlan([], [], False)
    paths = [_path_of(found, root, around) for root in roots]
    links = [
        _step(found, path, FileAction.DELETE)
        for path in paths
        if path is not None and found.is_ours(path)
    ]
    going = {link.path for link in links}
    staying = set(_all_entries(found, around)) - going
    unit: list[FileStep] = []
    if found.packaged is not None and not staying:
        steps = install.plan_uninstall(_agent(found), InstallScope.USER, around)
        unit = [step for step in steps if step.is_found]
    return LoginPlan(unit, links, False)


def apply(plan: LoginPlan, around: InstallEnvironment) -> LoginPlan:
    """Apply a plan; return it with its results."""
    # A link whose unit is missing cannot be started: the unit is written before the first link, and
    # deleted after the last one.
    if plan.installing:
        unit = install.apply(plan.unit, around, installing=True)
        failed = any(step.error is not None for step in unit)
        links = plan.links
        if plan.entry is not None and not failed:
            links = [_made(one, plan.entry, around) for one in links]
    else:
        links = [_removed(one, around) for one in plan.links]
        unit = install.apply(plan.unit, around, installing=False)
    return replace(plan, unit=unit, links=links)


def _agent(found: LoginService) -> Agent:
    """Return the service's packaged file as something to install."""
    place = FileLocation(Root(found.root), f"{found.directory}/{found.packaged}")
    piece = PackagedPiece(f"{found.name}/{found.packaged}", place)
    placements = {InstallScope.USER: Owned((piece,))}
    return Agent(name=found.name, placements=placements, signs=())


def _step(
    found: LoginService, path: str, action: FileAction, error: ShadowError | None = None
) -> FileStep:
    return FileStep(
        agent=found.name,
        scope=InstallScope.USER,
        path=path,
        action=action,
        shown_as=found.shown_as,
        error=error,
    )


def _path_of(found: LoginService, root: str, around: InstallEnvironment) -> str | None:
    """Return the entry of a worktree, None where it can have none."""
    try:
        name = found.entry(root, around.executable).name
    except UnsupportedError:
        return None
    return os.path.join(_entries(found, around), name)


def _entries(found: LoginService, around: InstallEnvironment) -> str:
    top = around.path(FileLocation(Root(found.root), found.directory)) or ""
    return os.path.normpath(os.path.join(top, found.entries))


def _all_entries(found: LoginService, around: InstallEnvironment) -> list[str]:
    directory = _entries(found, around)
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    paths = (os.path.join(directory, name) for name in names)
    return [path for path in paths if found.is_ours(path)]


def _made(link: FileStep, entry: LoginEntry, around: InstallEnvironment) -> FileStep:
    if link.action is not FileAction.CREATE:
        return link
    content = (entry.target or entry.text or "").encode()
    record = LedgerRecord(
        path=link.path,
        agent=link.agent,
        before=None,
        after=digest(content),
        mode=None,
    )
    try:
        if entry.target is not None:
            made = files.link(link.path, entry.target)
        else:
            made = files.write(link.path, content, None)
        ledger = Ledger(around.states[InstallScope.USER])
        ledger.remember(replace(record, made=tuple(made)), None)
    except ShadowError as error:
        return replace(link, action=FileAction.FAIL, error=error)
    return link


def _removed(link: FileStep, around: InstallEnvironment) -> FileStep:
    ledger = Ledger(around.states[InstallScope.USER])
    try:
        files.delete(link.path)
        record = ledger.find(link.path)
        if record is not None:
            ledger.forget(record, files.remove_directories(list(record.made)))
    except ShadowError as error:
        return replace(link, action=FileAction.FAIL, error=error)
    return link
