"""A daemon at login: a systemd user unit, and the link that makes systemd start it.

The unit is a template for all worktrees (systemd.unit(5)); the link is what `systemctl --user
enable` makes. No program is run: systemd reads both at the next login.
Invariant: everything that was created is removed with the last worktree.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gitshadow.errors import RefusedError, ShadowError, UnsupportedError
from gitshadow.hookfiles import files, install
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.hookfiles.ledger import Ledger, LedgerRecord, sha256
from gitshadow.hookfiles.placement import (
    Agent,
    FileLocation,
    InstallScope,
    Owned,
    PackagedPiece,
    Root,
)

_UNIT = "agent-undo@.service"
_DIRECTORY = FileLocation(Root.CONFIG, "systemd/user")
_SERVICE = Agent(
    name="systemd",
    placements={
        InstallScope.USER: Owned(
            (
                PackagedPiece(
                    f"systemd/{_UNIT}",
                    FileLocation(Root.CONFIG, f"systemd/user/{_UNIT}"),
                ),
            )
        )
    },
    signs=(),
)
_PLAIN = re.compile(rb"[A-Za-z0-9:_.]")
# "The total length of the unit name including the suffix must not exceed 255" (systemd.unit(5)).
_LONGEST = 255
# systemd runs no program with these in its path.
_UNSAFE = frozenset("\"'\\$")


@dataclass(frozen=True, slots=True)
class LoginPlan:
    """The planned steps; a plan writes nothing."""

    unit: Sequence[FileStep]
    links: Sequence[FileStep]
    installing: bool

    @property
    def steps(self) -> Sequence[FileStep]:
        """Return the steps of the unit, then those of the links."""
        return [*self.unit, *self.links]


def escaped(path: str) -> str:
    """Return a path as the instance of a unit, as `systemd-escape --path` prints it."""
    parts = os.fsencode(os.path.normpath(path)).strip(b"/")
    if not parts:
        return "-"
    found = []
    for at in range(len(parts)):
        byte = parts[at : at + 1]
        if byte == b"/":
            found.append("-")
        elif _PLAIN.fullmatch(byte) and not (at == 0 and byte == b"."):
            found.append(byte.decode("ascii"))
        else:
            found.append(f"\\x{byte[0]:02x}")
    return "".join(found)


def plan(root: str, around: InstallEnvironment) -> LoginPlan:
    """Return the steps that make the daemon of a worktree start at login.

    Raises:
        UnsupportedError: the path is too long for the name of a unit, or systemd cannot run the
            path of our program.
    """
    if _UNSAFE & set(around.executable) or not around.executable.isprintable():
        raise UnsupportedError(
            f"cannot start at login: systemd cannot run {around.executable}"
        )
    name = f"agent-undo@{escaped(root)}.service"
    if len(name) > _LONGEST:
        raise UnsupportedError(
            "cannot start at login: the path is too long for the name of a unit"
        )
    path = _link_of(root, around)
    action, error = FileAction.CREATE, None
    if _is_ours(path):
        action = FileAction.NONE
    elif os.path.lexists(path):
        action = FileAction.FAIL
        error = RefusedError(
            f"could not write {path}: a file that gitshadow did not create is there"
        )
    unit = install.plan_install(_SERVICE, InstallScope.USER, around)
    return LoginPlan(unit, [_step(path, action, error)], True)


def plan_removal(roots: Sequence[str], around: InstallEnvironment) -> LoginPlan:
    """Return the steps that remove these worktrees; the unit is removed with the last one."""
    paths = [_link_of(root, around) for root in roots]
    links = [_step(path, FileAction.DELETE) for path in paths if _is_ours(path)]
    going = {link.path for link in links}
    staying = set(_all_links(around)) - going
    unit: list[FileStep] = []
    if not staying:
        steps = install.plan_uninstall(_SERVICE, InstallScope.USER, around)
        unit = [
            step for step in steps if step.action is not FileAction.NONE or step.record
        ]
    return LoginPlan(unit, links, False)


def apply(plan: LoginPlan, around: InstallEnvironment) -> LoginPlan:
    """Apply a plan; return it with its results."""
    # systemd cannot start a link whose unit is missing: the unit is written before the first link,
    # and deleted after the last one.
    if plan.installing:
        unit = install.apply(plan.unit, around, installing=True)
        failed = any(step.error is not None for step in unit)
        links = plan.links if failed else [_made(one, around) for one in plan.links]
    else:
        links = [_removed(one, around) for one in plan.links]
        unit = install.apply(plan.unit, around, installing=False)
    return replace(plan, unit=unit, links=links)


def _step(path: str, action: FileAction, error: ShadowError | None = None) -> FileStep:
    return FileStep(
        agent=_SERVICE.name,
        scope=InstallScope.USER,
        path=path,
        action=action,
        shown_as="a link to the unit",
        error=error,
    )


def _link_of(root: str, around: InstallEnvironment) -> str:
    return os.path.join(_wants(around), f"agent-undo@{escaped(root)}.service")


def _wants(around: InstallEnvironment) -> str:
    return os.path.join(around.path(_DIRECTORY) or "", "default.target.wants")


def _all_links(around: InstallEnvironment) -> list[str]:
    wants = _wants(around)
    try:
        names = os.listdir(wants)
    except OSError:
        return []
    return [path for name in names if _is_ours(path := os.path.join(wants, name))]


def _is_ours(path: str) -> bool:
    try:
        return os.path.basename(os.readlink(path)) == _UNIT
    except OSError:
        return False


def _made(link: FileStep, around: InstallEnvironment) -> FileStep:
    if link.action is not FileAction.CREATE:
        return link
    target = f"../{_UNIT}"
    record = LedgerRecord(
        path=link.path,
        agent=_SERVICE.name,
        before=None,
        after=sha256(target.encode()),
        mode=None,
    )
    try:
        made = files.link(link.path, target)
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
