"""`git agent-undo mcp`: an MCP server about an agent's own work, and one around any other."""

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from gitshadow.commands.client import recorded_layout
from gitshadow.commands.effects import need_mcp
from gitshadow.commands.usage_errors import VerbGroup
from gitshadow.errors import UsageError
from gitshadow.render.style import printable
from gitshadow.words import did_you_mean

if TYPE_CHECKING:
    from gitshadow.sdk.integrations.mcp_config import ServerSpec
    from gitshadow.store.layout import Layout

_IDLE_S = 30.0
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_CHARS = 32


@click.group("mcp", cls=VerbGroup, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Run an MCP server on stdio through which an agent manages its own work.

    It can list what its session changed and what was undone of it, ask for a plan, and undo
    its own changes, but no others. Name this command in an agent's settings.
    """
    if ctx.invoked_subcommand is not None:
        return
    layout = recorded_layout()
    need_mcp()
    from gitshadow.sdk.integrations import mcp_server

    mcp_server.make(layout).run()


@command.command(
    "proxy",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--tools",
    metavar="FILE.toml",
    help="Your file of servers, which defines how their tools are undone.",
)
@click.option("--server", metavar="NAME", help="The name of the server in FILE.")
@click.option(
    "--session", metavar="ID", help="Continue a session; a new one by default."
)
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    default=_IDLE_S,
    show_default=True,
    metavar="SECONDS",
    help="End a turn after this time without a call.",
)
@click.option(
    "--deny-non-reversible",
    is_flag=True,
    help="Refuse tools that cannot be undone, including undeclared ones.",
)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def proxy(
    tools: str | None,
    server: str | None,
    session: str | None,
    idle: float,
    deny_non_reversible: bool,
    argv: tuple[str, ...],
) -> None:
    """Run CMD, an MCP server, on stdio and record every tool call in a turn.

    Name this command in an MCP client's settings instead of CMD. Without CMD, FILE says how
    to start the server.
    """
    layout = recorded_layout()
    need_mcp()
    spec = _spec(layout, tools, server, argv)
    if shutil.which(spec.command[0]) is None:
        raise UsageError(
            f"cannot find the program {printable(spec.command[0])}",
            hint="give its path, or put it on the PATH",
        )
    # The package mcp takes a second to import; what cannot be proxied is said before.
    from gitshadow.sdk.integrations import mcp_proxy

    options = mcp_proxy.ProxyOptions(
        root=layout.root,
        session=session or mcp_proxy.new_session(spec.name),
        server=spec,
        idle_s=idle,
        non_reversible="deny" if deny_non_reversible else "allow",
        note=_note,
        hooks_tell=lambda: mcp_proxy.hooks_tell(layout),
    )
    mcp_proxy.run(options, os.environ, _leave)


def _spec(
    layout: "Layout", tools: str | None, server: str | None, argv: tuple[str, ...]
) -> "ServerSpec":
    """Return the server that is meant, with the command it is started by.

    Raises:
        UsageError: the file is wrong, or nothing says which server, or how to start it.
    """
    from dataclasses import replace

    from gitshadow.sdk.integrations import mcp_config

    known = mcp_config.read(tools, layout.root) if tools is not None else {}
    name = server or (next(iter(known)) if len(known) == 1 else _named(argv))
    if name is None:
        raise UsageError(
            "several servers: choose one with --server", hint="--server NAME"
        )
    if known and name not in known:
        raise UsageError(
            f"cannot find the server {printable(name)} in {tools}",
            hint=did_you_mean(name, known)
            or f"use one of: {', '.join(map(printable, known))}",
        )
    spec = known.get(name) or mcp_config.ServerSpec(name=name)
    if argv:
        spec = replace(spec, command=argv)
    if not spec.command:
        raise UsageError(
            f"no command given to start {printable(name)}",
            hint="after --: its command, or command = [...] in the file",
        )
    return spec


def _named(argv: tuple[str, ...]) -> str | None:
    """Return a name for a server that nobody has named: that of its program."""
    if not argv:
        return None
    base = _ODD.sub("-", os.path.basename(argv[0])).strip("-_")
    return base[:_NAME_CHARS] or None


def _note(text: str) -> None:
    click.echo(f"gitshadow: {printable(text)}", err=True)


def _leave(code: int) -> NoReturn:
    """End this process at once."""
    # An ordinary exit would wait for the thread that reads the client's next line.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
