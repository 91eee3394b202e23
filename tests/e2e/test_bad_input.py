"""Bad input: one clear line with a hint, the right exit code, nothing lost, a gap row."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.support import shadow as shadow_module
from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.repo import Repo, ten_lines
from tests.support.reports import uncovered
from tests.support.shadow import Result, Shadow
from tests.support.small_disk import fill, small_disk

pytestmark = pytest.mark.process

VERBS = (
    ("init",),
    ("status",),
    ("log",),
    ("oops", "--yes"),
    ("start",),
    ("flush",),
    ("record", "a"),
    ("restore", "--yes", "a"),
)
_LOCKED_S = 30.0
_AS_OWNER = "--bounding-set=-dac_override,-dac_read_search"


def complains(result: Result, *words: str) -> None:
    """Check for exit 1, one line of error that has these words, and one of a hint."""
    lines = result.err.splitlines()
    assert result.code == 1, result
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], result
    for word in words:
        assert word in lines[0], result
    assert len(lines[1]) > len("hint: ")


def hook_is_silent(shadow: Shadow, cwd: Path, **fields: object) -> None:
    """Deliver hooks whose directory is `cwd`; each exits 0 and says nothing."""
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"):
        payload = {
            "session_id": "s1",
            "cwd": str(cwd),
            "hook_event_name": event,
            "prompt": "go",
            "tool_name": "Write",
            "tool_input": {"file_path": str(cwd / "a"), "content": "x"},
            "tool_use_id": "t1",
            **fields,
        }
        result = shadow(
            "hook", "claude-code", stdin=json.dumps(payload).encode(), cwd=cwd
        )
        assert (result.code, result.raw, result.err) == (0, b"", ""), result


def files_of(top: Path) -> dict[str, bytes]:
    """Return every file below a directory."""
    return {
        str(path): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def plain_folder(top: Path) -> Path:
    (top / "plain").mkdir()
    return top / "plain"


def bare(top: Path) -> Path:
    Repo(top).git("init", "-q", "--bare", "bare.git")
    return top / "bare.git"


def unknown_extension(top: Path) -> Path:
    repo = Repo.create(top / "extended")
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.ofAnotherYear", "true")
    return repo.root


def anothers(top: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    repo = Repo.create(top / "anothers")
    for directory, names, files in os.walk(repo.root):
        for name in (".", *names, *files):
            os.chown(os.path.join(directory, name), 65534, 65534)
    return repo.root


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (plain_folder, ["not in a Git working tree"]),
        (bare, ["bare repository"]),
        (unknown_extension, ["ofanotheryear"]),
        (anothers, ["own"]),
    ],
)
def test_place_that_cannot_be_recorded(
    repo: Repo,
    make_shadow: Callable[..., Shadow],
    tmp_path: Path,
    place: Callable[[Path], Path],
    words: list[str],
) -> None:
    """GIT-11: any verb says it in one line with a hint, exit 1; hooks exit 0; nothing is made."""
    where = place(tmp_path)
    shadow = make_shadow(repo)
    before = files_of(where)
    for verb in VERBS:
        complains(shadow(*verb, cwd=where), *words)
    hook_is_silent(shadow, where)
    assert files_of(where) == before
    result = shadow("exec", "--", "/bin/echo", "runs", cwd=where)
    assert (result.code, result.raw) == (0, b"runs\n")
    assert result.err.startswith("git-agent-undo: not recorded: ")
    document = shadow("status", "--json", cwd=where).json()
    assert words[0] in str(document["error"])
    assert (document["exit"], bool(document["hint"])) == (1, True)


def test_repository_without_init_says_what_to_type(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """GIT-11, UX-08: where `init` would do, that is the hint, and nothing is made."""
    shadow = make_shadow(repo)
    with kept(repo):
        for verb in VERBS[2:]:
            result = shadow(*verb)
            complains(result)
            assert result.err.splitlines()[1] == "hint: git agent-undo init"
        hook_is_silent(shadow, repo.root)
    assert not repo.exists(".git/agent-undo")


def test_status_without_init_answers_that_nothing_is_protected(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """GIT-11: it is what the verb is asked, so the answer is no error; the code is 1."""
    shadow = make_shadow(repo)
    with kept(repo):
        result = shadow("status")
    assert (result.code, result.err) == (1, "")
    assert result.out.splitlines() == [
        f"not protected: nothing is recorded in {repo.root}",
        "next: git agent-undo init",
    ]
    assert not repo.exists(".git/agent-undo")


@pytest.fixture
def as_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run our commands as a process to which permissions apply, also where we are root."""
    if os.geteuid() != 0:
        return
    if shutil.which("setpriv") is None:
        pytest.skip("root without setpriv(1) may read and write everything")
    wrapper = tmp_path / "as-owner"
    command = shadow_module.COMMAND
    wrapper.write_text(f'#!/bin/sh\nexec setpriv {_AS_OWNER} {command} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(shadow_module, "COMMAND", str(wrapper))


def gaps(shadow: Shadow) -> list[tuple[object, str]]:
    """Return path and note of every gap row."""
    rows = shadow.ok("log", "--json").rows()
    return [(row["path"], str(row.get("note"))) for row in rows if row["kind"] == "gap"]


@pytest.mark.usefixtures("as_owner")
def test_unreadable_files_are_named_and_stop_nobody(shadow_new: Shadow) -> None:
    """Bad input, CAP-20: unreadable at `init`, at a write: warned, a gap, the rest goes on."""
    shadow, repo = shadow_new, shadow_new.repo
    repo.write("secret", "mine\n", mode=0)
    repo.write("closed/x", "x\n")
    repo.chmod("closed", 0)
    done = shadow.ok("init", "--json").json()
    warnings = [str(one) for one in _list(done["warnings"])]
    assert any("secret" in one and "Permission denied" in one for one in warnings)
    if shadow.daemon:
        shadow.ok("start")
    agent = Claude(shadow)
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.write("b", "agent\n", mode=0)
    agent.write("c", "agent\n")
    agent.stop()
    rows = shadow.log()
    assert {row["path"] for row in rows if row["kind"] == "modify"} == {"a", "c"}
    assert "b" in {path for path, _ in gaps(shadow)}
    report = shadow.oops()
    assert "Permission denied" in uncovered(report)["b"]
    assert repo.mode("b") == 0
    repo.chmod("b", 0o644)
    repo.chmod("secret", 0o644)
    repo.chmod("closed", 0o755)
    assert {row["path"] for row in shadow.log() if row["kind"] != "gap"} >= {"b"}
    assert shadow.ok("cat", "secret").raw == b"mine\n"
    assert shadow.ok("cat", "closed/x").raw == b"x\n"
    shadow.verify()


@pytest.mark.usefixtures("as_owner")
def test_read_only_object_store_is_a_gap_and_nothing_is_lost(
    shadow_new: Shadow,
) -> None:
    """Bad input, ROB-08: the agent goes on, a gap says why, and it is caught up afterwards."""
    shadow, repo = shadow_new, shadow_new.repo
    shadow.ok("init")
    objects = Path(os.fsdecode(repo.path(".git/objects")))
    directories = [objects, *(one for one in objects.iterdir() if one.is_dir())]
    for one in directories:
        one.chmod(0o555)
    try:
        Claude(shadow).write("a", "agent\n")
        result = shadow("flush")
        found = gaps(shadow)
        status = shadow.status()
    finally:
        for one in directories:
            one.chmod(0o755)
    assert repo.read("a") == b"agent\n"
    complains(result, "not ")
    assert [path for path, note in found if "object store" in note] == ["a"]
    assert status["gaps"] != 0
    assert status["events"] == 0
    rows = shadow.log()
    assert [row["path"] for row in rows if row["kind"] == "modify"] == ["a"]
    assert [row["agent"] for row in rows if row["kind"] == "modify"] == ["claude-code"]
    shadow.verify()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", 3) as place:
        yield place


@pytest.mark.parametrize("daemon", [True, False], ids=["daemon", "nodaemon"])
def test_full_disk_disturbs_no_agent_and_is_caught_up(
    disk: Path, make_shadow: Callable[..., Shadow], repo: Repo, daemon: bool
) -> None:
    """Bad input, ROB-08: `.git` on a full disk: hook exit 0, one line, a gap, all caught up."""
    git = disk / "git"
    shutil.copytree(repo.root / ".git", git, ignore=shutil.ignore_patterns("*.sample"))
    repo.delete(".git")
    repo.write(".git", f"gitdir: {git}\n")
    shadow = make_shadow(repo, daemon=daemon)
    shadow.init()
    agent = Claude(shadow)
    agent.write("b", "before\n")
    shadow.ok("flush")
    ballast = fill(disk)
    agent.write("a", os.urandom(30_000))
    agent.write("n", "new\n")
    broken = shadow("flush")
    said = shadow("status")
    ballast.unlink()
    assert (broken.code, said.code) in {(1, 1), (1, 0)}
    complains(broken, "not ")
    rows = shadow.log()
    assert {row["path"] for row in rows if row["kind"] != "gap"} == {"a", "b", "n"}
    assert [row for row in rows if row["kind"] == "gap"]
    assert shadow.ok("cat", "a").raw == repo.read("a")
    shadow.verify()


def journal_files(repo: Repo) -> dict[str, bytes]:
    """Return the journal and its write-ahead log; `-shm` is SQLite's memory of the latter."""
    state = Path(os.fsdecode(repo.path(".git/agent-undo")))
    return {
        path.name: path.read_bytes()
        for path in sorted(state.glob("journal.db*"))
        if not path.name.endswith("-shm")
    }


@pytest.mark.parametrize("pending", [False, True], ids=["folded", "wal"])
def test_journal_from_a_newer_version_is_never_written(
    agent: Claude, pending: bool
) -> None:
    """Bad input, ROB-09: a newer journal: exit 1 with a hint, not a byte changed; hook exit 0."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    shadow.ok("flush")
    shadow.ok("stop")
    path = os.fsdecode(repo.path(".git/agent-undo/journal.db"))
    held = sqlite3.connect(path)
    (ours,) = held.execute("PRAGMA user_version").fetchone()
    held.execute(f"PRAGMA user_version = {ours + 98}")
    if pending:
        copy = {name: data for name, data in journal_files(repo).items() if data}
        held.close()
        for name, data in copy.items():
            Path(path).with_name(name).write_bytes(data)
        assert "journal.db-wal" in copy
    else:
        held.close()
    before = journal_files(repo)
    refs = repo.shadow_refs()
    with kept(repo, "b"):
        for verb in VERBS[::2]:
            result = shadow(*verb)
            complains(result, "journal", "newer")
            assert result.err.splitlines()[1] == "hint: upgrade gitshadow"
        agent.write("b", "meanwhile\n")
    assert journal_files(repo) == before
    assert repo.shadow_refs() == refs
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {ours}")
    rows = shadow.log()
    assert {row["path"] for row in rows if row["kind"] == "modify"} >= {"b"}


@pytest.mark.parametrize("size", [0, 50, 20_000])
def test_truncated_journal_is_said_and_rebuilt(agent: Claude, size: int) -> None:
    """Bad input, ROB-09: a cut journal: exit 1, hint reindex, hook exit 0; then all is there."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    before = shadow.log()
    shadow.ok("stop")
    for name in journal_files(repo):
        if name != "journal.db":
            repo.delete(f".git/agent-undo/{name}")
    os.truncate(repo.path(".git/agent-undo/journal.db"), size)
    with kept(repo, "b"):
        for verb in VERBS[1:4]:
            result = shadow(*verb)
            complains(result, "journal")
            assert "git agent-undo reindex" in result.err.splitlines()[1]
        agent.write("b", "meanwhile\n")
    shadow.ok("reindex")
    rows = shadow.log()
    kinds = {row["path"]: row["kind"] for row in rows if row["kind"] != "gap"}
    assert kinds == {"a": "modify", "b": "modify"}
    (again,) = [row for row in rows if row["path"] == "a"]
    assert again == before[0]
    assert shadow.oops()["status"] == "reversed"


@pytest.mark.parametrize("kind", ["socket", "file", "link"])
def test_stale_socket_stands_in_nobodys_way(agent: Claude, kind: str) -> None:
    """Bad input, ROB-04: what a dead daemon left is passed over and replaced."""
    shadow, repo = agent.shadow, agent.shadow.repo
    shadow.ok("stop")
    place = repo.root / ".git" / "agent-undo" / "wt" / "main" / "sock"
    if kind == "socket":
        with closing(socket.socket(socket.AF_UNIX)) as stale:
            os.chdir(place.parent)
            stale.bind("sock")
    elif kind == "file":
        place.write_text("nonsense")
    else:
        place.symlink_to("/nowhere")
    with kept(repo, "a"):
        agent.write("a", "agent\n")
        assert [row["kind"] for row in shadow.log()] == ["modify"]
        if shadow.daemon:
            shadow.ok("start")
            assert shadow.status()["daemon"]
        assert shadow.oops()["status"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()


_BOUNDED = """\
import os, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (128 << 20, 128 << 20))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_huge_payload_is_read_to_its_end_in_bounded_memory(shadow: Shadow) -> None:
    """Bad input, ATT-10: 100 MB: no broken pipe, a gap, and what comes after is recorded."""
    command = [sys.executable, "-c", _BOUNDED, shadow_module.COMMAND]
    with subprocess.Popen(
        [*command, "hook", "claude-code"],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        assert running.stdin is not None
        running.stdin.write(b'{"hook_event_name": "PreToolUse", "session_id": "')
        for _ in range(100):
            running.stdin.write(b"x" * (1 << 20))
        running.stdin.close()
        assert running.stdout is not None
        assert running.stdout.read() == b""
        assert running.wait() == 0
    Claude(shadow).write("a", "agent\n")
    rows = shadow.log()
    assert [row["kind"] for row in rows if row["path"] == "a"] == ["modify"]
    assert len(gaps(shadow)) == 1


_WRITE = (
    b'{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Write",'
    b' "tool_use_id": "t",'
)
_ODD: dict[str, tuple[bytes, bool]] = {
    "bytes": (b"\xff\xfe\x00", True),
    "deep": (b"[" * 100_000, True),
    "null": (b"null", True),
    "text": (b'"text"', True),
    "half": (b'{"session_id": "s", "hook_even', True),
    "empty": (b"", True),
    "types": (b'{"hook_event_name": ["PreToolUse"], "session_id": {"a": 1}}', True),
    "surrogate": (
        b'{"hook_event_name": "PreToolUse", "session_id": "\\ud800", "tool_name": "x"}',
        False,
    ),
    "nul": (_WRITE + b' "tool_input": {"file_path": "a\\u0000b"}}', False),
    "outside": (_WRITE + b' "tool_input": {"file_path": "../../../etc/x"}}', False),
    "no-tool": (b'{"session_id": "s", "hook_event_name": "PreToolUse"}', True),
    "unknown-event": (b'{"session_id": "s", "hook_event_name": "Brandnew"}', False),
    "extra": (
        b'{"session_id": "s", "hook_event_name": "Stop", "x": [{}], "y": 1e99}',
        False,
    ),
}
"""Payloads, and whether they leave a gap."""


@pytest.mark.both_modes
@pytest.mark.parametrize("name", _ODD)
@pytest.mark.sampled
def test_odd_payload_stops_neither_hooks_nor_verbs(shadow: Shadow, name: str) -> None:
    """Bad input, ATT-10: exit 0, silence, a gap and nothing else; the next call is recorded."""
    payload, is_gap = _ODD[name]
    result = shadow("hook", "claude-code", stdin=payload)
    assert (result.code, result.raw, result.err) == (0, b"", "")
    assert [row["kind"] for row in shadow.log()] == ["gap"] * is_gap
    Claude(shadow).write("a", "agent\n")
    rows = [row for row in shadow.log() if row["kind"] != "gap"]
    assert [(row["path"], row["confidence"]) for row in rows] == [("a", "certain")]


def test_locked_journal_blocks_no_agent_and_loses_nothing(shadow: Shadow) -> None:
    """Bad input, ROB-05: each hook ends while another process still holds the journal.

    It holds it for 30 seconds with GITSHADOW_TEST_FULL=1, else for one write.
    """
    repo, agent = shadow.repo, Claude(shadow)
    agent.write("b", "before\n")
    shadow.ok("flush")
    began = time.monotonic()
    with closing(
        sqlite3.connect(repo.state_dir / "journal.db", isolation_level=None)
    ) as held:
        held.execute("BEGIN EXCLUSIVE")
        call = agent.write("a", "agent\n")
        while FULL and time.monotonic() - began < _LOCKED_S:
            call = agent.write("a", f"agent {call}\n")
        held.execute("ROLLBACK")
    (row,) = [row for row in shadow.log("a") if row["kind"] != "gap"]
    assert (row["call"], row["confidence"]) == (call, "certain")
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()
    shadow.verify()


@pytest.mark.usefixtures("as_owner")
def test_read_only_home_is_none_of_our_business(
    shadow_new: Shadow, sealed: Path
) -> None:
    """Bad input: nothing is written there, so nothing fails."""
    shadow = shadow_new
    before = files_of(sealed)
    directories = [sealed, *(one for one in sealed.rglob("*") if one.is_dir())]
    for one in directories:
        one.chmod(0o555)
    try:
        shadow.ok("init")
        Claude(shadow).write("a", "agent\n")
        (row,) = shadow.log()
        assert row["confidence"] == "certain"
        assert shadow.oops()["status"] == "reversed"
    finally:
        for one in directories:
            one.chmod(0o755)
    assert files_of(sealed) == before


def test_crowded_spool_is_drained_and_what_is_not_ours_stays(shadow: Shadow) -> None:
    """Bad input: hundreds of late payloads, broken ones and half-written files among them."""
    spool = shadow.repo.state_dir / "spool"
    cwd = str(shadow.repo.root)
    for number in range(300):
        payload = {"session_id": f"s{number % 3}", "cwd": cwd, "prompt": f"go {number}"}
        payload["hook_event_name"] = "UserPromptSubmit"
        document = {"agent": "claude-code", "payload": json.dumps(payload), "cwd": cwd}
        text = json.dumps(document) if number % 100 else '{"agent": "cla'
        (spool / f"{number:04}-1.json").write_text(text)
        (spool / f"{number:04}-2.json.part").write_text("half")
    Claude(shadow).write("a", "agent\n")
    rows = shadow.log()
    assert [row["path"] for row in rows if row["kind"] != "gap"] == ["a"]
    assert len(gaps(shadow)) == 3
    names = {path.suffix for path in spool.iterdir()}
    assert names == {".part"}
    known = shadow.ok("sessions", "--json").rows()
    assert {"s0", "s1", "s2"} <= {row["native_id"] for row in known}


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
