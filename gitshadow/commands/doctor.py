"""`git agent-undo doctor`: check the installation."""

import click

from gitshadow.commands.asking import ask
from gitshadow.commands.options import json_option
from gitshadow.commands.printing import print_document
from gitshadow.errors import ExitCode, ShadowError
from gitshadow.render.document import flag, rows
from gitshadow.render.status import doctor_lines


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what can be mended.")
@json_option
def command(fix: bool, as_json: bool) -> int:
    """Check the installation; name a remedy for what is wrong. Exits 1 if anything is.

    --fix builds a damaged or missing journal anew from the refs, and moves a ref whose newest
    objects are lost back to its last whole commit.
    """
    try:
        document = ask("doctor", {"fix": fix})
    except ShadowError as error:
        if not (fix and error.hint and "reindex" in error.hint):
            raise
        ask("reindex", {})
        document = ask("doctor", {"fix": fix})
    print_document(document, doctor_lines, as_json=as_json)
    fine = all(flag(check, "ok") for check in rows(document, "checks"))
    return int(ExitCode.DONE if fine else ExitCode.ERROR)
