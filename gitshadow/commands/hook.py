"""`git agent-undo hook`: the door for agents' hooks, for who comes through click."""

import click


@click.command("hook")
@click.argument("agent")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
def command(agent: str, rest: tuple[str, ...]) -> int:
    """(internal) Entry point for hooks of AGENT: JSON on standard input. Always exits 0."""
    from gitshadow.ipc import hook
    from gitshadow.service import in_process

    return hook.main([agent, *rest], in_process.deliver)
