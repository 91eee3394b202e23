"""What we keep is for its owner alone, whatever the umask is."""

import os
import stat
from pathlib import Path

import pytest

from gitshadow.cli import main
from tests.support.repo import Repo


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_state_is_private_whatever_the_umask(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(repo.root)
    old = os.umask(umask)
    try:
        for verb in (
            ("init",),
            ("exec", "--agent", "maker", "--", "sh", "-c", "echo 1 >made"),
            ("report", "made"),
            ("pack",),
            ("oops", "--yes"),
            ("reindex",),
        ):
            main(list(verb))
    finally:
        os.umask(old)
    assert (repo.state_dir / "packed").exists()
    found = [repo.state_dir, *repo.state_dir.rglob("*")]
    assert [path for path in found if not is_private(path)] == []


def is_private(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not stat.S_IMODE(mode) & 0o077
