"""Aider: `aider/args.py`, `repo.py` and `io.py` of 2026-05. It has no hooks.

`exec --agent aider -- aider …` is the way in: a session as long as the command. For a script
around it, such as a user's own `--notifications-command`, `hook aider` takes the payload of
docs/hooks.md, with the agent's name given.
Invariant: no payload makes anybody else's write Aider's; commits are looked at elsewhere
(`attribution.commits`).
"""

from collections.abc import Mapping
from dataclasses import replace

from gitshadow.adapters.base import HookEvent, Parsed, Traits
from gitshadow.adapters.generic import Generic

NAME = "aider"


class Aider:
    """Read our own payload for Aider; what a script reports covers nothing for sure."""

    name = NAME
    traits = Traits()

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload; see `base.Adapter.parse`."""
        found = Generic().parse(payload, env)
        if isinstance(found, HookEvent):
            return replace(found, agent=NAME, host=NAME)
        return found
