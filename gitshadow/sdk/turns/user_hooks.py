"""The commands that a user has configured for undos, of files and of turns.

They come from Git's configuration and the environment, never from a file of the working tree, and
are read only when an undo needs them.
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
        # Imported here: only an undo needs it, and every agent program loads this module.
        from gitshadow import config
        from gitshadow.store.git import Git

        # Git's configuration and the environment are the user's own. A file of the working tree
        # could come with a clone and name any command.
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

        # GIT_DIR and the like would point the user's command at another repository.
        kept = {n: v for n, v in self.environ.items() if not n.startswith("GIT_")}
        told = {"AGENT_UNDO_HOOK": name, "AGENT_UNDO_SESSION": self.session}
        Command(
            argv=argv,
            cwd=self.layout.root,
            variables={**kept, **told, "PATH": search_path(self.environ)},
            timeout_s=self.timeout_s,
            stdin=json.dumps(report, default=str).encode(),
        ).run()
