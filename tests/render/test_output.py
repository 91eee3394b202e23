"""Text, with and without a pager; JSON: UTF-8, lossless, without effect on a terminal."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.render import output


def test_show_prints_every_line(capfd: pytest.CaptureFixture[str]) -> None:
    output.show(f"line {number}" for number in range(2500))
    lines = capfd.readouterr().out.splitlines()
    assert (len(lines), lines[0], lines[-1]) == (2500, "line 0", "line 2499")


def test_show_nothing_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    output.show([])
    assert capfd.readouterr().out == ""


def test_show_feeds_the_pager_as_git_does(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    output.show(["a", "b"], pager=f"(echo $LESS $LV; cat) >'{seen}'")
    assert seen.read_text() == "FRX -c\na\nb\n"


def test_show_keeps_the_users_own_pager_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LESS", "R")
    seen = tmp_path / "seen"
    output.show(["a"], pager=f"(echo $LESS; cat) >'{seen}'")
    assert seen.read_text() == "R\na\n"


def test_show_ends_quietly_when_the_pager_does() -> None:
    endless = (str(number) for number in range(10**6))
    output.show(endless, pager="head -n 1 >/dev/null")
    assert next(endless, None) is not None


def test_show_bytes_changes_nothing(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output.show_bytes(b"\xff\r\n\x1b")
    assert capfdbinary.readouterr().out == b"\xff\r\n\x1b"


def test_encode_json_keeps_the_order_of_fields() -> None:
    assert (
        output.encode_json({"seq": 1, "path": "ä"})
        == '{"seq": 1, "path": "ä"}\n'.encode()
    )


def test_encode_json_escapes_what_a_terminal_obeys() -> None:
    """ROB-12: JSON is printed to terminals too."""
    encoded = output.encode_json({"path": "\x1b[1m\x9b\u202e\n"})
    assert encoded == b'{"path": "\\u001b[1m\\u009b\\u202e\\n"}\n'


@given(st.text(st.characters()))
def test_encode_json_is_lossless(text: str) -> None:
    """UX-06: one line of JSON that gives the text back, lone surrogates too."""
    encoded = output.encode_json({"path": text})
    assert encoded.count(b"\n") == 1
    assert json.loads(encoded) == {"path": text}
