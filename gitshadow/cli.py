"""The command line: a group that loads each verb when it is called, and the exit code."""

import codecs
import importlib
import os
import sys
from collections.abc import Sequence

import click

from gitshadow import __version__
from gitshadow.commands import GROUPS, error_handler, find, names
from gitshadow.errors import ExitCode, ShadowError
from gitshadow.render.style import PLAIN, is_plain_locale, plainly

PROGRAM = "git agent-undo"
# What a shell reports for a program that SIGPIPE ended, as it ends `git log | head`. Python ignores
# the signal and raises an error instead.
_SIGPIPE_EXIT = 128 + 13
_WITHOUT_JSON = frozenset({"exec", "hook", "git-hook", "watch"})


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
        module = importlib.import_module(f"gitshadow.commands.{verb.module}")
        command = getattr(module, verb.command)
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
            from gitshadow.commands.usage_errors import unknown_verb

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


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line to its end and return its exit code; never raise.

    Args:
        args: The words after the program's name; those of this process by default.
    """
    words = list(sys.argv[1:] if args is None else args)
    _never_fail_on_encoding()
    try:
        code = error_handler.contain(lambda: _run(words))
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return _SIGPIPE_EXIT
    except (KeyboardInterrupt, click.Abort):
        print(file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except click.ClickException as error:
        from gitshadow.commands.usage_errors import in_our_words

        return _fail(in_our_words(error, PROGRAM), words)
    except ShadowError as error:
        return _fail(error, words)
    return code


def _run(words: list[str]) -> int:
    """Run the group as click's own `main` does, but let every exception pass."""
    if words[:1] == ["help"]:
        words = [*words[1:], "-h"]
    try:
        with group.make_context(PROGRAM, words) as context:
            code = group.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    return code if isinstance(code, int) else int(ExitCode.DONE)


def _fail(error: ShadowError, words: list[str]) -> int:
    error_handler.complain(error)
    if _wants_json(words):
        from gitshadow.render import output

        try:
            output.show_json(error_handler.error_document(error))
        except BrokenPipeError:
            _silence_stdout()
    return int(error.exit_code)


def _wants_json(words: list[str]) -> bool:
    if words and words[0] in _WITHOUT_JSON:
        return False
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _never_fail_on_encoding() -> None:
    """Set both streams to replace what their encoding cannot represent."""
    # Python treats the locale C as UTF-8 (PEP 540). A terminal in that locale cannot show UTF-8, so
    # it gets ASCII; a file or pipe keeps the bytes.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:
            continue
        codecs.register_error(PLAIN, plainly)
        if stream.isatty() and is_plain_locale(os.environ):
            reconfigure(encoding="ascii", errors=PLAIN)
        else:
            reconfigure(errors=PLAIN)


def _silence_stdout() -> None:
    """Redirect standard output after its reader has gone."""
    # Else the flush at the interpreter's end fails once more and prints "Exception ignored".
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
