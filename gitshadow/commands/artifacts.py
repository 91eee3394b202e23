"""`git agent-undo artifacts`: the artifacts of an agent program's session, and their bytes."""

import sys

import click

from gitshadow.commands.client import find_layout
from gitshadow.commands.effects import journal, session_option
from gitshadow.commands.options import json_option
from gitshadow.commands.output import print_rows
from gitshadow.errors import UsageError
from gitshadow.model import Oid
from gitshadow.render.effects import artifact_lines


@click.command("artifacts")
@click.option(
    "--version", "number", type=click.IntRange(min=0), help="Print this version."
)
@click.option(
    "--all", "every", is_flag=True, help="List all versions, not only the newest."
)
@session_option
@json_option
@click.argument("name", required=False)
def command(
    number: int | None,
    every: bool,
    session: str | None,
    as_json: bool,
    name: str | None,
) -> None:
    """List the artifacts of a session, or write the bytes of NAME to standard output."""
    if name is None and number is not None:
        raise UsageError(
            "missing argument: --version needs a NAME",
            hint="to list artifacts: git agent-undo artifacts --all",
        )
    if name is not None and not every:
        if as_json:
            raise UsageError(
                "cannot print bytes as JSON", hint="to list versions: --all"
            )
        sys.stdout.buffer.write(_bytes(session, name, number))
        return
    from gitshadow.sdk.turns import queries

    with journal() as db:
        named = queries.session_named(db, session)
        rows = queries.artifact_rows(db, named, name, every=every)
    print_rows({"rows": rows}, artifact_lines, as_json=as_json, empty="no artifacts")


def _bytes(session: str | None, name: str, number: int | None) -> bytes:
    """Return a version's bytes.

    Raises:
        UsageError: there is no such artifact or version.
        StoreError: its bytes are gone.
    """
    from gitshadow.sdk.turns import queries
    from gitshadow.sdk.turns.blob_store import Vault

    with journal() as db:
        named = queries.session_named(db, session)
        rows = queries.artifact_rows(db, named, name, every=number is not None)
    wanted = [row for row in rows if number is None or row["version"] == number]
    oid = wanted[0]["oid"] if wanted else None
    if not isinstance(oid, str):
        which = "" if number is None else f" version {number}"
        raise UsageError(
            f"cannot find artifact {name}{which} in session {named}",
            hint="git agent-undo artifacts --all",
        )
    vault = Vault(find_layout())
    try:
        return vault.read(Oid(oid))
    finally:
        vault.close()
