"""The toy world's registry as a program would have it, for processes that import it by name."""

import os
from pathlib import Path

from tests.turns.world import World, registry

TOOLS = registry(World(Path(os.environ.get("TOY_WORLD", "."))))
