"""Fingerprints: names, ids, tokens and marks, and with a key what must not be stored.

The keyed ones are BLAKE3: without the key, which never leaves the state directory, nobody can test
a guess. All others are BLAKE2b, which is loaded quickly.
Invariant: journals, refs and servers know the fingerprints of before, so they stay the same.
"""

import os
from hashlib import blake2b

from gitshadow.store.layout import Layout

_KEY_BYTES = 32


def digest(data: bytes | str, size: int = 16, *, key: bytes = b"") -> str:
    """Return the fingerprint of bytes or of a text: hex digits of so many bytes."""
    raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return blake2b(raw, digest_size=size, key=key).hexdigest()


def keyed_digest(layout: Layout, text: str) -> str:
    """Return the digest of a text in one repository.

    Raises:
        OSError: the key can neither be read nor made.
    """
    # Few programs need it, and every hook imports this module.
    import blake3

    data = text.encode("utf-8", "surrogatepass")
    return f"blake3:{blake3.blake3(data, key=_key(layout)).hexdigest()}"


def _key(layout: Layout) -> bytes:
    path = os.path.join(layout.state_dir, "digest-key")
    while True:
        try:
            with open(path, "rb") as stream:
                found = stream.read(_KEY_BYTES)
            if len(found) == _KEY_BYTES:
                return found
            # A crash or a full disk left it short. Nothing but the last seconds depends on it.
            os.unlink(path)
        except FileNotFoundError:
            pass
        part = f"{path}.{os.getpid()}"
        with open(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600),
            "wb",
        ) as stream:
            stream.write(os.urandom(_KEY_BYTES))
        # Of two processes, the second one takes the key of the first.
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(part)
