"""JSON on standard output: one document, or one object per line where it streams.

Invariant: the bytes are UTF-8 whatever the locale says, in the fields' own order, and hold
no control character, so that a name in them cannot act on a terminal.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping

_RAW = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What JSON may leave raw but a terminal obeys: DEL, C1 controls, marks of direction."""


def encode(document: Mapping[str, object]) -> bytes:
    """Return a document as one line of UTF-8 JSON with its newline."""
    plain = json.dumps(document, ensure_ascii=False)
    safe = _RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
    return safe.encode("utf-8", "backslashreplace") + b"\n"


def show(document: Mapping[str, object]) -> None:
    """Print one document."""
    show_lines((document,))


def show_lines(documents: Iterable[Mapping[str, object]]) -> None:
    """Print one object per line, each as soon as it is there."""
    sys.stdout.flush()
    for document in documents:
        sys.stdout.buffer.write(encode(document))
    sys.stdout.buffer.flush()
