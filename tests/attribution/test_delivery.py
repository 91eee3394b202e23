"""What the hook program hands over, on the socket and in the spool."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.attribution.delivery import (
    HookDelivery,
    format_body,
    parse_body,
    parse_spool,
)
from gitshadow.attribution.process import ProcessId


def test_body_is_header_and_raw_payload() -> None:
    raw = (
        b"agent: claude-code\ncwd: /repo/\xff\npid: 9\nppids: 7/70 5/50\n"
        b"env: CLAUDE_PID=7\nenv: X=a=b\n\n"
        b'{"a":\n\n1}'
    )
    assert parse_body(raw) == HookDelivery(
        agent="claude-code",
        payload=b'{"a":\n\n1}',
        cwd="/repo/\udcff",
        pids=(ProcessId(7, 70), ProcessId(5, 50)),
        env={"CLAUDE_PID": "7", "X": "a=b"},
    )


@given(
    st.builds(
        HookDelivery,
        agent=st.text("ab-", min_size=1),
        payload=st.binary(),
        cwd=st.none() | st.text("/a\udcff", min_size=1),
        pids=st.lists(st.builds(ProcessId, st.integers(1), st.integers(0))).map(tuple),
        own=st.none() | st.builds(ProcessId, st.integers(1), st.integers(0)),
        env=st.dictionaries(st.text("AB_", min_size=1), st.text("x=\udcff")),
    )
)
def test_body_is_read_as_the_delivery_that_it_was_made_of(one: HookDelivery) -> None:
    assert parse_body(format_body(one)) == replace(one, pids=one.pids[:64])


@pytest.mark.parametrize("raw", [b"", b"\n\n{}", b"cwd: /x\n\n{}", b"agent:\n\n"])
def test_body_is_nothing_when_it_names_no_agent(raw: bytes) -> None:
    assert parse_body(raw) is None


def test_pids_are_left_out_when_they_are_no_pairs() -> None:
    found = parse_body(b"agent: x\nppids: 7 8/ /9 a/b 5/50 -1/3\n\n")
    assert found is not None
    assert found.pids == (ProcessId(5, 50),)


@pytest.mark.parametrize("own", ["7/70", "", "7", "7/x"])
def test_the_hook_program_is_named_when_it_says_which_it_is(
    own: str, tmp_path: Path
) -> None:
    """A body, a spool file and one that is passed on say the same."""
    wanted = ProcessId(7, 70) if own == "7/70" else None
    found = parse_body(f"agent: x\nown: {own}\n\n{{}}".encode())
    assert found is not None
    assert found.own == wanted
    spooled = spool(tmp_path, {"agent": "x", "payload": "{}", "own": own})
    assert spooled is not None
    assert spooled.own == wanted


def spool(folder: Path, content: object) -> HookDelivery | None:
    path = folder / "1-2.json"
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(data)
    return parse_spool(str(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_spool_file_has_its_ctime_as_time(folder: Path) -> None:
    """ATT-14: the time of a late payload is that of its file."""
    found = spool(
        folder,
        {
            "agent": "generic",
            "payload": '{"p": "\udcff"}',
            "pids": [[7, 70], "5/50"],
            "env": {"A": "1", "B": 2},
            "cwd": "/repo",
        },
    )
    assert found == HookDelivery(
        agent="generic",
        payload=b'{"p": "\xff"}',
        cwd="/repo",
        pids=(ProcessId(7, 70), ProcessId(5, 50)),
        env={"A": "1"},
        at_ns=os.stat(folder / "1-2.json").st_ctime_ns,
    )


def test_payload_is_written_out_when_it_was_embedded(folder: Path) -> None:
    found = spool(folder, {"agent": "x", "payload": {"a": [1]}, "env": ["K=v"]})
    assert found is not None
    assert json.loads(found.payload) == {"a": [1]}
    assert found.env == {"K": "v"}


@pytest.mark.parametrize(
    "content",
    [b"", b'{"agent": "x", "pay', [], {}, {"agent": 7}, b"[" * 100_000],
    ids=["empty", "half", "list", "bare", "number", "deep"],
)
def test_spool_file_is_nothing_when_it_is_not_whole(
    folder: Path, content: object
) -> None:
    assert spool(folder, content) is None


def test_spool_file_is_nothing_when_it_is_gone(folder: Path) -> None:
    assert parse_spool(str(folder / "none")) is None
