"""Where the kernel counts which pages of files became dirty."""

from pathlib import Path

import pytest

from gitshadow.platform.linux.processes import ProcFiles
from gitshadow.platform.port import FileSystem


def need_pages(place: Path) -> None:
    """Skip a test where the file system of a directory is not known to count dirty pages."""
    mounts = ProcFiles().file_systems()
    if not mounts.get(place.stat().st_dev, FileSystem()).counts_pages:
        pytest.skip("the file system of temporary files does not count dirty pages")
