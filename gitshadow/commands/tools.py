"""`git agent-undo tools`: how an agent program's tools are declared."""

import click

from gitshadow.commands.effects import load_toolbox
from gitshadow.commands.options import json_option, tools_option
from gitshadow.commands.output import print_rows
from gitshadow.render.effects import tool_lines


@click.command("tools")
@tools_option
@json_option
def command(tools: str | None, as_json: bool) -> None:
    """List the tools of a program and whether they can be undone."""
    from gitshadow.sdk.turns import queries

    registry = load_toolbox(tools, needed=True).tools
    found = [queries.tool_row(tool) for tool in registry]
    print_rows(
        {"rows": found},
        tool_lines,
        as_json=as_json,
        empty="the program declares no tools",
    )
