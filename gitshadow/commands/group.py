"""The command line as click sees it: a group that imports each verb when it is called.

It is needed for help, completion, errors, and verbs that click reads.
"""

from collections.abc import Sequence

import click

from gitshadow import __version__
from gitshadow.commands import GROUPS, PROGRAM, find, load, names
from gitshadow.commands.parameters import DeclaredVerb
from gitshadow.commands.usage_errors import in_our_words, unknown_verb
from gitshadow.errors import ExitCode


class LazyGroup(click.Group):
    """A group that finds verbs in a static table and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every verb's name."""
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb; None for a name that the table does not have."""
        verb = find(cmd_name)
        if verb is None:
            return None
        command = load(verb)
        if isinstance(command, DeclaredVerb):
            return command.for_click
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.module}.{verb.command} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a verb; suggest near names for one that does not exist.

        Raises:
            UsageError: there is no such verb.
        """
        if args and not args[0].startswith("-") and find(args[0]) is None:
            raise unknown_verb(args[0], PROGRAM, names())
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the table, group by group, without importing a verb."""
        # From the table: click would import every verb for its one line of help.
        for title, verbs in GROUPS.items():
            with formatter.section(title.capitalize()):
                formatter.write_dl([(name, verb.help) for name, verb in verbs.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="git-agent-undo")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Record every file change in a repository, show who made it, and undo it.

    Start with `git agent-undo init`. If an agent goes wrong: `git agent-undo oops`. To check
    that you are protected right now: `git agent-undo status`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(int(ExitCode.USAGE))


def run(words: Sequence[str]) -> int:
    """Run the group as click's own `main` does; return the exit code.

    Raises:
        KeyboardInterrupt: the person interrupted a question of click's.
        ShadowError: the words are wrong, or what the verb raised.
    """
    try:
        with group.make_context(PROGRAM, list(words)) as context:
            code = group.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        raise in_our_words(error, PROGRAM) from None
    return code if isinstance(code, int) else int(ExitCode.DONE)
