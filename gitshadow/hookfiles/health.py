"""Whether installed hooks work: what prevents them, and how to fix it.

Invariant: a file that cannot be read is reported as such, never as "not installed".
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import files, invocation, merge, packaged, places, toml
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.entries import HookEntry, Want, fault, is_changed
from gitshadow.hookfiles.files import Content
from gitshadow.hookfiles.placement import (
    Agent,
    FileLocation,
    InstallScope,
    Owned,
    PackagedPiece,
    Root,
    Shared,
)
from gitshadow.hookfiles.places import HookSite, SharedFile
from gitshadow.model import JsonObject


class HealthState(StrEnum):
    """How an installation is, the worst last."""

    ABSENT = "absent"
    INSTALLED = "installed"
    OUTDATED = "outdated"
    STALE = "stale"
    UNTRUSTED = "untrusted"
    SHADOWED = "shadowed"
    DISABLED = "disabled"
    BROKEN = "broken"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One problem and its fix."""

    state: HealthState
    problem: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of one agent's hooks in one scope, and their file.

    `changed` are the events whose entries a person changed; they report all the same.
    """

    agent: str
    scope: InstallScope
    path: str
    is_there: bool = False
    findings: tuple[HealthFinding, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def state(self) -> HealthState:
        """Return the worst of its findings' states."""
        least = HealthState.INSTALLED if self.is_there else HealthState.ABSENT
        states = (least, *(finding.state for finding in self.findings))
        return max(states, key=list(HealthState).index)


def look(
    agent: Agent, scope: InstallScope, around: InstallEnvironment
) -> Health | None:
    """Return the state of an agent's hooks and extras; None if it has no such scope here."""
    placement = agent.placements.get(scope)
    if placement is None or (scope is InstallScope.PROJECT and around.worktree is None):
        return None
    site = HookSite(agent, scope, around)
    if isinstance(placement, Owned):
        hooks = _look_at_owned(site, placement)
    else:
        hooks = _look_at_shared(site, placement)
    return replace(hooks, findings=(*hooks.findings, *_older_extras(site)))


def _older_extras(site: HookSite) -> Iterator[HealthFinding]:
    """Yield the commands and skills of another version; a person may change or delete them."""
    for _, piece in site.extras():
        try:
            real, content = site.read(piece)
            record = site.ledger.find(real)
        except ShadowError as error:
            yield _unreadable(error)
            continue
        if content is None or not packaged.is_ours(content.data):
            continue
        if record is None or record.has(content.data):
            yield from _older(site, piece, content)


def _older(
    site: HookSite, piece: PackagedPiece, content: Content
) -> Iterator[HealthFinding]:
    if content.data != site.packaged(piece):
        problem = f"{site.path(piece.target)} is from another version"
        yield HealthFinding(HealthState.STALE, problem, _again(site))


def _again(site: HookSite) -> str:
    return f"git agent-undo hooks install {site.agent.name} --{site.scope}"


def _look_at_owned(site: HookSite, owned: Owned) -> Health:
    agent, scope, around = site
    found: list[HealthFinding] = []
    there = 0
    for piece in owned.pieces:
        try:
            _, content = site.read(piece)
        except ShadowError as error:
            found.append(_unreadable(error))
            continue
        if content is None or not packaged.is_ours(content.data):
            continue
        there += 1
        found += _older(site, piece, content)
        if piece.executable and not content.mode & 0o100:
            where = site.path(piece.target)
            problem, fix = f"{where} is not executable", f"chmod +x {where}"
            found.append(HealthFinding(HealthState.BROKEN, problem, fix))
        for program in sorted(set(packaged.programs(content.data))):
            found += _program_findings(site, program)
    if there and agent.name == "pi" and scope is InstallScope.PROJECT:
        found += _untrusted_project(around)
    if 0 < there < len(owned.pieces):
        problem = f"{len(owned.pieces) - there} of its files are missing"
        found.append(HealthFinding(HealthState.STALE, problem, _again(site)))
    return Health(
        agent=agent.name,
        scope=scope,
        path=site.path(owned.pieces[0].target),
        is_there=there > 0,
        findings=_distinct(found),
    )


def _unreadable(error: ShadowError) -> HealthFinding:
    return HealthFinding(
        HealthState.UNREADABLE, error.message, error.hint or "fix the file"
    )


def _distinct(findings: list[HealthFinding]) -> tuple[HealthFinding, ...]:
    return tuple(dict.fromkeys(findings))


def _program_findings(site: HookSite, program: str) -> Iterator[HealthFinding]:
    if not site.around.finds(program):
        problem = f"{program} is missing, so the hooks do nothing"
        yield HealthFinding(HealthState.BROKEN, problem, _again(site))


def _look_at_shared(site: HookSite, shared: Shared) -> Health:
    agent, scope, around = site
    path = site.path(shared.files[0])
    try:
        found = list(places.candidates(shared, around))
        chosen = places.choose(shared, around)
    except ShadowError as error:
        trouble = (_unreadable(error),)
        return Health(agent=agent.name, scope=scope, path=path, findings=trouble)
    findings: list[HealthFinding] = []
    holders: list[str] = []
    changed: list[str] = []
    for file in found:
        try:
            wanted = site.want(file.shape)
            theirs = file.editor.changed(file.text, wanted)
            there = [*file.editor.entries(file.text, wanted), *theirs]
            if not there:
                continue
            holders.append(file.path)
            changed += [entry.event for entry in theirs]
            findings += _file_findings(site, file, wanted, there)
        except ShadowError as error:
            findings.append(_unreadable(places.named(file.path, error)))
            continue
        if file.real != chosen.real:
            problem = f"{file.path} is ignored because {chosen.path} exists"
            findings.append(HealthFinding(HealthState.SHADOWED, problem, _again(site)))
    if holders:
        findings += _switches(agent, around)
    return Health(
        agent=agent.name,
        scope=scope,
        path=holders[0] if holders else chosen.path,
        is_there=bool(holders),
        findings=_distinct(findings),
        changed=tuple(dict.fromkeys(changed)),
    )


def _file_findings(
    site: HookSite, file: SharedFile, wanted: Want, there: list[HookEntry]
) -> Iterator[HealthFinding]:
    again = _again(site)
    programs = {invocation.program_of(entry.command) for entry in there}
    for program in sorted(one for one in programs if one is not None):
        yield from _program_findings(site, program)
    for entry in there:
        theirs = is_changed(entry, wanted)
        command = entry.command if theirs else wanted.command
        wrong = fault(entry, wanted._replace(command=command))
        if wrong is not None:
            fix = f"correct your entry in {file.path}" if theirs else again
            yield HealthFinding(HealthState.STALE, f"{entry.event}: {wrong}", fix)
    events = {entry.event for entry in there}
    lacking = [event.name for event in wanted.shape.events if event.name not in events]
    if lacking:
        yield HealthFinding(
            HealthState.STALE, f"nothing at {', '.join(lacking)}", again
        )
    if site.agent.name == "codex":
        yield from _untrusted(site.around, file, there)


def _switches(agent: Agent, around: InstallEnvironment) -> Iterator[HealthFinding]:
    """Yield the settings that keep an agent from running any hook."""
    if agent.name in ("claude-code", "qwen"):
        for place in _settings_of(agent):
            if _json(place, around).get("disableAllHooks") is True:
                path = around.path(place)
                problem = f"disableAllHooks is set in {path}"
                yield HealthFinding(
                    HealthState.DISABLED, problem, "remove that setting"
                )
    elif agent.name == "gemini":
        for place in _settings_of(agent):
            switch = _json(place, around).get("hooksConfig")
            if isinstance(switch, dict) and switch.get("enabled") is False:
                problem = f"hooksConfig.enabled is false in {around.path(place)}"
                yield HealthFinding(HealthState.DISABLED, problem, "set it to true")
    elif agent.name == "codex":
        for root in (Root.CODEX, Root.WORKTREE):
            name = "config.toml" if root is Root.CODEX else ".codex/config.toml"
            place = FileLocation(root, name)
            text = _text(place, around)
            if text and toml.is_switched_off(text):
                problem = f"[features] hooks is false in {around.path(place)}"
                yield HealthFinding(HealthState.DISABLED, problem, "set it to true")


def _settings_of(agent: Agent) -> Iterator[FileLocation]:
    for placement in agent.placements.values():
        if isinstance(placement, Shared):
            yield from placement.files
    if agent.name == "claude-code":
        yield FileLocation(Root.WORKTREE, ".claude/settings.local.json")


def _text(place: FileLocation, around: InstallEnvironment) -> str | None:
    path = around.path(place)
    content = None if path is None else files.read(path)
    return None if content is None else content.data.decode("utf-8", "replace")


def _json(place: FileLocation, around: InstallEnvironment) -> JsonObject:
    """Return a settings file's values, empty if it is missing or not JSON."""
    try:
        root = merge.parse(_text(place, around) or "").root
    except ShadowError:
        return {}
    return root.data if root is not None and isinstance(root.data, dict) else {}


def _untrusted(
    around: InstallEnvironment, file: SharedFile, ours: list[HookEntry]
) -> Iterator[HealthFinding]:
    """Compare with the approvals that Codex keeps in the user's config.toml."""
    # Their keys are `<file>:<event in snake case>:<group>:<handler>`.
    given = toml.approvals(_text(FileLocation(Root.CODEX, "config.toml"), around) or "")
    known = {re.sub(r":\d+:\d+$", "", key) for key in given}
    lacking = [
        entry.event
        for entry in ours
        if known.isdisjoint(
            f"{path}:{re.sub('(?<!^)(?=[A-Z])', '_', entry.event).lower()}"
            for path in (file.path, file.real)
        )
    ]
    if lacking:
        some = "" if len(lacking) == len(ours) else f" for {', '.join(lacking)}"
        problem = f"not approved in Codex yet{some}"
        yield HealthFinding(
            HealthState.UNTRUSTED, problem, "type /hooks in Codex and approve them"
        )


def _untrusted_project(around: InstallEnvironment) -> Iterator[HealthFinding]:
    """Look for Pi's decision on the project; the one for the nearest parent directory counts."""
    # Without a decision Pi asks, and if it cannot ask, it does not load the extension ("Security"
    # of its documentation, 0.87).
    decisions = _json(FileLocation(Root.HOME, ".pi/agent/trust.json"), around)
    settings = _json(FileLocation(Root.HOME, ".pi/agent/settings.json"), around)
    decided: object = settings.get("defaultProjectTrust") == "always"
    above = os.path.realpath(around.worktree or "/")
    while above not in decisions and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if decisions.get(above, decided) is not True:
        problem = "Pi does not trust this project, so it does not load the extension"
        fix = "type /trust in Pi; without a terminal: pi --approve"
        yield HealthFinding(HealthState.UNTRUSTED, problem, fix)
