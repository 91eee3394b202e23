"""Tests skip where a program is missing, but never where all of them are promised."""

import subprocess
from pathlib import Path

import pytest

from tests.support import tools

RUN = Path(__file__).parent.parent / ".ci" / "run"


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("nothing_installed")
def test_missing_tool_skips_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tools, "REQUIRED", False)
    with pytest.raises(pytest.skip.Exception, match=r"Debian package x11-utils"):
        tools.need("xwininfo")


@pytest.mark.usefixtures("nothing_installed")
def test_missing_tool_fails_where_tools_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tools, "REQUIRED", True)
    with pytest.raises(pytest.fail.Exception, match="tig is not installed"):
        tools.need("tig")


def test_present_tool_is_returned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "tig"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.need("tig") == str(program)


def test_ci_installs_every_tool() -> None:
    text = RUN.read_text(encoding="utf-8")
    pairs = text.partition("\ntools=(")[2].partition(")")[0].split()
    assert dict(pair.split(":") for pair in pairs) == tools.PACKAGES


def test_ci_script_is_valid() -> None:
    subprocess.run(["bash", "-n", RUN], check=True)
