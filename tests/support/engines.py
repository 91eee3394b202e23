"""What reads a repository of some kind, as tests of the store choose it."""

import os
from typing import NamedTuple

import pytest

from gitshadow.store.backends.following import Engine
from tests.support import kinds
from tests.support.kinds import Kind


class Case(NamedTuple):
    """A kind of repository, and what is to read it (None: what is fit)."""

    kind: Kind
    engine: Engine | None = None

    def __str__(self) -> str:
        return f"{self.kind}-by-{self.engine.value}" if self.engine else str(self.kind)


_FULL = os.environ.get("GITSHADOW_TEST_FULL") == "1"
FOUR = tuple(Case(kind) for kind in kinds.ALL)
PLAIN, SHA256, TABLES, _ = FOUR
BY_GIT = Case(kinds.DEFAULT, Engine.PLUMBING)
"""A repository that libgit2 reads, too: what differs is not the format."""
SOME = (*FOUR, BY_GIT) if _FULL else (PLAIN, SHA256, TABLES)
"""Those on which a short run tests what all of them do."""


def on_cases(*cases: Case) -> pytest.MarkDecorator:
    """Run a test on these, by the fixture `case`."""
    return pytest.mark.parametrize("case", cases, indirect=True, ids=str)
