"""One server of the probe for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.probe import Probe, probing


@pytest.fixture
def probe(sealed: Path) -> Iterator[Probe]:
    """Return the probe with its server."""
    with probing(sealed / "run") as made:
        yield made
