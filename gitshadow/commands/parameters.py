"""What a verb takes, declared once, and read without click where the words are plain.

click needs 15 ms to be imported, as long as the daemon to answer. So it is built from a
declaration only for what needs it: help, completion, errors, and words that may mean an error.
Invariant: `DeclaredVerb.read` returns what click would, or None; it never reports an error.
"""

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    import click

Function: TypeAlias = Callable[..., Any]
_F = TypeVar("_F", bound=Function)
Values: TypeAlias = dict[str, object]

SEPARATED: ContextVar[tuple[str, ...]] = ContextVar("separated", default=())
"""The words after `--` of a verb that keeps them apart."""
_DECLARED = "__declared__"


class Option(NamedTuple):
    """One option: its names, its parameter, and what its value may be.

    Attributes:
        flag_value: Its value where it is given without one; None if it needs a value.
        kept_in: Where its value goes instead of into a parameter of the verb.
    """

    names: tuple[str, ...]
    target: str
    help: str
    metavar: str | None
    is_flag: bool
    multiple: bool
    choices: Callable[[], Sequence[str]] | None
    number: bool
    least: int | None
    default: str | None
    flag_value: str | None
    kept_in: ContextVar[str | None] | None

    def value_of(self, word: str) -> object:
        """Return the value that a word means; None where click has to look at it."""
        if self.number:
            # What `int` accepts beyond these is rare enough for click.
            if not (word.isascii() and word.isdigit()):
                return None
            return int(word) if self.least is None or int(word) >= self.least else None
        return word if self.choices is None or word in self.choices() else None

    def for_click(self, function: _F) -> _F:
        """Add the option to a function that becomes a command of click's."""
        import click

        how: dict[str, Any] = {"help": self.help}
        if self.is_flag:
            how["is_flag"] = True
        elif self.choices is not None:
            how["type"] = click.Choice(self.choices())
        elif self.number:
            how["type"] = int if self.least is None else click.IntRange(min=self.least)
        if self.multiple:
            how["multiple"] = True
        if self.metavar is not None:
            how["metavar"] = self.metavar
        if self.flag_value is not None:
            how |= {"is_flag": False, "flag_value": self.flag_value}
        if self.default is not None:
            how |= {"default": self.default, "show_default": True}
        variable = self.kept_in
        if variable is not None:
            how["expose_value"] = False
            how["callback"] = lambda _ctx, _option, value: variable.set(value)
        return click.option(*self.names, self.target, **how)(function)


class Argument(NamedTuple):
    """One argument, or with `many` all that are left."""

    target: str
    many: bool
    required: bool
    metavar: str | None

    def for_click(self, function: _F) -> _F:
        """Add the argument to a function that becomes a command of click's."""
        import click

        how: dict[str, Any] = {"nargs": -1} if self.many else {}
        if not self.many:
            how["required"] = self.required
        if self.metavar is not None:
            how["metavar"] = self.metavar
        return click.argument(self.target, **how)(function)


Parameter: TypeAlias = Option | Argument


def option(  # noqa: PLR0913 - the words of click's own
    *names: str,
    help: str,
    metavar: str | None = None,
    is_flag: bool = False,
    multiple: bool = False,
    choices: Sequence[str] | Callable[[], Sequence[str]] = (),
    number: bool = False,
    least: int | None = None,
    default: str | None = None,
    flag_value: str | None = None,
    kept_in: ContextVar[str | None] | None = None,
) -> Callable[[_F], _F]:
    """Declare an option; a name without dashes is the one of its parameter."""
    spelled = tuple(name for name in names if name.startswith("-"))
    long = next((name for name in spelled if name.startswith("--")), spelled[0])
    own = next((name for name in names if not name.startswith("-")), None)
    target = own or long.lstrip("-").replace("-", "_")
    return _declare(
        Option(
            names=spelled,
            target=target,
            help=help,
            metavar=metavar,
            is_flag=is_flag,
            multiple=multiple,
            choices=choices if callable(choices) else _always(choices),
            number=number or least is not None,
            least=least,
            default=default,
            flag_value=flag_value,
            kept_in=kept_in,
        )
    )


def _always(choices: Sequence[str]) -> Callable[[], Sequence[str]] | None:
    return (lambda: choices) if choices else None


def argument(
    target: str,
    *,
    many: bool = False,
    required: bool = True,
    metavar: str | None = None,
) -> Callable[[_F], _F]:
    """Declare an argument."""
    return _declare(Argument(target, many, required and not many, metavar))


def _declare(parameter: Parameter) -> Callable[[_F], _F]:
    def add(function: _F) -> _F:
        function.__dict__.setdefault(_DECLARED, []).append(parameter)
        # The shared options are also added to verbs that are commands of click's, whose modules
        # have imported it.
        return parameter.for_click(function) if "click" in sys.modules else function

    return add


class DeclaredVerb:
    """A verb: its name, its parameters, and the function that is called with them.

    Args:
        name: The verb.
        function: Called with a value for each parameter; returns the exit code, None for 0.
        separates: Keep the words after `--` apart: each of them is a path.
    """

    def __init__(self, name: str, function: Function, *, separates: bool) -> None:
        declared: list[Parameter] = getattr(function, _DECLARED, [])
        self.name = name
        self.function = function
        self._separates = separates
        # Decorators are applied from the last one up.
        self.parameters = tuple(reversed(declared))

    def read(self, words: Sequence[str]) -> Values | None:
        """Return the values of all parameters; None where click has to look at the words."""
        before, behind = _cut(words) if self._separates else (words, ())
        found = self._read(before)
        if found is not None:
            SEPARATED.set(behind)
        return found

    def _read(self, words: Sequence[str]) -> Values | None:
        options = [one for one in self.parameters if isinstance(one, Option)]
        by_name = {name: one for one in options for name in one.names}
        given: dict[Option, list[object]] = {one: [] for one in options}
        plain: list[str] = []
        waiting = list(reversed(words))
        while waiting:
            word = waiting.pop()
            if word == "--":
                plain += reversed(waiting)
                break
            if word == "-" or not word.startswith("-"):
                plain.append(word)
                continue
            value = _value(word, by_name, waiting)
            if value is None:
                return None
            given[value[0]].append(value[1])
        values = _arguments(
            [one for one in self.parameters if isinstance(one, Argument)], plain
        )
        return None if values is None else values | _option_values(given)

    @cached_property
    def for_click(self) -> "click.Command":
        """The verb as a command of click's; one, because completion changes its parameters."""
        import click

        def called(**values: object) -> object:
            return self.function(**values)

        called.__doc__ = self.function.__doc__
        for parameter in reversed(self.parameters):
            parameter.for_click(called)
        kind = separating_command() if self._separates else click.Command
        # As in the group: click keeps the option that the first context asked for.
        settings = {"help_option_names": ["-h", "--help"]}
        return click.command(self.name, cls=kind, context_settings=settings)(called)


def verb(name: str, *, separates: bool = False) -> Callable[[Function], DeclaredVerb]:
    """Make a function with declared parameters a verb."""
    return lambda function: DeclaredVerb(name, function, separates=separates)


def _cut(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the words before `--` and those after it."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), tuple(words[at + 1 :])


def _value(
    word: str, by_name: dict[str, Option], waiting: list[str]
) -> tuple[Option, object] | None:
    """Return the option that a word is, with its value; None where click has to look at it."""
    name, sign, value = word.partition("=")
    if not word.startswith("--"):
        # `-n50` is `-n 50`.
        name, sign, value = word[:2], word[2:], word[2:]
    found = by_name.get(name)
    if found is None or found.flag_value is not None:
        return None
    if found.is_flag:
        return None if sign else (found, True)
    if not sign:
        # An option without its value is an error, or the next one is its value.
        if not waiting or waiting[-1].startswith("-"):
            return None
        value = waiting.pop()
    meant = found.value_of(value)
    return None if meant is None else (found, meant)


def _arguments(declared: Sequence[Argument], words: list[str]) -> Values | None:
    """Return the values of the arguments; None where there are too few or too many words."""
    values: Values = {}
    for one in declared:
        if one.many:
            values[one.target], words = tuple(words), []
        elif words:
            values[one.target], *words = words
        elif one.required:
            return None
        else:
            values[one.target] = None
    return None if words else values


def _option_values(given: dict[Option, list[object]]) -> Values:
    values: Values = {}
    for one, found in given.items():
        if one.kept_in is not None:
            one.kept_in.set(str(found[-1]) if found else None)
        elif one.multiple:
            values[one.target] = tuple(found)
        elif found:
            values[one.target] = found[-1]
        else:
            values[one.target] = False if one.is_flag else one.default
    return values


def separating_command() -> "type[click.Command]":
    """Return the kind of command that keeps the words after `--` apart."""
    import click

    class SeparatingCommand(click.Command):
        """Remove the words after `--` before click reads the rest."""

        # click drops the `--` itself, and then a path would look like a revision.
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            """Keep the words after `--` apart."""
            args, behind = _cut(args)
            SEPARATED.set(behind)
            return super().parse_args(ctx, args)

    return SeparatingCommand
