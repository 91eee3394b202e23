"""No data set is copied unasked: at `init`, and when a command makes one later."""

import os
import re
from collections.abc import Callable

import pytest

from gitshadow.model import Oid, RepoPath
from gitshadow.recording import pipeline
from gitshadow.recording.index import IndexView
from tests.support.repo import Repo
from tests.support.reports import rows_of
from tests.support.shadow import Shadow
from tests.support.studio import studio_of

LIMIT = 1 << 20
PART = LIMIT // 2
SOME = b"\1" * PART


@pytest.fixture
def limited(repo: Repo) -> Repo:
    repo.git("config", "agent-undo.maxUntracked", str(LIMIT))
    return repo


def data_in(repo: Repo, directory: str, files: int) -> None:
    for number in range(files):
        repo.write(f"{directory}/{number}.bin", bytes([number]) + os.urandom(PART))


def stored_bytes(repo: Repo) -> int:
    """Return the bytes of all blobs in the repository."""
    how = ("--batch-check=%(objecttype) %(objectsize)", "--batch-all-objects")
    rows = [row.split() for row in repo.git("cat-file", *how).splitlines()]
    return sum(int(size) for kind, size in rows if kind == "blob")


@pytest.mark.parametrize("daemon", [True, False])
def test_init_leaves_an_untracked_data_set_out_and_says_so(
    limited: Repo, make_shadow: Callable[..., Shadow], daemon: bool
) -> None:
    """CAP-24."""
    data_in(limited, "data/train", 8)
    limited.write("data/note", "small\n")
    limited.write("new.py", "small, too\n")
    shadow = make_shadow(limited, daemon=daemon)
    said = shadow.ok("init").out
    assert "not recorded: data/train: at least 4.0 MiB of untracked data" in said
    assert "git config --add agent-undo.include /data/train" in said
    assert "echo /data/train >>.gitignore" in said
    assert stored_bytes(limited) < PART
    status = shadow.ok("status", "--json").json()
    found = {
        row["path"]: row["reason"] for row in rows_of(status, "coverage", "excluded")
    }
    assert found == {"data/train": "untracked data"}
    assert "untracked data" in shadow.ok("status").out
    assert set(shadow.ok("cat", "data/note", "--at", "now").out.split()) == {"small"}


def test_head_is_read_once_for_all_untracked_files(
    limited: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_in(limited, "data", 40)
    read: list[None] = []
    plain = IndexView.head_tree

    def counted(view: IndexView) -> Oid | None:
        read.append(None)
        return plain(view)

    monkeypatch.setattr(IndexView, "head_tree", counted)
    with studio_of(limited):
        assert len(read) < 20


def test_a_data_set_that_a_command_makes_is_left_out_and_not_deleted(
    limited: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """CAP-24."""
    shadow = make_shadow(limited)
    shadow.init()
    make = f"mkdir -p dl; for n in 1 2 3 4 5 6 7 8; do head -c {PART} /dev/urandom >dl/$n; done"
    shadow.ok(
        "exec", "--agent", "helper", "--", "sh", "-c", f"{make}; echo x >>a; echo y >n"
    )
    assert stored_bytes(limited) <= 2 * LIMIT
    report = shadow("oops", "--yes", "--json").json()
    named = {row["what"]: row["why"] for row in rows_of(report, "not_covered")}
    assert named["dl"] == "untracked data"
    kept = sorted(os.listdir(limited.root / "dl"))
    assert len(kept) >= 4
    assert not limited.exists("n")
    gaps = [row["path"] for row in shadow.log() if row["kind"] == "gap"]
    # One file may come before the others.
    assert gaps[0] == "dl"
    assert len(gaps) <= 2
    status = shadow.ok("status", "--json").json()
    excluded = rows_of(status, "coverage", "excluded")
    assert [row["path"] for row in excluded] == ["dl"]


@pytest.mark.parametrize("how", ["include", "limit", "add", "ignore"])
def test_what_is_left_out_is_decided_again(limited: Repo, how: str) -> None:
    data_in(limited, "data", 4)
    with studio_of(limited) as studio:
        assert studio.context.workspace.states.get(RepoPath(b"data/1.bin")) is None
    if how == "include":
        limited.git("config", "agent-undo.include", "/data")
    elif how == "limit":
        limited.git("config", "agent-undo.maxUntracked", "10m")
    elif how == "add":
        limited.git("add", "data")
    else:
        limited.write(".gitignore", "/data\n")
    with studio_of(limited) as studio:
        studio.context.observer.settle()
        status = studio.run("status")
        found = rows_of(status, "coverage", "excluded")
        reasons = {row["path"]: row["reason"] for row in found}
        kinds = {row["kind"] for row in rows_of(studio.run("log", limit=100), "rows")}
    if how == "ignore":
        assert reasons == {"data": "ignored"}
    else:
        assert reasons == {}
        # Nobody created what was there before: no undo deletes it.
        assert "create" not in kinds
        assert stored_bytes(limited) > 3 * PART


def test_recorded_file_stays_recorded_where_its_directory_is_left_out(
    limited: Repo,
) -> None:
    limited.write("data/mine", SOME)
    with studio_of(limited) as studio:
        data_in(limited, "data", 4)
        studio.context.observer.settle()
        limited.write("data/mine", SOME + b"changed")
        studio.context.observer.settle()
        rows = rows_of(studio.run("log", limit=100), "rows")
        assert [
            (row["kind"], row["path"]) for row in rows if row["kind"] == "modify"
        ] == [("modify", "data/mine")]


def test_disk_that_is_almost_full_gets_no_more_content(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with studio_of(repo) as studio:
        monkeypatch.setattr(pipeline, "spare_bytes", lambda _: 10)
        repo.write("new", "more than ten bytes\n")
        repo.delete("b")
        studio.context.observer.settle()
        found = {
            row["kind"]: row for row in rows_of(studio.run("log", limit=20), "rows")
        }
        assert found["delete"]["path"] == "b"
        assert "the disk is almost full" in str(found["gap"])
        monkeypatch.undo()
        studio.context.observer.settle()
        rows = rows_of(studio.run("log", limit=20), "rows")
        assert ("create", "new") in [(row["kind"], row["path"]) for row in rows]


def test_files_that_grow_after_a_first_look_count_as_they_are(limited: Repo) -> None:
    """CAP-24: a download is seen when it has just begun."""
    with studio_of(limited) as studio:
        for number in range(20):
            for size in (0, PART // 8, PART):
                limited.write(f"dl/{number}", os.urandom(size))
                studio.context.observer.settle()
        status = studio.run("status")
    excluded = rows_of(status, "coverage", "excluded")
    assert [row["path"] for row in excluded] == ["dl"]
    assert stored_bytes(limited) < 3 * LIMIT


def test_what_was_deleted_leaves_room_for_others(limited: Repo) -> None:
    with studio_of(limited) as studio:
        for number in range(10):
            limited.write("built", bytes([number]) + SOME)
            studio.context.observer.settle()
            limited.delete("built")
            studio.context.observer.settle()
        status = studio.run("status")
    assert rows_of(status, "coverage", "excluded") == []


def made_by_a_command(repo: Repo, shadow: Shadow, more: str = "") -> None:
    """Have an agent's command make eight files of data, too much to be stored."""
    make = f"mkdir dl; for n in 1 2 3 4 5 6 7 8; do head -c {PART} /dev/urandom >dl/$n; done"
    script = f"{make}; echo y >n; {more}"
    shadow.ok("exec", "--agent", "helper", "--", "sh", "-c", script)


@pytest.mark.parametrize("daemon", [True, False])
def test_what_was_not_stored_is_deleted_only_if_that_is_asked(
    limited: Repo, make_shadow: Callable[..., Shadow], daemon: bool
) -> None:
    """CAP-24."""
    shadow = make_shadow(limited, daemon=daemon)
    shadow.init()
    made_by_a_command(limited, shadow)
    planned = shadow("oops", "--dry-run", "--json").json()
    (entry,) = rows_of(planned, "not_covered")
    assert str(entry["hint"]).endswith("for good: --include-unstored")
    wanted = "oops", "--include-unstored"
    (item,) = [
        row
        for row in rows_of(shadow(*wanted, "--dry-run", "--json").json(), "items")
        if row["path"] == "dl"
    ]
    assert (item["action"], item["state"]) == ("delete", "reversed")
    assert len(os.listdir(limited.root / "dl")) == 8
    said = shadow.ok(*wanted, "--dry-run").out
    assert re.search(r"^will restore \d files?, delete \d files for good$", said, re.M)
    said = shadow.ok(*wanted, "--yes").out
    assert re.match(r"restored \d files?, deleted \d files for good\n", said)
    assert "not recorded" not in said
    assert not limited.exists("dl")
    assert not limited.exists("n")
    noted = [str(row["note"]) for row in shadow.log() if row["kind"] == "gap"]
    assert any(note.startswith("untracked data is deleted as asked") for note in noted)
    shadow.ok("redo", "--yes")
    assert limited.read("n") == b"y\n"


def test_a_persons_data_stays_where_a_unit_deletes_its_own(
    limited: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """CAP-24: what was there before, and what has changed since, is not the unit's."""
    shadow = make_shadow(limited)
    data_in(limited, "dl", 8)
    limited.write("dl/old", SOME)
    shadow.init()
    mine = sorted(os.listdir(limited.root / "dl"))
    # Each is there whole at once: one that is seen while it is small is recorded.
    script = f"""
        chmod 600 dl/old
        head -c {PART} /dev/urandom >../theirs; mv ../theirs dl
        cp dl/old ../since; mv ../since dl
    """
    shadow.ok("exec", "--agent", "helper", "--", "sh", "-c", script)
    limited.write("dl/since", SOME + b"mine")
    limited.write("dl/later", SOME)
    (session,) = [
        str(row["id"])
        for row in shadow.ok("sessions", "--json").rows()
        if row["agent"] == "helper"
    ]
    undo = "undo", session, "--include-unstored", "--json"
    report = shadow(*undo, "--yes").json()
    (item,) = rows_of(report, "items")
    assert (item["path"], item["state"]) == ("dl", "reversed")
    assert str(item["detail"]).startswith("1 file, 512.0 KiB, not stored")
    assert sorted(os.listdir(limited.root / "dl")) == sorted([*mine, "later", "since"])


@pytest.mark.parametrize("kept", [None, "out/mine"])
def test_directories_that_a_unit_made_go_with_what_was_not_stored(
    limited: Repo, make_shadow: Callable[..., Shadow], kept: str | None
) -> None:
    """A person's directory stays, also if it is empty afterwards."""
    shadow = make_shadow(limited)
    (limited.root / "theirs").mkdir()
    shadow.init()
    fill = "for n in 1 2 3 4 5 6 7 8; do head -c {} /dev/urandom >{}/$n; done".format
    script = f"mkdir -p out/dl; {fill(PART, 'out/dl')}; {fill(PART, 'theirs')}"
    shadow.ok("exec", "--agent", "helper", "--", "sh", "-c", script)
    if kept is not None:
        limited.write(kept, "mine\n")
    shadow.ok("oops", "--include-unstored", "--yes")
    assert not limited.exists("out/dl")
    assert limited.exists("out") == (kept is not None)
    assert os.listdir(limited.root / "theirs") == []
