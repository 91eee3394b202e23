"""A recorded place with a world in it, and tests that are coroutines, as for the turns."""

from pathlib import Path

import pytest

from gitshadow.sdk.turns.registry import ToolRegistry
from tests.sdk.turns.conftest import place, pytest_pyfunc_call
from tests.sdk.turns.world import World, registry

__all__ = ["place", "pytest_pyfunc_call"]


@pytest.fixture
def world(place: Path) -> World:
    return World.make(place / "world")


@pytest.fixture
def tools(world: World) -> ToolRegistry:
    return registry(world)
