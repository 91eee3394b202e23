"""The command line: the verb that is called, its errors, and the exit code.

To click it is a group that imports each verb when it is called.
"""

import codecs
import os
import sys
from collections.abc import Sequence
from contextvars import copy_context
from itertools import takewhile

import click

from gitshadow import __version__
from gitshadow.commands import (
    EVERYDAY,
    GROUPS,
    MACHINE_GROUP,
    PROGRAM,
    error_handler,
    find,
    known_names,
    load,
    names,
    spelled_out,
)
from gitshadow.commands.usage_errors import in_our_words, unknown_verb
from gitshadow.errors import ExitCode, ShadowError
from gitshadow.render.style import PLAIN, is_plain_locale, plainly

# What a shell reports for a program that SIGPIPE ended, as it ends `git log | head`. Python ignores
# the signal and raises an error instead.
_SIGPIPE_EXIT = 128 + 13
_WITHOUT_JSON = frozenset({"exec", "hook", "git-hook"})


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
        command = load(cmd_name, verb)
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name} of {verb.module} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a verb; suggest near names for one that does not exist.

        Raises:
            UsageError: there is no such verb.
        """
        if args and not args[0].startswith("-") and find(args[0]) is None:
            known = known_names()
            raise unknown_verb(args[0], PROGRAM, known, known)
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """Return the few commands of every day and the groups, or with `--all` everything."""
        # Parsing stops at `-h`, so that an `--all` after it is only known from the words.
        return super().get_help(ctx) if ctx.meta.get(_ALL) else _short_help(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether all commands are asked for, then parse as always."""
        own = takewhile(lambda word: word.startswith("-"), args)
        ctx.meta[_ALL] = "--all" in own
        return super().parse_args(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the table, group by group, without importing a verb."""
        # From the table: click would import every verb for its one line of help.
        for title, verbs in GROUPS.items():
            with formatter.section(_headed(title)):
                formatter.write_dl([(name, verb.help) for name, verb in verbs.items()])


_ALL = "gitshadow.all"


def _short_help(ctx: click.Context) -> str:
    """Return a help text that fits a small terminal."""
    formatter = ctx.make_formatter()
    formatter.write_usage(ctx.command_path, "VERB [OPTIONS]")
    formatter.write_paragraph()
    summary = (ctx.command.help or "").partition("\n")[0]
    with formatter.indentation():
        formatter.write_text(summary)
    helps = {name: one.help for verbs in GROUPS.values() for name, one in verbs.items()}
    with formatter.section("Every day"):
        formatter.write_dl([(name, helps[name]) for name in EVERYDAY])
    more = {
        _headed(title): " ".join(name for name in verbs if name not in EVERYDAY)
        for title, verbs in GROUPS.items()
        if title != MACHINE_GROUP
    }
    with formatter.section("More"):
        formatter.write_dl([*more.items(), ("help VERB", _HELP_OF_HELP)])
    return formatter.getvalue().rstrip("\n")


def _headed(title: str) -> str:
    return title[:1].upper() + title[1:]


_HELP_OF_HELP = "Explain a command; help --all lists all commands."


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="git-agent-undo")
@click.option("--all", is_flag=True, expose_value=False, help="List all commands.")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Record every file change in a repository, show who made it, and undo it.

    Start with `git agent-undo init`. If an agent goes wrong: `git agent-undo oops`. To check
    that you are protected right now: `git agent-undo status`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(int(ExitCode.USAGE))


def _run(words: Sequence[str]) -> int:
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


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line to its end and return its exit code; never raise.

    Args:
        args: The words after the program's name; those of this process by default.
    """
    words = spelled_out(list(sys.argv[1:] if args is None else args))
    _never_fail_on_encoding()
    try:
        return error_handler.contain(lambda: _carry_out(words))
    except BrokenPipeError:
        _silence_stdout()
        return _SIGPIPE_EXIT
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except ShadowError as error:
        return _fail(error, words)


def _carry_out(words: list[str]) -> int:
    code = copy_context().run(_run, words)
    sys.stdout.flush()
    return code


def _fail(error: ShadowError, words: list[str]) -> int:
    error_handler.complain(error)
    try:
        if _wants_json(words):
            from gitshadow.render import output

            output.show_json(error_handler.error_document(error))
        sys.stdout.flush()
    except OSError:
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
    """Redirect standard output after its reader or the space for it has gone."""
    # Else the flush at the interpreter's end fails once more and prints "Exception ignored".
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
