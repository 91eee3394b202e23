"""hook, git-hook: the entry points of hooks, with the help that the hook programs lack."""

import click

from gitshadow.ipc import githook
from gitshadow.messages.codec import Params
from gitshadow.store.layout import Layout


@click.command("hook")
@click.argument("agent")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
def hook_command(agent: str, rest: tuple[str, ...]) -> int:
    """(internal) Entry point for hooks of AGENT: JSON on standard input. Always exits 0."""
    from gitshadow.ipc import hook
    from gitshadow.service import in_process

    return hook.main([agent, *rest], in_process.deliver)


@click.command("git-hook", context_settings={"ignore_unknown_options": True})
@click.argument("event", required=False)
@click.option(
    githook.MANAGED, "managed", is_flag=True, help="For the pre-commit framework."
)
@click.option(
    githook.CHAINED, "chained", is_flag=True, help="Another hook runs after this one."
)
@click.option(
    githook.BESIDE, "beside", is_flag=True, help="Other hooks may run as well."
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def git_hook_command(
    event: str | None,
    args: tuple[str, ...],
    managed: bool,
    chained: bool,
    beside: bool,
) -> int:
    """(internal) Entry point for Git hooks. Always exits 0, so that it never blocks Git."""
    words = [] if event is None else [event, *args]
    flags = [githook.MANAGED] * managed + [githook.CHAINED] * chained
    flags += [githook.BESIDE] * beside
    return githook.main([*flags, *words], _in_process)


def _in_process(layout: Layout, params: Params) -> None:
    from gitshadow.service import in_process

    in_process.git_hook(layout, params)
