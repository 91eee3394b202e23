"""Agent Trace records, version 0.1.0 (cursor/agent-trace, README section 6, January 2026).

One record for each commit and tool; `vcs` is left out for what is not committed. A content hash is
`sha256:` over the exact bytes of the lines with their ends, which the metadata says.
Invariant: pure; a record that is made here is valid by the README's JSON schema.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitshadow.adapters.payload import Payload
from gitshadow.interchange.claims import (
    FileSpans,
    Reader,
    Span,
    SpanWriter,
    bounded,
    identifier,
    text_of,
)
from gitshadow.messages.codec import JsonObject
from gitshadow.model import Actor, Oid, RepoPath
from gitshadow.store.journal.blame import ClaimRow

VERSION = "0.1.0"
KEY = "dev.gitshadow"
_NAMESPACE = uuid.UUID("5b2f3a52-6d0c-5c1e-9d55-0a5a6b0f6c11")
_MOST_MODEL = 250
# How the names of models begin, and who provides them in models.dev.
_PROVIDERS = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("codex", "openai"),
    ("gemini", "google"),
    ("grok", "xai"),
    ("qwen", "alibaba"),
    ("deepseek", "deepseek"),
    ("mistral", "mistral"),
    ("devstral", "mistral"),
    ("kimi", "moonshotai"),
    ("glm", "zhipuai"),
)
_VERSION = re.compile(r"0\.\d+\.\d+|1\.0(\.\d+)?")


class TraceOrigin(NamedTuple):
    """The commit of records (None: not committed) and the time of its content."""

    commit: Oid | None
    timestamp: str


def records(origin: TraceOrigin, files: Sequence[FileSpans]) -> Iterator[JsonObject]:
    """Yield one record for each tool that wrote lines of a commit, by tool.

    A record cannot name a path that is not UTF-8: the caller lists those.
    """
    for tool in sorted({w.agent for one in files for w, _ in one.spans if w.agent}):
        chosen = [
            FileSpans(one.path, one.data, kept)
            for one in files
            if (kept := [(w, spans) for w, spans in one.spans if w.agent == tool])
        ]
        if chosen:
            yield _record(origin, tool, chosen)


def is_expressible(path: RepoPath) -> bool:
    """Return whether a record can name a path."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _record(origin: TraceOrigin, tool: str, files: Sequence[FileSpans]) -> JsonObject:
    named = [_file(one) for one in files]
    # The id is made from the content, so that a second export gives the same records.
    unique = json.dumps([origin, tool, named], sort_keys=True)
    record: JsonObject = {
        "version": VERSION,
        "id": str(uuid.uuid5(_NAMESPACE, unique)),
        "timestamp": origin.timestamp,
    }
    if origin.commit is not None:
        record["vcs"] = {"type": "git", "revision": origin.commit}
    evidence = {
        one.path.decode(): [
            {"session": writer.session, "confidence": writer.confidence}
            for writer, _ in one.spans
        ]
        for one in files
    }
    return record | {
        "tool": {"name": tool, "version": "unknown"},
        "files": named,
        "metadata": {
            KEY: {"hash": "sha256 of raw line bytes", "conversations": evidence}
        },
    }


def _file(one: FileSpans) -> JsonObject:
    return {
        "path": one.path.decode("utf-8"),
        "conversations": [
            {
                "contributor": _contributor(writer),
                "ranges": [_range(one.data, span) for span in spans],
            }
            for writer, spans in one.spans
        ],
    }


def _contributor(writer: SpanWriter) -> JsonObject:
    if writer.model is None:
        return {"type": "ai"}
    return {"type": "ai", "model_id": model_id(writer.model)}


def _range(data: bytes, span: Span) -> JsonObject:
    digest = hashlib.sha256(text_of(data, span)).hexdigest()
    return {
        "start_line": span.first,
        "end_line": span.last,
        "content_hash": f"sha256:{digest}",
    }


def model_id(model: str) -> str:
    """Return a model's name as `provider/model` (models.dev), if the provider is known."""
    plain = model.lower()
    if "/" not in plain:
        for begin, provider in _PROVIDERS:
            if plain.startswith(begin):
                return f"{provider}/{model}"[:_MOST_MODEL]
    return model[:_MOST_MODEL]


def read_record(text: str, reader: Reader) -> Iterator[ClaimRow]:
    """Yield the claims of one record about lines of a commit.

    The reader lists what is wrong in the record, which is skipped.
    """
    record = reader.object_of(text)
    if record is None:
        return
    version = str(record.value("version"))
    if not _VERSION.fullmatch(version):
        reader.skip(f"version {bounded(version)} is unknown")
        return
    # Without a commit, the content to which the line numbers belong is unknown.
    commit = record.text("vcs.revision")
    if commit is None or not reader.is_commit(commit):
        reader.skip("it does not name a commit")
        return
    name = record.value("tool.name")
    agent = bounded(name) if isinstance(name, str) else None
    for one in reader.objects(record, "files"):
        yield from _claims_of(one, Oid(commit), agent, reader)


def _claims_of(
    one: Payload, commit: Oid, agent: str | None, reader: Reader
) -> Iterator[ClaimRow]:
    path = reader.path(one.value("path"))
    if path is None:
        return
    for talk in reader.objects(one, "conversations"):
        url = talk.value("url")
        for lines in reader.objects(talk, "ranges"):
            span = reader.span(lines.value("start_line"), lines.value("end_line"))
            writer = lines if lines.value("contributor") else talk
            kind = writer.value("contributor.type")
            if span is None or kind not in ("ai", "human"):
                continue
            is_agent = kind == "ai"
            model = writer.value("contributor.model_id")
            yield ClaimRow(
                source="agent-trace",
                commit=commit,
                path=path,
                first=span.first,
                last=span.last,
                actor=Actor.AGENT if is_agent else Actor.HUMAN,
                agent=agent if is_agent else None,
                model=bounded(model) if is_agent and isinstance(model, str) else None,
                session=identifier(url) if is_agent and isinstance(url, str) else None,
            )
