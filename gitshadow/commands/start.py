"""`git agent-undo start`: start the daemon of this worktree."""

from collections.abc import Iterator, Mapping

import click

from gitshadow.commands.asking import ask, find_layout
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.render.document import Document, flag, inner, number, text
from gitshadow.render.style import View


@click.command("start")
@json_option
def command(as_json: bool) -> None:
    """Start the daemon of this worktree; do nothing where one runs already."""
    print_document(_started(), _lines, as_json=as_json)


def _lines(document: Mapping[str, object], _: View) -> Iterator[str]:
    if not flag(document, "running"):
        yield text(document, "reason")
        return
    since = "already" if flag(document, "already") else "from now on"
    yield f"daemon {number(document, 'pid')} records this worktree {since}"


def _started() -> Document:
    status = ask("status", {"brief": True})
    if status.get("enabled") is False:
        reason = "recording is off: agent-undo.enabled is false"
        return {"running": False, "pid": None, "already": False, "reason": reason}
    daemon = inner(status, "daemon")
    if flag(daemon, "running"):
        return {"running": True, "pid": number(daemon, "pid"), "already": True}
    from gitshadow.ipc import launch

    return {"running": True, "pid": launch.start(find_layout()), "already": False}
