"""Packing when it is due: beside the daemon's work, or at the end of a command."""

import errno
import itertools
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.maintenance import prune, upkeep
from gitshadow.maintenance.upkeep import Upkeep, pack_now
from gitshadow.service import in_process
from gitshadow.store.layout import Layout
from gitshadow.store.lock import WriterLock
from gitshadow.store.packs import MOST_PACKS, Packs
from tests.support.packed import Shelf
from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of, studio_of
from tests.support.waiting import until


class Hands:
    """A clock that is moved by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def packs_in(layout: Layout) -> Packs:
    return Packs(layout.objects_dir, layout.packing_dir)


def write_till_sampled(studio: Studio, files: int = 1) -> None:
    """Write, at least once, until so many objects lie where Git looks."""
    packs = packs_in(studio.context.workspace.layout)
    # One object in 256 lies there: what `init` stored may be there already.
    for number in itertools.count():
        studio.hand("a", f"version {number}\n")
        if packs.sampled() >= files:
            return


def finished(keeper: Upkeep, layout: Layout) -> Callable[[], bool]:
    def look() -> bool:
        keeper.tick()
        return keeper._run is None and bool(packs_in(layout).ours())

    return look


def test_packs_when_it_is_quiet(repo: Repo) -> None:
    """KEEP-03: as soon as one object lies where Git looks, once nobody writes."""
    with studio_of(repo) as studio:
        ws, clock = studio.context.workspace, Hands()
        keeper = Upkeep(studio.context, clock)
        write_till_sampled(studio)
        keeper.tick()
        assert keeper._run is None
        clock.now += upkeep.QUIET_S
        until(finished(keeper, ws.layout))
        shelf = Shelf(repo)
        assert not shelf.ours() & shelf.loose()
        assert studio.run("log")["rows"]
        keeper.close()


def test_packs_while_others_write_where_git_would_soon(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEEP-03: at half of what makes Git start its own maintenance nobody waits for quiet."""
    with studio_of(repo) as studio:
        ws = studio.context.workspace
        keeper = Upkeep(studio.context, Hands())
        write_till_sampled(studio)
        soon = packs_in(ws.layout).sampled() + 1  # one write may leave two there
        monkeypatch.setattr(upkeep, "busy_limit", lambda ws: soon)
        keeper.tick()
        assert keeper._run is None
        write_till_sampled(studio, soon)
        until(finished(keeper, ws.layout))
        keeper.close()


@pytest.mark.parametrize(("most", "at_once"), [(1, True), (1_000, False)])
def test_packing_goes_on_at_once_only_after_very_many_objects(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, most: int, at_once: bool
) -> None:
    with studio_of(repo) as studio:
        ws = studio.context.workspace
        monkeypatch.setattr(upkeep, "busy_limit", lambda ws: 1)
        monkeypatch.setattr(upkeep, "_STORM_OBJECTS", most)
        keeper = Upkeep(studio.context, Hands())
        write_till_sampled(studio)
        until(finished(keeper, ws.layout))
        write_till_sampled(studio)
        keeper.tick()
        assert (keeper._run is not None) == at_once
        keeper.close()


def test_packs_of_bursts_are_merged_when_there_are_many(repo: Repo) -> None:
    """KEEP-03: a burst of writes is one pack, and their number is limited too."""
    with studio_of(repo) as studio:
        keeper = Upkeep(studio.context, Hands())
        layout = studio.context.workspace.layout
        before = len(Shelf(repo).loose())
        for burst in range(MOST_PACKS):
            keeper.tick()
            assert keeper._run is None
            for number in range(100):
                repo.write(f"d{number % 3}/f{number}", f"burst {burst} {number}\n")
            studio.context.observer.settle()
        assert len(packs_in(layout).ours()) == MOST_PACKS
        # One commit each, and the baseline.
        assert len(Shelf(repo).loose()) - before <= MOST_PACKS + 1
        until(lambda: merged(keeper, layout))
        keeper.close()
    repo.fsck()


def merged(keeper: Upkeep, layout: Layout) -> bool:
    """Do what is due; return whether it is done and few packs are left."""
    keeper.tick()
    return keeper._run is None and len(packs_in(layout).ours()) < 4


def test_what_was_packed_is_not_looked_at_again(repo: Repo) -> None:
    """What lies there then is the user's."""
    with studio_of(repo) as studio:
        ws, clock = studio.context.workspace, Hands()
        keeper = Upkeep(studio.context, clock)
        write_till_sampled(studio)
        keeper.tick()
        clock.now += upkeep.QUIET_S
        until(finished(keeper, ws.layout))
        number = 0
        while not packs_in(ws.layout).sampled():
            repo.git("hash-object", "-w", "--stdin", stdin=b"%d" % number)
            number += 1
        clock.now += 3600
        keeper.tick()
        assert keeper._run is None


def test_another_packer_is_not_waited_for(repo: Repo) -> None:
    """Two daemons of linked worktrees: one packs, the other tries again later."""
    with studio_of(repo) as studio:
        ws, clock = studio.context.workspace, Hands()
        keeper = Upkeep(studio.context, clock)
        write_till_sampled(studio)
        keeper.tick()
        clock.now += upkeep.QUIET_S
        with WriterLock(ws.layout.packing_lock) as other:
            other.acquire(0)
            keeper.tick()
            assert keeper._run is not None
            keeper._run.join()
            keeper.tick()
            assert packs_in(ws.layout).ours() == []
        clock.now += 60
        until(finished(keeper, ws.layout))
        keeper.close()


def test_doctor_says_what_keeps_us_from_packing(repo: Repo) -> None:
    with studio_of(repo) as studio:
        ws, clock = studio.context.workspace, Hands()
        keeper = Upkeep(studio.context, clock)
        write_till_sampled(studio)
        keeper.tick()
        clock.now += upkeep.QUIET_S
        pack_dir = Path(ws.layout.objects_dir, "pack")
        aside = pack_dir.rename(pack_dir.with_name("pack-aside"))
        pack_dir.write_bytes(b"")  # nothing can be put there, root or not
        keeper.tick()
        assert keeper._run is not None
        keeper._run.join()
        keeper.tick()
        (check,) = [c for c in checks(studio) if c["name"] == "packing"]
        assert (check["ok"], check["remedy"]) == (False, "git agent-undo pack")
        assert "could not" in str(check["message"])
        pack_dir.unlink()
        aside.rename(pack_dir)
        clock.now += 3600
        until(finished(keeper, ws.layout))
        (check,) = [c for c in checks(studio) if c["name"] == "packing"]
        assert check["ok"] is True


def checks(studio: Studio) -> list[dict[str, object]]:
    found = studio.run("doctor")["checks"]
    assert isinstance(found, list)
    return found


def test_the_daemon_forgets_by_itself_what_the_settings_leave_no_room_for(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEEP-06: in steps, when nobody writes; what `prune --retention` lists."""
    monkeypatch.setattr(prune, "_ROWS", 2)
    repo.git("config", "agent-undo.retentionCount", "2")
    with studio_of(repo) as studio:
        clock = Hands()
        keeper = Upkeep(studio.context, clock)
        for who in ("S1", "S2", "S3"):
            for number in range(3):
                studio.write(who, "a", f"{who} {number}\n")
            studio.hook(who, "SessionEnd", reason="other")
        ids = [studio.session(who) for who in ("S1", "S2", "S3")]
        planned = studio.run("prune", retention=True, dry_run=True)["dropped"]
        assert isinstance(planned, list)
        going = {row["id"] for row in planned}
        keeper.tick()
        assert known(studio) >= set(ids)
        clock.now += 3600

        def gone() -> bool:
            keeper.tick()
            clock.now += 1
            return not known(studio) & going

        until(gone)
        assert ids[0] in going
        assert ids[2] in known(studio)
        keeper.close()


def known(studio: Studio) -> set[object]:
    rows = studio.run("sessions")["rows"]
    assert isinstance(rows, list)
    return {row["id"] for row in rows}


def test_stopping_leaves_no_child(repo: Repo) -> None:
    with studio_of(repo) as studio:
        clock = Hands()
        keeper = Upkeep(studio.context, clock)
        write_till_sampled(studio)
        keeper.tick()
        clock.now += upkeep.QUIET_S
        keeper.tick()
        keeper.close()
        assert "packer" not in {thread.name for thread in threading.enumerate()}
    Shelf(repo).pack()
    repo.fsck()


def test_a_command_packs_at_its_end_where_no_daemon_runs(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "busy_limit", lambda ws: 1)
    with studio_of(repo) as studio:
        write_till_sampled(studio)
    layout = layout_of(repo)
    in_process.run(layout, "git_hook", {"event": "pre-commit", "cwd": str(repo.root)})
    assert packs_in(layout).ours() == []
    in_process.run(layout, "log", {"cwd": str(repo.root)})
    assert len(packs_in(layout).ours()) == 1
    assert packs_in(layout).sampled() == 0


def test_pack_packs_what_there_is(repo: Repo) -> None:
    with studio_of(repo) as studio:
        studio.hand("a", "one\n")
        layout = studio.context.workspace.layout
        answer = pack_now(layout, os.environ)
        shelf = Shelf(repo)
        assert answer.packed == len(shelf.ours())
        assert answer.packs == 1
        assert not shelf.ours() & shelf.loose()
        studio.hand("a", "two\n")
        assert studio.run("cat", path="a")["oid"] == repo.blob("a")


@pytest.mark.parametrize("name", ["packing.lock", "packing"])
def test_pack_says_what_it_could_not_make_where_the_disk_is_full(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No inodes are left: as with every other file of ours, in plain words."""

    def full(make: Callable[..., object]) -> Callable[..., object]:
        def attempt(path: Path | str, *args: object, **more: object) -> object:
            if os.path.basename(path) == name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            return make(path, *args, **more)

        return attempt

    with studio_of(repo) as studio:
        studio.hand("a", "one\n")
        layout = studio.context.workspace.layout
        shutil.rmtree(layout.packing_dir, ignore_errors=True)
        for make in ("open", "mkdir"):
            monkeypatch.setattr(os, make, full(getattr(os, make)))
        with pytest.raises(
            StoreError, match=f"{name}: No space left on device"
        ) as said:
            pack_now(layout, os.environ)
    assert said.value.hint
    assert packs_in(layout).ours() == []
