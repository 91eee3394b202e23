"""A recorded place, the toy world in it, and tests that are coroutines."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.sdk.turns.front import Front
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.world import World
from tests.support.places import recorded as recorded_place
from tests.support.repo import Repo


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function; both fronts can be awaited in it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory that looks like a recorded repository."""
    return recorded_place(tmp_path / "place")


@pytest.fixture(params=["sync", "async", "memory"] if FULL else ["async", "memory"])
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    """Return a front, the world and its tools: every row runs through both, and both stores.

    `memory` is the sync front too; only a full run has it on the journal as well.
    """
    if request.param == "memory":
        place: Path = request.getfixturevalue("tmp_path")
    else:
        place = request.getfixturevalue("place")
    made = Front.make(request.param, place)
    yield made
    made.close()


@pytest.fixture
def async_front(place: Path) -> Iterator[Front]:
    """Return the front that has tasks to cancel."""
    made = Front.make("async", place)
    yield made
    made.close()


@pytest.fixture
def world(front: Front) -> World:
    """Return the world."""
    return front.world


# The sync front is generated from the async one, and commands and pages use it with a recorder.
@pytest.fixture(params=["sync", "async"] if FULL else ["async"])
def recorded(
    request: pytest.FixtureRequest,
    repo: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Recorded]:
    """Return a recorded repository without a daemon; a full run has both fronts."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    made = Recorded.make(repo, tmp_path / "world", request.param)
    yield made
    made.front.close()
