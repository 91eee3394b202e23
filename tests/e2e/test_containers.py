"""Containers: other numbers of processes, other users, overlay and bind mounts, read-only ones.

There is no container engine here: unshare(1) and mount(8) make what one is made of.
"""

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import audit
from tests.support.claude import Claude
from tests.support.containers import NUMBERED, ROOTLESS, UNSEEN, bound, enter, overlay
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Document, Shadow
from tests.support.waiting import HANGS_S


def inside(
    shadow: Shadow, ways: Sequence[str], *words: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in namespaces of its own."""
    return subprocess.run(
        [*ways, COMMAND, *words],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        input=stdin,
        capture_output=True,
        timeout=HANGS_S,
        check=False,
    )


def sessions(shadow: Shadow) -> list[Document]:
    """Return the sessions of agents."""
    rows = shadow.ok("sessions", "--json").rows()
    return [row for row in rows if row["actor"] == "agent"]


@contextmanager
def opened(place: Path, *, daemon: bool = True) -> Iterator[Shadow]:
    """Initialise a repository that is gone after the block, and check it at its end."""
    shadow = Shadow(Repo(place), daemon)
    try:
        shadow.init()
        yield shadow
    finally:
        shadow.close()


@pytest.mark.process
def test_hooks_of_another_container_leave_their_session_alive(
    repo: Repo, shadow_d: Shadow
) -> None:
    """The numbers of its processes mean others here, or none."""
    # Two programs above the hook: the first process of a namespace is not named.
    ways = [*enter(*NUMBERED), *("timeout", "100") * 2]
    claude = Claude(shadow_d)

    def send(payload: Document) -> None:
        stdin = json.dumps(payload).encode()
        done = inside(shadow_d, ways, "hook", "claude-code", stdin=stdin)
        assert (done.returncode, done.stderr) == (0, b"")

    send(claude.payload("SessionStart", source="startup", model="m"))
    tool = {"file_path": str(repo.root / "a"), "content": "agent\n"}
    call = {"tool_name": "Write", "tool_input": tool, "tool_use_id": "t1"}
    send(claude.payload("PreToolUse", **call))
    repo.write("a", "agent\n")
    send(claude.payload("PostToolUse", tool_response={"success": True}, **call))
    (session,) = sessions(shadow_d)
    assert session["ended"] is None
    (row,) = [row for row in shadow_d.log() if row["kind"] == "modify"]
    assert row["session"] == session["id"]
    shadow_d.verify()


@pytest.mark.linux  # only it has several sets of process numbers
@pytest.mark.process
def test_session_of_another_container_goes_on_in_a_journal_that_both_open(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    ways = enter(*NUMBERED)
    shadow = make_shadow(repo, daemon=False)
    shadow.init()
    claude = Claude(shadow)
    claude.start()
    call = claude.pre("Write", {"file_path": str(repo.root / "a"), "content": "x\n"})
    assert inside(shadow, ways, "log").returncode == 0
    repo.write("a", "x\n")
    claude.post(call)
    (session,) = sessions(shadow)
    assert session["ended"] is None
    (row,) = [row for row in shadow.log() if row["kind"] == "modify"]
    assert row["session"] == session["id"]


@pytest.mark.linux  # only it has several sets of process numbers
@pytest.mark.process
def test_daemon_of_another_container_answers_and_stops(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    ways = enter(*NUMBERED)
    shadow = make_shadow(repo)
    replace(shadow, daemon=False).init()
    words = [*ways, "sh", "-c", '"$0" daemon start && exec sleep 1000', COMMAND]
    with ExitStack() as stack:
        container = subprocess.Popen(
            words,
            cwd=repo.root,
            env=shadow.environment(),
            stdout=subprocess.PIPE,
        )
        stack.enter_context(container)
        stack.callback(container.kill)
        assert container.stdout is not None
        assert b"daemon" in container.stdout.readline()
        repo.write("a", "seen by the daemon\n")
        assert shadow.changes() == [("modify", "a")]
        status = shadow.status()
        assert isinstance(status["daemon"], dict)
        assert status["daemon"]["running"] is True
        assert shadow.ok("daemon", "stop").err == ""
        shadow.ok("undo", "--yes", "a")
    shadow.verify()


@pytest.mark.process
def test_init_and_undo_as_root_of_a_user_namespace(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    ways = enter(*ROOTLESS)
    shadow = make_shadow(repo, daemon=False)
    assert inside(shadow, ways, "init").returncode == 0
    repo.write("a", "changed\n")
    before = repo.git("show", "HEAD:a") + "\n"
    done = inside(shadow, ways, "undo", "--yes", "a")
    assert (done.returncode, done.stderr) == (0, b"")
    assert repo.read("a").decode() == before
    shadow.verify()


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_file_of_a_user_that_a_container_does_not_know_is_recorded_and_kept(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """Nobody in the namespace can have its owner, so it is not replaced by a file of another."""
    ways = enter(*ROOTLESS)
    shadow = make_shadow(repo, daemon=False)
    shadow.init()
    os.chown(repo.path("a"), 4242, 4242)
    repo.chmod("a", 0o666)
    repo.write("a", "changed\n")
    done = inside(shadow, ways, "undo", "--yes", "a")
    assert done.returncode == 4
    assert b"a new file cannot have its owner here" in done.stdout
    assert repo.read("a") == b"changed\n"
    assert os.stat(repo.path("a")).st_uid == 4242
    assert shadow.changes() == [("modify", "a")]


def test_first_write_to_a_file_of_the_lower_layer_is_a_modification(
    repo: Repo, tmp_path: Path
) -> None:
    repo.write("dir/inner", "inner\n")
    repo.commit("inner")
    with overlay(tmp_path / "overlay", repo.root) as place, opened(place) as shadow:
        over = shadow.repo
        for path in ("a", "dir/inner"):
            over.append(path, "more\n")
        over.rename("b", "moved")
        over.delete("c")
        assert sorted(map(str, shadow.changes())) == sorted(
            map(
                str,
                [
                    ("modify", "a"),
                    ("modify", "dir/inner"),
                    ("rename", "moved"),
                    ("delete", "c"),
                ],
            )
        )
        for path in ("a", "dir/inner", "moved", "c"):
            shadow.ok("undo", "--yes", path)
        for path in ("a", "b", "c", "dir/inner"):
            assert over.read(path) == repo.read(path)
        assert not over.exists("moved")
        shadow.verify()
    assert not (repo.git_dir / "agent-undo").exists()


def test_write_to_a_file_of_the_lower_layer_is_found_without_a_daemon(
    repo: Repo, tmp_path: Path
) -> None:
    layered = overlay(tmp_path / "overlay", repo.root)
    with layered as place, opened(place, daemon=False) as shadow:
        size = len(repo.read("a"))
        shadow.repo.write("a", b"x" * size)
        assert shadow.changes() == [("modify", "a")]
        shadow.verify()


def test_worktree_that_is_mounted_at_two_places_has_one_history(
    repo: Repo, shadow_d: Shadow, tmp_path: Path
) -> None:
    with bound(repo.root, tmp_path / "second") as second:
        other = replace(shadow_d, repo=Repo(second))
        other.repo.write("a", "by the other place\n")
        repo.write("b", "here\n")
        assert shadow_d.changes() == [("modify", "a"), ("modify", "b")]
        assert other.changes()[:2] == [("modify", "a"), ("modify", "b")]
        other.ok("undo", "--yes", "a")
        claude = Claude(other)
        claude.start()
        claude.write("sub/c", "agent\n")
        assert shadow_d.log()[0]["confidence"] == "certain"
        done = other("log", "--json", "c", cwd=second / "sub")
        assert [row["path"] for row in done.rows()] == ["sub/c"]
        assert repo.read("a") == repo.git("show", "HEAD:a").encode() + b"\n"
        shadow_d.verify()


def test_init_in_a_bind_mount_records_writes_of_the_other_side(
    repo: Repo, tmp_path: Path
) -> None:
    with bound(repo.root, tmp_path / "space") as place, opened(place) as shadow:
        repo.write("a", "on the host\n")
        assert shadow.changes() == [("modify", "a")]
        shadow.verify()


def test_hook_and_log_end_well_where_the_git_directory_is_read_only(
    repo: Repo, shadow_d: Shadow, tmp_path: Path
) -> None:
    repo.write("a", "recorded\n")
    shadow_d.ok("flush")
    shadow_d.ok("daemon", "stop")
    with bound(repo.root, tmp_path / "second") as place:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        other = replace(shadow_d, repo=Repo(place), daemon=False)
        Claude(other).start()
        done = other("log")
        assert done.code == 1
        assert "so nothing is recorded" in done.err
    assert shadow_d.changes() == [("modify", "a")]
    audit.audit(repo)


@pytest.mark.linux  # only it has several sets of process numbers
@pytest.mark.process
def test_exec_in_another_container_has_its_own_session_and_no_process_of_ours(
    repo: Repo, shadow_d: Shadow
) -> None:
    ways = [*enter(*NUMBERED), *("timeout", "100") * 2]
    words = ("exec", "--", "sh", "-c", "echo exec > a")
    done = inside(shadow_d, ways, *words)
    assert (done.returncode, done.stderr) == (0, b"")
    (row,) = [row for row in shadow_d.log() if row["kind"] == "modify"]
    (session,) = [one for one in sessions(shadow_d) if one["id"] == row["session"]]
    assert session["ended"] is not None
    with closing(sqlite3.connect(repo.state_dir / "journal.db")) as journal:
        found = journal.execute("SELECT pid FROM sessions WHERE actor = 'agent'")
        assert found.fetchall() == [(None,)]
    shadow_d.verify()


@pytest.mark.linux  # only it has several sets of process numbers
@pytest.mark.process
def test_sandbox_that_shows_other_processes_than_its_own_knows_of_none(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """By the numbers of its own it would find unrelated ones, and take them for the agent."""
    ways = [*enter(*UNSEEN), *("timeout", "100") * 2]
    shadow = make_shadow(repo, daemon=False)
    shadow.init()
    claude = Claude(shadow)
    start = json.dumps(claude.payload("SessionStart", source="startup", model="m"))
    done = inside(shadow, ways, "hook", "claude-code", stdin=start.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    done = inside(shadow, ways, "exec", "--", "sh", "-c", "echo exec > a")
    assert (done.returncode, done.stderr) == (0, b"")
    (row,) = [row for row in shadow.log() if row["kind"] == "modify"]
    assert row["agent"] == "generic"
    with closing(sqlite3.connect(repo.state_dir / "journal.db")) as journal:
        found = journal.execute("SELECT pid FROM sessions WHERE actor = 'agent'")
        assert found.fetchall() == [(None,), (None,)]
