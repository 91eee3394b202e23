"""Frames: what goes in comes out, and nonsense is never taken for a frame."""

import _socket
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gitshadow.ipc import wire
from tests.support.waiting import HANGS_S

VERBS = st.from_regex(rb"[a-z_]{1,30}", fullmatch=True)


@contextmanager
def pair() -> Iterator[tuple[_socket.socket, _socket.socket]]:
    """Give two ends that never wait for ever."""
    ours, theirs = _socket.socketpair()
    for end in (ours, theirs):
        end.settimeout(HANGS_S)
    try:
        yield ours, theirs
    finally:
        ours.close()
        theirs.close()


def feed(sock: _socket.socket, data: bytes) -> None:
    """Send in a thread, since a socket holds only so much, then hang up."""

    def send() -> None:
        with suppress(OSError):
            sock.sendall(data)
            sock.shutdown(_socket.SHUT_WR)

    threading.Thread(target=send, daemon=True).start()


@given(VERBS, st.binary(max_size=300_000), VERBS, st.binary(max_size=300_000))
def test_call_brings_both_bodies_over(
    verb: bytes, body: bytes, status: bytes, answer: bytes
) -> None:
    taken: list[tuple[list[bytes], bytes]] = []

    def serve() -> None:
        fields, rest = wire.read_line(theirs)
        taken.append((fields, wire.read_body(theirs, fields[3], rest, 1 << 20)))
        wire.reply(theirs, status, answer)

    with pair() as (ours, theirs):
        server = threading.Thread(target=serve)
        server.start()
        assert wire.call(ours, verb, body) == (status, answer)
        server.join()
    fields = [b"GS1", wire.VERSION, verb, b"%d" % len(body)]
    assert taken == [(fields, body)]


@given(st.binary(max_size=2000))
def test_nonsense_is_no_frame(data: bytes) -> None:
    assume(not data.startswith((b"GS1 ", b"GS1\n")))
    with pair() as (ours, theirs):
        feed(theirs, data)
        with pytest.raises(wire.WireError):
            wire.read_line(ours)


@given(st.binary(min_size=1, max_size=5000), st.integers(min_value=1))
def test_body_that_ends_early_is_an_error(data: bytes, missing: int) -> None:
    length = b"%d" % min(len(data) + missing, wire.MAX_REQUEST)
    with pair() as (ours, theirs):
        feed(theirs, data)
        with pytest.raises(wire.WireError, match="closed the connection"):
            wire.read_body(ours, length, b"", wire.MAX_REQUEST)


@pytest.mark.parametrize("length", [b"", b"-1", b"1_0", b"x", b"\xb2", b"9" * 5000])
def test_length_that_is_no_number_is_an_error(length: bytes) -> None:
    with pair() as (ours, _), pytest.raises(wire.WireError, match="not a frame"):
        wire.read_body(ours, length, b"", wire.MAX_REQUEST)


def test_body_over_the_limit_is_named_as_such() -> None:
    with pair() as (ours, _), pytest.raises(wire.TooLargeError):
        wire.read_body(ours, b"11", b"", 10)


def test_more_than_the_length_says_is_an_error() -> None:
    with pair() as (ours, _), pytest.raises(wire.WireError, match="more data"):
        wire.read_body(ours, b"2", b"abc", 10)


def test_request_over_the_limit_is_not_sent() -> None:
    with pair() as (ours, theirs):
        with pytest.raises(wire.TooLargeError):
            wire.call(ours, b"run", bytes(wire.MAX_REQUEST + 1))
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_connect_reaches_a_path_over_108_bytes(tmp_path: Path) -> None:
    """ROB-13: `sun_path` holds 108 bytes."""
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    fd = os.open(deep, os.O_PATH)
    listening.bind(f"/proc/self/fd/{fd}/{wire.SOCKET_NAME}")
    os.close(fd)
    listening.listen(1)
    wire.connect(str(deep), 1.0).close()
    assert stat.S_ISSOCK((deep / wire.SOCKET_NAME).stat().st_mode)
    listening.close()


def test_connect_leaves_no_descriptor_when_nobody_listens(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        wire.connect(str(tmp_path), 1.0)
    assert len(os.listdir("/proc/self/fd")) == len(before)


class Stalled(_socket.socket):
    """A socket whose owner stood still while its first turn was over."""

    turns = 0

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        self.turns += 1
        if self.turns == 1:
            raise TimeoutError
        return super().recv(bufsize, flags)


def test_answer_is_awaited_further_when_a_turn_was_over() -> None:
    with pair() as (ours, theirs):
        stalled = Stalled(fileno=os.dup(ours.fileno()))
        stalled.settimeout(HANGS_S)
        wire.reply(theirs, wire.OK, b"late")
        wire.await_answer(stalled, HANGS_S)
        assert wire.answer(stalled) == (wire.OK, b"late")
        stalled.close()


def test_answer_that_does_not_come_is_not_awaited_for_ever() -> None:
    with pair() as (ours, _), pytest.raises(TimeoutError):
        wire.await_answer(ours, 0.1)
