"""import: the history of another clone that its refs lack, and claims of other tools."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TextIO

from gitshadow.adapters.payload import Payload
from gitshadow.errors import ShadowError, StoreError, UsageError
from gitshadow.interchange import agent_trace, authorship, commit_trailers
from gitshadow.interchange.claims import (
    MOST_BYTES,
    Reader,
    bounded,
)
from gitshadow.interchange.event_lines import (
    Importer,
    is_header,
    machine_of,
    read_lines,
)
from gitshadow.messages.exchange import (
    ImportAnswer,
    ImportClaimsRequest,
    ImportFileRequest,
)
from gitshadow.model import GITLINK_MODE, TREE_MODE, Actor, Oid
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.workspace import Workspace
from gitshadow.store import machine
from gitshadow.store.journal import blame
from gitshadow.store.paths import parse_path

_SOURCES = ("git-ai", "entire")
_MOST_SHOWN = 200


@dataclass(slots=True)
class ImportedClaims:
    """Counts of imported claims, and why others were skipped."""

    claims: int = 0
    lines: int = 0
    commits: set[Oid] = field(default_factory=set)
    skipped: list[str] = field(default_factory=list)

    def skip(self, notes: Iterable[str]) -> None:
        """Keep why something was skipped, up to a limit."""
        room = _MOST_SHOWN - len(self.skipped)
        self.skipped += list(notes)[: max(0, room)]


class ClaimImporter:
    """Store what other tools claim of commits: notes, trailers, Agent Trace records.

    Claims are not events, and name no line of which there is evidence. Claims about commits that
    are not here are skipped. Use it inside `db.write()`.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._ws = workspace
        self.done = ImportedClaims()

    def notes(self) -> ImportedClaims:
        """Import git-ai's notes."""
        tip = self._ws.repo.ref(authorship.NOTES_REF)
        if tip is None:
            return self.done
        flat = self._ws.repo.trees.flat(self._ws.repo.commit(tip).tree)
        for path, (mode, blob) in flat.items():
            name = path.replace(b"/", b"").decode("ascii", "replace")
            if mode in (TREE_MODE, GITLINK_MODE):
                continue
            reader = Reader(f"note of {bounded(name)}")
            if not reader.is_commit(name):
                self.done.skip([f"{authorship.NOTES_REF}: a name is not a commit"])
                continue
            self._note(Oid(name), blob, reader)
        return self.done

    def _note(self, commit: Oid, blob: Oid, reader: Reader) -> None:
        try:
            data = self._ws.repo.read_blob(blob)
        except StoreError as error:
            reader.skip(error.message)
            data = b""
        if data:
            found = list(authorship.read_note(commit, data, reader))
            self._store(authorship.SOURCE, {commit: found}, reader)
        self.done.skip(reader.skipped)

    def checkpoints(self, tip: Oid) -> ImportedClaims:
        """Import the trailers of a commit and its ancestors that name Entire's checkpoints."""
        pattern = f"^{commit_trailers.CHECKPOINT}:"
        for commit in self._ws.git.commits_saying(tip, pattern):
            message = self._ws.repo.commit(commit).message
            found = [
                blame.ClaimRow(
                    "entire",
                    commit,
                    blame.WHOLE_COMMIT,
                    number,
                    number,
                    Actor.AGENT,
                    session=name,
                )
                for number, name in enumerate(commit_trailers.checkpoints(message))
            ]
            if found:
                self._store("entire", {commit: found}, Reader(commit))
        return self.done

    def traces(self, texts: Iterable[str], name: str) -> ImportedClaims:
        """Import Agent Trace records, one in each text."""
        by_commit: dict[Oid, list[blame.ClaimRow]] = {}
        for number, text in enumerate(texts, 1):
            reader = Reader(f"{name}, line {number}")
            for claim in agent_trace.read_record(text, reader):
                by_commit.setdefault(claim.commit, []).append(claim)
            self.done.skip(reader.skipped)
        self._store("agent-trace", by_commit, Reader(name))
        return self.done

    def _store(
        self, source: str, by_commit: Mapping[Oid, list[blame.ClaimRow]], reader: Reader
    ) -> None:
        for commit, found in by_commit.items():
            repo = self._ws.repo
            if not (repo.format.is_oid(commit) and repo.has(commit)):
                self.done.skip([f"{reader.what}: commit {commit[:10]} is not here"])
                continue
            self.done.claims += blame.replace_claims(self._ws.db, source, commit, found)
            self.done.commits.add(commit)
            self.done.lines += sum(
                row.last - row.first + 1
                for row in found
                if row.path != blame.WHOLE_COMMIT
            )


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
            return _import_from(context, file, name.rpartition("/")[2])
    except OSError as error:
        raise ShadowError(f"could not read {name}: {error.strerror}") from error


def _import_from(context: RecorderContext, file: TextIO, name: str) -> ImportAnswer:
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
            return _claims_answer(
                "agent-trace", ClaimImporter(ws).traces(_all(first, texts), name)
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
        importer = ClaimImporter(ws)
        if source == "git-ai":
            return _claims_answer(source, importer.notes())
        done = importer.done if head is None else importer.checkpoints(head)
        return _claims_answer(source, done)


def _claims_answer(source: str, done: ImportedClaims) -> ImportAnswer:
    return ImportAnswer(
        from_=source,
        claims=done.claims,
        commits=len(done.commits),
        lines=done.lines,
        skipped=tuple(done.skipped),
    )


def _lines_of(file: TextIO) -> Iterator[str]:
    """Yield the lines that are not empty."""
    # A file without newlines must not fill the memory. The cut line is no JSON and is skipped.
    while line := file.readline(MOST_BYTES + 1):
        if line.strip():
            yield line


def _all(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
