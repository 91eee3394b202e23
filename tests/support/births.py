"""Where the system knows when a file was created."""

import os
from pathlib import Path

from gitshadow.platform import current


def knows_births(place: Path) -> bool:
    """Return whether files of a directory have a time of creation that can be read."""
    directory = os.open(place, os.O_RDONLY)
    try:
        return current().file_facts().birth_of(b".", directory) is not None
    finally:
        os.close(directory)
