"""Agent Trace records: valid by the schema, the same ranges when they are read back."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.interchange import agent_trace
from gitshadow.interchange.agent_trace import TraceOrigin
from gitshadow.interchange.claims import (
    FileSpans,
    Reader,
    Span,
    SpanWriter,
    runs,
)
from gitshadow.messages.codec import JsonObject
from gitshadow.model import Actor, Oid, RepoPath
from gitshadow.store.journal.blame import ClaimRow

SCHEMA = json.loads(
    (
        Path(__file__).parents[1] / "fixtures/agent_trace/trace-record.schema.json"
    ).read_text(encoding="utf-8")
)
COMMIT = Oid("a1b2" * 10)
ORIGIN = TraceOrigin(COMMIT, "2026-01-23T14:30:00.000000Z")
CLAUDE = SpanWriter("claude-code", "s-1", "native", "claude-sonnet-5", "c1", "certain")
CODEX = SpanWriter("codex", "s-2", "other", "gpt-5.5", "c2", "high")
PERSON = SpanWriter(person="T <t@x>")


def valid(record: JsonObject) -> None:
    checker = jsonschema.FormatChecker(["uuid"])
    jsonschema.Draft202012Validator(SCHEMA, format_checker=checker).validate(record)
    datetime.fromisoformat(str(record["timestamp"]))


def of(
    path: bytes, data: bytes, *spans: tuple[SpanWriter, Sequence[Span]]
) -> FileSpans:
    return FileSpans(RepoPath(path), data, spans)


def read(record: object) -> tuple[list[ClaimRow], list[str]]:
    reader = Reader("r")
    text = record if isinstance(record, str) else json.dumps(record)
    return list(agent_trace.read_record(text, reader)), reader.skipped


def file_with(*ranges: JsonObject, **conversation: object) -> dict[str, object]:
    """Return a record's file of one conversation of an agent with these ranges."""
    about = {"contributor": {"type": "ai"}, **conversation, "ranges": [*ranges]}
    return {"path": "a", "conversations": [about]}


def record_of(file: Mapping[str, object]) -> str:
    return json.dumps(
        {"version": "0.1.0", "vcs": {"revision": COMMIT}, "files": [file]}
    )


def test_record_is_the_smallest_that_says_everything() -> None:
    """An Agent Trace record, field by field."""
    data = b"1\n2\n3\n"
    (record,) = agent_trace.records(ORIGIN, [of(b"a", data, (CLAUDE, [Span(2, 3)]))])
    valid(record)
    digest = hashlib.sha256(b"2\n3\n").hexdigest()
    assert record["version"] == "0.1.0"
    assert record["vcs"] == {"type": "git", "revision": COMMIT}
    assert record["tool"] == {"name": "claude-code", "version": "unknown"}
    lines = {"start_line": 2, "end_line": 3, "content_hash": f"sha256:{digest}"}
    model = {"type": "ai", "model_id": "anthropic/claude-sonnet-5"}
    assert record["files"] == [file_with(lines, contributor=model)]


def test_uncommitted_work_names_no_commit() -> None:
    files = [of(b"a", b"1\n", (CLAUDE, [Span(1, 1)]))]
    (record,) = agent_trace.records(TraceOrigin(None, ORIGIN.timestamp), files)
    valid(record)
    assert "vcs" not in record


def test_each_tool_has_its_record_and_people_have_none() -> None:
    every = [(CODEX, [Span(1, 1)]), (PERSON, [Span(2, 2)]), (CLAUDE, [Span(3, 3)])]
    found = list(agent_trace.records(ORIGIN, [of(b"a", b"1\n2\n3\n", *every)]))
    tools = [record["tool"] for record in found]
    assert [tool["name"] for tool in tools if isinstance(tool, dict)] == [
        "claude-code",
        "codex",
    ]


def test_the_same_lines_give_the_same_id() -> None:
    files = [of(b"a", b"1\n", (CLAUDE, [Span(1, 1)]))]
    one, two = (next(agent_trace.records(ORIGIN, files)) for _ in range(2))
    other = next(agent_trace.records(ORIGIN._replace(commit=Oid("b" * 40)), files))
    assert one == two
    assert one["id"] != other["id"]


def test_last_line_without_a_newline_is_hashed_as_it_is() -> None:
    (record,) = agent_trace.records(ORIGIN, [of(b"a", b"1\n2", (CLAUDE, [Span(2, 2)]))])
    assert hashlib.sha256(b"2").hexdigest() in json.dumps(record)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("claude-sonnet-5", "anthropic/claude-sonnet-5"),
        ("gpt-5.5", "openai/gpt-5.5"),
        ("openrouter/x", "openrouter/x"),
        ("mine", "mine"),
        ("claude-" + "x" * 300, ("anthropic/claude-" + "x" * 300)[:250]),
    ],
)
def test_model_is_named_as_models_dev_does(model: str, named: str) -> None:
    assert agent_trace.model_id(model) == named


@given(st.lists(st.sampled_from([CLAUDE, CODEX, None]), min_size=1, max_size=40))
def test_ranges_come_back_as_they_were(owners: list[SpanWriter | None]) -> None:
    """Property (iii): export → parse → same ranges, disjoint and within the file."""
    data = b"".join(b"line %d\n" % n for n in range(len(owners)))
    spans = [
        (writer, runs(n for n, one in enumerate(owners, 1) if one is writer))
        for writer in (CLAUDE, CODEX)
        if writer in owners
    ]
    back: dict[int, str | None] = {}
    for record in agent_trace.records(ORIGIN, [of(b"d/a b", data, *spans)]):
        valid(record)
        claims, skipped = read(record)
        assert skipped == []
        for claim in claims:
            assert (claim.commit, claim.path) == (COMMIT, b"d/a b")
            lines = range(claim.first, claim.last + 1)
            assert not back.keys() & set(lines)
            back.update(dict.fromkeys(lines, claim.agent))
    known = enumerate(owners, 1)
    assert back == {n: one.agent for n, one in known if one is not None}


def test_records_of_others_are_read_as_claims() -> None:
    """The example of the specification, 6.2, with a person's range in it."""
    file = file_with(
        {"start_line": 42, "end_line": 67},
        {"start_line": 70, "end_line": 70, "contributor": {"type": "human"}},
        url="https://api.cursor.com/v1/conversations/12345",
        contributor={"type": "ai", "model_id": "openai/gpt-4o"},
    )
    record = {
        "version": "1.0",
        "vcs": {"type": "git", "revision": COMMIT},
        "tool": {"name": "cursor", "version": "2.4.0"},
        "files": [{**file, "path": "src/p.ts"}],
    }
    (one, two), skipped = read(record)
    assert skipped == []
    assert (one.actor, one.agent, one.model) == (Actor.AGENT, "cursor", "openai/gpt-4o")
    assert (one.first, one.last) == (42, 67)
    assert one.session is not None
    assert one.session.startswith("x-")
    assert (two.actor, two.agent, two.first, two.last) == (Actor.HUMAN, None, 70, 70)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ('{"version": "9.9"}', "version 9.9 is unknown"),
        ('{"version": "0.1.0", "files": []}', "it does not name a commit"),
        (
            '{"version": "0.1.0", "vcs": {"revision": "HEAD; rm -rf"}}',
            "it does not name a commit",
        ),
        (
            record_of({"path": "../../etc/passwd", "conversations": []}),
            "a path is not one",
        ),
        (
            record_of(file_with({"start_line": 1, "end_line": 10**30})),
            "lines are not lines",
        ),
    ],
)
def test_malformed_records_are_named_and_left_out(text: str, why: str) -> None:
    assert read(text) == ([], [f"r: {why}"])


_KEYS = ("version", "vcs", "revision", "files", "path", "conversations", "ranges")


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Return lists and objects of what a record is made of."""
    objects = st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5)
    return st.lists(inner, max_size=3) | objects


@given(st.recursive(st.none() | st.integers() | st.text(), nested, max_leaves=15))
def test_json_that_is_no_record_claims_nothing(value: object) -> None:
    claims, skipped = read(json.dumps(value))
    assert claims == []
    assert all(why.startswith("r: ") for why in skipped)
