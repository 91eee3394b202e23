"""ATT: who wrote what, from the hooks that an agent really sends."""

import fcntl
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.reports import reasons
from tests.support.shadow import Document, Shadow

pytestmark = [pytest.mark.usefixtures("untouched"), pytest.mark.both_modes]

WHO = ("session", "turn", "call")


def rows_of(shadow: Shadow, *args: str) -> list[Document]:
    """Return rows of `log`, oldest first; each says how sure it is and why (ATT-19)."""
    rows = shadow.log(*args)
    for row in rows:
        assert row["confidence"], row
        assert row["reason"], row
    return rows[::-1]


def session_id(shadow: Shadow, native: str) -> str:
    return str(shadow.session(native)["id"])


def who(row: Document) -> tuple[object, ...]:
    return tuple(row[key] for key in WHO)


def slow_write(agent: Claude, path: str, data: str, delay_s: float) -> str:
    """Do W with a pause between the write and the post-hook."""
    call = agent.pre("Write", {"file_path": str(agent.shadow.repo.root / path)})
    agent.shadow.repo.write(path, data)
    time.sleep(delay_s)
    agent.post(call)
    return call


def test_att01_every_write_is_certain_whatever_the_delay(agent: Claude) -> None:
    """ATT-01: session, turn and call, at once and up to 200 ms later."""
    shadow = agent.shadow
    agent.prompt("go")
    calls = {}
    for number in range(10 if shadow.daemon else 2):
        calls[f"w{number}"] = agent.write(f"w{number}", f"{number}\n")
    for delay_ms in (0, 10, 50, 100, 200):
        path = f"d{delay_ms}"
        calls[path] = slow_write(agent, path, "late\n", delay_ms / 1000)
    rows = rows_of(shadow)
    session = session_id(shadow, "s1")
    assert {str(row["path"]): who(row) for row in rows} == {
        path: (session, agent.prompt_id, call) for path, call in calls.items()
    }
    assert {row["confidence"] for row in rows} == {"certain"}
    assert {row["tool"] for row in rows} == {"Write"}


def test_att02_everything_that_a_shell_does_is_its_call(agent: Claude) -> None:
    """ATT-02: delete, modify, create, mode: all with session, turn and call; `medium`."""
    shadow = agent.shadow
    agent.prompt("go")
    call = agent.shell("rm b; sed -i 1d a; echo n > n; chmod +x c")
    rows = rows_of(shadow)
    assert {row["path"]: row["kind"] for row in rows} == {
        "a": "modify",
        "b": "delete",
        "c": "mode",
        "n": "create",
    }
    session = session_id(shadow, "s1")
    assert {who(row) for row in rows} == {(session, agent.prompt_id, call)}
    assert {row["confidence"] for row in rows} == {"medium"}
    assert {row["agent"] for row in rows} == {"claude-code"}


def test_att04_write_in_two_open_shells_is_ambiguous(shadow: Shadow) -> None:
    """ATT-04: both candidates listed; `undo S1` leaves `x` and names it."""
    one, two = Claude(shadow, "one"), Claude(shadow, "two")
    first = one.pre("Bash", {"command": "sleep 9"})
    second = two.pre("Bash", {"command": "sleep 9"})
    subprocess.run(["sh", "-c", "echo whose? > x"], cwd=shadow.repo.root, check=True)
    one.post(first)
    two.post(second)
    (row,) = rows_of(shadow)
    ids = {session_id(shadow, "one"), session_id(shadow, "two")}
    assert (row["confidence"], row["session"] in ids) == ("ambiguous", False)
    candidates = row["candidates"]
    assert isinstance(candidates, list)
    assert set(candidates) == ids
    shown = shadow.ok("show", str(row["seq"])).out
    assert all(one_id in shown for one_id in ids)
    result = shadow("undo", "--yes", "--json", session_id(shadow, "one"))
    assert (result.code, result.json()["status"]) == (4, "partial")
    assert reasons(result.json()) == {"x": "ambiguous"}
    assert shadow.repo.read("x") == b"whose?\n"


def test_att11_payload_says_which_repository_is_meant(
    shadow: Shadow,
    make_repo: Callable[..., Repo],
    make_shadow: Callable[..., Shadow],
    tmp_path: Path,
) -> None:
    """ATT-11: from `/`; a path elsewhere is no row and no error."""
    other = make_shadow(make_repo("other"), daemon=shadow.daemon)
    other.init()
    outside = tmp_path / "outside.txt"

    def call(cwd: Path, path: Path, number: int) -> None:
        for event in ("PreToolUse", "PostToolUse"):
            payload = {
                "session_id": "s1",
                "hook_event_name": event,
                "cwd": str(cwd),
                "tool_name": "Write",
                "tool_input": {"file_path": str(path), "content": "x"},
                "tool_use_id": f"call-{number}",
            }
            if event == "PostToolUse":
                path.write_text(f"agent {number}\n")
            result = shadow(
                "hook", "claude-code", stdin=json.dumps(payload).encode(), cwd="/"
            )
            assert (result.code, result.raw, result.err) == (0, b"", "")

    call(shadow.repo.root, shadow.repo.root / "a", 1)
    call(other.repo.root, other.repo.root / "a", 2)
    call(shadow.repo.root, outside, 3)
    for one, number in ((shadow, 1), (other, 2)):
        (row,) = rows_of(one)
        assert (row["path"], row["confidence"]) == ("a", "certain")
        assert row["call"] == f"call-{number}"
        assert one.status()["gaps"] == 0


def test_att11_path_in_another_repository_is_recorded_there(
    shadow: Shadow,
    make_repo: Callable[..., Repo],
    make_shadow: Callable[..., Shadow],
) -> None:
    """ATT-11: the path decides where the payload's directory says something else."""
    other = make_shadow(make_repo("other"), daemon=shadow.daemon)
    other.init()
    agent = Claude(shadow)
    path = other.repo.root / "a"
    call = agent.pre("Write", {"file_path": str(path), "content": "x"})
    path.write_text("agent\n")
    agent.post(call)
    (row,) = rows_of(other)
    assert (row["path"], row["call"], row["confidence"]) == ("a", call, "certain")
    assert rows_of(shadow) == []


@contextmanager
def nobody_home(shadow: Shadow) -> Iterator[None]:
    """Hold the writer lock, so that every hook has to leave its payload behind."""
    path = shadow.repo.state_dir / "wt" / "main" / "lock"
    with path.open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_att14_late_payloads_change_nothing(repo: Repo, shadow_n: Shadow) -> None:
    """ATT-14: post 1 after pre 2, all spooled and taken later; `c` has no call (N)."""
    agent = Claude(shadow_n)
    with nobody_home(shadow_n):
        first = agent.pre("Write", {"file_path": str(repo.root / "a")})
        repo.write("a", "one\n")
        second = agent.pre("Write", {"file_path": str(repo.root / "b")})
        agent.post(first)
        repo.write("b", "two\n")
        agent.post(second)
        repo.write("c", "human\n")
        spool = list((repo.state_dir / "spool").iterdir())
        assert len(spool) == 4
    rows = {str(row["path"]): row for row in rows_of(shadow_n)}
    assert {path: row["call"] for path, row in rows.items()} == {
        "a": first,
        "b": second,
        "c": None,
    }
    assert rows["c"]["session"] != session_id(shadow_n, "s1")
    assert list((repo.state_dir / "spool").iterdir()) == []


def the_write(shadow: Shadow) -> Document:
    """Do H(a) and return its row."""
    shadow.repo.append("a", "somebody\n")
    (row,) = rows_of(shadow, "a")
    return row


def test_att16_write_in_a_turn_is_low_where_hooks_cover_all_tools(
    agent: Claude,
) -> None:
    """ATT-16: a person or a background process is likelier."""
    agent.prompt("go")
    row = the_write(agent.shadow)
    assert (row["confidence"], row["call"]) == ("low", None)
    assert (row["session"], row["turn"]) == (
        session_id(agent.shadow, "s1"),
        agent.prompt_id,
    )


def test_att16_write_of_a_declared_person_is_human(shadow: Shadow) -> None:
    """ATT-16: `session start --human`."""
    declared = shadow.ok("session", "start", "--human", "--json").json()
    row = the_write(shadow)
    assert (row["actor"], row["session"]) == ("human", declared["id"])
    shadow.ok("session", "end")


def test_att19_every_event_shows_how_sure_it_is_and_why(agent: Claude) -> None:
    """ATT-19: `show EVENT --json` of all of them."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.shell("rm b; mv c d")
    repo.write("n", "somebody\n")
    agent.stop()
    repo.write("m", "nobody\n")
    shadow.oops()
    seqs = [str(row["seq"]) for row in shadow.log()]
    assert len(seqs) >= 6
    for seq in seqs:
        (shown,) = shadow.ok("show", "--json", seq).rows()
        assert shown["type"] == "event"
        assert shown["confidence"] in (
            "certain",
            "medium",
            "medium",
            "low",
            "ambiguous",
            "unknown",
        )
        assert shown["reason"]
