"""Git's settings: read as Git reads them, and without it where no file has them."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitshadow.store import git_settings
from gitshadow.store.git_settings import read_settings
from gitshadow.store.layout import Layout
from tests.support.repo import Repo
from tests.support.studio import layout_of

_NAMES = ("color.ui", "core.pager")


@pytest.fixture
def layout(repo: Repo) -> Layout:
    return layout_of(repo)


def _home(text: str) -> None:
    (Path(os.environ["HOME"]) / ".gitconfig").write_text(text)


def _without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], environ: Mapping[str, str]) -> bytes:
        raise AssertionError(words, environ)

    monkeypatch.setattr(git_settings, "_output", run)


def test_the_last_value_counts(repo: Repo, layout: Layout) -> None:
    _home("[CORE]\n\tPager = less\n[color]\n\tUI=always\n")
    repo.git("config", "core.pager", "more")
    found = read_settings(layout, os.environ, _NAMES)
    assert found == {"color.ui": "always", "core.pager": "more"}


def test_an_included_file_counts(tmp_path: Path, layout: Layout) -> None:
    (tmp_path / "more").write_text("[color]\n\tui = never\n")
    _home(f'[includeIf "gitdir:**"]\n\tpath = {tmp_path / "more"}\n')
    assert read_settings(layout, os.environ, _NAMES) == {"color.ui": "never"}


@pytest.mark.skipif(
    os.path.realpath(shutil.which("git") or "") != "/usr/bin/git",
    reason="git is somewhere else",
)
def test_git_is_not_run_where_no_file_has_them(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    _home("[user]\n\tname = x\n[color]\n\tbranch = auto\n[http]\n\tproxy = p\n")
    _without_git(monkeypatch)
    assert read_settings(layout, os.environ, _NAMES) == {}


def test_a_git_with_other_files_is_always_asked(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "git"
    other.write_text("#!/bin/sh\nprintf 'color.ui\\nalways\\0'\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert read_settings(layout, os.environ, _NAMES) == {"color.ui": "always"}


def test_without_git_there_are_none(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    _home("[color]\n\tui = always\n")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert read_settings(layout, os.environ, _NAMES) == {}
