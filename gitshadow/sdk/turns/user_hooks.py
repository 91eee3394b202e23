"""The commands that a user has configured for undos, of files and of agent programs' turns.

They stand in Git's own configuration, which no clone and no commit brings, and in the environment.
Invariant: no file of the working tree names a command; nothing is read before an undo wants it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gitshadow.sdk.turns.values import JsonObject
from gitshadow.store.layout import Layout

HookName: TypeAlias = Literal["pre_undo", "post_undo", "post_rewind"]
Commands: TypeAlias = Mapping[HookName, tuple[str, ...]]

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class UserHooks:
    """Run the hook commands of one worktree for one session."""

    layout: Layout
    session: str
    environ: Mapping[str, str]
    timeout_s: float = _TIMEOUT_S

    def commands(self) -> dict[HookName, tuple[str, ...]]:
        """Return the command of each hook; nothing for none.

        Raises:
            ShadowError: the settings cannot be read or used.
        """
        from gitshadow import config
        from gitshadow.store.git import Git

        git = Git(self.layout, dict(self.environ))
        found = config.load(git.settings("agent-undo"), self.environ)
        return {
            "pre_undo": found.pre_undo,
            "post_undo": found.post_undo,
            "post_rewind": found.post_rewind,
        }

    def run(self, name: HookName, argv: tuple[str, ...], report: JsonObject) -> None:
        """Run a hook, with a report on its standard input.

        Raises:
            ToolFailure, CommandError, TimeoutError: it could not be run, or failed.
        """
        from gitshadow.sdk.turns.run_command import Command, search_path

        kept = {n: v for n, v in self.environ.items() if not n.startswith("GIT_")}
        told = {"AGENT_UNDO_HOOK": name, "AGENT_UNDO_SESSION": self.session}
        Command(
            argv=argv,
            cwd=self.layout.root,
            variables={**kept, **told, "PATH": search_path(self.environ)},
            timeout_s=self.timeout_s,
            stdin=json.dumps(report, default=str).encode(),
        ).run()
