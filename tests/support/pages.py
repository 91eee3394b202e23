"""Where the kernel counts which pages of files became dirty."""

from pathlib import Path

import pytest

from gitshadow.attribution.ledger import FileSystem, file_systems
from gitshadow.attribution.proc_files import ProcFiles


def need_pages(place: Path) -> None:
    """Skip a test where the file system of a directory is not known to count dirty pages."""
    mounts = file_systems(ProcFiles().read("self/mountinfo") or b"")
    if not mounts.get(place.stat().st_dev, FileSystem()).counts_pages:
        pytest.skip("the file system of temporary files does not count dirty pages")
