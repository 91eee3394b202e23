"""The facts on docs/agents/*.md, from the code that installs and reads hooks: `make docs`.

Only the text between the two markers of a page is generated; the rest is written by hand.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gitshadow.adapters.base import ContextChannel, HookPhase, Traits
from gitshadow.adapters.registry import KNOWN_AGENTS, module_of, traits
from gitshadow.adapters.shape import Shape
from gitshadow.hookfiles.catalog import AGENTS, SERVED_BY
from gitshadow.hookfiles.placement import (
    FileLocation,
    InstallScope,
    Owned,
    Placement,
    Root,
    Shared,
)
from gitshadow.model import ToolClass
from tests.agents import verified

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "agents"
VERIFIED = ROOT / "gitshadow" / "hookfiles" / "verified.json"
OVERVIEW = ROOT / "docs" / "agents.md"
_BEGIN = "<!-- Generated from the code by `make docs`; do not edit. -->"
_END = "<!-- Written by hand below. -->"
_ROOTS = {
    Root.HOME: "~/",
    Root.CONFIG: "~/.config/",
    Root.CLAUDE: "~/.claude/",
    Root.CODEX: "~/.codex/",
    Root.COPILOT: "~/.copilot/",
    Root.KIMI: "~/.kimi-code/",
    Root.VIBE: "~/.vibe/",
    Root.WORKTREE: "",
}
_NOTICE = {
    ContextChannel.JSON: "yes, as `additionalContext` of its prompt event",
    ContextChannel.TEXT: "yes, as text of its prompt event",
    ContextChannel.NONE: "no: it documents no way to add context, or its answer is a decision",
}
_OWN_TURN = "assigned by gitshadow, from prompt to prompt"
_OWN_CALL = "derived by gitshadow from the content of the call"
_EVENT_IN_PLUGIN = re.compile(r'"((?:[a-z]+[._])+[a-z]+)"')
_MANY = 2
_SCOPES = (
    (InstallScope.USER, "", "for all your repositories"),
    (InstallScope.PROJECT, "--project ", "for one repository, to be committed"),
)

Timeouts = Mapping[str, float | None]


def facts(name: str) -> str:
    """Return the facts about an agent: the commands to install its hooks, and a table."""
    rows = [*_installed(name), *_read(name, _shape(name)), *_sure(traits(name))]
    head = f"| | `{name}` |\n| --- | --- |\n"
    return "".join((*_commands(name), head, *(f"| {a} | {b} |\n" for a, b in rows)))


def renewed(name: str, page: str) -> str:
    """Return a page with its facts generated again; text outside the markers is kept.

    An agent that only runs in `exec` may have no adapter; its page then has no facts.
    """
    if name not in KNOWN_AGENTS:
        return page
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{facts(name)}\n{_END}{after}"


def _commands(name: str) -> Iterator[str]:
    served = SERVED_BY.get(name, name)
    if served not in AGENTS:
        return
    yield "```\n"
    for scope, option, what in _SCOPES:
        if scope in AGENTS[served].placements:
            command = f"git agent-undo hooks install {option}{served}"
            yield f"{command:<52}  # {what}\n"
    status = f"git agent-undo hooks status {served}"
    yield f"{status:<52}  # check that they work\n"
    yield "```\n\n"


def _installed(name: str) -> Iterator[tuple[str, str]]:
    served = SERVED_BY.get(name, name)
    agent = AGENTS.get(served)
    if agent is None:
        return
    others = {InstallScope.USER: "a project", InstallScope.PROJECT: "the user"}
    for scope, _, what in _SCOPES:
        there = agent.placements.get(scope)
        nowhere = f"none: it reads only the hooks of {others[scope]}"
        yield f"file, {what}", nowhere if there is None else _files(there)
    placement = next(iter(agent.placements.values()))
    shared = isinstance(placement, Shared)
    yield (
        "owner of the file",
        "you: gitshadow's entries are merged into it" if shared else "gitshadow",
    )
    timeouts = _timeouts(placement)
    yield "events", ", ".join(f"`{event}`" for event in timeouts)
    yield "timeout of a hook", _limits(timeouts)


def _files(placement: Placement) -> str:
    if isinstance(placement, Owned):
        targets = [piece.target for piece in placement.pieces]
        if len(targets) > _MANY:
            top = posixpath.commonpath([target.path for target in targets])
            return f"`{_spelled(FileLocation(targets[0].root, top))}/`"
        return " and ".join(f"`{_spelled(target)}`" for target in targets)
    first = " or ".join(f"`{_spelled(file)}`" for file in placement.files)
    instead = placement.toml or placement.fallback
    if instead is None:
        return first
    return f"{first}; `{_spelled(instead)}` is used instead if it contains hooks"


def _spelled(place: FileLocation) -> str:
    return _ROOTS[place.root] + place.path


def _timeouts(placement: Placement) -> Timeouts:
    """Return every registered event, with the timeout of its hook in seconds."""
    if isinstance(placement, Shared):
        per_second = 1000 if placement.shape.milliseconds else 1
        return {
            event.name: None if event.timeout is None else event.timeout / per_second
            for event in placement.shape.events
        }
    sources = [ROOT / "hooks" / piece.source for piece in placement.pieces]
    found: dict[str, float | None] = {}
    for source in sources:
        if source.suffix == ".json":
            found.update(_in_json(json.loads(source.read_text("utf-8"))))
        elif source.suffix == ".ts":
            text = source.read_text("utf-8")
            limit = re.search(r"timeout: (\d+)", text)
            assert limit is not None
            names = _EVENT_IN_PLUGIN.findall(text)
            found.update(dict.fromkeys(names, int(limit[1]) / 1000))
        else:
            found[source.name] = None
    return found


def _in_json(document: Mapping[str, object]) -> Iterator[tuple[str, float | None]]:
    hooks = document.get("hooks")
    if isinstance(hooks, list):
        for hook in hooks:
            yield hook["trigger"], hook.get("timeout")
    elif isinstance(hooks, dict):
        for event, groups in hooks.items():
            handler = groups[0].get("hooks", groups)[0]
            yield event, handler.get("timeout", handler.get("timeoutSec"))


def _limits(timeouts: Timeouts) -> str:
    known = [limit for limit in timeouts.values() if limit is not None]
    if not known:
        return "set by the agent: it cannot be set, or its unit is unknown"
    usual = max(set(known), key=known.count)
    others = [
        f"`{event}` {limit:g} s"
        for event, limit in timeouts.items()
        if limit is not None and limit != usual
    ]
    return ", ".join((f"{usual:g} s", *others))


def _shape(name: str) -> Shape | None:
    shapes = [one for one in vars(module_of(name)).values() if isinstance(one, Shape)]
    return next((one for one in shapes if one.agent == name), None)


def _read(name: str, shape: Shape | None) -> Iterator[tuple[str, str]]:
    if shape is None:
        return
    yield "session id", _keys(shape.session)
    yield "turn id", _turn(shape)
    yield "call id", ", otherwise ".join(filter(None, (_keys(shape.call), _OWN_CALL)))
    written, shells, agents, looking = (
        sorted(shape.tools.get(kind, ()), key=lambda name: (name.lower(), name))
        for kind in (ToolClass.WRITE, ToolClass.SHELL, ToolClass.AGENT, ToolClass.READ)
    )
    yield "tools that name their files", _names(written)
    yield "shell tools", _names(shells)
    if agents:
        yield "tools that start agents", _names(agents)
    yield "read-only tools", f"{len(looking)}"
    yield "every other tool", "may write any file, like a shell"


def _turn(shape: Shape) -> str:
    if HookPhase.PROMPT not in shape.phases.values():
        return "none: the agent sends no event for a prompt"
    return ", otherwise ".join(filter(None, (_keys(shape.turn), _OWN_TURN)))


def _keys(keys: tuple[str, ...]) -> str:
    return " or ".join(f"`{key}`" for key in keys)


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _sure(promised: Traits) -> Iterator[tuple[str, str]]:
    yield "confidence of a write to a named file", "`certain`"
    yield "confidence of a write during a shell call", "`medium`, by timing only"
    covered = promised.covers_all_tools
    yield (
        "confidence of a write in its turn, outside every call",
        "`low`: its hooks cover every tool" if covered else "`medium`",
    )
    yield "notified when its work is undone", _NOTICE[promised.context]


def with_runs(page: str) -> str:
    """Return docs/agents.md with the table of what was run with the real programs."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{verified.table()}\n{_END}{after}"


def main() -> None:
    """Generate the facts of every page again."""
    text = json.dumps(verified.versions(), indent=2)
    VERIFIED.write_text(f"{text}\n", encoding="utf-8")
    OVERVIEW.write_text(with_runs(OVERVIEW.read_text("utf-8")), encoding="utf-8")
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        path.write_text(renewed(path.stem, text), encoding="utf-8")


if __name__ == "__main__":
    main()
