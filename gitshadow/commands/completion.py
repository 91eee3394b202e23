"""`git agent-undo completion`: what makes a shell complete verbs, options, ids and paths.

A shell asks at every press of a key: nothing here settles, starts a daemon, writes or loads the
engine.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem, ShellComplete

from gitshadow.commands import GROUPS, MACHINE_GROUP, spelled_out
from gitshadow.errors import ShadowError
from gitshadow.store.journal import offers
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout, discover

_UNITS = ("turn", "session", "burst", "op", "call")
_MOMENTS = ("pin", *_UNITS)
_MOST_IDS = 50
_MOST_OF_EACH = 10

# By the name of the option, whatever the verb.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "--agent": ("agent",),
    "--at": _MOMENTS,
    "--before": ("program turn",),
    "--commit": ("revision",),
    "--except": ("path",),
    "--export": ("file",),
    "--only": ("path",),
    "--onto": ("revision",),
    "--output": ("file",),
    "--pin": ("pin",),
    "--range": ("revision",),
    "--resume": ("op",),
    "--session": ("session", "program"),
    "--tools": ("file",),
    "--turn": ("program turn",),
    "--worktree": ("file",),
}
# By verb and the name of the argument.
ARGUMENTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apply", "targets"): _UNITS,
    ("blame", "words"): ("path",),
    ("cat", "path"): ("path",),
    ("check", "rev"): ("revision",),
    ("commit", "targets"): _UNITS,
    ("diff", "words"): (*_MOMENTS, "path"),
    ("export", "words"): ("session", "revision"),
    ("expose", "session"): ("session",),
    ("fetch", "remote"): ("remote",),
    ("fetch", "sessions"): ("session",),
    ("hook", "agent"): ("agent",),
    ("hooks install", "agents"): ("agent", "own hooks"),
    ("hooks status", "agents"): ("agent", "own hooks"),
    ("hooks uninstall", "agents"): ("agent", "own hooks"),
    ("import", "file"): ("file",),
    ("log", "paths"): ("path",),
    ("move", "target"): _UNITS,
    ("move", "worktree"): ("file",),
    ("purge", "paths"): ("path",),
    ("pin", "name"): ("pin",),
    ("program resolve", "call"): ("program call",),
    ("program saga show", "turn"): ("program turn",),
    ("push", "remote"): ("remote",),
    ("push", "sessions"): ("session",),
    ("record", "paths"): ("file",),
    ("redo", "op"): ("op",),
    ("report", "session"): ("session",),
    ("report", "other"): ("session",),
    ("restore", "paths"): ("path",),
    ("review", "targets"): ("session", "path"),
    ("session end", "id"): ("session",),
    ("show", "id"): (*_UNITS, "pin"),
    ("show", "paths"): ("path",),
    ("stage", "paths"): ("path",),
    ("stage", "target"): _UNITS,
    ("stats", "words"): ("revision", "path"),
    ("turns", "session"): ("session",),
    ("undo", "targets"): (*_UNITS, "path"),
}
_QUOTES = re.compile(r"\\(.)|'([^']*)'?|\"((?:\\.|[^\"\\])*)\"?", re.DOTALL)


class Word(NamedTuple):
    """One word to choose from, with a note about it.

    `form` is `plain`, `path` (a directory ends in `/`), or `file`: any file of this machine.
    """

    value: str
    note: str = ""
    form: str = "plain"


class _Fitting(click.types.StringParamType):
    """Offer words of certain kinds; nothing else of a parameter changes."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self._kinds = kinds

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        """Return the words that begin with what is typed."""
        return [
            CompletionItem(word.value, word.form, word.note)
            for word in _of_kinds(self._kinds, incomplete)
        ]


def offer(group: click.Group, typed: Sequence[str], *, quoted: bool) -> list[Word]:
    """Return what the last word can be completed to.

    Args:
        group: The top of the command tree.
        typed: The words after the program's name; the last one is being typed.
        quoted: Whether they still have the quotes and backslashes of a shell, and an option
            its `=` as a word of its own.
    """
    *args, last = [_unquoted(word) for word in typed] if quoted else typed
    if quoted:
        args = [word for word in args if word != "="]
        last = "" if last == "=" else last
    args = spelled_out(args[1:] if args[:1] == ["help"] else args)
    verb = next((word for word in args if not word.startswith("-")), None)
    if verb is None and not last.startswith("-"):
        return _verbs(last)
    command = None if verb is None else group.get_command(click.Context(group), verb)
    if command is not None and verb is not None:
        _prepare(command, verb, "--" in args)
    found = ShellComplete(group, {}, "git agent-undo", "").get_completions(args, last)
    # Bash splits words at `=` (COMP_WORDBREAKS), so for Bash the option's name is no part of the
    # word; for the other shells it is.
    option, sign, _ = last.partition("=")
    before = option + sign if sign and option.startswith("--") and not quoted else ""
    return [Word(before + item.value, item.help or "", item.type) for item in found]


def _verbs(typed: str) -> list[Word]:
    """Return the verbs that begin with a word; those for scripts only where no other does."""
    found = [
        (title == MACHINE_GROUP, Word(name, one.help))
        for title, verbs in GROUPS.items()
        for name, one in verbs.items()
        if name.startswith(typed)
    ]
    people = [word for machine, word in found if not machine]
    return people or [word for _, word in found]


def _prepare(command: click.Command, verb: str, separated: bool) -> None:
    """Set the completions of each parameter; after `--` there are only paths."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            named = [OPTIONS[name] for name in parameter.opts if name in OPTIONS]
            kinds = named[0] if named else ()
        else:
            kinds = ARGUMENTS.get((verb, parameter.name or ""), ())
            kinds = ("path",) if separated and "path" in kinds else kinds
        if kinds:
            parameter.type = _Fitting(kinds)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            if below is not None:
                _prepare(below, f"{verb} {name}", separated)


def _of_kinds(kinds: tuple[str, ...], typed: str) -> list[Word]:
    if kinds == ("file",):
        return [Word(typed, form="file")]
    if "agent" in kinds:
        from gitshadow.hookfiles import advice, catalog

        own = advice.NO_AGENTS if "own hooks" in kinds else ()
        names = sorted({*catalog.AGENTS, *own})
        return [Word(name) for name in names if name.startswith(typed)]
    layout = discover(os.getcwd())
    if layout is None:
        return []
    return _recorded(_Place(layout, os.getcwd(), os.environ), kinds, typed)


class _Place(NamedTuple):
    """Where a command line is typed."""

    layout: Layout
    cwd: str
    environ: Mapping[str, str]


def _recorded(place: _Place, kinds: Sequence[str], typed: str) -> list[Word]:
    """Return what begins with what is typed, kind by kind, the newest ids first."""
    found: list[Word] = []
    most = _MOST_IDS if len(kinds) == 1 else _MOST_OF_EACH
    try:
        for kind in kinds:
            listed_by = _BY_KIND.get(kind)
            if listed_by is not None:
                found += listed_by(place, typed)
            else:
                found += _ids(place, kind, typed, most)
    except (OSError, ShadowError):
        # An error here would be printed into the line that is being typed. The command itself
        # will report it.
        pass
    return list({word.value: word for word in found}.values())


def _ids(place: _Place, kind: str, typed: str, most: int) -> Iterator[Word]:
    with closing(Db.look(place.layout.journal)) as db:
        for offer in offers.ids(db, kind, typed, most):
            yield Word(offer.value, _said(offer))


def _said(offer: offers.Offer) -> str:
    # Imported here, like other modules below: each key press starts a process.
    import time

    when = time.strftime("%b %d %H:%M", time.localtime(offer.ts_ns // 10**9))
    lines = (offer.note or "").strip().splitlines()
    return f"{when} {lines[0][:60]}".rstrip() if lines else when


def _paths(place: _Place, typed: str) -> Iterator[Word]:
    layout = place.layout
    folder, slash, name = typed.rpartition("/")
    inside = os.path.normpath(os.path.join(os.path.realpath(place.cwd), folder + slash))
    below = os.path.relpath(inside, layout.root)
    if below == ".." or below.startswith("../"):
        return
    top = "" if below == "." else f"{below}/"
    with closing(Db.look(layout.journal)) as db:
        found = offers.names_below(db, layout.worktree, os.fsencode(top + name))
    for one in found:
        yield Word(_spelled(os.fsencode(folder + slash) + one), form="path")


def _spelled(path: bytes) -> str:
    """Return a path as a command takes it, on one line."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text and not text.startswith('"'):
        return text
    # This import takes 10 ms, and few names are odd.
    from gitshadow.store.paths import c_quoted

    return c_quoted(path)


def _revisions(place: _Place, typed: str) -> Iterator[Word]:
    """Yield branches and tags; behind `..` too."""
    before, dots, beginning = typed.rpartition("..")
    listed = ("refs/heads", "refs/remotes", "refs/tags")
    for name in _git(place, "for-each-ref", "--format=%(refname:short)", *listed):
        if name.startswith(beginning):
            yield Word(before + dots + name)


def _remotes(place: _Place, typed: str) -> Iterator[Word]:
    return (Word(name) for name in _git(place, "remote") if name.startswith(typed))


def _git(place: _Place, *args: str) -> list[str]:
    # This import takes 10 ms.
    from gitshadow.store.git import Git

    out = Git(place.layout, dict(place.environ)).run(*args)
    return out.decode("utf-8", "replace").splitlines()


_BY_KIND: Mapping[str, Callable[[_Place, str], Iterator[Word]]] = {
    "path": _paths,
    "revision": _revisions,
    "remote": _remotes,
}


def _unquoted(word: str) -> str:
    """Remove quotes and backslashes as a shell does, also a quote that is still open."""
    # Bash hands over the words as typed; zsh and fish have removed the quotes.

    def plain(match: re.Match[str]) -> str:
        escaped, single, double = match.groups()
        if double is not None:
            return re.sub(r"\\([$`\"\\])", r"\1", double)
        return escaped or single or ""

    return _QUOTES.sub(plain, word)


_SCRIPTS = os.path.join(os.path.dirname(__file__), "scripts")
_NAMES = {
    "bash": "git-agent-undo.bash",
    "zsh": "_git-agent-undo",
    "fish": "git-agent-undo.fish",
}


@click.group("completion")
def completion_command() -> None:
    """Print the completion script for a shell.

    An installation puts the scripts where shells look for them, below share/. If your shell
    does not look there, run git agent-undo completion bash >FILE and let the shell read FILE.
    """


@completion_command.command("bash")
def bash_command() -> None:
    """For ~/.local/share/bash-completion/completions/git-agent-undo."""
    _print("bash")


@completion_command.command("zsh")
def zsh_command() -> None:
    """For a file _git-agent-undo in a directory of $fpath."""
    _print("zsh")


@completion_command.command("fish")
def fish_command() -> None:
    """For ~/.config/fish/completions/git-agent-undo.fish."""
    _print("fish")


def _print(shell: str) -> None:
    with open(os.path.join(_SCRIPTS, _NAMES[shell]), encoding="utf-8") as stream:
        click.echo(stream.read(), nl=False)


@completion_command.command(
    "words", hidden=True, context_settings={"ignore_unknown_options": True}
)
@click.argument("shell", type=click.Choice(list(_NAMES)))
@click.argument("typed", nargs=-1, type=click.UNPROCESSED)
def words_command(shell: str, typed: tuple[str, ...]) -> None:
    """(internal) Print completions of the last word: form, word, note, separated by tabs."""
    group = click.get_current_context().find_root().command
    assert isinstance(group, click.Group)
    from gitshadow.render.style import printable

    for word in offer(group, typed or ("",), quoted=shell == "bash"):
        note = printable(" ".join(word.note.split()))
        sys.stdout.write(f"{word.form}\t{word.value}\t{note}\n")
