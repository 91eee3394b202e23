"""What a kit is given: a function that opens the store under test once more."""

from collections.abc import Callable
from typing import TypeAlias

from gitshadow.sdk.turns.protocols import SessionStore

OpenStore: TypeAlias = Callable[[], SessionStore]
"""Open the same place again: what one opening has saved, the next one sees."""
