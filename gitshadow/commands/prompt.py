"""`git agent-undo prompt`: one short line for a shell's prompt."""

import click

from gitshadow.commands.options import json_option
from gitshadow.ipc import prompt


@click.command("prompt")
@click.option("--ascii", "plain", is_flag=True, help="Print no sign beyond ASCII.")
@json_option
def command(plain: bool, as_json: bool) -> int:
    """Print one short line for a shell's prompt, such as `<- claude-code 3`.

    That is what `oops` would take back: the newest burst of an agent, and its number of files.
    The sign alone: nothing to take back. `!` behind it: writes are found late. `off`: no daemon
    runs. `...`: it is busy. Nothing: not a recorded repository. It starts no daemon, ends within
    0.4 seconds and exits 0, whatever is wrong.
    """
    words = [prompt.AS_ASCII] * plain + [prompt.AS_JSON] * as_json
    return prompt.main(words)
