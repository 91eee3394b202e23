"""The errors of click about wrong arguments, in the form of all other errors."""

import re
from collections.abc import Collection, Mapping

import click

from gitshadow.errors import ShadowError, UsageError
from gitshadow.words import did_you_mean

# click has the value that was typed only in its message (click 8).
_NOT_A_CHOICE = re.compile(r"'(.*?)' is not one of")


class VerbGroup(click.Group):
    """Answer a verb below a group that does not exist with those that are near."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a verb.

        Raises:
            UsageError: there is no such verb.
        """
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise unknown_verb(name, ctx.command_path, self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def unknown_verb(
    name: str,
    path: str,
    known: Collection[str],
    meaning: Mapping[str, str] | None = None,
) -> UsageError:
    """Return the error of a verb that does not exist below what is called `path`."""
    hint = did_you_mean(name, known, meaning) or f"see: {path} -h"
    where = path.partition("agent-undo ")[2]
    return UsageError(
        f"no such command: {f'{where} ' if where else ''}{name}", hint=hint
    )


def in_our_words(error: click.ClickException, program: str) -> ShadowError:
    """Return an error of click's as one of ours.

    Args:
        error: What click raised.
        program: How the program is called.
    """
    if not isinstance(error, click.UsageError):
        return ShadowError(_lower(error.format_message()))
    context = error.ctx
    path = context.command_path if context is not None else program
    look = f"see: {path} -h"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        verbs = _verbs(context)
        return UsageError(
            f"missing command: {path} needs one",
            hint=f"one of: {', '.join(verbs)}" if verbs else look,
        )
    if isinstance(error, click.NoSuchOption):
        # All options begin with dashes, which would make any two of them similar.
        known = {name.lstrip("-"): name for name in _options(context)}
        near = did_you_mean(error.option_name.lstrip("-"), known, known)
        return UsageError(f"no such option: {error.option_name}", hint=near or look)
    choice = _choice(error)
    if choice is not None:
        return choice
    if isinstance(error, click.MissingParameter) and error.param is not None:
        missing = error.param.get_error_hint(
            context or click.Context(click.Command(""))
        )
        is_argument = isinstance(error.param, click.Argument)
        if context is not None and is_argument:
            usage = context.command.collect_usage_pieces(context)
            look = f"usage: {' '.join([path, *usage])}"
        noun = "argument" if is_argument else "option"
        return UsageError(
            f"missing {noun}: {missing.replace(chr(39), '')}{_choices(error.param)}",
            hint=look,
        )
    return UsageError(_lower(error.format_message()), hint=look)


def _choice(error: click.UsageError) -> UsageError | None:
    """Return what is to be said of a value that is none of a few; None for other errors."""
    if not isinstance(error, click.BadParameter) or error.param is None:
        return None
    typed = _NOT_A_CHOICE.match(error.message)
    if typed is None or not isinstance(error.param.type, click.Choice):
        return None
    known = [str(one) for one in error.param.type.choices]
    name = error.param.opts[0]
    return UsageError(
        f"cannot use {typed[1]!r} as {name}",
        hint=did_you_mean(typed[1], known) or f"one of: {', '.join(known)}",
    )


def _choices(parameter: click.Parameter) -> str:
    if not isinstance(parameter.type, click.Choice):
        return ""
    return f" (one of {', '.join(map(str, parameter.type.choices))})"


def _verbs(context: click.Context | None) -> list[str]:
    if context is None or not isinstance(context.command, click.Group):
        return []
    return context.command.list_commands(context)


def _options(context: click.Context | None) -> list[str]:
    if context is None:
        return []
    found = context.command.get_params(context)
    return [name for one in found for name in (*one.opts, *one.secondary_opts)]


def _lower(message: str) -> str:
    """Return a message of click's in lower case, on one line, without a final period."""
    said = " ".join(message.split()).rstrip(".")
    return said[:1].lower() + said[1:]
