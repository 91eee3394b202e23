"""export, import: attribution for and from other tools."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from gitshadow.commands.client import send, spelled
from gitshadow.commands.options import (
    ask_yes,
    is_interactive,
    json_option,
    named_file,
    yes_option,
)
from gitshadow.commands.terminal import print_answer
from gitshadow.errors import ExitCode, ShadowError, UsageError
from gitshadow.messages.codec import JsonObject
from gitshadow.messages.exchange import (
    EXPORT_EVENTS,
    EXPORT_NOTES,
    EXPORT_REMOVE,
    EXPORT_TRACES,
    IMPORT_CLAIMS,
    IMPORT_FILE,
    ExportEventsRequest,
    ExportRemoveRequest,
    ExportRequest,
    ImportClaimsRequest,
    ImportFileRequest,
)
from gitshadow.render import output, sharing
from gitshadow.render.style import View

_EVENTS, _TRACES, _NOTES = "jsonl", "agent-trace", "git-ai"


class _Manner(NamedTuple):
    yes: bool
    dry_run: bool
    as_json: bool


@click.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice([_EVENTS, _TRACES, _NOTES]),
    default=_EVENTS,
    show_default=True,
    help="gitshadow's events, Agent Trace 0.1.0, or git-ai's notes.",
)
@click.option("-o", "--output", "file", metavar="FILE", help="Write to a file instead.")
@click.option("--remove", is_flag=True, help="Delete the notes in git-ai's format.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the notes, write nothing.")
@yes_option
@json_option
@click.argument("words", nargs=-1, metavar="[SESSION|REV|A..B]...")
def export_command(
    form: str, file: str | None, words: tuple[str, ...], remove: bool, **how: bool
) -> int | None:
    """Export sessions and commits; by default everything since recording began.

    The git-ai format is not a file but notes on refs/notes/ai. They are written only after a
    question, never where git-ai itself is used, and --remove deletes them.
    """
    if form == _NOTES:
        if file is not None:
            raise UsageError("cannot write notes to a file", hint="see: --dry-run")
        manner = _Manner(**how)
        return _remove_notes(manner) if remove else _write_notes(words, manner)
    if remove:
        raise UsageError(
            "cannot remove that: only git-ai's notes are removable",
            hint="git agent-undo export --format git-ai --remove",
        )
    pages = _events(words) if form == _EVENTS else _traces(words)
    if file is None:
        output.show_json_lines(pages)
    else:
        _write(file, pages)
    return None


def write_events(file: str) -> None:
    """Write the whole history to a file, as lines of our own format.

    Raises:
        ShadowError: it could not be written.
    """
    _write(file, _events(()))


def _events(words: tuple[str, ...]) -> Iterator[JsonObject]:
    after: int | None = 0
    while after is not None:
        page = send(EXPORT_EVENTS, ExportEventsRequest(words, after)).answer
        yield from page.lines
        after = page.next


def _traces(words: tuple[str, ...]) -> Iterator[JsonObject]:
    answer = send(EXPORT_TRACES, ExportRequest(words)).answer
    for line in sharing.left_out_lines(answer.left_out, View()):
        click.echo(line, err=True)
    yield from answer.records


def _write(file: str, lines: Iterable[JsonObject]) -> None:
    try:
        with named_file(file) as out:
            out.writelines(output.encode_json(line) for line in lines)
    except OSError as error:
        raise ShadowError(
            f"could not write {file}: {error.strerror}", hint="name another file"
        ) from error


def _write_notes(words: tuple[str, ...], manner: _Manner) -> int:
    plan = send(EXPORT_NOTES, ExportRequest(words, dry_run=True))
    if manner.dry_run or not plan.answer.notes:
        print_answer(plan, sharing.notes_lines, as_json=manner.as_json)
        return int(ExitCode.DONE)
    if not manner.as_json:
        output.show(sharing.plan_lines(plan.answer, View()))
    if not _agreed(manner, "write these notes?"):
        return int(ExitCode.REFUSED)
    done = send(EXPORT_NOTES, ExportRequest(words))
    print_answer(done, sharing.written_lines, as_json=manner.as_json)
    return int(ExitCode.DONE)


def _remove_notes(manner: _Manner) -> int:
    plan = send(EXPORT_REMOVE, ExportRemoveRequest(dry_run=True))
    print_answer(plan, sharing.removed_lines, as_json=manner.as_json)
    if manner.dry_run or not plan.answer.removed:
        return int(ExitCode.DONE)
    if not _agreed(manner, "delete them?"):
        return int(ExitCode.REFUSED)
    done = send(EXPORT_REMOVE, ExportRemoveRequest())
    if not manner.as_json:
        output.show(sharing.removed_lines(done.answer, View()))
    return int(ExitCode.DONE)


def _agreed(manner: _Manner, question: str) -> bool:
    if manner.yes:
        return True
    if manner.as_json or not is_interactive():
        click.echo("hint: nothing was changed; to do this: --yes", err=True)
        return False
    sys.stdout.flush()
    return ask_yes(question, default=False)


@click.command("import")
@click.option(
    "--from",
    "source",
    type=click.Choice(["git-ai", "entire"]),
    help="Read git-ai's notes, or Entire's trailers, of this repository.",
)
@json_option
@click.argument("file", required=False)
def import_command(source: str | None, file: str | None, as_json: bool) -> None:
    """Import FILE: an export from another clone, or Agent Trace records.

    Imported claims about lines are shown where nothing was recorded here, and never count as
    an agent's. Importing again changes nothing.
    """
    if file is not None and source is None:
        typed = spelled(os.path.abspath(file))
        done = send(IMPORT_FILE, ImportFileRequest(typed))
    elif source is not None and file is None:
        done = send(IMPORT_CLAIMS, ImportClaimsRequest(source))
    else:
        raise UsageError(
            "missing argument: FILE",
            hint="a file of git agent-undo export, or --from git-ai",
        )
    print_answer(done, sharing.import_lines, as_json=as_json)
