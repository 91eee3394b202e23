"""The `--help` texts as files in tests/fixtures/help: `make docs` writes them."""

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from gitshadow.cli import group

HELP_DIR = Path(__file__).parent.parent / "fixtures" / "help"
_NAME = "git agent-undo"
_WIDTH = 80


def commands() -> list[tuple[str, ...]]:
    """Return the words of every command, `("session", "start")` among them."""
    return list(_below(group, ()))


def _below(top: click.Group, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    context = click.Context(top)
    for name in top.list_commands(context):
        command = top.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*words, name)
        if isinstance(command, click.Group):
            yield from _below(command, (*words, name))


def texts() -> dict[str, str]:
    """Return every help text as on a terminal of 80 columns, by its file's name."""
    return {_file_name(words): _help_text(words) for words in [(), *commands()]}


def _help_text(words: tuple[str, ...]) -> str:
    result = CliRunner().invoke(
        group, [*words, "--help"], prog_name=_NAME, terminal_width=_WIDTH
    )
    assert result.exit_code == 0, result.output
    return result.output


def _file_name(words: tuple[str, ...]) -> str:
    return "-".join(("git-agent-undo", *words)) + ".txt"


def write_all() -> None:
    """Write every help text, and delete those of commands that are gone."""
    made = texts()
    HELP_DIR.mkdir(parents=True, exist_ok=True)
    for path in HELP_DIR.glob("*.txt"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (HELP_DIR / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_all()
