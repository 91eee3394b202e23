"""Loose objects are read whole or not at all, and never by libgit2."""

import os
import signal
import subprocess
import zlib
from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.object_format import SHA1
from gitshadow.store.objects import BrokenObjectError, LooseObjects
from gitshadow.store.repo import Repo as Store
from tests.support.peak import measured_peak
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


def test_large_object_is_in_memory_once(tmp_path: Path) -> None:
    """When it is read; and not a second time when it is written."""
    data = os.urandom(16 << 20)
    oid, loose = SHA1.blob(data), LooseObjects(str(tmp_path), SHA1)
    with measured_peak() as writing:
        loose.write("blob", data, oid)
    with measured_peak() as reading:
        found = loose.read(oid)
    assert found == ("blob", data)
    assert writing.size_bytes < 0.3 * len(data)
    assert reading.size_bytes < 1.5 * len(data)


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
            LooseObjects(str(tmp_path), SHA1).read(Oid(wrong))


def test_written_objects_are_what_git_would_have_written(
    repo: Repo, store: Store
) -> None:
    contents = (b"", b"text\n", b"\0" * 70_000, bytes(range(256)) * 300)
    for content in contents:
        oid = store.write_blob(content)
        assert Store.open(layout_of(repo)).read_blob(oid) == content
        assert file_of(repo, oid).parent.is_dir()
    repo.git("fsck", "--strict")
    names = os.listdir(repo.common_dir / "objects")
    assert not [name for name in names if name.startswith("tmp_")]


def test_object_file_is_read_only_and_its_directory_follows_the_umask(
    repo: Repo, store: Store
) -> None:
    before = os.umask(0o027)
    try:
        oid = store.write_blob(b"private\n")
    finally:
        os.umask(before)
    path = repo.common_dir / "objects" / oid[:2] / oid[2:]
    assert path.stat().st_mode & 0o777 == 0o440
    assert path.parent.stat().st_mode & 0o777 == 0o750


def test_existing_object_is_not_written_again_and_gets_a_new_mtime(
    repo: Repo, store: Store
) -> None:
    oid = store.write_blob(b"again\n")
    path = file_of(repo, oid)
    inode = path.stat().st_ino
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert store.write_blob(b"again\n") == oid
    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > 1_000_000_000


def packed(repo: Repo, store: Store, content: bytes) -> Oid:
    """Store a blob in a pack alone."""
    oid = store.write_blob(content)
    packs = repo.common_dir / "objects" / "pack"
    repo.git("pack-objects", "-q", str(packs / "pack"), stdin=f"{oid}\n".encode())
    file_of(repo, oid).unlink()
    return oid


def test_packed_object_is_not_stored_twice(repo: Repo, store: Store) -> None:
    oid = packed(repo, store, b"packed\n")
    with_packs = Store.open(layout_of(repo))
    assert with_packs.write_blob(b"packed\n") == oid
    assert not with_packs.loose.has(oid)


def test_object_is_written_again_when_its_pack_is_gone(
    repo: Repo, store: Store
) -> None:
    oid = packed(repo, store, b"packed\n")
    with_packs = Store.open(layout_of(repo))
    with_packs.write_blob(b"packed\n")
    for path in (repo.common_dir / "objects" / "pack").iterdir():
        path.unlink()
    with_packs.write_blob(b"packed\n")
    assert repo.git("cat-file", "blob", oid) == "packed"


def test_failed_write_leaves_no_temporary(repo: Repo, store: Store) -> None:
    objects = repo.common_dir / "objects"
    oid = SHA1.blob(b"in the way\n")
    (objects / oid[:2]).write_bytes(b"a file where a directory belongs")
    with pytest.raises(StoreError, match="could not write to the object store"):
        store.write_blob(b"in the way\n")
    assert not [name for name in os.listdir(objects) if name.startswith("tmp_")]


def test_objects_are_written_while_git_prunes_without_mercy(
    repo: Repo, store: Store
) -> None:
    """`git prune --expire=now` removes temporary files and directories that it finds empty."""
    pruning = ["git", "prune", "--expire=now"]
    command = ["sh", "-c", f"while :; do {' '.join(pruning)}; done"]
    with subprocess.Popen(command, cwd=repo.root, start_new_session=True) as pruner:
        try:
            for number in range(300):
                data = b"%d\n" % number
                assert store.write_blob(data) == store.format.blob(data)
            for number in range(3):
                # As many as become one pack.
                with store.gathering():
                    for part in range(100):
                        store.write_blob(b"%d %d\n" % (number, part))
            assert store.packs_added == 3
        finally:
            os.killpg(pruner.pid, signal.SIGKILL)
    assert not list((repo.common_dir / "objects").glob("tmp_obj_*"))
