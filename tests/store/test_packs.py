"""Packing: batches into kept packs, merged as they grow; nothing is lost, whatever happens."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from gitshadow.errors import LockedError, StoreError
from gitshadow.maintenance.upkeep import work_of
from gitshadow.store.git import Git, StoppedError
from gitshadow.store.packs import MOST_PACKS, Packed, Packer, to_merge
from tests.conftest import FULL
from tests.support.packed import CHAIN, Shelf, packs_of
from tests.support.repo import Repo
from tests.support.small_disk import fill, small_disk

_OTHER = "refs/agent-undo/codex-20261122-3d4e5f"
_KILLED = 9
_DAY, _BETWEEN_RESTS = (50_000, 250) if FULL else (400, 25)


@pytest.fixture
def shelf(repo: Repo) -> Shelf:
    return Shelf(repo)


def test_what_our_refs_hold_becomes_one_kept_pack(shelf: Shelf) -> None:
    """KEEP-03: nothing of ours stays loose; the pack is kept from Git's own repack."""
    shelf.write(20)
    users = shelf.loose() - shelf.ours()
    assert shelf.pack() == Packed(objects=60, merged=0)
    (name,) = shelf.names()
    assert shelf.loose() == users
    keep = Path(shelf.layout.objects_dir, "pack", f"{name}.keep")
    assert keep.read_bytes() == b"agent-undo\n"
    assert shelf.repo.git("show", f"{CHAIN}:a") != ""


def test_only_what_is_new_is_packed_the_next_time(shelf: Shelf) -> None:
    shelf.write(20)
    shelf.pack()
    shelf.write(3)
    assert shelf.pack().objects == 9


def test_nothing_new_makes_no_pack(shelf: Shelf) -> None:
    shelf.write(5)
    shelf.pack()
    before = packs_of(shelf.repo)
    assert shelf.pack(afresh=True) == Packed(0, 0)
    assert packs_of(shelf.repo) == before


def test_what_head_holds_stays_the_users(shelf: Shelf) -> None:
    """The user's commits, and what they share with ours, are none of our business."""
    shelf.write(1)
    shelf.repo.write("n", "the user's\n")
    shelf.repo.commit("theirs")
    users = shelf.reachable("HEAD")
    shelf.pack()
    assert users <= shelf.loose()


def test_a_branch_that_head_is_not_on_stays_the_users(shelf: Shelf) -> None:
    shelf.repo.git("checkout", "-q", "-b", "side")
    shelf.repo.write("n", "side\n")
    shelf.repo.commit("on the side")
    side = shelf.reachable("side")
    shelf.write(1)
    shelf.repo.git("checkout", "-q", "main")
    shelf.pack()
    assert side <= shelf.loose()


def test_a_long_chain_is_packed_in_batches(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitshadow.store.packs.BATCH", 10)
    shelf.write(35)
    seen: list[int] = []
    make = Packer._make

    def counted(self: Packer, stdin: bytes, *options: str) -> list[object]:
        made = make(self, stdin, *options)
        seen.extend(pack.objects for pack in made if "--revs" in options)
        return list(made)

    monkeypatch.setattr(Packer, "_make", counted)
    assert shelf.pack().objects == 105
    assert seen == [30, 30, 30, 15]


def test_packs_are_merged_as_they_grow(shelf: Shelf) -> None:
    """KEEP-03: never more than twelve packs of ours, and everything is still there."""
    most = 0
    for _ in range(40):
        shelf.write(2)
        shelf.pack()
        most = max(most, len(shelf.names()))
    assert most <= 12
    assert len(shelf.names()) < 8
    objects = [pack.objects for pack in shelf.packer.packs.ours()]
    assert sum(objects) == 40 * 2 * 3
    assert not shelf.ours() & shelf.loose()
    shelf.repo.fsck()


def test_packs_are_merged_whatever_index_the_user_prefers(shelf: Shelf) -> None:
    shelf.repo.git("config", "pack.indexVersion", "1")
    for _ in range(40):
        shelf.write(2)
        shelf.pack()
    assert len(shelf.names()) < 12
    Path(shelf.layout.objects_dir, "pack", f"{shelf.names()[0]}.idx").unlink()
    assert shelf.pack().merged == 0
    assert sum(pack.objects for pack in shelf.packer.packs.ours()) == 40 * 2 * 3


def test_a_day_of_writes_leaves_few_packs(shelf: Shelf) -> None:
    """KEEP-03: at each rest at most twelve packs are ours, and nothing of ours is loose."""
    for _ in range(_DAY // _BETWEEN_RESTS):
        shelf.write(_BETWEEN_RESTS)
        shelf.pack()
        assert len(shelf.names()) <= 12
    assert not shelf.ours() & shelf.loose()
    assert len(shelf.reachable(CHAIN, "--not", "HEAD")) == 3 * _DAY
    shelf.repo.fsck()


@pytest.mark.parametrize(
    ("counts", "merged"),
    [
        ([], 0),
        ([5], 0),
        ([5, 10, 20], 0),
        ([5, 5], 2),
        ([5, 6, 100], 2),
        ([5, 6, 20, 100], 3),
        ([1, 1, 2, 4, 8], 5),
        ([4**n for n in range(14)], 4),
    ],
)
def test_as_many_of_the_smallest_are_merged_as_it_takes(
    counts: list[int], merged: int
) -> None:
    assert to_merge(counts) == merged
    rest = [sum(counts[:merged]), *counts[merged:]] if merged else counts
    assert len(rest) <= MOST_PACKS


def test_old_git_merges_by_naming_objects(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 2.32 `pack-objects` does not know --stdin-packs."""
    monkeypatch.setattr(Git, "version", lambda self: (2, 31, 0))
    for _ in range(2):
        shelf.write(2)
        shelf.pack()
    assert [pack.objects for pack in shelf.packer.packs.ours()] == [12]
    shelf.repo.fsck()


def test_a_pack_that_the_users_index_names_stays(shelf: Shelf) -> None:
    shelf.write(2)
    shelf.pack()
    (first,) = shelf.names()
    shelf.repo.git("multi-pack-index", "write")
    shelf.write(2)
    assert shelf.pack().merged == 0
    assert first in shelf.names()
    shelf.repo.git("multi-pack-index", "verify")


def test_a_pack_that_holds_more_is_not_removed(shelf: Shelf) -> None:
    """KEEP-08: a pack goes only where each of its objects is in the new one."""
    shelf.write(2)
    shelf.pack()
    shelf.write(9, ref=_OTHER)
    shelf.pack()
    small, big = shelf.packer.packs.ours()
    assert shelf.packer.packs.replace([big], small) == 0
    assert packs_of(shelf.repo) == sorted([small.name, big.name])


def test_a_pack_of_the_users_is_never_removed(shelf: Shelf) -> None:
    """KEEP-08: also where ours holds all that it holds."""
    shelf.write(4)
    shelf.repo.git("repack", "-adq")
    (theirs,) = packs_of(shelf.repo)
    more = shelf.repo.git("hash-object", "-w", "--stdin", stdin=b"one more\n")
    everything = "\n".join([*shelf.reachable("HEAD", CHAIN), more]).encode()
    base = f"{shelf.layout.objects_dir}/pack/pack"
    digits = shelf.repo.git("pack-objects", "-q", base, stdin=everything)
    Path(f"{base}-{digits}.keep").write_bytes(b"agent-undo\n")
    store = shelf.packer.packs
    (ours,) = store.ours()
    assert store.replace([ours._replace(name=theirs)], ours) == 0
    assert theirs in packs_of(shelf.repo)


def test_the_users_own_upkeep_goes_beside_ours(shelf: Shelf) -> None:
    """KEEP-01: gc, repack and prune leave our packs alone and lose nothing."""
    shelf.write(5)
    shelf.pack()
    shelf.write(5)
    ours, names = shelf.ours(), shelf.names()
    shelf.repo.git("gc", "-q", "--prune=now")
    shelf.repo.git("repack", "-adq")
    shelf.repo.git("prune", "--expire=now")
    assert shelf.names() == names
    assert shelf.ours() == ours
    shelf.write(5)
    shelf.pack()
    shelf.repo.fsck()


def test_precious_objects_stay_loose(shelf: Shelf) -> None:
    shelf.write(5)
    shelf.repo.git("config", "core.repositoryFormatVersion", "1")
    shelf.repo.git("config", "extensions.preciousObjects", "true")
    before = shelf.loose()
    assert shelf.pack().objects == 15
    assert shelf.loose() == before


def test_one_packer_at_a_time(shelf: Shelf) -> None:
    """Two daemons of linked worktrees share one object store."""
    shelf.write(1)
    with (
        Shelf(shelf.repo).packer.alone(0.0),
        pytest.raises(LockedError, match="packing lock"),
    ):
        shelf.pack()
    assert shelf.pack().objects == 3


def test_what_is_stopped_goes_on_the_next_time(shelf: Shelf) -> None:
    shelf.write(30)
    git = Git(shelf.layout, dict(os.environ))
    told = iter([False, True])
    stopped = Packer(shelf.layout, git, lambda: next(told, True))
    slow = _slow_git(shelf.layout.state_dir)
    git._env["PATH"] = f"{slow}{os.pathsep}{os.environ['PATH']}"
    with pytest.raises(StoppedError):
        stopped.pack(work_of(shelf.store))
    shutil.rmtree(slow)
    assert shelf.names() == []
    assert shelf.pack().objects == 90


def _slow_git(directory: str) -> str:
    place = os.path.join(directory, "slow")
    os.makedirs(place)
    script = os.path.join(place, "git")
    real = shutil.which("git")
    Path(script).write_text(
        f'#!/bin/sh\ncase "$*" in *pack-objects*) exec sleep 600;; esac\nexec {real} "$@"\n'
    )
    os.chmod(script, 0o755)
    return place


def test_a_kill_at_any_step_loses_nothing(shelf: Shelf) -> None:
    """KEEP-07: after a crash anywhere the store is whole, and the next run tidies up."""
    shelf.write(6)
    shelf.pack()
    shelf.write(5)
    ours = shelf.ours()
    aside = Path(shelf.layout.common_dir).with_name("aside")
    shutil.copytree(shelf.layout.common_dir, aside, symlinks=True)
    step, died = 0, True
    while died:
        step += 1
        shutil.rmtree(shelf.layout.common_dir)
        shutil.copytree(aside, shelf.layout.common_dir, symlinks=True)
        died = _packing_dies_at(shelf, step)
        missing = shelf.repo.git("rev-list", "--objects", "--missing=print", "--all")
        assert not [line for line in missing.splitlines() if line.startswith("?")], step
        fresh = Shelf(shelf.repo)
        fresh.pack()
        assert fresh.ours() == ours, step
        assert not fresh.ours() & fresh.loose(), step
        assert len(fresh.names()) == 1, step
        kept = packs_of(shelf.repo, ".keep")
        assert kept == packs_of(shelf.repo) == packs_of(shelf.repo, ".idx"), step
        assert not os.path.exists(shelf.layout.packing_dir)
    assert step > 20
    shelf.repo.fsck()
    shutil.rmtree(aside)


def _packing_dies_at(shelf: Shelf, step: int) -> bool:
    """Pack in a process that ends at the n-th change of a file; tell whether it did."""
    pid = os.fork()
    if pid == 0:
        left = step

        def count(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            writing = event == "open" and isinstance(args[2], int) and args[2] & 3
            if writing or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir"):
                left -= 1
            if event == "subprocess.Popen" and left > 1:
                left -= 1
            if left == 0:
                os._exit(_KILLED)

        sys.addaudithook(count)
        code = 1
        try:
            Shelf(shelf.repo).pack()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, _KILLED)
    return code == _KILLED


def test_a_pack_without_its_index_gets_one_again(shelf: Shelf) -> None:
    shelf.write(4)
    shelf.pack()
    (name,) = shelf.names()
    os.unlink(Path(shelf.layout.objects_dir, "pack", f"{name}.idx"))
    Shelf(shelf.repo).pack()
    assert shelf.names() == [name]
    shelf.repo.fsck()


def test_what_a_killed_packer_left_is_swept(shelf: Shelf) -> None:
    shelf.write(1)
    left = Path(shelf.layout.packing_dir, "pack", "tmp_pack_x1y2z3")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    shelf.pack()
    assert not left.exists()
    assert not Path(shelf.layout.packing_dir).exists()


def test_full_disk_leaves_everything_loose(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 4) as place:
        shelf = Shelf(Repo.create(place / "r"))
        shelf.write(40)
        before, ours = shelf.loose(), shelf.ours()
        ballast = fill(place)
        with pytest.raises(StoreError):
            shelf.pack()
        assert shelf.loose() == before
        ballast.unlink()
        assert shelf.pack().objects == len(ours)
        shelf.repo.fsck()
        shelf.store.close()


def test_read_only_objects_leave_everything_as_it_is(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.write(4)
    before = shelf.loose()
    rename = os.rename

    def refused(old: str, new: str) -> None:
        if new.startswith(shelf.layout.objects_dir):
            raise PermissionError(13, "Permission denied", new)
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refused)
        with pytest.raises(StoreError, match="could not keep a pack"):
            shelf.pack()
    assert shelf.loose() == before
    assert shelf.pack().objects == 12


def test_refs_that_went_back_are_packed_as_they_are(shelf: Shelf) -> None:
    """What was packed last may be gone: then all is looked at again."""
    shelf.write(3)
    shelf.pack()
    Path(shelf.layout.packed).write_text(f"{'1' * 40} {CHAIN}\nnonsense\n")
    shelf.write(2)
    assert shelf.pack().objects == 6


def test_a_store_that_git_reads_elsewhere_goes_on(shelf: Shelf) -> None:
    """Another process that has an old pack open finds the objects in the merged one."""
    shelf.write(3)
    shelf.pack()
    other = Shelf(shelf.repo)
    oids = sorted(shelf.ours())
    other.store.has(shelf.store.ref(CHAIN) or oids[0])  # type: ignore[arg-type]
    shelf.write(3)
    assert shelf.pack().merged == 2
    tip = other.store.ref(CHAIN)
    assert tip is not None
    assert len(other.store.chain(tip)) == 6
