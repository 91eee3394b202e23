"""`git agent-undo check`: what speaks against a change."""

import os

import click

from gitshadow.commands import error_handler
from gitshadow.commands.client import ask, find_layout
from gitshadow.commands.config_overrides import settings_given
from gitshadow.commands.options import colour_option, json_option
from gitshadow.commands.terminal import screen
from gitshadow.config import ENV_PREFIX
from gitshadow.errors import ExitCode, JournalError, ShadowError, UsageError
from gitshadow.ipc.handover import FLAG
from gitshadow.render import check as shown
from gitshadow.render import json, output
from gitshadow.render.document import Document, text
from gitshadow.render.style import printable


@click.command("check")
@click.option("--staged", is_flag=True, help="Staged changes (the default).")
@click.option("--range", "range_", metavar="A..B", help="The changes from A to B.")
@click.option("-q", "--quiet", is_flag=True, help="Print only findings.")
@click.option(FLAG, "managed", is_flag=True, help="For the pre-commit framework.")
@colour_option
@json_option
@click.argument("rev", required=False)
def command(
    staged: bool,
    range_: str | None,
    quiet: bool,
    managed: bool,
    as_json: bool,
    rev: str | None,
) -> int:
    """Check a change against your policies: what is staged, the commit REV, or a range.

    Policies come from `git config agent-undo.check.*` and `.agent-undo.toml`. Exits 5 if a
    policy refuses the change, else 0, even if nothing could be checked; a warning then
    explains why.
    """
    if sum((staged, range_ is not None, rev is not None)) > 1:
        raise UsageError(
            "cannot check several changes at once",
            hint="use only one of: --staged, --range A..B, REV",
        )
    params = {"range": range_, "rev": rev, "managed": managed, **surroundings()}
    document = _checked(params, managed=managed)
    if as_json:
        json.show(document)
    elif text(document, "status") != "skipped":
        output.show(shown.check_lines(document, screen().view, quiet=quiet or managed))
    refused = text(document, "status") == "refused"
    return int(ExitCode.REFUSED if refused else ExitCode.DONE)


def surroundings() -> Document:
    """Return what the engine is to know of this process: who it is, and Git's index for it."""
    index = os.environ.get("GIT_INDEX_FILE")
    given = settings_given(os.environ, "check.")
    for name in given.ignored:
        said = printable(name)
        click.echo(f"warning: `git -c {said}` is ignored here", err=True)
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "index": None if index is None else os.path.abspath(index),
        "environ": {
            name: value
            for name, value in os.environ.items()
            if name.startswith(f"{ENV_PREFIX}CHECK")
        }
        | dict(given.environ),
    }


def _checked(params: Document, *, managed: bool) -> Document:
    """Ask the engine; a gate never fails because of us, so an error of ours passes."""
    try:
        if managed:
            _refuse_other_versions()
        return error_handler.contain(lambda: ask("check", params))
    except UsageError:
        raise
    except ShadowError as error:
        hint = f" ({error.hint})" if error.hint else ""
        said = printable(f"nothing was checked: {error.message}{hint}")
        click.echo(f"warning: {said}", err=True)
        return {"status": "skipped", "findings": [], "warnings": [said], "notes": []}


def _refuse_other_versions() -> None:
    """Leave a journal of another version alone: a copy of ours in an environment of its own asks.

    Raises:
        JournalError: the journal is of another version.
    """
    layout = find_layout()
    if layout.initialised:
        from gitshadow.store.journal import db  # takes sqlite3 along

        if not db.is_of_this_version(layout.journal):
            raise JournalError("the journal is from another version of gitshadow")
