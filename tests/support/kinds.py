"""The kinds of repositories that there are, and what of gitshadow reads each."""

import os
from typing import NamedTuple

import pytest

from gitshadow.store.backends.port import FILES, REFTABLE
from gitshadow.store.backends.probe import Engine
from tests.support.newer_git import need_newer_git

_FULL = os.environ.get("GITSHADOW_TEST_FULL") == "1"


class Kind(NamedTuple):
    """A format of objects and one of refs, and what is to read them (None: what is fit)."""

    objects: str = "sha1"
    refs: str = FILES
    engine: Engine | None = None

    def __str__(self) -> str:
        """Return the name of a test's case."""
        engine = "" if self.engine is None else f"-by-{self.engine.value}"
        return f"{self.objects}-{self.refs}{engine}"

    @property
    def options(self) -> tuple[str, ...]:
        """Return what `git init` is to be told; older versions know no format of refs."""
        refs = () if self.refs == FILES else (f"--ref-format={self.refs}",)
        objects = () if self.objects == "sha1" else (f"--object-format={self.objects}",)
        return (*objects, *refs)

    def prepare(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the test use a git that knows this kind, or skip it."""
        if self.refs == REFTABLE:
            need_newer_git(monkeypatch)


PLAIN = Kind()
SHA256 = Kind("sha256")
TABLES = Kind(refs=REFTABLE)
BOTH_NEW = Kind("sha256", REFTABLE)
FOUR = (PLAIN, SHA256, TABLES, BOTH_NEW)
BY_GIT = Kind(engine=Engine.PLUMBING)
"""A repository that libgit2 reads, too: what differs is not the format."""
ALL = (*FOUR, BY_GIT)
SOME = ALL if _FULL else (PLAIN, SHA256, TABLES)
"""Those on which a short run tests what all of them do."""


def on_kinds(*kinds: Kind) -> pytest.MarkDecorator:
    """Run a test on these kinds of repositories, by the fixture `kind`."""
    return pytest.mark.parametrize("kind", kinds, indirect=True, ids=str)
