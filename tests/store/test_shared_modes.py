"""What is new in a shared repository has the permissions that Git gives it there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitshadow.model import Oid
from gitshadow.store.backends.following import Engine
from gitshadow.store.repo import Repo as Store
from gitshadow.store.shared_modes import SharedModes
from tests.support.kinds import Kind
from tests.support.repo import Repo
from tests.support.studio import layout_of

SETTINGS = (
    *("umask", "false", "0", "group", "true", "1"),
    *("all", "world", "everybody", "2", "0660", "0640", "0666", "0600"),
)
REF = "refs/agent-undo/fetched/aa/s-1"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode


@pytest.mark.parametrize("mask", [0o002, 0o022, 0o077])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_means_what_it_means_to_git(
    tmp_path: Path, setting: str, mask: int
) -> None:
    with umask(mask):
        repo = Repo.create(tmp_path / "repo")
        repo.git("config", "core.sharedRepository", setting)
        blob = repo.git("hash-object", "-w", "--stdin", stdin=b"by git\n")
        by_git = repo.git_dir / "objects" / blob[:2] / blob[2:]
        (own := tmp_path / "own").mkdir()
        (file := own / "file").touch(0o444)
    modes = SharedModes(setting)
    modes.adjust(str(own))
    modes.adjust(str(file))
    assert oct(mode(own)) == oct(mode(by_git.parent))
    assert oct(mode(file)) == oct(mode(by_git))


@pytest.mark.kinds("sha1-files", "sha256-files", "sha1-reftable")
@pytest.mark.parametrize("engine", list(Engine))
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_other_users_can_write_next_to_what_is_recorded(
    repo: Repo, repo_kind: Kind, engine: Engine, mask: int
) -> None:
    if engine is Engine.LIBGIT2 and str(repo_kind) != "sha1-files":
        pytest.skip("libgit2 does not read this kind")
    repo.git("config", "core.sharedRepository", "group")
    layout = layout_of(repo)
    before = {*repo.git_dir.rglob("*")}
    with umask(mask):
        store = Store.open(layout, engine)
        alone = store.write_blob(b"alone")
        store.loose.path(alone)
        with store.gathering():
            packed = [store.write_blob(b"%d" % number) for number in range(100)]
            tip = Oid(repo.git("rev-parse", "HEAD"))
            store.create_ref(REF, tip)
        assert store.is_packed(packed[0])
        other = store.recommit(tip, store.write_tree(b""), ())
        store.move_ref(REF, tip, other)
        store.close()
    new = [path for path in repo.git_dir.rglob("*") if path not in before]
    assert len(new) >= 4
    for path in new:
        wanted = 0o2070 if path.is_dir() else 0o040
        # Nobody else needs to read the `.keep` file that marks a pack as ours.
        if path.suffix != ".keep":
            assert mode(path) & wanted == wanted, path
