"""The kinds of repository that Git can make: by its hash, and by how it stores refs.

GITSHADOW_TEST_KIND, as `sha256-reftable`, has all tests make repositories of that kind. Tests with
the mark `kinds` run on each kind that a git here can make, unless one is chosen so.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from gitshadow.store.object_format import ObjectFormat, format_named
from tests.support import newer_git

FILES, REFTABLE = "files", "reftable"


class Kind(NamedTuple):
    """What `git init --object-format` and `--ref-format` are given."""

    hash: str
    refs: str

    def __str__(self) -> str:
        return f"{self.hash}-{self.refs}"

    @property
    def object_format(self) -> ObjectFormat:
        """Return the format of its object ids."""
        return format_named(self.hash)

    @property
    def variables(self) -> Mapping[str, str]:
        """Return what has `git init` and `git clone` make it (git(1), Environment Variables)."""
        return {"GIT_DEFAULT_HASH": self.hash, "GIT_DEFAULT_REF_FORMAT": self.refs}


ALL = tuple(
    Kind(hash, refs) for refs in (FILES, REFTABLE) for hash in ("sha1", "sha256")
)
DEFAULT = ALL[0]
# Read now: a running test's environment is sealed.
_CHOSEN = os.environ.get("GITSHADOW_TEST_KIND")
_NAMED = _CHOSEN or str(DEFAULT)
KIND = next((kind for kind in ALL if str(kind) == _NAMED), DEFAULT)


def trouble() -> str | None:
    """Return why the chosen kind cannot be tested, None if it can."""
    if str(KIND) != _NAMED:
        known = ", ".join(map(str, ALL))
        return f"GITSHADOW_TEST_KIND={_NAMED}: not one of {known}"
    return None if beginning(KIND) is not None else missing(KIND)


def missing(kind: Kind) -> str:
    """Return the words for a kind that no git here can make."""
    return f"no git here makes {kind} repositories: make newer-git"


def needed(kind: Kind) -> Kind:
    """Return a kind that a git here can make; skip the test if none can."""
    if beginning(kind) is None:
        pytest.skip(missing(kind))
    return kind


def to_run(names: Iterable[str]) -> list[object]:
    """Return the kinds that a test runs on which is about the named ones, as parameters."""
    wanted = {*names} or {str(kind) for kind in ALL}
    if not _CHOSEN:
        return [kind for kind in ALL if str(kind) in wanted]
    reason = f"not about {KIND}, but about {', '.join(sorted(wanted))}"
    skip = () if str(KIND) in wanted else pytest.mark.skip(reason=reason)
    return [pytest.param(KIND, marks=skip)]


def only_on(
    *, hash: str | None = None, refs: str | None = None, reason: str
) -> pytest.MarkDecorator:
    """Leave a test out of a run on another hash or another storage of refs than it is about."""
    is_other = hash not in (None, KIND.hash) or refs not in (None, KIND.refs)
    return pytest.mark.skipif(is_other, reason=f"not about {KIND}: {reason}")


@cache
def beginning(kind: Kind) -> tuple[str, ...] | None:
    """Return what PATH has to begin with for a git that makes a kind; None if there is none.

    That is nothing if the machine's own git does.
    """
    for places in ((), *((one,) for one in newer_git.places())):
        if _made(places, tuple(kind.variables.items())) == kind:
            return places
    return None


def environment(kind: Kind) -> Mapping[str, str]:
    """Return the variables that a git needs to make a kind: none if it does so anyway."""
    is_usual = _made(beginning(kind) or (), ()) == kind
    return {} if is_usual else kind.variables


@cache
def _made(places: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> Kind:
    with tempfile.TemporaryDirectory(prefix="gitshadow-kind-") as top:
        path = os.pathsep.join([*places, os.environ["PATH"]])
        sealed = {"PATH": path, "HOME": top, "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", "init", "-q", "--bare", "made"]
        env = {**sealed, **dict(variables)}
        subprocess.run(command, cwd=top, env=env, check=True)
        config = Path(top, "made", "config").read_text().lower()
    return Kind(
        "sha256" if "objectformat = sha256" in config else "sha1",
        REFTABLE if "refstorage = reftable" in config else FILES,
    )


def main() -> None:
    """Print each kind but the default one that can be made here; warn of the others."""
    for kind in ALL[1:]:
        if beginning(kind) is None:
            print(f"warning: not tested: {missing(kind)}", file=sys.stderr)
        else:
            print(kind)


if __name__ == "__main__":
    main()
