"""The manual page, made from the command tree, as roff (man(7)).

Made from the tree, it lists what the program accepts and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence

import click

# `git agent-undo --help` never reaches this program: Git runs `man git-agent-undo` instead
# (git-help(1)). So the page must say all that `-h` says.
_EXITS = (
    ("0", "Done, nothing to do, or a plan was printed."),
    (
        "1",
        "An error, for example: nothing is recorded here, or another process uses the"
        " session or worktree,"
        " or a check of doctor or hooks status failed.",
    ),
    (
        "2",
        "Wrong usage: an unknown command or option, or an unknown or ambiguous id.",
    ),
    ("3", "Undone, but something remains that cannot be undone."),
    ("4", "Partial: something was skipped."),
    ("5", "Refused; nothing was changed."),
    ("130", "Interrupted."),
)


def page(
    group: click.Group, groups: Mapping[str, Sequence[str]], program: str, version: str
) -> str:
    """Return the whole page.

    Args:
        group: The top of the command tree.
        groups: The verbs under their titles, in the order of the page.
        program: The name as people type it (`git agent-undo`).
        version: Ours.
    """
    top = click.Context(group, info_name=program, **group.context_settings)
    dashed = program.replace(" ", "-")
    lines = [
        f'.TH {_text(dashed.upper())} 1 "" "gitshadow {version}" "gitshadow manual"',
        ".SH NAME",
        f"{_text(dashed)} \\- undo and provenance for AI coding agents, inside Git",
        ".SH SYNOPSIS",
        f"\\fB{_text(program)}\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(group.help or ""),
    ]
    for title, verbs in groups.items():
        lines.append(f".SH {_text(title.upper())}")
        for verb in verbs:
            command = group.get_command(top, verb)
            if command is not None:
                lines += _verb(command, click.Context(command, top, verb))
    lines.append(".SH EXIT STATUS")
    for code, meaning in _EXITS:
        lines += [".TP", f"\\fB{code}\\fR", _text(meaning)]
    lines += [".SH SEE ALSO", "\\fBgit\\fR(1), \\fBgithooks\\fR(5)"]
    return "\n".join(lines) + "\n"


def _verb(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_text(context.command_path)} {_text(usage)}"
    yield from _paragraphs(command.help or "")
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            yield from (".TP", f"\\fB{_text(record[0])}\\fR", _text(record[1]))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _verb(below, click.Context(below, context, name))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _text(plain: str) -> str:
    """Escape what roff reads as its own: backslash, hyphen, a control character in front."""
    escaped = plain.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
