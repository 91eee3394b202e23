"""Which agents run, and what is written down of a run.

The quick set is what every test run does with an agent that is installed; the rest runs with
GITSHADOW_AGENTS_ALL=1, which is what `make agents` sets.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import verified
from tests.agents.install import packages
from tests.agents.model_server import ModelServer
from tests.agents.studio import AgentStudio

ALL = os.environ.get("GITSHADOW_AGENTS_ALL") == "1"
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is not in the quick set, and agents that are not installed or chosen."""
    installed = {name for name, one in packages().items() if one.installed()}
    chosen_names = set(os.environ.get("AGENTS", "").split()) or installed
    for item in items:
        # pytest passes the tests of all directories, and `tests/e2e` has an `agent` too.
        if not item.path.is_relative_to(_HERE):
            continue
        if "agent" not in getattr(item, "fixturenames", ()):
            continue
        chosen = item.callspec.params  # type: ignore[attr-defined]
        names = {chosen["agent"], chosen.get("other", chosen["agent"])}
        item.user_properties.append(("agent", chosen["agent"]))
        item.add_marker(pytest.mark.timeout(900))
        if not ALL and "quick" not in item.keywords:
            item.add_marker(pytest.mark.skip(reason="only in `make agents`"))
        elif not names <= installed:
            missing = " and ".join(sorted(names - installed))
            reason = f"not installed: {missing}; `make agents` installs it"
            item.add_marker(pytest.mark.skip(reason=reason))
        elif not names & chosen_names:
            item.add_marker(pytest.mark.skip(reason="not in AGENTS"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how each test of an agent ended; with pytest-xdist, in the first process alone."""
    if not ALL or "PYTEST_XDIST_WORKER" in os.environ:
        return
    seen = dict(report.user_properties)
    if "agent" in seen and (report.when == "call" or report.failed):
        verified.note(report.nodeid, report.outcome, seen)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[ModelServer]:
    """Return a model server of this test alone; what it was asked is kept beside the repository."""
    with ModelServer() as server:
        yield server
    server.save(tmp_path / "requests")


@pytest.fixture
def studio(agent: str, tmp_path: Path, model: ModelServer) -> Iterator[AgentStudio]:
    """Return the agent with a home and a repository; nothing of ours is installed yet."""
    made = AgentStudio.create(agent, tmp_path, model)
    yield made
    made.close()


@pytest.fixture
def other_studio(
    request: pytest.FixtureRequest, studio: AgentStudio, tmp_path: Path
) -> Iterator[AgentStudio]:
    """Return another agent, or the same one with another home, in the same repository."""
    name = request.node.callspec.params.get("other", studio.name)
    made = AgentStudio.at(name, tmp_path / "second", studio.model, studio.repo)
    yield made
    made.end_processes()
