"""What stands in the history for a content that was purged. Pure.

Each purged content has one of its own, so that events keep their shape: what was changed is still
a change, and the rows can be rebuilt from the refs.
Invariant: nothing of the content can be told from it, nor from its oid.
"""

import re
from hashlib import blake2b

from gitshadow.model import Oid

_FORM = re.compile(rb"agent-undo: this content was purged [0-9a-f]{32}\n")
_LENGTH = 69


def stand_in(oid: Oid, salt: bytes) -> bytes:
    """Return what stands for a content; the same for the same salt, which is thrown away."""
    digest = blake2b(oid.encode(), digest_size=16, key=salt).hexdigest()
    return f"agent-undo: this content was purged {digest}\n".encode()


def is_purged(data: bytes) -> bool:
    """Tell whether this stands for a content that was purged."""
    return len(data) == _LENGTH and _FORM.fullmatch(data) is not None
