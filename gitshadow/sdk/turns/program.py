"""An agent program as others find it: what its undos need, under one name in a module.

Invariant: what an undo may run is said here, by the program, and not by what is being undone.
"""

from dataclasses import dataclass

from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Program:
    """Hold what a program opens its sessions with, for `--tools MODULE:NAME`.

    Args:
        tools: Its tools and compensators.
        policy: Which inverses outside of it may run, and who is asked.
        host: Its secrets, its MCP servers, who is told of undos.
    """

    tools: ToolRegistry
    policy: Policy | None = None
    host: Host | None = None
