"""The toy world's registry as a program would have it, for processes that import it by name."""

import os
from pathlib import Path

from gitshadow.sdk.turns.host import Host, Program
from gitshadow.sdk.turns.inverse_kinds import Allowed
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from tests.sdk.turns.world import Toys, World, registry


def holding(world: World) -> ToolRegistry:
    """Return the registry of a program that holds its mails for a minute."""
    tools = registry(world)
    tools.remove("mail.send")
    tools.add("mail.send", Toys(world).mail_send, hold=True, delay_s=60)
    return tools


TOOLS = registry(World(Path(os.environ.get("TOY_WORLD", "."))))
HOLDING = holding(World(Path(os.environ.get("TOY_WORLD", "."))))
EMPTY = ToolRegistry()
PROGRAM = Program(
    TOOLS, Policy(inverses=Allowed(commands=("touch",))), Host(secrets={})
)
