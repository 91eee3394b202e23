"""What doctor finds, and what it mends."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.api import doctor
from gitshadow.errors import StoreError
from gitshadow.maintenance.diagnostics import examine
from gitshadow.messages.status import CheckRow
from gitshadow.platform.linux import machine
from gitshadow.store.journal import events
from gitshadow.store.journal.db import Db
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


def found(studio: Studio, name: str) -> CheckRow:
    return next(one for one in examine(studio.context) if one.name == name)


def mended(studio: Studio) -> list[str]:
    said = studio.run("doctor", fix=True)["mended"]
    assert isinstance(said, list)
    return said


def drop_object(studio: Studio, oid: str) -> None:
    path = studio.repo.common_dir / "objects" / oid[:2] / oid[2:]
    assert path.exists(), "it was packed meanwhile"
    path.chmod(0o600)
    path.unlink()
    studio.context.workspace.repo.refresh()


def test_nothing_is_wrong_with_a_fresh_recording(studio: Studio) -> None:
    studio.write("S1", "a", "one\n")
    bad = [
        one for one in examine(studio.context) if not one.ok and one.name != "inotify"
    ]
    assert bad == []


def test_every_finding_that_is_not_ok_has_a_remedy(studio: Studio) -> None:
    studio.context.pipeline.gap("the watcher lost events")
    studio.repo.git("config", "remote.x.url", "/x")
    studio.repo.git("config", "remote.x.mirror", "true")
    bad = [one for one in examine(studio.context) if not one.ok]
    assert {"gaps", "remotes"} <= {one.name for one in bad}
    assert all(one.remedy for one in bad)


def test_missing_object_is_found_and_its_chain_goes_back(studio: Studio) -> None:
    """Where nothing else tells: the commits are there, a blob in the middle is not."""
    studio.write("S1", "a", "one\n")
    before = studio.repo.git("rev-parse", f"refs/agent-undo/{studio.session('S1')}")
    studio.write("S1", "a", "two\n")
    studio.write("S1", "a", "three\n")
    drop_object(studio, studio.repo.git("hash-object", "--stdin", stdin=b"two\n"))
    check = found(studio, "objects")
    assert (check.ok, check.remedy) == (False, "git agent-undo doctor --fix")
    assert check.message.startswith("missing in the history: 1, ")
    ref = f"refs/agent-undo/{studio.session('S1')}"
    assert any(ref in said for said in mended(studio))
    notes = [gap.note for gap in events.list_gaps(studio.context.workspace.db)]
    assert notes == [
        f"objects of {ref} were lost; it was reset to its last complete commit;"
        " 2 writes lost"
    ]
    assert found(studio, "objects").ok
    history = studio.repo.git("rev-list", ref).split()
    assert before in history
    assert studio.repo.read("a") == b"three\n"


def test_oops_names_the_missing_object_and_its_remedy(studio: Studio) -> None:
    """It said that the files keep changing, and to try again: that never helps."""
    studio.write("S1", "a", "one\n")
    drop_object(studio, studio.repo.git("hash-object", "--stdin", stdin=b"one\n"))
    with pytest.raises(StoreError, match="of the history is missing") as caught:
        studio.run("undo", verb="oops", yes=True)
    assert caught.value.hint == "git agent-undo doctor --fix"
    mended(studio)
    assert studio.run("undo", verb="oops", yes=True)["status"] == "reversed"


def test_deleted_ref_of_a_session_is_found_before_anybody_fixes_it(
    studio: Studio,
) -> None:
    studio.write("S1", "a", "one\n")
    ref = f"refs/agent-undo/{studio.session('S1')}"
    studio.repo.git("update-ref", "-d", ref)
    check = found(studio, "refs")
    assert (check.ok, check.message) == (False, f"gone: {ref}")
    mended(studio)
    assert found(studio, "refs").ok


def test_ref_that_was_moved_by_hand_is_named(studio: Studio) -> None:
    """Before anybody comes across it, and afterwards: a number of gaps helps nobody."""
    studio.write("S1", "a", "one\n")
    ref = f"refs/agent-undo/{studio.session('S1')}"
    studio.repo.git("update-ref", ref, "HEAD")
    check = found(studio, "refs")
    assert (check.ok, check.message) == (False, f"changed to something else: {ref}")
    studio.context.pipeline.catch_up()
    assert found(studio, "refs").ok
    check = found(studio, "gaps")
    assert not check.ok
    assert f"ref {ref} was changed to something else" in check.message


def test_rows_whose_commits_are_gone_ask_for_a_new_journal(studio: Studio) -> None:
    studio.write("S1", "a", "one\n")
    ref = f"refs/agent-undo/{studio.session('S1')}"
    tip = studio.repo.git("rev-parse", ref)
    drop_object(studio, tip)
    check = found(studio, "rows")
    assert (check.ok, check.remedy) == (False, "git agent-undo reindex")


def test_old_lock_of_a_ref_is_named_and_removed(studio: Studio) -> None:
    studio.write("S1", "a", "one\n")
    ref = f"refs/agent-undo/{studio.session('S1')}"
    lock = Path(studio.repo.common_dir, f"{ref}.lock")
    lock.write_bytes(b"")
    assert found(studio, "locks").ok, "it may be somebody's who is at work"
    old = lock.stat().st_mtime - 3600
    os.utime(lock, (old, old))
    check = found(studio, "locks")
    assert (check.ok, check.remedy) == (False, "git agent-undo doctor --fix")
    assert mended(studio) == [f"removed {lock.name}, a stale lock"]
    assert not lock.exists()
    studio.write("S1", "a", "two\n")


def test_young_lock_is_said_and_everything_else_is_mended(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ref that somebody writes at this moment: who, and the rest goes on."""
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.0)
    studio.write("S1", "a", "one\n")
    ref = f"refs/agent-undo/{studio.session('S1')}"
    tip = studio.repo.git("rev-parse", ref)
    studio.write("S1", "a", "two\n")
    studio.write("S1", "a", "three\n")
    drop_object(studio, studio.repo.git("hash-object", "--stdin", stdin=b"two\n"))
    lock = Path(studio.repo.common_dir, f"{ref}.lock")
    with lock.open("wb"):
        done = studio.run("doctor", fix=True)
        checks = done["checks"]
        assert isinstance(checks, list)
        named = {row["name"]: row for row in checks}
        assert named["locks"]["ok"] is True
        holder = f"seconds old, process {os.getpid()} has it open"
        assert holder in named["locks"]["message"]
        assert named["mending"]["ok"] is False
        assert ref in named["mending"]["message"]
        assert named["gaps"]["ok"] is True, "what comes after it was done"
    lock.unlink()
    assert any(ref in said for said in mended(studio))
    assert tip in studio.repo.git("rev-list", ref).split()


def test_gap_that_was_seen_is_history(studio: Studio) -> None:
    """A daemon that was killed once is no fault for ever; the next one is a new one."""
    studio.context.pipeline.gap("the daemon was killed")
    check = found(studio, "gaps")
    assert (check.ok, check.message[:28]) == (False, "1 gap in the recording, the ")
    seen = "marked 1 gap as seen: missed changes can no longer be recorded"
    assert mended(studio) == [seen]
    check = found(studio, "gaps")
    assert check.ok
    assert check.message.startswith("1 gap in the past, all seen; the last was 20")
    assert mended(studio) == []
    studio.context.pipeline.gap("again")
    assert found(studio, "gaps").message.startswith("1 gap in the recording")
    assert len(log_of_gaps(studio)) == 2


def log_of_gaps(studio: Studio) -> list[object]:
    rows = studio.run("log", kinds=["gap"], limit=9)["rows"]
    assert isinstance(rows, list)
    return [row for row in rows if row["kind"] == "gap"]


def test_damaged_page_of_the_journal_is_found(repo: Repo) -> None:
    """Where the verbs meet it months later: every page is read."""
    with studio_of(repo) as studio:
        for number in range(200):
            studio.context.pipeline.gap(f"gap {number} " + "x" * 200)
        assert found(studio, "journal").ok
        studio.context.workspace.db.fold()
    path = repo.state_dir / "journal.db"
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(bytes(data))
    with closing(Db.open(str(path), create=False)) as db:
        assert db.damage() is not None


def test_tracked_file_that_is_too_large_is_a_hole(repo: Repo) -> None:
    repo.git("config", "agent-undo.maxFileSize", "1k")
    repo.write("big", "x" * 5000)
    repo.write("ignored.log", "x" * 5000)
    repo.write(".gitignore", "*.log\n")
    repo.commit("big")
    with studio_of(repo) as again:
        check = found(again, "coverage")
        assert not check.ok
        assert "big" in check.message
        assert "ignored" not in check.message
        assert check.remedy == "git config agent-undo.maxFileSize 100M"


@pytest.mark.parametrize(
    ("watches", "instances", "remedy"),
    [
        ("8192", "128", None),
        ("3", "128", "sudo sysctl fs.inotify.max_user_watches=1048576"),
        ("8192", "8", "sudo sysctl fs.inotify.max_user_instances=512"),
    ],
)
def test_limits_of_inotify_come_with_the_exact_command(
    studio: Studio,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    watches: str,
    instances: str,
    remedy: str | None,
) -> None:
    (tmp_path / "watches").write_text(watches)
    (tmp_path / "instances").write_text(instances)
    monkeypatch.setattr(machine, "_WATCHES", str(tmp_path / "watches"))
    monkeypatch.setattr(machine, "_INSTANCES", str(tmp_path / "instances"))
    check = found(studio, "inotify")
    assert (check.ok, check.remedy) == (remedy is None, remedy)
