"""Kills and collisions of whole processes: what two commands, or a dead daemon, leave behind."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from tests.conftest import FULL, on_both
from tests.support.audit import open_journal
from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Shadow

pytestmark = [pytest.mark.both_modes, pytest.mark.process]

_MANY = 150
_POLLS = 4000
_ROUNDS = 30 if FULL else 1


def test_two_oops_at_once_are_one_after_the_other(shadow: Shadow) -> None:
    """ROB-03: the second plan is made when the first op has ended: two bursts, two ops."""
    repo = shadow.repo
    for number in (1, 2):
        agent = Claude(shadow, f"s{number}")
        agent.prompt("go")
        agent.write("a", f"agent {number}\n")
        agent.write("b", f"agent {number}\n")
        agent.stop()
    running = [shadow.spawn("oops", "--yes", "--json") for _ in range(2)]
    for one in running:
        one.communicate(timeout=shadow.timeout_seconds)
    assert [one.returncode for one in running] == [0, 0]
    assert [repo.read(path).decode() for path in "ab"] == [
        ten_lines("a"),
        ten_lines("b"),
    ]
    found = shadow.ok("ops", "--json").rows()
    assert [row["status"] for row in found] == ["done", "done"]
    assert found[0]["target"] != found[1]["target"]
    shadow.ok("redo", "--yes")
    assert repo.read("a") == repo.read("b") == b"agent 1\n"
    shadow.verify()


def many(repo: Repo) -> set[bytes]:
    """Return what the many files hold."""
    return {repo.read(f"many/{number}") for number in range(_MANY)}


@on_both("following", ["ops", "start", "redo", "oops"] * _ROUNDS)
def test_undo_is_whole_when_the_daemon_is_killed_in_it(
    repo: Repo, shadow_d: Shadow, following: str
) -> None:
    """ROB-01: a look, a start, an undo and a redo each finish it or roll it back."""
    for number in range(_MANY):
        repo.write(f"many/{number}", "before\n")
    shadow_d.ok("flush")
    command = "for f in many/*; do echo agent > $f; done"
    shadow_d.ok("exec", "--agent", "x", "--", "sh", "-c", command)
    repo.write("own", "mine\n")
    daemon = shadow_d.status()["daemon"]
    assert isinstance(daemon, dict)
    running = shadow_d.spawn("oops", "--yes")
    for _ in range(_POLLS):
        if b"before\n" in many(repo) or running.poll() is not None:
            break
        time.sleep(0.001)
    with suppress(ProcessLookupError):
        os.kill(int(str(daemon["pid"])), signal.SIGKILL)
    running.communicate(timeout=shadow_d.timeout_seconds)
    yes = ["--yes"] if following in ("redo", "oops") else []
    assert shadow_d(following, *yes).code == 0
    assert many(repo) in ({b"before\n"}, {b"agent\n"})
    statuses = {row["status"] for row in shadow_d.ok("ops", "--json").rows()}
    assert statuses <= {"done", "rolled_back"}
    assert repo.read("own") == b"mine\n"
    shadow_d.verify()


@pytest.mark.timeout(900 if FULL else 300)
def test_four_sessions_at_once_lose_no_call(shadow: Shadow) -> None:
    """ROB-07: on files of their own and on a shared one, all delivered at once.

    Each has 50 calls with GITSHADOW_TEST_FULL=1, else a few.
    """
    count = 50 if FULL else 12 if shadow.daemon else 6
    agents = [Claude(shadow, f"s{number}") for number in range(4)]

    def work(agent: Claude) -> set[str]:
        agent.prompt("go")
        calls = set()
        for number in range(count):
            path = "a" if number % 3 == 2 else f"{agent.session}-{number}"
            calls.add(agent.write(path, f"{agent.session} {number}\n"))
        return calls

    with ThreadPoolExecutor(len(agents)) as pool:
        made = list(pool.map(work, agents))
    rows = shadow.log()
    with closing(open_journal(shadow.repo)) as db:
        known = {
            one[0]: one[1] for one in db.execute("SELECT id, closed_ns FROM calls")
        }
    assert set(known) == set().union(*made)
    assert len(known) == 4 * count
    assert None not in known.values()
    own = {str(row["call"]): row for row in rows if row["path"] != "a"}
    for agent, calls in zip(agents, made, strict=True):
        mine = {call for call in calls if call in own}
        assert len(mine) == count - count // 3
        assert len({own[call]["session"] for call in mine}) == 1
        assert {str(own[call]["path"]).split("-")[0] for call in mine} == {
            agent.session
        }
    for ref in shadow.repo.shadow_refs():
        merges = shadow.repo.git("rev-list", "--merges", ref)
        assert merges == ""
    shadow.verify()
