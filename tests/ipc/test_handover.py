"""pre-commit's own copy of ours gives its place to the program that is installed."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from gitshadow.ipc import handover


def program(directory: Path, mode: int = 0o755) -> Path:
    """Put something of our name into a directory."""
    directory.mkdir(exist_ok=True)
    path = directory / "git-agent-undo"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def found(own: Path, *directories: object) -> str | None:
    path = os.pathsep.join(str(directory) for directory in directories)
    return handover.installed({"PATH": path}, str(own))


def test_first_other_program_on_the_path_is_the_installed_one(tmp_path: Path) -> None:
    own, first, second = (program(tmp_path / name) for name in ("own", "b", "c"))
    link = tmp_path / "link"
    link.symlink_to(own.parent)
    directories = (own.parent, link, tmp_path / "none", first.parent, second.parent)
    assert found(own.parent, *directories) == str(first)


def test_own_copy_goes_on_where_there_is_no_other(tmp_path: Path) -> None:
    own, dull = program(tmp_path / "own"), program(tmp_path / "dull", 0o644)
    assert found(own.parent, own.parent, dull.parent) is None


def test_relative_directory_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks run in the working tree: what lies there is the repository's."""
    program(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    assert found(tmp_path / "own", "bin", "", ".") is None


@pytest.fixture
def became(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, Sequence[str], str | None]]:
    """Have one program installed; return what this process would become."""
    seen: list[tuple[str, Sequence[str], str | None]] = []

    def execve(path: str, words: Sequence[str], env: dict[str, str]) -> NoReturn:
        seen.append((path, words, env.get("GITSHADOW_HANDED_OVER")))
        raise OSError("not here")

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "own" / "python"))
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin").parent))
    return seen


def test_call_is_handed_over_as_it_came(
    tmp_path: Path, became: list[tuple[str, Sequence[str], str | None]]
) -> None:
    handover.hand_over(["check", "--from-pre-commit", "-q"])
    path = str(tmp_path / "bin" / "git-agent-undo")
    assert became == [(path, [path, "check", "--from-pre-commit", "-q"], "1")]


def test_other_calls_stay_here(
    became: list[tuple[str, Sequence[str], str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    handover.hand_over(["check", "-q"])
    monkeypatch.setenv("GITSHADOW_HANDED_OVER", "1")
    handover.hand_over(["check", "--from-pre-commit"])
    assert became == []
