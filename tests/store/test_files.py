"""The door to the working tree: inside it, byte for byte, and through no link."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import MovedError
from gitshadow.model import LINK_MODE, TREE_MODE, RepoPath
from gitshadow.platform.stamps import RACY_NS
from gitshadow.store.files import TEMP_PREFIX, Reading, WorkFiles
from gitshadow.store.object_format import SHA1
from gitshadow.store.paths import UnsafePathError, safe_path
from tests.support.examples import shares_fixture

SECRET = b"not yours\n"
DEEP = RepoPath(b"one/two/three/file")

Write = Callable[[WorkFiles, RepoPath], object]

CHANGES: dict[str, Write] = {
    "stage": lambda files, path: files.stage(path, b"x", 0o100644),
    "stage a link": lambda files, path: files.stage(path, b"x", LINK_MODE),
    "publish": lambda files, path: files.publish(RepoPath(path + b"~"), path),
    "make_parents": lambda files, path: files.make_parents(path),
    "unlink": lambda files, path: files.unlink(path),
    "chmod": lambda files, path: files.chmod(path, 0o777),
    "rmdir": lambda files, path: files.rmdir_if_empty(path),
}


class Yard:
    """A worktree and, beside it, a directory that nothing may touch."""

    def __init__(self, top: Path) -> None:
        self.root = top / "root"
        self.outside = top / "outside"
        (self.outside / "two" / "three").mkdir(parents=True)
        (self.outside / "two" / "three" / "file").write_bytes(SECRET)
        (self.outside / "file").write_bytes(SECRET)
        (self.outside / "empty").mkdir()
        self.root.mkdir()
        self.files = WorkFiles(str(self.root), SHA1)

    def put(self, path: bytes, data: bytes, mode: int = 0o644) -> RepoPath:
        full = self.full(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as stream:
            stream.write(data)
        os.chmod(full, mode)
        return RepoPath(path)

    def read(self, path: RepoPath) -> Reading:
        found = self.files.read(path)
        assert found is not None
        return found

    def full(self, path: bytes) -> bytes:
        return os.path.join(os.fsencode(self.root), path)

    def seen_outside(self) -> dict[str, tuple[int, bytes]]:
        found = {}
        for path in sorted(self.outside.rglob("*")):
            look = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (look.st_mode, data)
        return found


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/etc/passwd",
        b"a\0b",
        b".",
        b"..",
        b"a/../b",
        b"a/./b",
        b"a//b",
        b"a/",
        b".git",
        b".git/config",
        b"d/.git/hooks/pre-commit",
        b".GIT/config",
        b".Git",
        b".git.",
        b".git ",
        b".git . .",
        b".git::$INDEX_ALLOCATION/config",
        b".git:stream",
        b".git\\config",
        b"a\\.git",
        b"a\\b\\GIT~1 .:x",
        b"git~1",
        b"GIT~1/config",
        b"d/Git~1.",
        b".g\xe2\x80\x8cit",
        b"\xef\xbb\xbf.git",
        b".git\xe2\x81\xaa",
        b".\xe2\x80\x8eGIT/x",
        b"g\xe2\x80\xaeit~1",
    ],
)
def test_safe_path_refuses_what_leaves_the_tree_or_names_git(path: bytes) -> None:
    assert not safe_path(RepoPath(path))


@pytest.mark.parametrize(
    "path",
    [
        b"a",
        b"a/b",
        b".gitignore",
        b".gitattributes",
        b".github/workflows/ci.yml",
        b".git-blame-ignore-revs",
        b"git",
        b"git~10",
        b"x.git",
        b".git2",
        b"...",
        b"..a",
        b"a..",
        b"-rf",
        b":(top)",
        b'a\nb\t"*[x]\\',
        b"\xff\xfe",
        "é e\u0301 \U0001f600".encode(),
        b"n" * 255,
        b"gi\xe2\x80\x8ct",
    ],
)
def test_safe_path_takes_every_other_name(path: bytes) -> None:
    assert safe_path(RepoPath(path))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "path", [b"../outside/file", b".git/config", b".GIT", b"/etc/x"]
)
def test_change_is_refused_when_the_name_is_unsafe(
    yard: Yard, change: Write, path: bytes
) -> None:
    yard.put(b".git/config", b"mine")
    before = yard.seen_outside()
    with pytest.raises(UnsafePathError):
        change(yard.files, RepoPath(path))
    assert yard.seen_outside() == before
    assert os.listdir(yard.root) == [".git"]
    assert os.listdir(yard.root / ".git") == ["config"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("inside", [False, True], ids=["out", "in"])
def test_change_is_refused_when_a_component_is_a_link(
    yard: Yard, change: Write, depth: int, inside: bool
) -> None:
    parts = DEEP.split(b"/")
    link = b"/".join(parts[:depth])
    target = yard.outside
    if inside:
        target = yard.root / "real"
        (target / "two" / "three").mkdir(parents=True)
        (target / "two" / "three" / "file").write_bytes(SECRET)
    os.makedirs(os.path.dirname(yard.full(link)), exist_ok=True)
    os.symlink(target, yard.full(link))
    before, tree = yard.seen_outside(), sorted(os.walk(yard.root))
    with pytest.raises(UnsafePathError, match="is not a directory"):
        change(yard.files, DEEP)
    assert yard.seen_outside() == before
    assert sorted(os.walk(yard.root)) == tree


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_look_and_read_find_nothing_when_a_component_is_a_link(
    yard: Yard, depth: int
) -> None:
    link = b"/".join(DEEP.split(b"/")[:depth])
    os.makedirs(os.path.dirname(yard.full(link)), exist_ok=True)
    os.symlink(yard.outside, yard.full(link))
    assert yard.files.look(DEEP) is None
    assert yard.files.read(DEEP) is None
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        yard.files.list(RepoPath(link))


@pytest.mark.parametrize("change", ["unlink", "publish", "stage"])
def test_link_itself_is_changed_when_it_is_the_last_component(
    yard: Yard, change: str
) -> None:
    link = RepoPath(b"link")
    os.symlink(yard.outside / "file", yard.full(link))
    before = yard.seen_outside()
    if change == "unlink":
        yard.files.unlink(link)
        assert not os.path.lexists(yard.full(link))
    else:
        temp = yard.files.stage(link, b"new", 0o100644)
        yard.files.publish(temp, link)
        assert not os.path.islink(yard.full(link))
    assert yard.seen_outside() == before


def test_chmod_is_refused_when_the_path_is_a_link_or_a_directory(yard: Yard) -> None:
    os.symlink(yard.outside / "file", yard.full(b"link"))
    os.mkdir(yard.full(b"dir"))
    before = yard.seen_outside()
    for path in (b"link", b"dir"):
        with pytest.raises(UnsafePathError, match="not a file"):
            yard.files.chmod(RepoPath(path), 0o777)
    assert yard.seen_outside() == before


def test_rmdir_leaves_a_link_to_an_empty_directory(yard: Yard) -> None:
    os.symlink(yard.outside / "empty", yard.full(b"link"))
    assert not yard.files.rmdir_if_empty(RepoPath(b"link"))
    assert (yard.outside / "empty").is_dir()


def test_look_names_each_kind(yard: Yard) -> None:
    yard.put(b"file", b"x", 0o640)
    os.symlink("nowhere", yard.full(b"link"))
    os.mkdir(yard.full(b"dir"))
    os.mkfifo(yard.full(b"fifo"))
    found = dict(yard.files.list(RepoPath(b"")))
    assert found == {
        name: yard.files.look(RepoPath(name))
        for name in (b"file", b"link", b"dir", b"fifo")
    }
    assert (found[b"file"].mode, found[b"file"].is_file) == (0o100640, True)
    assert (found[b"link"].mode, found[b"link"].is_link) == (LINK_MODE, True)
    assert (found[b"dir"].mode, found[b"dir"].is_dir) == (TREE_MODE, True)
    fifo = found[b"fifo"]
    assert (fifo.is_file, fifo.is_link, fifo.is_dir) == (False, False, False)
    top = yard.files.look(RepoPath(b""))
    assert top is not None
    assert top.is_dir


def test_look_is_none_when_nothing_can_be_there(yard: Yard) -> None:
    yard.put(b"file", b"x")
    for path in (b"no", b"no/no", b"file/below", b"n" * 300, b"n" * 300 + b"/x"):
        assert yard.files.look(RepoPath(path)) is None
        assert path.startswith(b"n" * 300) or yard.files.read(RepoPath(path)) is None


def test_read_gives_bytes_mode_and_stat(yard: Yard) -> None:
    data = bytes(range(256)) * 5000
    path = yard.put(b"d/\xff", data, 0o4751)
    reading = yard.files.read(path)
    look = yard.files.look(path)
    assert reading is not None
    assert look is not None
    assert (reading.data, reading.mode) == (data, 0o104751)
    assert (reading.mode, reading.stat) == (look.mode, look.stat)


def test_read_gives_a_links_own_target(yard: Yard) -> None:
    os.symlink(b"\xff/../dangling", yard.full(b"l"))
    reading = yard.read(RepoPath(b"l"))
    assert (reading.data, reading.mode) == (b"\xff/../dangling", LINK_MODE)


def test_read_gives_nothing_and_never_waits_when_it_is_no_file(yard: Yard) -> None:
    os.mkfifo(yard.full(b"fifo"))
    os.mkdir(yard.full(b"dir"))
    os.symlink("/dev/zero", yard.full(b"device"))
    assert yard.files.read(RepoPath(b"fifo")) is None
    assert yard.files.read(RepoPath(b"dir")) is None
    assert yard.read(RepoPath(b"device")).mode == LINK_MODE


@pytest.mark.parametrize(("age_ns", "racy"), [(RACY_NS - 1, True), (RACY_NS, False)])
def test_read_is_racy_until_the_stamp_has_aged(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, age_ns: int, racy: bool
) -> None:
    path = yard.put(b"f", b"x")
    wrote_ns = os.lstat(yard.full(path)).st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: wrote_ns + age_ns)
    assert yard.read(path).racy is racy


def test_read_ends_when_a_writer_never_rests(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = yard.put(b"f", b"")
    fstat = os.fstat

    def grow_and_look(fd: int) -> os.stat_result:
        with open(yard.full(path), "ab") as stream:
            stream.write(b"x" * 100)
        return fstat(fd)

    monkeypatch.setattr(os, "fstat", grow_and_look)
    reading = yard.read(path)
    assert reading.racy
    assert 0 < len(reading.data) < reading.stat.size
    assert set(reading.data) == set(b"x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads files whatever their mode")
def test_read_raises_when_it_may_not(yard: Yard) -> None:
    path = yard.put(b"f", b"x", 0)
    with pytest.raises(PermissionError):
        yard.files.read(path)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755, 0o000, 0o777])
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_publish_gives_the_exact_mode_whatever_the_umask(
    yard: Yard, mode: int, umask: int
) -> None:
    path = yard.put(b"f", b"old", 0o664)
    before = os.umask(umask)
    try:
        temp = yard.files.stage(path, b"new", 0o100000 | mode)
        yard.files.publish(temp, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.lstat(yard.full(path)).st_mode) == mode
    assert os.listdir(yard.root) == ["f"]


def test_stage_is_never_wider_than_the_mode_while_it_is_written(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    real_write, real_open = os.write, os.open

    def spy_write(fd: int, data: bytes) -> int:
        seen.append((stat.S_IMODE(os.fstat(fd).st_mode), os.fstat(fd).st_size))
        return real_write(fd, data[:4])

    def spy_open(
        path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        fd = real_open(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            seen.append((stat.S_IMODE(os.fstat(fd).st_mode), 0))
        return fd

    monkeypatch.setattr(os, "write", spy_write)
    monkeypatch.setattr(os, "open", spy_open)
    before = os.umask(0)
    try:
        for mode in (0o600, 0o400, 0o644, 0o000):
            seen.clear()
            temp = yard.files.stage(RepoPath(b"key"), b"private key", 0o100000 | mode)
            assert len(seen) >= 3
            assert all(found & ~(mode & 0o600) == 0 for found, _ in seen)
            found = os.lstat(yard.full(temp))
            assert stat.S_IMODE(found.st_mode) == mode
    finally:
        os.umask(before)


def test_stage_lies_beside_its_target_under_a_name_of_ours(yard: Yard) -> None:
    os.makedirs(yard.full(b"d/e"))
    path = RepoPath(b"d/e/" + b"n" * 250)
    first = yard.files.stage(path, b"1", 0o100644)
    second = yard.files.stage(path, b"2", 0o100644)
    assert first != second
    assert first.startswith(b"d/e/" + TEMP_PREFIX)
    yard.files.publish(first, path)
    yard.files.publish(second, path)
    assert yard.read(path).data == b"2"
    assert os.listdir(yard.full(b"d/e")) == [b"n" * 250]


def test_stage_leaves_nothing_when_it_fails(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        yard.files.stage(RepoPath(b"f"), b"x", 0o100644)
    assert os.listdir(yard.root) == []


@pytest.mark.parametrize("mode", [0o644, 0o400, 0o200, 0])
def test_staged_file_is_on_the_disk_before_it_is_in_place(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """LAW-09: also one that nobody may read."""
    synced: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    temp = yard.files.stage(RepoPath(b"f"), b"x", 0o100000 | mode)
    yard.files.harden(temp)
    yard.files.publish(temp, RepoPath(b"f"))
    assert synced == [os.lstat(yard.full(b"f")).st_ino]


def test_link_needs_no_hardening(yard: Yard) -> None:
    temp = yard.files.stage(RepoPath(b"l"), b"x", LINK_MODE)
    yard.files.harden(temp)
    assert yard.files.read(temp) is not None


def test_stage_of_a_link_publishes_its_target(yard: Yard) -> None:
    path = yard.put(b"f", b"old")
    yard.files.publish(yard.files.stage(path, b"\xff/x", LINK_MODE), path)
    assert os.readlink(yard.full(path)) == b"\xff/x"
    assert os.listdir(yard.root) == ["f"]


def test_publish_breaks_hard_links(yard: Yard) -> None:
    path = yard.put(b"f", b"old")
    os.link(yard.full(path), yard.full(b"twin"))
    yard.files.publish(yard.files.stage(path, b"new", 0o100644), path)
    assert yard.read(RepoPath(b"twin")).data == b"old"
    assert os.lstat(yard.full(path)).st_nlink == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_stage_keeps_the_owner_as_root(yard: Yard) -> None:
    os.chown(yard.root, 4321, 1234)
    path = yard.put(b"f", b"old")
    os.chown(yard.full(path), 1111, 2222)
    for target, owner in ((path, (1111, 2222)), (RepoPath(b"new"), (4321, 1234))):
        temp = yard.files.stage(target, b"x", 0o104755)
        look = os.lstat(yard.full(temp))
        assert (look.st_uid, look.st_gid) == owner
        assert stat.S_IMODE(look.st_mode) == 0o4755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_directories_and_links_have_their_directorys_owner_as_root(yard: Yard) -> None:
    """What root brings back, the user can still change."""
    os.chown(yard.root, 4321, 1234)
    inner, link = RepoPath(b"d/e/f"), RepoPath(b"d/l")
    yard.files.make_parents(inner)
    yard.files.publish(yard.files.stage(link, b"x", LINK_MODE), link)
    for path in (b"d", b"d/e", b"d/l"):
        look = os.lstat(yard.full(path))
        assert (look.st_uid, look.st_gid) == (4321, 1234)


def test_make_parents_tells_what_it_made(yard: Yard) -> None:
    os.mkdir(yard.full(b"a"))
    assert yard.files.make_parents(RepoPath(b"a/b/c/f")) == [b"a/b", b"a/b/c"]
    assert yard.files.make_parents(RepoPath(b"a/b/c/f")) == []
    assert yard.files.make_parents(RepoPath(b"f")) == []


def test_make_parents_is_refused_when_a_file_is_in_the_way(yard: Yard) -> None:
    yard.put(b"a", b"x")
    with pytest.raises(UnsafePathError):
        yard.files.make_parents(RepoPath(b"a/b/f"))
    assert os.path.isfile(yard.full(b"a"))


def test_rmdir_takes_empty_directories_only(yard: Yard) -> None:
    yard.put(b"full/f", b"x")
    os.mkdir(yard.full(b"empty"))
    assert not yard.files.rmdir_if_empty(RepoPath(b"full"))
    assert yard.files.rmdir_if_empty(RepoPath(b"empty"))
    assert not yard.files.rmdir_if_empty(RepoPath(b"empty"))
    assert os.listdir(yard.root) == ["full"]


def test_unlink_and_chmod_do_what_they_say(yard: Yard) -> None:
    path = yard.put(b"d/f", b"x", 0)
    yard.files.chmod(path, 0o100640)
    assert stat.S_IMODE(os.lstat(yard.full(path)).st_mode) == 0o640
    yard.files.unlink(path)
    assert os.listdir(yard.full(b"d")) == []
    with pytest.raises(FileNotFoundError):
        yard.files.unlink(path)


def test_list_raises_when_there_is_no_directory(yard: Yard) -> None:
    yard.put(b"file", b"x")
    for path in (b"no", b"file"):
        with pytest.raises(OSError, match=r"No such file|Not a directory"):
            yard.files.list(RepoPath(path))


def test_no_descriptor_is_left_open(yard: Yard) -> None:
    path = yard.put(b"a/b/f", b"x")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        yard.files.read(path)
        yard.files.look(RepoPath(b"a/no/f"))
        yard.files.list(RepoPath(b"a"))
        yard.files.make_parents(RepoPath(b"a/b/c/d"))
        yard.files.publish(yard.files.stage(path, b"y", 0o100644), path)
        yard.files.chmod(path, 0o600)
        with pytest.raises(FileNotFoundError):
            yard.files.stage(RepoPath(b"no/f"), b"", 0o100644)
        with pytest.raises(UnsafePathError):
            yard.files.unlink(RepoPath(b"a/b/f/x"))
    assert len(os.listdir("/proc/self/fd")) == before


@shares_fixture
@given(data=st.binary(max_size=300), mode=st.integers(0, 0o777))
def test_what_is_published_is_read_back(yard: Yard, data: bytes, mode: int) -> None:
    path = RepoPath(b"f")
    yard.files.publish(yard.files.stage(path, data, 0o100400 | mode), path)
    reading = yard.read(path)
    assert (reading.data, reading.mode) == (data, 0o100400 | mode)


def test_free_bytes_is_what_the_file_system_says(yard: Yard) -> None:
    info = os.statvfs(yard.root)
    assert abs(yard.files.free_bytes() - info.f_bavail * info.f_frsize) < 1 << 30


def test_neighbours_are_read_through_one_open_directory(yard: Yard) -> None:
    paths = [yard.put(path, path) for path in (b"d/a", b"d/b", b"e/a")]
    with yard.files.together():
        found = [yard.files.read(path) for path in (*paths, RepoPath(b"d/none"))]
        os.rename(yard.root / "d", yard.root / "moved")
        assert yard.files.look(paths[2]) is not None
        assert yard.files.look(paths[0]) is None
    data = [None if one is None else one.data for one in found]
    assert data == [b"d/a", b"d/b", b"e/a", None]


@pytest.mark.parametrize("at", ["d", "d/e"])
def test_a_directory_that_was_replaced_by_a_link_is_noticed_after_doubt(
    yard: Yard, at: str
) -> None:
    """The link leads to the very directory that is open: it is not the path's any more."""
    path = yard.put(b"d/e/a", b"mine")
    with yard.files.together():
        assert yard.files.look(path) is not None
        os.rename(yard.root / at, yard.root.parent / "elsewhere")
        os.symlink(yard.root.parent / "elsewhere", yard.root / at)
        yard.files.doubt()
        assert yard.files.look(path) is None
        with pytest.raises(UnsafePathError):
            yard.files.unlink(path)
    assert [one.name for one in (yard.root.parent / "elsewhere").iterdir()]


def test_a_directory_that_was_exchanged_is_opened_again_after_doubt(yard: Yard) -> None:
    path = yard.put(b"d/e/a", b"old")
    with yard.files.together():
        yard.files.read(path)
        os.rename(yard.root / "d", yard.root / "aside")
        yard.put(b"d/e/a", b"new")
        yard.files.doubt()
        assert yard.read(path).data == b"new"


def test_a_worktree_that_was_exchanged_is_noticed_after_doubt(yard: Yard) -> None:
    path = yard.put(b"a", b"mine")
    with yard.files.together():
        yard.files.look(path)
        os.rename(yard.root, yard.root.parent / "aside")
        os.mkdir(yard.root)
        yard.files.doubt()
        with pytest.raises(MovedError):
            yard.files.look(path)


def test_a_very_deep_path_takes_few_descriptors(yard: Yard) -> None:
    """Those above a directory stay open with it, and a process may have 256."""
    deep = b"/".join([b"d"] * 150)
    with yard.files.together():
        yard.put(RepoPath(deep + b"/a"), b"x")
        before = len(os.listdir("/proc/self/fd"))
        assert yard.files.look(RepoPath(deep + b"/a")) is not None
        assert len(os.listdir("/proc/self/fd")) - before < 100
