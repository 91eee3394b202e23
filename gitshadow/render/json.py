"""JSON on standard output: one document, or one object per line where it streams."""

import json
import re
import sys
from collections.abc import Iterable

from gitshadow.messages.codec import Params

# DEL, C1 controls and marks of direction: JSON may leave them raw, but a terminal obeys them. The
# name of a file must not act on the terminal of who looks at the output.
_RAW = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def encode(document: Params) -> bytes:
    """Return a document as one line of UTF-8 JSON with its newline."""
    plain = json.dumps(document, ensure_ascii=False)
    # Bytes, because standard output has the encoding of the locale, and JSON is UTF-8 (RFC 8259).
    safe = _RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
    return safe.encode("utf-8", "backslashreplace") + b"\n"


def show(document: Params) -> None:
    """Print one document."""
    show_lines((document,))


def show_lines(documents: Iterable[Params]) -> None:
    """Print one object per line, each as soon as it is there."""
    sys.stdout.flush()
    for document in documents:
        sys.stdout.buffer.write(encode(document))
    sys.stdout.buffer.flush()
