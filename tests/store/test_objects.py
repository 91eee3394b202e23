"""Loose objects are read whole or not at all, and never by libgit2."""

import zlib
from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.objects import BrokenObjectError, LooseObjects, oid_of
from gitshadow.store.repo import Repo as Store
from tests.support.repo import Repo
from tests.support.studio import layout_of

pytestmark = pytest.mark.timeout(120, method="thread")


@pytest.fixture
def store(repo: Repo) -> Store:
    return Store.open(layout_of(repo))


def file_of(repo: Repo, oid: Oid) -> Path:
    path = repo.common_dir / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    return path


def test_object_cut_at_any_byte_is_broken_and_hangs_nobody(
    repo: Repo, store: Store
) -> None:
    oid = Oid(repo.git("rev-parse", "HEAD"))
    path = file_of(repo, oid)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BrokenObjectError, match="could not read object"):
            store.commit(oid)
        assert store.loose.all_broken() == [oid]
        assert not store.has(oid)
        assert store.resolve("HEAD") is None
    path.write_bytes(whole)
    assert store.resolve("HEAD") == store.commit(oid).oid


def test_object_with_another_byte_or_more_bytes_is_broken(
    repo: Repo, store: Store
) -> None:
    oid = store.write_blob(b"text\n" * 40)
    path = file_of(repo, oid)
    whole = path.read_bytes()
    stored = zlib.compress(b"blob 200\0" + b"text\n" * 39 + b"test\n")
    for data in (whole + b"x", stored, zlib.compress(b"blob 9\0text\n"), b"\0" * 99):
        path.write_bytes(data)
        with pytest.raises(BrokenObjectError):
            store.read_blob(oid)
    path.write_bytes(whole)
    assert store.read_blob(oid) == b"text\n" * 40


def test_header_that_lies_about_its_size_takes_no_memory(
    repo: Repo, store: Store
) -> None:
    """The content is unpacked in pieces, and none is made as large as a header says."""
    oid = store.write_blob(b"small\n")
    path = file_of(repo, oid)
    path.write_bytes(zlib.compress(b"blob 99999999999999\0small\n"))
    with pytest.raises(BrokenObjectError, match="its header is wrong"):
        store.read_blob(oid)


def test_broken_copy_of_a_packed_object_is_no_loss(repo: Repo, store: Store) -> None:
    oid = Oid(repo.git("rev-parse", "HEAD"))
    copy = file_of(repo, oid).read_bytes()
    repo.git("repack", "-a", "-d", "-q")
    path = repo.common_dir / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(copy[:20])
    store.refresh()
    assert store.commit(oid).oid == oid
    assert store.has(oid)


def test_broken_object_is_replaced_when_it_is_written(repo: Repo, store: Store) -> None:
    oid = store.write_blob(b"content\n")
    file_of(repo, oid).write_bytes(b"")
    assert store.write_blob(b"content\n") == oid
    assert repo.git("cat-file", "blob", oid) == "content"


def test_what_is_no_object_id_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "..x").mkdir()
    for wrong in ("", "../../etc/passwd", "A" * 40, "\0" * 40):
        with pytest.raises(StoreError, match="not an object id"):
            LooseObjects(str(tmp_path)).read(Oid(wrong))


def test_oid_is_that_of_git(repo: Repo) -> None:
    assert oid_of("blob", b"a\n") == repo.git("hash-object", "--stdin", stdin=b"a\n")
