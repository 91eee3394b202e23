"""Which agents run, and what is written down of a run.

The quick set is what every test run does with an agent that is installed; the rest runs with
GITSHADOW_AGENTS_ALL=1, which is what `make agents` sets.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.agents import verified
from tests.agents.install import packages
from tests.agents.model_server import ModelServer
from tests.agents.studio import AgentStudio

ALL = os.environ.get("GITSHADOW_AGENTS_ALL") == "1"
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is not in the quick set, and agents that are not installed."""
    installed = {name for name, one in packages().items() if one.installed()}
    for item in items:
        # pytest passes the tests of all directories, and `tests/e2e` has an `agent` too.
        if not item.path.is_relative_to(_HERE):
            continue
        if "agent" not in getattr(item, "fixturenames", ()):
            continue
        name = item.callspec.params["agent"]  # type: ignore[attr-defined]
        item.add_marker(pytest.mark.timeout(900))
        if not ALL and "quick" not in item.keywords:
            item.add_marker(pytest.mark.skip(reason="only in `make agents`"))
        elif name not in installed:
            reason = f"{name} is not installed: `make agents` installs it"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note how each test of an agent ended."""
    report = yield
    if ALL and report.when == "call" and "agent" in getattr(item, "fixturenames", ()):
        name = item.callspec.params["agent"]  # type: ignore[attr-defined]
        verified.note(name, item.name.split("[", maxsplit=1)[0], report.outcome)
    return report


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """Return a model server of this test alone."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def studio(agent: str, tmp_path: Path, model: ModelServer) -> Iterator[AgentStudio]:
    """Return the agent with a home and a repository; nothing of ours is installed yet."""
    made = AgentStudio.create(agent, tmp_path, model)
    yield made
    made.close()


@pytest.fixture
def second_studio(
    agent: str, studio: AgentStudio, tmp_path: Path, model: ModelServer
) -> Iterator[AgentStudio]:
    """Return the same agent with another home, in the same repository."""
    made = AgentStudio.at(agent, tmp_path / "second", model, studio.repo)
    yield made
    made.end_processes()
