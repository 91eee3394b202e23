"""A `packed-refs` that a power cut shortened: no name in it is taken for another one."""

from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.store.backends.ref_files import RefFiles
from gitshadow.store.layout import discover
from gitshadow.store.object_format import SHA1
from tests.support.repo import Repo


def test_cut_name_is_an_error_and_not_another_ref(tmp_path: Path) -> None:
    repo = Repo.create(tmp_path / "repo")
    repo.git("branch", "feature")
    repo.git("pack-refs", "--all")
    packed, layout = repo.git_dir / "packed-refs", discover(str(repo.root))
    assert layout is not None
    refs = RefFiles(layout, SHA1)
    assert refs.ref("refs/heads/feature") is not None
    whole = packed.read_bytes()
    for cut in range(1, len(whole)):
        packed.write_bytes(whole[:cut])
        if whole[cut - 1 : cut] == b"\n":
            continue
        with pytest.raises(StoreError, match="packed-refs"):
            refs.ref("refs/heads/feature")
        with pytest.raises(StoreError, match="packed-refs"):
            refs.refs("refs/heads/f")
    assert repo.git("show-ref", check=False) == ""
