"""An object store in memory, for worlds that need no disk."""

from gitshadow.model import Oid
from gitshadow.store.object_format import SHA1


class Blobs(dict[Oid, bytes]):
    """Bytes by their oid."""

    def store(self, data: bytes) -> Oid:
        """Keep bytes and return their oid."""
        oid = SHA1.blob(data)
        self[oid] = data
        return oid

    def lines(self, oid: Oid) -> list[bytes]:
        """Return stored bytes as lines, each with its end."""
        return self[oid].splitlines(keepends=True)
