"""A recorded repository without a daemon, agent programs in it, and what the recorder says.

Everything happens in this process; the world of the tools lies outside the working tree.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitshadow.maintenance import setup
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Reversibility
from gitshadow.service.client import answer
from gitshadow.store.layout import Layout
from tests.sdk.turns.front import Front
from tests.sdk.turns.world import World, registry
from tests.support.repo import Repo
from tests.support.studio import layout_of

Row = Mapping[str, object]


@dataclass(slots=True)
class Recorded:
    """Hold a recorded repository and a front of agent programs in it."""

    repo: Repo
    front: Front

    @classmethod
    def make(cls, repo: Repo, world: Path, front: str = "sync") -> "Recorded":
        """Make a world beside a repository, which is initialised where it is not."""
        if not layout_of(repo).initialised:
            setup.initialise(layout_of(repo), os.environ, force=True)
        made = World.make(world, coroutines=front == "async")
        tools = registry(made)
        with_files(tools, repo.root, coroutines=front == "async")
        return cls(repo, Front(front, repo.root, made, tools))

    @property
    def layout(self) -> Layout:
        """Return where the repository keeps what."""
        return layout_of(self.repo)

    def ask(self, verb: str, /, **params: object) -> Row:
        """Run one verb of the engine, as the command does."""
        return answer(self.layout, verb, {"cwd": str(self.repo.root), **params})

    def rows(self, verb: str, /, **params: object) -> list[Row]:
        """Return the rows that a verb gives."""
        found = self.ask(verb, **params)["rows"]
        assert isinstance(found, list)
        return found

    def writes(self) -> list[tuple[object, ...]]:
        """Return path, agent, turn, call, tool and confidence of every write, oldest first."""
        keys = ("path", "agent", "turn", "call", "tool", "confidence")
        found = [tuple(row[key] for key in keys) for row in self.rows("log")]
        return found[::-1]

    def hand(self, path: str, text: str) -> None:
        """Write as a person, outside every turn, recorded."""
        self.repo.write(path, text)
        self.ask("flush")

    def text(self, path: str) -> str | None:
        """Return what a file holds, None where there is none."""
        full = self.repo.root / path
        return full.read_text() if full.exists() else None


def with_files(tools: ToolRegistry, root: Path, *, coroutines: bool) -> None:
    """Add tools that write files: `file.write` names its path, `shell.run` does not."""

    def write(path: str, text: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)

    def run(path: str, text: str) -> None:
        write(str(root / path), text)

    async def write_later(path: str, text: str) -> None:
        write(path, text)

    async def run_later(path: str, text: str) -> None:
        run(path, text)

    tools.add(
        "file.write",
        write_later if coroutines else write,
        reversibility=Reversibility.REVERSIBLE,
        files_only=True,
        paths=("path",),
    )
    tools.add(
        "shell.run",
        run_later if coroutines else run,
        reversibility=Reversibility.REVERSIBLE,
        files_only=True,
    )
