"""JSON as bytes: UTF-8, lossless, without effect on a terminal."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gitshadow.render.json import encode


def test_encode_keeps_the_order_of_fields() -> None:
    assert encode({"seq": 1, "path": "ä"}) == '{"seq": 1, "path": "ä"}\n'.encode()


def test_encode_escapes_what_a_terminal_obeys() -> None:
    """ROB-12: JSON is printed to terminals too."""
    encoded = encode({"path": "\x1b[1m\x9b\u202e\n"})
    assert encoded == b'{"path": "\\u001b[1m\\u009b\\u202e\\n"}\n'


@given(st.text(st.characters()))
def test_encode_is_lossless(text: str) -> None:
    """UX-06: one line of JSON that gives the text back, lone surrogates too."""
    encoded = encode({"path": text})
    assert encoded.count(b"\n") == 1
    assert json.loads(encoded) == {"path": text}
