"""The hook files of an agent as `hooks install` wrote them: which command each event has."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.placement import InstallScope, Owned, Root

_TOPS = {
    Root.HOME: ".",
    Root.CONFIG: ".config",
    Root.CLAUDE: ".claude",
    Root.CODEX: ".codex",
    Root.COPILOT: ".copilot",
    Root.KIMI: ".kimi-code",
    Root.VIBE: ".vibe",
}
_COMMANDS = ("command", "bash")


@dataclass(frozen=True)
class InstalledHooks:
    """What is installed for the user: one file with events, a script per event, or a plug-in."""

    files: tuple[Path, ...]

    @classmethod
    def find(cls, agent: str, home: Path) -> "InstalledHooks":
        """Return what `hooks install --user` wrote below a home."""
        placement = AGENTS[agent].placements[InstallScope.USER]
        if isinstance(placement, Owned):
            targets = [piece.target for piece in placement.pieces]
        else:
            targets = list(placement.files)
        paths = [home / _TOPS[one.root] / one.path for one in targets]
        return cls(tuple(path for path in paths if path.exists()))

    @property
    def plugin(self) -> Path | None:
        """Return the file that the host loads, None where it runs commands."""
        return next((one for one in self.files if one.suffix == ".ts"), None)

    def commands(self) -> dict[str, str]:
        """Return the shell text of each event; of a script its path."""
        found: dict[str, str] = {}
        for path in self.files:
            if path.suffix == ".json":
                document = json.loads(path.read_text())
                for event, handler, key in _handlers(document):
                    if "git-agent-undo" in str(handler[key]):
                        found[event] = str(handler[key])
            elif path.suffix == ".toml":
                for handler in tomllib.loads(path.read_text())["hooks"]:
                    if "git-agent-undo" in handler["command"]:
                        event = handler.get("event") or handler["type"]
                        found[event] = handler["command"]
            elif path.suffix == "":
                found[path.name] = str(path)
        return found

    def places(self, home: Path) -> list[str]:
        """Return where the hooks are: each file, and in a shared one the way to an event's list."""
        found: list[str] = []
        for path in self.files:
            name = str(path.relative_to(home))
            if path.suffix != ".json":
                found.append(name)
                continue
            document = json.loads(path.read_text())
            is_inner = isinstance(document.get("hooks"), dict)
            for event, item in _items(document):
                if "git-agent-undo" in json.dumps(item):
                    way = [*(["hooks"] if is_inner else []), event]
                    way += ["hooks"] if "hooks" in item else []
                    found.append(f"{name}: {'.'.join(way)}")
        return found

    def lead_to(self, program: Path) -> None:
        """Let each command run a link to its program, in a directory with the event's name."""
        self.rewrite(lambda event, text: _led(text, program, event))

    def rewrite(self, change: Callable[[str, str], str]) -> None:
        """Replace the text of each event's command, which a function returns."""
        for path in self.files:
            if path.suffix == ".json":
                document = json.loads(path.read_text())
                for event, handler, key in _handlers(document):
                    handler[key] = change(event, str(handler[key]))
                path.write_text(json.dumps(document, indent=2))
            elif path.suffix == ".toml":
                tables = re.split(r"(?m)^(?=\[\[hooks\]\])", path.read_text())
                path.write_text("".join(_table(one, change) for one in tables))
            else:
                path.write_text(change(path.name, path.read_text()))


def _table(table: str, change: Callable[[str, str], str]) -> str:
    event = re.search(r'(?m)^(?:event|type) = "(\w+)"', table)
    return table if event is None else change(event[1], table)


def _led(text: str, program: Path, event: str) -> str:
    link = program.parent / event / program.name
    if str(program) in text and not link.exists():
        link.parent.mkdir()
        link.symlink_to(program)
    return text.replace(str(program), str(link))


def _handlers(document: object) -> Iterator[tuple[str, dict[str, object], str]]:
    """Yield event, handler and the key of its command, wherever a file has its events."""
    for event, item in _items(document):
        for handler in item.get("hooks", [item]):
            for key in _COMMANDS:
                if key in handler:
                    yield event, handler, key


def _items(document: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each event with each item of its list."""
    if not isinstance(document, dict):
        return
    inner = document.get("hooks")
    events = inner if isinstance(inner, dict) else document
    for event, items in events.items():
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict):
                yield event, item
