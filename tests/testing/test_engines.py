"""The built-in engine behind the protocol, by the suite that every engine passes."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from gitshadow.testing.engines import EngineConformance
from gitshadow.turns.engine import JournalEngine
from gitshadow.turns.protocols import EngineProvider


class TestJournalEngine(EngineConformance):
    def engine(self, place: Path) -> AbstractContextManager[EngineProvider]:
        return nullcontext(JournalEngine())
