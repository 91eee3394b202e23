"""import: what another clone's journal tells beside its refs, and what others claim of lines."""

from collections.abc import Iterator
from typing import TextIO

from gitshadow.adapters.payload import Payload
from gitshadow.errors import ShadowError, UsageError
from gitshadow.interchange.claims import MOST_BYTES, Reader
from gitshadow.interchange.event_lines import (
    Importer,
    is_header,
    machine_of,
    read_lines,
)
from gitshadow.interchange.import_claims import Believed, Believer
from gitshadow.messages.exchange import (
    ImportAnswer,
    ImportClaimsRequest,
    ImportFileRequest,
)
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store import machine
from gitshadow.store.paths import parse_path

_SOURCES = ("git-ai", "entire")
_MOST_SHOWN = 200


def import_file(context: RecorderContext, request: ImportFileRequest) -> ImportAnswer:
    """Import a file: lines of our own format, or Agent Trace records.

    Raises:
        ShadowError: it cannot be read.
        UsageError: it is neither.
    """
    context.observer.settle()
    name = request.file
    try:
        with open(
            parse_path(name), encoding="utf-8", errors="replace", newline="\n"
        ) as file:
            return _take_file(context, file, name.rpartition("/")[2])
    except OSError as error:
        raise ShadowError(f"could not read {name}: {error.strerror}") from error


def _take_file(context: RecorderContext, file: TextIO, name: str) -> ImportAnswer:
    texts = _lines_of(file)
    first = next(texts, None)
    reader = Reader(name)
    head = None if first is None else reader.object_of(first)
    ws = context.workspace
    if first is not None and head is not None and is_header(head):
        theirs = _workspace_of(context, head)
        with theirs.db.write():
            done = Importer(theirs).take(read_lines(texts, reader))
        return ImportAnswer(
            from_="events",
            new=done.new,
            known=done.known,
            elsewhere=done.elsewhere,
            skipped=tuple(reader.skipped[:_MOST_SHOWN]),
        )
    if first is not None and head is not None and "files" in head:
        with ws.db.write():
            return _believed(
                "agent-trace", Believer(ws).traces(_all(first, texts), name)
            )
    raise UsageError(
        f"cannot import {name}: neither an exported history nor an Agent Trace record",
        hint="to export a history: git agent-undo export --format jsonl",
    )


def _workspace_of(context: RecorderContext, head: Payload) -> Workspace:
    """Return the workspace of the machine that a header names: ours, or a fetched one."""
    ws, name = context.workspace, machine_of(head)
    if name is None or name in machine.ours(ws.layout):
        return ws
    ingest.make_journal(ws.layout, name)
    return context.others.context(name).workspace


def import_claims(
    context: RecorderContext, request: ImportClaimsRequest
) -> ImportAnswer:
    """Import what git-ai's notes or Entire's trailers claim about this repository's commits.

    Raises:
        UsageError: there is no such source.
    """
    context.observer.settle()
    source = request.source
    if source not in _SOURCES:
        raise UsageError(
            f"cannot import from {source}: unknown source",
            hint=f"use one of: {', '.join(_SOURCES)}",
        )
    ws = context.workspace
    head = ws.repo.head()[1]
    with ws.db.write():
        believer = Believer(ws)
        if source == "git-ai":
            return _believed(source, believer.notes())
        done = believer.done if head is None else believer.checkpoints(head)
        return _believed(source, done)


def _believed(source: str, done: Believed) -> ImportAnswer:
    return ImportAnswer(
        from_=source,
        claims=done.claims,
        commits=len(done.commits),
        lines=done.lines,
        skipped=tuple(done.skipped),
    )


def _lines_of(file: TextIO) -> Iterator[str]:
    """Yield lines that are not empty; an endless one is cut, and then it is no JSON."""
    while line := file.readline(MOST_BYTES + 1):
        if line.strip():
            yield line


def _all(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
