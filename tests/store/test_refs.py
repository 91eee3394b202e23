"""The grammar of refs, quoting and messages."""

import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitshadow.errors import StoreError
from gitshadow.model import (
    Actor,
    Confidence,
    OpKind,
    RepoPath,
    ToolClass,
)
from gitshadow.store import refs
from gitshadow.store.refs import PathNote, ShadowCommit
from tests.support.repo import Repo

DAY_NS = 1_795_248_000_000_000_000
FORGERY = "x\n\nAgent-Undo-Session: other\nAgent-Undo-Format: 1"

paths = st.binary(min_size=1, max_size=250).map(
    lambda data: RepoPath(data.replace(b"\0", b"_"))
)
texts = st.text(
    st.characters(codec="utf-8"), min_size=0, max_size=60
) | st.sampled_from([FORGERY, '"', "\\", " lead", "trail ", "a\tb", "é", "\x1b[31m"])
times = st.integers(0, 4_000_000_000_000_000).map(lambda micro: micro * 1000)
ids = st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True)
notes = st.builds(
    PathNote,
    st.sampled_from([0o100600, 0o100644, 0o100755, 0o104755, 0o120000]),
    paths,
    st.none() | paths,
)
subjects = st.text("abc XYZ→…./é", min_size=1, max_size=60).map(
    lambda text: text.strip() or "Write"
)
permissions = st.integers(0, 0o777)


@st.composite
def commits(draw: st.DrawFn) -> ShadowCommit:
    first = draw(st.integers(1, 10**15))
    turn = draw(st.none() | texts)
    call = draw(st.none() | texts)
    return ShadowCommit(
        subject=draw(subjects),
        kind=draw(st.sampled_from(["write", "baseline", "sync", "head", "restore"])),
        time_ns=draw(times),
        session=draw(ids),
        agent=draw(st.none() | texts),
        worktree=draw(texts),
        seqs=draw(st.none() | st.just((first, first)) | st.just((first, first + 9))),
        native=draw(st.none() | texts),
        actor=draw(st.none() | st.sampled_from(Actor)),
        parent=draw(st.none() | ids),
        started_ns=draw(st.none() | times),
        modes=draw(st.none() | st.tuples(permissions, permissions)),
        turn=turn,
        turn_ordinal=None if turn is None else draw(st.integers(0, 10**6)),
        turn_started_ns=None if turn is None else draw(times),
        call=call,
        tool=draw(st.none() | texts),
        tool_class=None if call is None else draw(st.sampled_from(ToolClass)),
        call_opened_ns=None if call is None else draw(times),
        confidence=draw(st.none() | st.sampled_from(Confidence)),
        reason=draw(st.none() | texts),
        candidates=tuple(draw(st.lists(texts, max_size=3))),
        burst=draw(st.none() | texts),
        flags=tuple(draw(st.lists(st.sampled_from(["offline", "switched"])))),
        op=draw(st.none() | texts),
        op_kind=draw(st.none() | st.sampled_from(OpKind)),
        undoes=tuple(draw(st.lists(texts, max_size=3))),
        target=draw(st.none() | texts),
        token=draw(st.none() | texts),
        note=draw(st.none() | texts),
        pin=draw(st.none() | texts),
        paths=tuple(draw(st.lists(notes, max_size=4))),
    )


@given(st.binary(max_size=300))
@example(b"")
@example(b'"')
@example(b" a ")
@example(b"\\101")
def test_unquote_takes_quote_back(data: bytes) -> None:
    quoted = refs.quote(data)
    assert re.fullmatch(r"[\x20-\x7e]+", quoted)
    assert refs.unquote(quoted) == data


@given(paths)
def test_parse_path_takes_display_path_back(path: RepoPath) -> None:
    assert refs.parse_path(refs.display_path(path)) == path


def test_display_path_quotes_only_what_text_would_lose() -> None:
    assert refs.display_path(RepoPath("é b".encode())) == "é b"
    assert refs.display_path(RepoPath(b"\xff\n")) == '"\\377\\n"'
    assert refs.display_path(RepoPath(b'"a"')) == '"\\"a\\""'


@pytest.mark.parametrize("text", ['"', '"a', '"a"b"', '"\\q"', '"\\777"', "\ud800"])
def test_parse_path_refuses_what_is_no_path(text: str) -> None:
    with pytest.raises(StoreError):
        refs.parse_path(text)


@given(commits())
def test_parse_takes_format_back(commit: ShadowCommit) -> None:
    """ROB-11: whatever a value holds, it is one line and comes back as it was."""
    message = refs.format_message(commit)
    assert refs.parse_message(message) == commit
    assert refs.peek(message) == (commit.kind, commit.seqs[0] if commit.seqs else None)


@given(commits())
def test_message_is_subject_and_one_paragraph_of_trailers(commit: ShadowCommit) -> None:
    subject, empty, *trailers = refs.format_message(commit).decode().splitlines()
    assert (subject, empty) == (commit.subject, "")
    assert all(re.fullmatch(r"Agent-Undo-[A-Za-z-]+: .+", line) for line in trailers)


def forged() -> ShadowCommit:
    return ShadowCommit(
        subject="Edit x",
        kind="write",
        time_ns=DAY_NS,
        session="s-1",
        agent=FORGERY,
        turn=FORGERY,
        reason=FORGERY,
        note=FORGERY,
        seqs=(7, 8),
        paths=(PathNote(0o100600, RepoPath(FORGERY.encode()), RepoPath(b"\xff")),),
    )


def test_hostile_values_forge_no_trailer_for_git(repo: Repo) -> None:
    """ROB-11: git itself sees one session and one format."""
    out = repo.git(
        "interpret-trailers", "--parse", stdin=refs.format_message(forged())
    ).splitlines()
    assert [line for line in out if line.startswith("Agent-Undo-Session")] == [
        "Agent-Undo-Session: s-1"
    ]
    assert [line for line in out if line.startswith("Agent-Undo-Format")] == [
        "Agent-Undo-Format: 1"
    ]
    assert len(out) == len(refs.format_message(forged()).decode().splitlines()) - 2


def test_message_survives_a_real_commit(repo: Repo) -> None:
    """GIT-16: what git stores and gives back is the same message."""
    message = refs.format_message(forged())
    oid = repo.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-F", "-", stdin=message)
    raw = subprocess.run(
        ["git", "cat-file", "commit", oid],
        cwd=repo.root,
        capture_output=True,
        check=True,
    ).stdout
    assert refs.parse_message(raw.partition(b"\n\n")[2]) == forged()


def test_subject_cannot_open_a_paragraph() -> None:
    commit = replace(forged(), subject="Edit a\n\nAgent-Undo-Session: other\x1b[2J")
    message = refs.format_message(commit)
    parsed = refs.parse_message(message)
    assert parsed is not None
    assert parsed.session == "s-1"
    assert b"\x1b" not in message
    assert message.count(b"\n\n") == 1


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"first",
        b"first\n\nSigned-off-by: x\n",
        b"\xff\xfe\n\n\x00",
        b"x\n\nAgent-Undo-Format: banana\n",
        b"x\n\nAgent-Undo-Format: 1\nAgent-Undo-Kind: write\n\nlast paragraph\n",
    ],
)
def test_parse_gives_none_for_what_is_not_ours(message: bytes) -> None:
    assert refs.parse_message(message) is None
    assert refs.peek(message) == (None, None)


def test_parse_refuses_a_newer_format() -> None:
    message = refs.format_message(forged()).replace(b"Format: 1\n", b"Format: 2\n")
    with pytest.raises(StoreError, match="newer format 2"):
        refs.parse_message(message)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Agent-Undo-Kind: write\n", b""),
        (b"Kind: write", b"Kind: wipe"),
        (b"Session: s-1", b"Session: ../../heads/main"),
        (b"Session: s-1", b"Session: s-1\nAgent-Undo-Session: s-2"),
        (b"Seq: 7-8", b"Seq: 8-7"),
        (b"Seq: 7-8", b"Seq: 0"),
        (b"Seq: 7-8", b"Seq: 99999999999999999999"),
        (b"Seq: 7-8", b"Seq: seven"),
        (b"Time: 20", b"Time: yesterday 20"),
        (b"Path: 100600 ", b"Path: 100600 x "),
        (b"Path: 100600 ", b"Path: 040000 "),
        (b"Path: 100600 ", b"Path: 100600"),
        (b'Note: "', b'Note: "\\'),
    ],
)
def test_parse_refuses_a_broken_message_of_ours(old: bytes, new: bytes) -> None:
    message = refs.format_message(forged())
    assert old in message
    with pytest.raises(StoreError, match="could not read"):
        refs.parse_message(message.replace(old, new, 1))


@given(st.binary(max_size=200))
def test_parse_never_raises_anything_but_store_errors(noise: bytes) -> None:
    head = b"x\n\nAgent-Undo-Format: 1\nAgent-Undo-Kind: write\nAgent-Undo-"
    try:
        parsed = refs.parse_message(head + noise)
    except StoreError:
        return
    assert parsed is None or parsed.kind == "write"


def test_unknown_trailers_are_ignored() -> None:
    message = refs.format_message(forged()) + b"Agent-Undo-Mood: fine\n"
    assert refs.parse_message(message) == forged()


REF = re.compile(r"refs/agent-undo/[a-z0-9-]{1,40}")


@given(st.text(max_size=300), st.text(max_size=300), st.sampled_from([6, 8, 16]))
@example("../../heads/main", "x", 6)
@example("😀", "😀", 16)
@example("pin", "x", 6)
def test_refs_are_short_and_plain(agent: str, native: str, length: int) -> None:
    """GIT-17: whatever an agent and its ids are called."""
    agent, native = (
        text.encode("utf-8", "replace").decode() for text in (agent, native)
    )
    session = refs.session_id(agent, native, DAY_NS, length=length)
    for worktree in ("main", "w", "../x", "é" * 300):
        ref = refs.chain_ref(session, worktree)
        assert REF.fullmatch(ref)
        assert not refs.is_pin(ref)
    assert REF.fullmatch(refs.pin_ref(agent))
    assert refs.is_pin(refs.pin_ref(agent))


def test_session_id_differs_where_cleaned_names_are_equal() -> None:
    """GIT-17: two native ids that clean to the same text."""
    one = refs.session_id("codex", "a b", DAY_NS)
    assert re.fullmatch(r"codex-20261121-[0-9a-f]{6}", one)
    assert one != refs.session_id("codex", "a-b", DAY_NS)


def test_chain_ref_differs_in_each_worktree() -> None:
    made = {refs.chain_ref("s-1", name) for name in ("main", "w1", "w2")}
    assert len(made) == 3
    assert "refs/agent-undo/s-1" in made


def test_long_session_ids_keep_their_own_ref_in_a_linked_worktree() -> None:
    one = refs.session_id("claude-code-long", "1", DAY_NS, length=16)
    two = refs.session_id("claude-code-long", "2", DAY_NS, length=16)
    assert refs.chain_ref(one, "w") != refs.chain_ref(two, "w")


@given(times)
def test_parse_time_takes_format_time_back(time_ns: int) -> None:
    assert refs.parse_time(refs.format_time(time_ns)) == time_ns
