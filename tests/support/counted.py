"""Whether anybody counts what processes write, which no system but Linux does."""

from gitshadow.platform import current
from tests.support.shadow import Shadow


def is_counted(shadow: Shadow) -> bool:
    """Return whether a daemon counts the bytes that processes write."""
    return shadow.daemon and current().process_facts().counters() is not None
