"""`git agent-undo completion`: what makes a shell complete verbs, options, ids and paths."""

import os
import sys

import click

_SCRIPTS = os.path.join(os.path.dirname(__file__), "scripts")
_NAMES = {
    "bash": "git-agent-undo.bash",
    "zsh": "_git-agent-undo",
    "fish": "git-agent-undo.fish",
}


@click.group("completion")
def command() -> None:
    """Print the completion script for a shell.

    An installation puts the scripts where shells look for them, below share/. If your shell
    does not look there, run git agent-undo completion bash >FILE and let the shell read FILE.
    """


@command.command("bash")
def bash_command() -> None:
    """For ~/.local/share/bash-completion/completions/git-agent-undo."""
    _print("bash")


@command.command("zsh")
def zsh_command() -> None:
    """For a file _git-agent-undo in a directory of $fpath."""
    _print("zsh")


@command.command("fish")
def fish_command() -> None:
    """For ~/.config/fish/completions/git-agent-undo.fish."""
    _print("fish")


def _print(shell: str) -> None:
    with open(os.path.join(_SCRIPTS, _NAMES[shell]), encoding="utf-8") as stream:
        click.echo(stream.read(), nl=False)


@command.command(
    "words", hidden=True, context_settings={"ignore_unknown_options": True}
)
@click.argument("shell", type=click.Choice(list(_NAMES)))
@click.argument("typed", nargs=-1, type=click.UNPROCESSED)
def words_command(shell: str, typed: tuple[str, ...]) -> None:
    """(internal) Print completions of the last word: form, word, note, separated by tabs."""
    group = click.get_current_context().find_root().command
    assert isinstance(group, click.Group)
    from gitshadow.commands import completion_words
    from gitshadow.render.style import printable

    for word in completion_words.offer(group, typed or ("",), quoted=shell == "bash"):
        note = printable(" ".join(word.note.split()))
        sys.stdout.write(f"{word.form}\t{word.value}\t{note}\n")
