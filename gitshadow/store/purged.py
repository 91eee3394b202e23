"""What stands in the history for a content, or for a text, that was purged. Pure.

Each purged content has one of its own, so that events keep their shape: what was changed is still
a change, and the rows can be rebuilt from the refs.
Invariant: nothing of the content can be told from it, nor from its oid.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b

from gitshadow.errors import UsageError
from gitshadow.model import Oid
from gitshadow.store.paths import c_quoted

MARK = "[purged]"
"""What stands for a text within a longer one, such as a prompt or an argument."""
_LEAST_BYTES = 6
_FORM = re.compile(rb"agent-undo: this content was purged [0-9a-f]{32}\n")
_LENGTH = 69


def stand_in(oid: Oid, salt: bytes) -> bytes:
    """Return what stands for a content; the same for the same salt, which is thrown away."""
    digest = blake2b(oid.encode(), digest_size=16, key=salt).hexdigest()
    return f"agent-undo: this content was purged {digest}\n".encode()


def is_purged(data: bytes) -> bool:
    """Tell whether this stands for a content that was purged."""
    return len(data) == _LENGTH and _FORM.fullmatch(data) is not None


def forms_of(texts: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return how texts may be spelled where we keep them: as they are, in JSON, C-quoted.

    Longest first, so that none leaves a part of another.

    Raises:
        UsageError: one is so short that it would be found everywhere.
    """
    found: set[bytes] = set()
    for text in texts:
        if len(text.strip()) < _LEAST_BYTES:
            raise UsageError(
                f"cannot purge a text of fewer than {_LEAST_BYTES} bytes",
                hint="it would match too much: use the whole text",
            )
        plain = text.decode("utf-8", "surrogateescape")
        spelled = {plain, json.dumps(plain, ensure_ascii=False)[1:-1]}
        spelled.add(json.dumps(plain)[1:-1])
        found |= {one.encode("utf-8", "surrogateescape") for one in spelled}
        found |= {text, c_quoted(text)[1:-1].encode("ascii")}
    return ordered(found)


def ordered(forms: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return forms as all else wants them: each once, longest first."""
    return tuple(sorted(set(forms), key=lambda form: (-len(form), form)))


def holds(data: bytes, forms: Sequence[bytes]) -> bool:
    """Tell whether any form of a text stands in data; `forms` are `ordered`."""
    for form in reversed(forms):
        if len(form) > len(data):
            return False
        if form in data:
            return True
    return False


def without(data: bytes, forms: Sequence[bytes]) -> bytes:
    """Return data with the mark for each form that stands in it; JSON stays JSON."""
    done = _marked(data, forms)
    if done == data or data[:1] not in (b"{", b"["):
        return done
    try:
        json.loads(done)
    except (ValueError, RecursionError):
        with suppress(ValueError, RecursionError):  # else it was no JSON before either
            return json.dumps(_without(json.loads(data), forms)).encode()
    return done


def _marked(data: bytes, forms: Sequence[bytes]) -> bytes:
    for form in forms:
        data = data.replace(form, MARK.encode())
    return data


def _without(value: object, forms: Sequence[bytes]) -> object:
    """Return a JSON value without them: a number that holds one becomes the mark."""
    if isinstance(value, dict):
        return {key: _without(each, forms) for key, each in value.items()}
    if isinstance(value, list):
        return [_without(each, forms) for each in value]
    text = json.dumps(value).encode()
    cleared = _marked(text, forms)
    if cleared == text:
        return value
    return json.loads(cleared) if isinstance(value, str) else MARK
