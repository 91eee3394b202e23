"""One server of the probe for each test, which is run with both clients."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gitshadow.ipc import command_client
from tests.support.probe import IN_PYTHON, Probe, natively, probing


@pytest.fixture(autouse=True)
def alone(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the server of all tests away: a test here has its own, or none."""
    (sealed / "run" / "gitshadow").unlink(missing_ok=True)
    monkeypatch.setenv(command_client.OFF, "off")


@pytest.fixture(params=["python", "native"])
def client(request: pytest.FixtureRequest) -> Sequence[str]:
    """Return how the probe is started."""
    return IN_PYTHON if request.param == "python" else natively()


@pytest.fixture
def probe(sealed: Path, client: Sequence[str]) -> Iterator[Probe]:
    """Return the probe with its server."""
    with probing(sealed / "run", client) as made:
        yield made
