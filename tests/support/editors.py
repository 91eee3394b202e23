"""Editors of Debian unstable, and the settings that the documentation has for each editor."""

import re
from pathlib import Path

import pytest

from tests.support.code_server import EDITORS

_PAGE = Path(__file__).parents[2] / "docs/editors.md"


def newer(name: str) -> Path:
    """Return an editor of Debian unstable; skip the test where there is none."""
    program = EDITORS / "debian" / name
    if not program.exists():
        pytest.skip(f"no {program.name} of Debian unstable: make editors")
    return program


def settings(language: str, heading: str) -> str:
    """Return the settings that the page has below a heading."""
    page = _PAGE.read_text()
    found = re.search(
        rf"^## {heading}\n.*?```{language}\n(.*?)```", page, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]
