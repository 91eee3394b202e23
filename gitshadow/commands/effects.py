"""What the verbs on agent programs share: reading the journal, opening a session.

Inverses are the program's own functions, so they run in this process and never in the daemon.
Invariant: a module is imported only where its name was typed or is in the user's own settings.
"""

import importlib
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gitshadow.commands.client import find_layout, recorded_layout
from gitshadow.commands.options import TOOLS_VARIABLE, ask_yes
from gitshadow.commands.terminal import print_rows, screen
from gitshadow.commands.undo_flow import runner
from gitshadow.errors import ExitCode, UnsupportedError, UsageError
from gitshadow.render import output
from gitshadow.render.effects import attention_lines, report_text
from gitshadow.render.style import printable

if TYPE_CHECKING:
    from gitshadow.sdk.turns.async_session import AsyncAgentUndo
    from gitshadow.sdk.turns.host import Host
    from gitshadow.sdk.turns.policy import Policy, Proposal
    from gitshadow.sdk.turns.registry import ToolRegistry
    from gitshadow.sdk.turns.report import UndoReport
    from gitshadow.sdk.turns.values import Release
    from gitshadow.store.journal.db import Db

_T = TypeVar("_T")
_FILE = ".toml"


@contextmanager
def journal(session: str | None = None) -> Iterator["Db"]:
    """Open the journal of this repository for reading.

    Raises:
        NotInitialisedError: there is none.
        UsageError: it has nothing of that session.
    """
    from gitshadow.store.journal.db import Db
    from gitshadow.store.journal.saga import SagaTables

    layout = recorded_layout()
    # Read only and without the writer lock, so it never waits for a running program.
    db = Db.view(layout.journal)
    try:
        if session is not None and not SagaTables(db).knows(session):
            raise UsageError(
                f"cannot find session {session}",
                hint="to list turns: git agent-undo program saga turns",
            )
        yield db
    finally:
        db.close()


class Toolbox(NamedTuple):
    """What undoing a program's effects needs."""

    tools: "ToolRegistry"
    policy: "Policy | None" = None
    host: "Host | None" = None

    def open(self, session: str) -> "AsyncAgentUndo":
        """Open a session of the program in this repository."""
        from gitshadow.sdk.turns.async_session import AsyncAgentUndo
        from gitshadow.sdk.turns.file_recording import UndoRunner

        opened = AsyncAgentUndo.open(
            find_layout().root,
            session=session,
            tools=self.tools,
            policy=self.policy,
            host=self.host,
        )
        if opened.runtime.recorder is not None:
            opened.runtime.recorder.run_by(
                UndoRunner(is_program=False, session=runner())
            )
        return opened


def is_told_of_tools(named: str | None) -> bool:
    """Return whether an option or the environment names a program's tools."""
    return bool(named or os.environ.get(TOOLS_VARIABLE))


def load_toolbox(named: str | None, *, needed: bool) -> Toolbox:
    """Import a program's registry, or read the file of a user's MCP servers.

    Raises:
        UsageError: none is named although one is needed, or there is none by that name.
        UnsupportedError: the package for MCP is not installed.
    """
    from gitshadow.sdk.turns.host import Program
    from gitshadow.sdk.turns.registry import ToolRegistry

    spec = named or os.environ.get(TOOLS_VARIABLE, "")
    if not spec and not needed:
        return Toolbox(ToolRegistry())
    if spec.endswith(_FILE):
        return _servers(spec)
    module, _, name = spec.partition(":")
    if not module or not name:
        raise UsageError(
            "missing option: --tools",
            hint="name them: --tools MODULE:NAME, or --tools FILE.toml of MCP servers",
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"cannot load the tools {spec}: {error}",
            hint="MODULE:NAME as Python imports it; PYTHONPATH=. finds one in this directory",
        ) from error
    if isinstance(found, Program):
        return Toolbox(found.tools, found.policy, found.host)
    if not isinstance(found, ToolRegistry):
        raise UsageError(
            f"cannot use the tools {spec}: not a ToolRegistry or a Program",
            hint="name the registry that the program gives to AgentUndo: MODULE:NAME",
        )
    return Toolbox(found)


def asking(toolbox: Toolbox) -> Toolbox:
    """Return a toolbox that asks the person about inverses that the program does not list."""
    from gitshadow.sdk.turns.policy import Policy

    policy = toolbox.policy or Policy()
    if policy.confirm is not None:
        return toolbox
    asked = replace(policy, confirm=_ask_about, confirm_timeout_s=None)
    return toolbox._replace(policy=asked)


def _ask_about(proposal: "Proposal") -> bool:
    return ask_yes(f"{printable(proposal.question)}: do it?", default=False)


def need_mcp() -> None:
    """Look for the optional packages of MCP.

    Raises:
        UnsupportedError: they are not installed.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise UnsupportedError(
            "cannot run an MCP server: the package mcp is not installed",
            hint="pip install 'gitshadow[mcp]'",
        )


def _servers(path: str) -> Toolbox:
    need_mcp()
    from gitshadow.sdk.integrations import mcp_config
    from gitshadow.sdk.integrations.mcp_servers import Servers
    from gitshadow.sdk.turns.host import Host
    from gitshadow.sdk.turns.policy import Policy

    servers = Servers(mcp_config.read(path, find_layout().root), os.environ)
    policy = Policy(inverses=servers.allowed)
    return Toolbox(servers.registry(), policy, Host(mcp=servers))


def run_to_end(coroutine: Coroutine[object, object, _T]) -> _T:
    """Return what a coroutine returns."""
    # `oops` and `undo` import this module, and few of them need asyncio, which takes 20 ms.
    import asyncio

    return asyncio.run(coroutine)


def act(
    session: str,
    toolbox: Toolbox,
    verb: Callable[["AsyncAgentUndo"], Coroutine[object, object, list["UndoReport"]]],
    *,
    as_json: bool,
) -> int:
    """Open a session, run a function in it, print the reports and return the exit code."""

    async def run() -> list["UndoReport"]:
        async with toolbox.open(session) as au:
            return await verb(au)

    reports = run_to_end(run())
    view = screen().view
    for report in reports:
        if as_json:
            output.show_json(report.to_json())
        else:
            output.show(report_text(report, view))
    return max((int(report.exit_code) for report in reports), default=0)


def send_held(session: str, toolbox: Toolbox, *, as_json: bool) -> int:
    """Send the held calls that are due, print the results, return the exit code."""
    from gitshadow.sdk.turns import queries

    async def run() -> list["Release"]:
        async with toolbox.open(session) as au:
            return await au.release()

    found = run_to_end(run())
    rows = [queries.release_row(session, one) for one in found]
    print_rows(rows, attention_lines, as_json=as_json, empty="nothing to send")
    return 0 if all(one.ok for one in found) else int(ExitCode.PARTIAL)
