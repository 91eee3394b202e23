"""git-ai's notes: word for word as the standard has them, and read without trust."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.interchange import authorship
from gitshadow.interchange.claims import (
    MOST_BYTES,
    FileSpans,
    Reader,
    Span,
    SpanWriter,
    runs,
)
from gitshadow.model import Actor, Oid, RepoPath
from gitshadow.store.journal.blame import ClaimRow

COMMIT = Oid("c" * 40)
S1 = SpanWriter(
    "claude-code", "s-1", "abc", "claude-sonnet-5", "c1", "certain", "T <t@x>"
)
S1_LATER = S1._replace(part="c2")
S2 = SpanWriter("my-agent", "s-2", "def", None, "c3", "high")
PERSON = SpanWriter(person="T <t@x>")


def of(path: bytes, *spans: tuple[SpanWriter, Sequence[Span]]) -> FileSpans:
    return FileSpans(RepoPath(path), b"", spans)


def made(*files: FileSpans) -> str:
    note = authorship.format_note(COMMIT, files)
    assert note is not None
    return note.text.decode()


def read(text: str | bytes) -> tuple[list[ClaimRow], list[str]]:
    reader = Reader("note")
    data = text.encode() if isinstance(text, str) else text
    return list(authorship.read_note(COMMIT, data, reader)), reader.skipped


def note_of(attestations: str, **head: object) -> str:
    base = {"schema_version": "authorship/3.0.0", "prompts": {}, **head}
    return f"{attestations}---\n{json.dumps(base, indent=2)}\n"


def test_note_is_written_as_the_standard_has_it() -> None:
    """Keys from SHA-256, ranges, quoting, the record of every key."""
    text = made(
        of(b"src/my file.rs", (S1, [Span(1, 4)])),
        of(b"src/main.rs", (S1, [Span(1, 10), Span(15, 15)]), (PERSON, [Span(25, 30)])),
    )
    attestations, _, tail = text.partition("\n---\n")
    assert attestations.split("\n") == [
        "src/main.rs",
        "  s_2ce06946efc032::t_f0b322e4df8e7a 1-10,15",
        "  h_0c2b8fab9d1f06 25-30",
        '"src/my file.rs"',
        "  s_2ce06946efc032::t_f0b322e4df8e7a 1-4",
    ]
    assert json.loads(tail) == {
        "schema_version": "authorship/3.0.0",
        "base_commit_sha": COMMIT,
        "prompts": {},
        "sessions": {
            "s_2ce06946efc032": {
                "agent_id": {
                    "tool": "claude",
                    "id": "abc",
                    "model": "claude-sonnet-5",
                },
                "human_author": "T <t@x>",
            }
        },
        "humans": {"h_0c2b8fab9d1f06": {"author": "T <t@x>"}},
    }


def test_calls_of_one_session_share_its_record() -> None:
    text = made(of(b"a", (S1, [Span(1, 1)]), (S1_LATER, [Span(2, 2)])))
    head = json.loads(text.partition("\n---\n")[2])
    keys = [line.split()[0] for line in text.split("\n") if line.startswith("  s_")]
    assert len(set(keys)) == 2
    assert {key.split("::")[0] for key in keys} == set(head["sessions"])


def test_no_line_of_anybody_known_is_no_note() -> None:
    assert authorship.format_note(COMMIT, []) is None


@pytest.mark.parametrize(
    "name", [b"---", b"a\nb", b'a"b', b"a ", b" a", b"a\tb", b"\xff", b"a\x1bb"]
)
def test_names_that_a_note_cannot_hold_are_left_out_and_said(name: bytes) -> None:
    files = [of(name, (S1, [Span(1, 1)])), of(b"ok", (S1, [Span(1, 1)]))]
    note = authorship.format_note(COMMIT, files)
    assert note is not None
    assert note.left_out == (name,)
    assert note.text.startswith(b"ok\n")


def test_a_divider_below_a_directory_is_an_ordinary_name() -> None:
    assert made(of(b"d/---", (S1, [Span(1, 1)]))).startswith("d/---\n")


@given(st.lists(st.sampled_from([S1, S1_LATER, S2, None]), min_size=1, max_size=40))
def test_ranges_come_back_as_they_were(owners: list[SpanWriter | None]) -> None:
    """Property (iii): export → parse → same ranges, disjoint and within the file."""
    spans = [
        (writer, runs(n for n, one in enumerate(owners, 1) if one is writer))
        for writer in (S1, S1_LATER, S2)
        if writer in owners
    ]
    note = authorship.format_note(COMMIT, [of("d/ä b".encode(), *spans)] * bool(spans))
    claims, skipped = read(note.text if note is not None else note_of(""))
    assert skipped == []
    back: dict[int, str | None] = {}
    for claim in claims:
        lines = range(claim.first, claim.last + 1)
        assert not back.keys() & set(lines)
        back.update(dict.fromkeys(lines, claim.session))
    known = enumerate(owners, 1)
    assert back == {n: one.native for n, one in known if one is not None}


def test_note_of_git_ai_is_read() -> None:
    """Sessions, people, and the prompts of versions before 1.4.0, known by prefix alone."""
    text = note_of(
        "a\n  s_1::t_2 1-2\n  h_9 3\n  deadbeef 4,6-7\n",
        sessions={"s_1": {"agent_id": {"tool": "claude", "id": "x", "model": "m"}}},
        humans={"h_9": {"author": "P <p@x>"}},
        prompts={"deadbeef": {"agent_id": {"tool": "cursor", "id": "y y"}}},
    )
    claims, skipped = read(text)
    assert skipped == []
    told = {(c.first, c.last): (c.actor, c.agent, c.model) for c in claims}
    assert told == {
        (1, 2): (Actor.AGENT, "claude-code", "m"),
        (3, 3): (Actor.HUMAN, None, None),
        (4, 4): (Actor.AGENT, "cursor", None),
        (6, 7): (Actor.AGENT, "cursor", None),
    }
    sessions = {c.session for c in claims}
    assert "x" in sessions
    assert not any(" " in session for session in sessions if session)


def test_last_entry_over_a_line_counts_and_the_first_block_of_a_path() -> None:
    agents = {f"s_{n}": {"agent_id": {"tool": f"t{n}", "id": "i"}} for n in range(1, 4)}
    text = note_of("a\n  s_1 1-5\n  s_2 3\nb\n  s_1 1\na\n  s_3 1\n", sessions=agents)
    claims, _ = read(text)
    told = sorted((c.path, c.first, c.last, c.agent) for c in claims)
    assert told == [
        (b"a", 1, 2, "t1"),
        (b"a", 3, 3, "t2"),
        (b"a", 4, 5, "t1"),
        (b"b", 1, 1, "t1"),
    ]


def test_key_without_a_record_says_nothing() -> None:
    assert read(note_of("a\n  s_1 1\n  h_1 2\n  beef 3\n")) == ([], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no divider line"),
        ("a\n  s_1 1\n", "it has no divider line"),
        ("---\n{", "it is not JSON"),
        ("---\n[]", "it is not a JSON object"),
        ("---\n{}", "None is unknown"),
        (
            '---\n{"schema_version": "authorship/9\\u001b[2J"}',
            "authorship/9_[2J is unknown",
        ),
        (b"\xff\xfe---\n{}", "it is not UTF-8"),
        (b"x" * (MOST_BYTES + 1), "it is too large"),
    ],
)
def test_malformed_notes_are_named_and_left_out(text: str | bytes, why: str) -> None:
    assert read(text) == ([], [f"note: {why}"])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("../up\n  s_1 1\n", "a path is not one"),
        (".git/config\n  s_1 1\n", "a path is not one"),
        ("a\n  s_1 x\n", "a range is not one"),
        ("a\n  s_1 5-2\n", "lines are not lines"),
        ("a\n  s_1 0\n", "lines are not lines"),
        ("a\n  s_1 1-9999999999\n", "a range is not one"),
    ],
)
def test_hostile_attestations_are_left_out_one_by_one(lines: str, why: str) -> None:
    agents = {"s_1": {"agent_id": {"tool": "t", "id": "i"}}}
    claims, skipped = read(note_of(lines + "ok\n  s_1 1\n", sessions=agents))
    assert [c.path for c in claims] == [b"ok"]
    assert skipped == [f"note: {why}"]


def test_names_and_ids_of_others_are_bounded() -> None:
    agent = {"tool": "t\x1b[2J" + "x" * 1000, "id": "../../x" * 100, "model": "m\n"}
    (claim,), _ = read(note_of("a\n  s_1 1\n", sessions={"s_1": {"agent_id": agent}}))
    assert claim.agent is not None
    assert len(claim.agent) == 200
    assert claim.agent.isprintable()
    assert claim.model == "m_"
    assert claim.session is not None
    assert claim.session.startswith("x-")
    assert "/" not in claim.session


@given(st.binary(max_size=200), st.text(max_size=200))
def test_no_note_raises_and_a_broken_one_claims_nothing(data: bytes, text: str) -> None:
    for broken in (data, "a\n  s_1 1\n---\n" + text):
        claims, skipped = read(broken)
        assert claims == []
        assert len(skipped) == 1
    claims, skipped = read(note_of(text))
    assert claims == []
    assert all(why.startswith("note: ") for why in skipped)
