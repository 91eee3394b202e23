"""Read and write git-ai's authorship log, `authorship/3.0.0`: the notes on `refs/notes/ai`.

Attestations (path at column 0, below it `  <key> <ranges>`), a line `---`, JSON. Where the standard
is open, its code decides (git_ai_standard_v3.0.0.md, 2026-01): `base_commit_sha` is the annotated
commit; the first block of a path counts, and in it the last entry for a line; a key without a
record states nothing; ids are known by their prefix, never by their length.
Invariant: the format is pure, and a note made here names each path once, with disjoint ascending
ranges. The ref is changed only if it does not exist or is what we wrote last.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.adapters.payload import Payload
from gitshadow.errors import RefusedError
from gitshadow.interchange.claims import (
    FileSpans,
    Reader,
    Span,
    SpanWriter,
    bounded,
    decoded,
    identifier,
)
from gitshadow.messages.codec import encode
from gitshadow.model import Actor, Oid, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.store.journal import meta
from gitshadow.store.journal.blame import ClaimRow
from gitshadow.store.objects import NewCommit

SCHEMA = "authorship/3.0.0"
SOURCE = "git-ai"
_DIVIDER = "---"
_HEX = 14
# What git-ai calls an agent where it is another name than ours (its presets, 2026-01).
_TOOLS = {
    "claude-code": "claude",
    "copilot": "github-copilot",
    "vscode-copilot": "github-copilot",
}
_AGENTS = {"claude": "claude-code", "github-copilot": "copilot"}
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_ENTRIES = 200_000

NOTES_REF = "refs/notes/ai"
_NOTES_KEY = "notes:git-ai"
_PLAIN = 0o100644
_SUBJECT = b"Notes added by git agent-undo export\n"


class _Agent(NamedTuple):
    tool: str
    id: str
    model: str


class _SessionRecord(NamedTuple):
    agent_id: _Agent
    human_author: str = ""


class _HumanRecord(NamedTuple):
    author: str


class _Head(NamedTuple):
    """The JSON part of a note; keys of sessions and humans are those of the entries."""

    schema_version: str
    base_commit_sha: str
    prompts: Mapping[str, str]
    sessions: dict[str, _SessionRecord] = {}  # noqa: RUF012 - never written to
    humans: dict[str, _HumanRecord] = {}  # noqa: RUF012


class AuthorshipNote(NamedTuple):
    """A note, and the paths that it cannot name."""

    text: bytes
    left_out: tuple[RepoPath, ...]


def format_note(commit: Oid, files: Sequence[FileSpans]) -> AuthorshipNote | None:
    """Return the note of a commit, None if no author of a line is known.

    A writer without an agent is a known person.
    """
    blocks: list[str] = []
    head = _Head(SCHEMA, commit, prompts={}, sessions={}, humans={})
    left_out: list[RepoPath] = []
    for one in sorted(files, key=lambda file: file.path):
        name = _written(one.path)
        if name is None:
            left_out.append(one.path)
            continue
        entries = [
            f"  {_entered(writer, head)} {_ranges(spans)}"
            for writer, spans in one.spans
        ]
        if entries:
            blocks.append("\n".join([name, *entries]))
    if not blocks:
        return AuthorshipNote(b"", tuple(left_out)) if left_out else None
    tail = json.dumps(encode(head), indent=2, sort_keys=True)
    text = "\n".join([*blocks, _DIVIDER, tail]) + "\n"
    return AuthorshipNote(text.encode("utf-8"), tuple(left_out))


def _written(path: RepoPath) -> str | None:
    """Return a path as a note names it, None if it cannot: the format has no escapes."""
    try:
        name = path.decode("utf-8")
    except UnicodeDecodeError:
        return None
    unsafe = name == _DIVIDER or '"' in name or not name.isprintable()
    if unsafe or name != name.strip():
        return None
    return f'"{name}"' if " " in name else name


def _entered(writer: SpanWriter, head: _Head) -> str:
    """Add a writer's record; return its key."""
    if writer.agent is None:
        person = writer.person or "unknown"
        key = "h_" + _digest(person)
        head.humans[key] = _HumanRecord(person)
        return key
    tool = _TOOLS.get(writer.agent, writer.agent)
    native = writer.native or writer.session or ""
    key = "s_" + _digest(f"{tool}:{native}")
    agent = _Agent(tool, native, writer.model or "unknown")
    head.sessions[key] = _SessionRecord(agent, writer.person or "")
    # git-ai makes `t_` at random. Here it comes from the call, so that a second export is the same.
    return f"{key}::t_" + _digest(f"{writer.session}:{writer.part}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HEX]


def _ranges(spans: Sequence[Span]) -> str:
    return ",".join(
        str(span.first) if span.first == span.last else f"{span.first}-{span.last}"
        for span in spans
    )


def read_note(commit: Oid, data: bytes, reader: Reader) -> Iterator[ClaimRow]:
    """Yield the claims of a note about lines of its commit; wrong parts of it are skipped.

    The claims of a path are disjoint.
    """
    text = decoded(data, reader)
    if text is None:
        return
    lines = text.split("\n")
    if _DIVIDER not in lines:
        reader.skip("it has no divider line")
        return
    at = lines.index(_DIVIDER)
    head = reader.object_of("\n".join(lines[at + 1 :]))
    if head is None:
        return
    schema = str(head.value("schema_version"))
    if not schema.startswith("authorship/3."):
        reader.skip(f"{bounded(schema)} is unknown")
        return
    writers = _Writers(head)
    for path, entries in _blocks(lines[: min(at, _MOST_ENTRIES)], reader).items():
        yield from _claims(commit, path, entries, writers)


class _Writers:
    """The writers that a note has records of."""

    def __init__(self, head: Payload) -> None:
        self._tables = {
            name: head.object(name).fields for name in ("sessions", "prompts", "humans")
        }

    def claim(
        self, commit: Oid, path: RepoPath, span: Span, key: str
    ) -> ClaimRow | None:
        """Return the claim of an entry, None if its key has no record."""
        name = key.partition("::")[0]
        if name.startswith("h_"):
            known = name in self._tables["humans"]
            row = ClaimRow(SOURCE, commit, path, *span, Actor.HUMAN)
            return row if known else None
        table = "sessions" if name.startswith("s_") else "prompts"
        record = self._tables[table].get(name)
        found = record.get("agent_id") if isinstance(record, dict) else None
        if not isinstance(found, dict):
            return None
        agent = Payload(found)
        tool = agent.text("tool") or "agent"
        model = agent.text("model")
        return ClaimRow(
            SOURCE,
            commit,
            path,
            *span,
            Actor.AGENT,
            agent=bounded(_AGENTS.get(tool, tool)),
            model=bounded(model) if model and model != "unknown" else None,
            session=identifier(agent.text("id") or name),
        )


def _blocks(
    lines: Sequence[str], reader: Reader
) -> Mapping[RepoPath, list[tuple[str, list[Span]]]]:
    """Return the entries of each path; the first block of a path counts."""
    found: dict[RepoPath, list[tuple[str, list[Span]]]] = {}
    entries: list[tuple[str, list[Span]]] | None = None
    for line in lines:
        if line.startswith("  "):
            key, _, listed = line[2:].partition(" ")
            spans = _read_ranges(listed, reader)
            if entries is not None and key and spans:
                entries.append((key, spans))
        elif line:
            is_quoted = len(line) >= 2 and line[0] == line[-1] == '"'
            path = reader.path(line[1:-1] if is_quoted else line)
            entries = [] if path is not None else None
            if path is not None and entries is not None:
                found.setdefault(path, entries)
    return found


def _read_ranges(listed: str, reader: Reader) -> list[Span]:
    spans: list[Span] = []
    for word in listed.split(","):
        match = _RANGE.fullmatch(word)
        span = None
        if match is None:
            reader.skip("a range is not one")
        else:
            span = reader.span(int(match[1]), int(match[2] or match[1]))
        if span is not None:
            spans.append(span)
    return spans


def _claims(
    commit: Oid,
    path: RepoPath,
    entries: Sequence[tuple[str, list[Span]]],
    writers: _Writers,
) -> Iterator[ClaimRow]:
    """Yield disjoint claims: the last entry over a line counts."""
    taken: list[Span] = []
    for key, spans in reversed(entries):
        fresh = [part for span in spans for part in _without(span, taken)]
        for span in fresh:
            claim = writers.claim(commit, path, span, key)
            if claim is not None:
                yield claim
        taken += fresh


def _without(span: Span, taken: Sequence[Span]) -> list[Span]:
    """Return the parts of a span that are in no other one."""
    left = [span]
    for other in taken:
        left = [piece for one in left for piece in _cut(one, other)]
    return left


def _cut(one: Span, other: Span) -> list[Span]:
    if other.last < one.first or one.last < other.first:
        return [one]
    pieces = []
    if one.first < other.first:
        pieces.append(Span(one.first, other.first - 1))
    if other.last < one.last:
        pieces.append(Span(other.last + 1, one.last))
    return pieces


@dataclass(frozen=True, slots=True)
class NotesState:
    """Our tip of the ref (None: it does not exist), and the number of its notes."""

    tip: Oid | None
    count: int = 0


def notes_state(context: RecorderContext) -> NotesState:
    """Return the state of the ref.

    Raises:
        RefusedError: another tool created or changed it.
    """
    ws = context.workspace
    known = json.loads(meta.get(ws.db, _NOTES_KEY) or "[]")
    tip = ws.repo.ref(NOTES_REF)
    if tip is not None and tip not in known:
        raise RefusedError(
            f"could not write {NOTES_REF}: it contains notes of another tool",
            hint="two tools cannot share a notes ref; to list its notes: git notes --ref=ai list",
        )
    if tip is None:
        return NotesState(None)
    return NotesState(tip, len(ws.repo.trees.flat(ws.repo.commit(tip).tree)))


def refuse_beside_git_ai(context: RecorderContext) -> None:
    """Refuse to write notes if git-ai itself is used here.

    Raises:
        RefusedError: it is installed, or has its state in this repository.
    """
    # Two writers on one notes ref conflict, and diverging notes trees cannot always be merged
    # (git-ai issues 95 and 98).
    ws = context.workspace
    found = shutil.which("git-ai", path=ws.environ.get("PATH", os.defpath))
    state = os.path.join(ws.layout.common_dir, "ai")
    where = found or (state if os.path.isdir(state) else None)
    if where is not None:
        raise RefusedError(
            f"could not write {NOTES_REF}: git-ai is used here ({where}) and writes it itself",
            hint="to see the notes: --dry-run",
        )


def write_notes(
    context: RecorderContext, notes: Mapping[Oid, bytes], before: NotesState
) -> Oid:
    """Write notes to the ref; they replace our earlier ones for the same commits.

    Raises:
        StoreError: the ref was moved at the same time, or an object could not be written.
    """
    ws = context.workspace
    entries = {
        RepoPath(f"{commit[:2]}/{commit[2:]}".encode()): (
            _PLAIN,
            ws.repo.write_blob(data),
        )
        for commit, data in notes.items()
    }
    old = None if before.tip is None else ws.repo.commit(before.tip).tree
    name, email = ws.repo.identity()
    now_s = ws.clock.now_ns() // 1_000_000_000
    new = NewCommit(
        tree=ws.repo.trees.splice(old, entries),
        parents=() if before.tip is None else (before.tip,),
        author_name=name,
        author_email=email,
        author_time=now_s,
        committer_time=now_s,
        message=_SUBJECT,
    )
    tip = ws.repo.write_commit(new)
    # The tip is stored first. After a crash between the two, a ref with an unknown tip would count
    # as another tool's, and could never be removed.
    _remember(context, tip, before.tip)
    ws.git.put_ref(NOTES_REF, tip, before.tip)
    return tip


def remove_notes(context: RecorderContext, before: NotesState) -> None:
    """Delete the ref that we made.

    Raises:
        StoreError: it was moved at the same time.
    """
    if before.tip is not None:
        context.workspace.git.drop_ref(NOTES_REF, before.tip)
        _remember(context)


def _remember(context: RecorderContext, *tips: Oid | None) -> None:
    """Store the tips that are ours: during a write, the new one and the old one."""
    db = context.workspace.db
    with db.write():
        meta.put(db, _NOTES_KEY, json.dumps([tip for tip in tips if tip is not None]))
