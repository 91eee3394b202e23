r"""git-ai's authorship log, `authorship/3.0.0`: the notes on `refs/notes/ai`.

Attestations (path at column 0, below it `  <key> <ranges>`), a line `---`, JSON. What the standard
leaves open is settled by its code (git_ai_standard_v3.0.0.md, 2026-01): `base_commit_sha`
is the annotated commit; the first block of a path counts, and in it the last entry over a line; a
key without a record says nothing; ids are known by their prefix, never by their length.
Invariant: pure; a note that is made here names each path once, with disjoint ascending ranges.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.interchange.claims import (
    ExternalClaim,
    Reader,
    bounded,
    decoded,
    identifier,
)
from gitshadow.interchange.spans import FileSpans, Span, SpanWriter
from gitshadow.model import Actor, Oid, RepoPath

SCHEMA = "authorship/3.0.0"
SOURCE = "git-ai"
_DIVIDER = "---"
_HEX = 14
_TOOLS = {
    "claude-code": "claude",
    "copilot": "github-copilot",
    "vscode-copilot": "github-copilot",
}
"""What git-ai calls an agent where it is another name than ours (its presets, 2026-01)."""
_AGENTS = {"claude": "claude-code", "github-copilot": "copilot"}
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_ENTRIES = 200_000

Record = dict[str, object]


class AuthorshipNote(NamedTuple):
    """Hold a note, and the paths that it cannot name."""

    text: bytes
    left_out: tuple[RepoPath, ...]


def format_note(commit: Oid, files: Sequence[FileSpans]) -> AuthorshipNote | None:
    """Return the note of a commit, None where nobody wrote a line that is known.

    A writer without an agent is a known person.
    """
    blocks: list[str] = []
    sessions: dict[str, Record] = {}
    humans: dict[str, Record] = {}
    left_out: list[RepoPath] = []
    for one in sorted(files, key=lambda file: file.path):
        name = _written(one.path)
        if name is None:
            left_out.append(one.path)
            continue
        entries = [
            f"  {_entered(writer, sessions, humans)} {_ranges(spans)}"
            for writer, spans in one.spans
        ]
        if entries:
            blocks.append("\n".join([name, *entries]))
    if not blocks:
        return AuthorshipNote(b"", tuple(left_out)) if left_out else None
    head: Record = {
        "schema_version": SCHEMA,
        "base_commit_sha": commit,
        "prompts": {},
    }
    if sessions:
        head["sessions"] = sessions
    if humans:
        head["humans"] = humans
    tail = json.dumps(head, indent=2, sort_keys=True)
    text = "\n".join([*blocks, _DIVIDER, tail]) + "\n"
    return AuthorshipNote(text.encode("utf-8"), tuple(left_out))


def _written(path: RepoPath) -> str | None:
    """Return a path as a note names it, None where it cannot: nothing is ever escaped."""
    try:
        name = path.decode("utf-8")
    except UnicodeDecodeError:
        return None
    unsafe = name == _DIVIDER or '"' in name or not name.isprintable()
    if unsafe or name != name.strip():
        return None
    return f'"{name}"' if " " in name else name


def _entered(
    writer: SpanWriter, sessions: dict[str, Record], humans: dict[str, Record]
) -> str:
    """Return the key of a writer, whose record is entered."""
    if writer.agent is None:
        person = writer.person or "unknown"
        key = "h_" + _digest(person)
        humans[key] = {"author": person}
        return key
    tool = _TOOLS.get(writer.agent, writer.agent)
    native = writer.native or writer.session or ""
    key = "s_" + _digest(f"{tool}:{native}")
    agent = {"tool": tool, "id": native, "model": writer.model or "unknown"}
    sessions[key] = {"agent_id": agent}
    if writer.person:
        sessions[key]["human_author"] = writer.person
    # git-ai draws `t_` at random; from the call, so that a second export says the same.
    return f"{key}::t_" + _digest(f"{writer.session}:{writer.part}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HEX]


def _ranges(spans: Sequence[Span]) -> str:
    return ",".join(
        str(span.first) if span.first == span.last else f"{span.first}-{span.last}"
        for span in spans
    )


# -- reading ---------------------------------------------------------------------------------------


def read_note(commit: Oid, data: bytes, reader: Reader) -> Iterator[ExternalClaim]:
    """Yield what a note claims of lines of its commit; what is wrong in it is left out.

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
    if not str(head.get("schema_version")).startswith("authorship/3."):
        reader.skip(f"{bounded(str(head.get('schema_version')))} is unknown")
        return
    writers = _Writers(head)
    for path, entries in _blocks(lines[: min(at, _MOST_ENTRIES)], reader).items():
        yield from _claims(commit, path, entries, writers)


class _Writers:
    """Know the writers that a note has records of."""

    def __init__(self, head: Mapping[str, object]) -> None:
        self._tables = {
            name: _table(head.get(name)) for name in ("sessions", "prompts", "humans")
        }

    def claim(
        self, commit: Oid, path: RepoPath, span: Span, key: str
    ) -> ExternalClaim | None:
        """Return what an entry claims, None where its key has no record."""
        name = key.partition("::")[0]
        if name.startswith("h_"):
            known = name in self._tables["humans"]
            return (
                ExternalClaim(SOURCE, commit, path, span, Actor.HUMAN)
                if known
                else None
            )
        table = "sessions" if name.startswith("s_") else "prompts"
        record = self._tables[table].get(name)
        agent = record.get("agent_id") if isinstance(record, dict) else None
        if not isinstance(agent, dict):
            return None
        tool = _text(agent, "tool") or "agent"
        model = _text(agent, "model")
        return ExternalClaim(
            SOURCE,
            commit,
            path,
            span,
            Actor.AGENT,
            agent=bounded(_AGENTS.get(tool, tool)),
            model=bounded(model) if model and model != "unknown" else None,
            session=identifier(_text(agent, "id") or name),
        )


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) and value else None


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
            path = reader.path(line[1:-1] if _is_quoted(line) else line)
            entries = [] if path is not None else None
            if path is not None and entries is not None:
                found.setdefault(path, entries)
    return found


def _is_quoted(line: str) -> bool:
    return len(line) >= 2 and line[0] == line[-1] == '"'


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
) -> Iterator[ExternalClaim]:
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
    """Return what is left of a span where others are taken."""
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
