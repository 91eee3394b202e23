"""`exec` and `session`: what a wrapped command writes is its session's."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import COMMAND, Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")


def rows_of(shadow: Shadow, *args: str) -> dict[str, Document]:
    """Return the newest row of each path."""
    found: dict[str, Document] = {}
    for row in shadow.log(*args):
        assert row["confidence"], row
        assert row["reason"], row
        found.setdefault(str(row["path"]), row)
    return found


def sessions_of(shadow: Shadow, agent: str) -> list[Document]:
    rows = shadow.ok("sessions", "--json").rows()
    return [row for row in rows if row["agent"] == agent]


def test_two_commands_side_by_side_are_never_mixed_up(shadow: Shadow) -> None:
    """ATT-05: each write in its own session, else `ambiguous` with both."""
    script = "for i in 1 2 3 4 5; do echo $i > {0}$i; done; sleep 0.1; echo 6 > {0}6"
    running = [
        shadow.spawn("exec", "--agent", name, "--", "sh", "-c", script.format(name))
        for name in ("left", "right")
    ]
    assert [one.wait() for one in running] == [0, 0]
    for one in running:
        one.communicate()
    (left,), (right,) = sessions_of(shadow, "left"), sessions_of(shadow, "right")
    own = {"l": left["id"], "r": right["id"]}
    rows = rows_of(shadow)
    assert len(rows) == 12
    for path, row in rows.items():
        if row["confidence"] == "ambiguous":
            candidates = row["candidates"]
            assert isinstance(candidates, list)
            assert set(candidates) == set(own.values())
        else:
            assert row["session"] == own[path[0]], row


def test_last_writes_of_a_command_are_its_own(shadow: Shadow) -> None:
    """ATT-06: both, although the child ended at once."""
    shadow.ok("exec", "--agent", "x", "--", "sh", "-c", "echo x > a; echo y > new")
    rows = rows_of(shadow)
    (session,) = sessions_of(shadow, "x")
    assert {path: row["kind"] for path, row in rows.items()} == {
        "a": "modify",
        "new": "create",
    }
    assert {row["session"] for row in rows.values()} == {session["id"]}
    assert {row["agent"] for row in rows.values()} == {"x"}
    assert {row["confidence"] for row in rows.values()} == {"high"}
    assert (session["ended"] is not None, session["turns"]) == (True, 1)
    assert shadow.oops()["status"] == "reversed"
    assert shadow.repo.read("a") == ten_lines("a").encode()
    assert not shadow.repo.exists("new")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sh", "-c", "echo x > a; exit 7"), 7),
        (("sh", "-c", "echo x > a; kill -TERM $$"), 143),
        (("no-such-command-here",), 127),
    ],
    ids=["exit", "signal", "missing"],
)
def test_exit_code_is_the_commands(
    shadow_n: Shadow, words: tuple[str, ...], code: int
) -> None:
    """ATT-07: 7, 143, 127; what was written is recorded (N)."""
    result = shadow_n("exec", "--agent", "x", "--", *words)
    assert (result.code, result.raw) == (code, b"")
    rows = rows_of(shadow_n)
    assert list(rows) == ([] if code == 127 else ["a"])
    assert all(row["agent"] == "x" for row in rows.values())


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check_gone(shadow: Shadow, agent: str, native: str | None = None) -> None:
    """Do H(a) and check that the dead session neither claims it nor stays open."""
    shadow.repo.write("a", "human\n")
    row = rows_of(shadow, "a")["a"]
    (session,) = [
        one
        for one in sessions_of(shadow, agent)
        if native is None or one["native_id"] == native
    ]
    assert row["session"] != session["id"]
    assert (row["agent"], row["call"]) == (None, None)
    assert session["ended"] is not None
    assert session["end_reason"] == "process gone"
    assert shadow.status()["open_sessions"] == 0


def test_killed_command_claims_nothing_later(shadow: Shadow) -> None:
    """ATT-08: SIGKILL of wrapper and child; session closed, "process gone"."""
    running = subprocess.Popen(
        [COMMAND, "exec", "--agent", "x", "--", "sh", "-c", "echo 1 > n; sleep 60"],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        start_new_session=True,
    )
    wait_until(lambda: shadow.repo.exists("n"))
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    check_gone(shadow, "x")
    assert rows_of(shadow, "n")["n"]["agent"] in ("x", None)


AGENT = """\
import subprocess, sys
subprocess.run(sys.argv[1:3] + ["claude-code"], input=sys.argv[3].encode(), check=True)
print("ready", flush=True)
sys.stdin.read()
"""


def test_killed_agent_claims_nothing_later(shadow: Shadow) -> None:
    """ATT-08: SIGKILL of the agent between pre- and post-hook; window expired."""
    agent = Claude(shadow)
    payload = agent.payload(
        "PreToolUse",
        tool_name="Bash",
        tool_input={"command": "sleep 60"},
        tool_use_id="call-1",
    )
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, COMMAND, "hook", json.dumps(payload)],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        running.kill()
    check_gone(shadow, "claude-code", "s1")
    call = shadow.ok("show", "--json", "call-1").json()
    assert (call["closed"] is not None, call["outcome"]) == (True, "process gone")


def test_inner_session_gives_way_to_the_outer(shadow: Shadow) -> None:
    """ATT-09: after the inner one has ended, the outer one writes again."""
    outer = shadow.ok("session", "start", "--agent", "outer", "--json").json()["id"]
    inner = shadow.ok("session", "start", "--agent", "inner", "--json").json()["id"]
    shadow.ok("session", "end", str(inner))
    shadow.repo.write("a", "outer\n")
    assert rows_of(shadow)["a"]["session"] == outer
    shadow.ok("session", "end", str(outer))
    shadow.repo.write("b", "nobody\n")
    assert rows_of(shadow, "b")["b"]["session"] not in (outer, inner)


def test_command_in_a_command_is_a_child(shadow: Shadow) -> None:
    nested = (
        f"echo 1 > a; {COMMAND} exec --agent inner -- sh -c 'echo 2 > b'; echo 3 > c"
    )
    shadow.ok("exec", "--agent", "outer", "--", "sh", "-c", nested)
    rows = rows_of(shadow)
    assert {path: row["agent"] for path, row in rows.items()} == {
        "a": "outer",
        "b": "inner",
        "c": "outer",
    }
    (outer,), (inner,) = sessions_of(shadow, "outer"), sessions_of(shadow, "inner")
    assert inner["parent"] == outer["id"]


def test_record_names_the_session_it_is_told(repo: Repo, shadow: Shadow) -> None:
    session = shadow.ok("session", "start", "--agent", "mine", "--json").json()["id"]
    repo.write("a", "mine\n")
    shadow.ok("record", "--session", str(session), "a")
    assert rows_of(shadow)["a"]["session"] == session
    shadow.ok("session", "end", str(session))
