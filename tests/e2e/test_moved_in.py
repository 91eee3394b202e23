"""UNDO: what an agent moved in, linked or wrote through a temporary file, and what it created."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.births import knows_births
from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.both_modes

_KEPT = "not_created_by_unit"


def items_of(report: Document) -> dict[str, tuple[str, str | None]]:
    """Return state and reason of each item."""
    items = report["items"]
    assert isinstance(items, list)
    return {item["path"]: (item["state"], item["reason"]) for item in items}


def details_of(report: Document) -> dict[str, str | None]:
    """Return the sentence of each item."""
    items = report["items"]
    assert isinstance(items, list)
    return {item["path"]: item["detail"] for item in items}


def test_file_moved_in_from_outside_is_left_and_named(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path
) -> None:
    """LAW-03: it is the only copy, and the agent did not create it."""
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years of work\n")
    agent.prompt("clean up")
    agent.shell(f"mv {thesis} .; echo new > made.txt")
    report = shadow.oops()
    assert repo.read("thesis.txt") == b"years of work\n"
    assert not repo.exists("made.txt")
    assert items_of(report)["thesis.txt"] == ("not_reversed", _KEPT)
    assert items_of(report)["made.txt"] == ("reversed", None)
    assert report["status"] == "partial"
    (row,) = [one for one in shadow.log() if one["path"] == "thesis.txt"]
    assert row["moved_in"] is True


def test_ignored_file_moved_to_a_covered_name_is_left_and_named(
    repo: Repo, shadow_new: Shadow
) -> None:
    """LAW-03: `.env` is recorded nowhere."""
    repo.write(".gitignore", ".env\nhidden/\n")
    repo.write(".env", "TOKEN=precious\n")
    repo.write("hidden/deep/one", "1\n")
    repo.write("hidden/two", "2\n")
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.prompt("clean up")
    agent.shell("mv .env env.bak; mv hidden shown")
    report = shadow_new.oops()
    assert repo.read("env.bak") == b"TOKEN=precious\n"
    assert repo.read("shown/deep/one") == b"1\n"
    assert repo.read("shown/two") == b"2\n"
    assert set(items_of(report).values()) == {("not_reversed", _KEPT)}


def test_what_was_moved_in_keeps_its_mark_when_the_journal_is_rebuilt(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path
) -> None:
    """LAW-07: the evidence is in the refs."""
    for number in range(70):  # a storm, with created files between
        (tmp_path / f"old{number}").write_text(f"old {number}\n")
    agent.prompt("collect")
    agent.shell(
        f"for n in $(seq 0 69); do mv {tmp_path}/old$n .; echo $n > new$n; done"
    )
    rows = {str(row["path"]): row.get("moved_in", False) for row in shadow.log("-n500")}
    assert {path for path, marked in rows.items() if marked} == {
        f"old{number}" for number in range(70)
    }
    shadow.ok("reindex")
    again = shadow.log("-n500")
    assert {str(row["path"]): row.get("moved_in", False) for row in again} == rows
    shadow.oops()
    assert all(repo.exists(f"old{number}") for number in range(70))
    assert not any(repo.exists(f"new{number}") for number in range(70))


def test_edit_of_what_was_moved_in_is_taken_back(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path
) -> None:
    """The file stays, with the content that it had."""
    (tmp_path / "thesis.txt").write_text("years of work\n")
    agent.prompt("improve it")
    agent.shell(f"mv {tmp_path}/thesis.txt .")
    agent.write("thesis.txt", "nonsense\n")
    report = shadow.oops()
    assert repo.read("thesis.txt") == b"years of work\n"
    assert items_of(report) == {"thesis.txt": ("not_reversed", _KEPT)}
    redone = shadow.ok("redo", "--yes", "--json").json()
    assert redone["status"] == "reversed"
    assert repo.read("thesis.txt") == b"nonsense\n"


@pytest.mark.parametrize("command", ["mv {} a", "mv -f {} a; chmod 600 a"])
def test_recorded_file_that_a_moved_in_one_replaced_comes_back_and_is_named(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path, command: str
) -> None:
    """The user's own file is restored; what replaced it is only in the history then.

    It is named where it is known to be older than the call.
    """
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years of work\n")
    agent.prompt("clean up")
    agent.shell(command.format(thesis))
    report = shadow.oops()
    assert repo.read("a") == ten_lines("a").encode()
    assert items_of(report) == {"a": ("reversed", None)}
    said = "replaced a file that was moved in"
    named = f"{said}; its content stays in the history: git agent-undo redo"
    is_known = knows_births(repo.root)
    assert details_of(report)["a"] == (named if is_known else None)
    shadow.ok("redo", "--yes")
    assert repo.read("a") == b"years of work\n"
    again = shadow.ok("oops", "--yes").out
    assert (said in again) is is_known


def test_file_moved_in_over_what_the_agent_created_is_left(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path
) -> None:
    """LAW-03: the path was the agent's, the file at it was not.

    Where nobody knows how old that file is, it goes with the path, and comes back.
    """
    (tmp_path / "thesis.txt").write_text("years of work\n")
    agent.prompt("clean up")
    agent.write("n", "draft\n")
    agent.shell(f"mv {tmp_path}/thesis.txt n")
    report = shadow.oops()
    is_known = knows_births(repo.root)
    kept = ("not_reversed", _KEPT) if is_known else ("reversed", None)
    assert items_of(report) == {"n": kept}
    assert repo.exists("n") is is_known
    if not is_known:
        shadow.ok("redo", "--yes")
    assert repo.read("n") == b"years of work\n"


@pytest.mark.parametrize(
    "command",
    [
        "cp -p {} a",
        "cp -p {} t; mv t a",
        "sed -i s/line/LINE/ a",
        "mv b a",
        "mv c t; mv t a",
    ],
)
@pytest.mark.sampled
def test_recorded_file_replaced_by_a_copy_or_a_recorded_one_names_nothing(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path, command: str
) -> None:
    """Nothing was moved in: a save through a temporary file, a rename in the repository."""
    old = tmp_path / "old"
    old.write_text("old\n")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    agent.prompt("rework")
    agent.shell(command.format(old))
    report = shadow.oops()
    assert report["status"] == "reversed"
    assert set(details_of(report).values()) == {None}
    assert {one: repo.read(one) for one in "abc"} == {
        name: ten_lines(name).encode() for name in "abc"
    }


@pytest.mark.parametrize("seen", [1, 2, 3])
def test_copy_over_a_file_that_was_seen_in_two_steps_is_taken_back_whole(
    repo: Repo, shadow: Shadow, agent: Claude, seen: int
) -> None:
    """`mv` from another file system writes first, and sets times and mode afterwards.

    Where somebody looks in between, that are two changes; both are the call's.
    """
    steps = ["rm a; umask 077; echo agent > a", "touch -d 2020-01-01 a", "chmod 755 a"]
    was = (repo.read("a"), repo.mode("a"))
    agent.prompt("bring it in")
    call = agent.pre("Bash", {"command": "mv /elsewhere/a a"})
    for number, step in enumerate(steps):
        subprocess.run(["/bin/sh", "-c", step], cwd=repo.root, check=True)
        if number < seen:
            shadow.ok("flush")
    agent.post(call)
    mode, *rows = shadow.log()
    assert (mode["kind"], {row["kind"] for row in rows}) == ("mode", {"modify"})
    assert {
        (row["path"], row["agent"], row["confidence"]) for row in (mode, *rows)
    } == {("a", "claude-code", "medium")}
    assert items_of(shadow.oops()) == {"a": ("reversed", None)}
    assert (repo.read("a"), repo.mode("a")) == was
    assert shadow.ok("redo", "--yes", "--json").json()["status"] == "reversed"
    assert (repo.read("a"), repo.mode("a")) == (b"agent\n", 0o755)


def test_restore_never_removes_what_was_moved_in(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path
) -> None:
    """LAW-03 for `restore` to a moment, to a pin and of a file."""
    (tmp_path / "thesis.txt").write_text("years of work\n")
    shadow.ok("pin", "before")
    agent.prompt("collect")
    agent.shell(f"mv {tmp_path}/thesis.txt .")
    for words in (["--pin", "before"], ["--at", "1 hour ago"], ["thesis.txt"]):
        shadow("restore", *words, "--yes")
        assert repo.read("thesis.txt") == b"years of work\n"


@pytest.mark.parametrize("command", ["cp", "cp -p", "cp -a"])
def test_copy_was_created_and_goes(
    repo: Repo, shadow: Shadow, agent: Claude, tmp_path: Path, command: str
) -> None:
    """A copy is a new file, however old its mtime; in doubt it is kept."""
    (tmp_path / "old").write_text("old\n")
    os.utime(tmp_path / "old", (1_000_000_000, 1_000_000_000))
    agent.prompt("copy it")
    agent.shell(f"{command} {tmp_path}/old copy")
    report = shadow.oops()
    is_new = command == "cp" or knows_births(repo.root)
    assert report["status"] == ("reversed" if is_new else "partial")
    assert repo.exists("copy") is not is_new


def test_renamed_and_rewritten_file_is_not_taken_for_one_moved_in(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    """The same file by another name, with other bytes: it is known where it came from."""
    agent.prompt("rework")
    agent.shell("mv a moved; echo more >> moved; ln b linked")
    report = shadow.oops()
    assert report["status"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()
    assert not repo.exists("moved")
    assert not repo.exists("linked")


def test_nobody_s_move_from_outside_is_left_too(
    repo: Repo, shadow: Shadow, tmp_path: Path
) -> None:
    """Without any agent `oops` offers what nobody claimed: it deletes no only copy either."""
    (tmp_path / "thesis.txt").write_text("years of work\n")
    shadow.ok("flush")
    subprocess.run(["mv", tmp_path / "thesis.txt", repo.root], check=True)
    report = shadow.oops()
    assert repo.read("thesis.txt") == b"years of work\n"
    assert items_of(report) == {"thesis.txt": ("not_reversed", _KEPT)}


def test_agent_s_file_that_a_person_moved_is_said_to_be_moved(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    agent.prompt("write")
    agent.write("n", "new\n")
    shadow.ok("flush")
    repo.rename("n", "elsewhere")
    report = shadow.oops()
    items = report["items"]
    assert isinstance(items, list)
    assert [item["detail"] for item in items] == ["it was created and later moved"]
    assert repo.read("elsewhere") == b"new\n"


def test_both_names_of_a_hard_linked_file_come_back(
    repo: Repo, shadow_new: Shadow
) -> None:
    """A write by one name changes the other: both are the agent's."""
    repo.write("k1", "linked\n")
    os.link(repo.path("k1"), repo.path("k2"))
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.prompt("write")
    agent.write("k1", "agent\n")
    agent.stop()
    report = shadow_new.oops()
    assert report["status"] == "reversed"
    assert (repo.read("k1"), repo.read("k2")) == (b"linked\n", b"linked\n")


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.2, 2.0])
@pytest.mark.parametrize("temporary", ["{}.tmp.77.abcdef", ".{}.tmp", "tmpq8x_3"])
@pytest.mark.sampled
def test_write_through_a_temporary_file_is_one_write(
    repo: Repo, shadow: Shadow, agent: Claude, temporary: str, delay_s: float
) -> None:
    """UNDO: at any delay between the two steps nothing of the agent's is left."""
    agent.prompt("write")
    for name in ("n", "a"):
        call = agent.pre("Write", {"file_path": os.fsdecode(repo.path(name))})
        repo.write(temporary.format(name), "agent\n")
        time.sleep(delay_s)
        if delay_s == 0.2:  # somebody looks in between
            shadow.ok("flush")
        repo.rename(temporary.format(name), name)
        agent.post(call)
    agent.stop()
    report = shadow.oops()
    assert report["status"] == "reversed", report
    assert report["maybe"] == []
    assert {one: repo.read(one) for one in os.listdir(repo.root) if one != ".git"} == {
        name: ten_lines(name).encode() for name in ("a", "b", "c")
    }
    redone = shadow.ok("redo", "--yes", "--json").json()
    assert redone["status"] == "reversed"
    assert (repo.read("n"), repo.read("a")) == (b"agent\n", b"agent\n")
    assert not repo.exists(temporary.format("n"))


def test_renames_into_new_directories_keep_authors_and_later_lines(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    """CAP-15, UNDO-23: a rename is one row, however late the new directory is listed."""
    names = [f"f{number:02}" for number in range(40)]
    for name in names:
        repo.write(f"p/q/{name}", ten_lines(name))
    shadow.ok("flush")
    agent.prompt("sort them")
    moves = (f"mkdir -p new{n}/er && mv p/q/{n} new{n}/er/{n}" for n in names)
    agent.shell("; ".join(moves))
    agent.stop()
    # Two independent renames have no order where the directory of the first is listed later.
    assert sorted(
        (row["kind"], row["old_path"]) for row in shadow.log("-n", str(len(names)))
    ) == [("rename", f"p/q/{name}") for name in names]
    repo.append("newf07/er/f07", "mine\n")
    lines = shadow.ok("blame", "--json", "newf07/er/f07").rows()
    assert {row["agent"] for row in lines} == {None}
    report = shadow.oops()
    assert report["status"] == "reversed"
    assert repo.read("p/q/f07") == ten_lines("f07").encode() + b"mine\n"
    left = {name for name in names if repo.exists(f"new{name}")}
    assert left == {"f07"}  # a person wrote in that directory
