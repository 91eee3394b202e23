"""`git agent-undo prompt`: one short line for a shell's prompt."""

import click

from gitshadow.commands.options import json_option
from gitshadow.ipc import prompt


@click.command("prompt")
@click.option("--ascii", "plain", is_flag=True, help="Use only ASCII characters.")
@json_option
def command(plain: bool, as_json: bool) -> int:
    """Print one short line for a shell's prompt, such as `<- claude-code 3`.

    This is what `oops` would undo: the latest changes of an agent, and their number of files.
    The sign alone means nothing to undo; a trailing `!` that changes are detected late; `off`
    that no daemon runs; `...` that it is busy. Nothing is printed outside a recorded
    repository. The command starts no daemon, takes at most 0.4 seconds and always exits 0.
    """
    words = [prompt.AS_ASCII] * plain + [prompt.AS_JSON] * as_json
    return prompt.main(words)
