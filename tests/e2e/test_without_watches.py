"""ROB-16: where the kernel gives no watches, hooks and walks record, and status says so."""

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from gitshadow.platform import current
from tests.support.audit import open_journal
from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import HANGS_S, until

REASON, _, REMEDY = current().machine_facts().WATCH_HINT.partition(": ")
_SPACE = ("unshare", "--user", "--map-root-user")
_WRITTEN = ("d1/f", "d2/f")
_RUN = 'echo 3 > /proc/sys/user/max_inotify_watches; exec "$0" watch'


@contextmanager
def daemon_without_watches(shadow: Shadow) -> Iterator[None]:
    """Run the daemon in a user namespace with a limit of its own."""
    if subprocess.run([*_SPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here: the limit cannot be lowered for one test")
    shadow.ok("stop")
    process = subprocess.Popen(
        [*_SPACE, "sh", "-c", _RUN, COMMAND],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    alone = {"GITSHADOW_DAEMON": "off"}  # whoever looks starts none of its own
    try:
        until(lambda: REASON in shadow.ok("status", env=alone).out)
        yield
    finally:
        process.terminate()
        process.wait(timeout=HANGS_S)


def writes(repo: Repo, path: bytes) -> int:
    """Return how many rows a path has, without asking for any walk."""
    with closing(open_journal(repo)) as journal:
        query = "SELECT COUNT(*) FROM events WHERE path = ?"
        found: int = journal.execute(query, (path,)).fetchone()[0]
        return found


def test_hooks_and_walks_record_where_inotify_has_no_watches_left(
    repo: Repo, shadow_d: Shadow
) -> None:
    for number in range(6):
        repo.write(f"d{number}/f", "as it was\n")
    repo.commit("directories")
    with daemon_without_watches(shadow_d):
        said = shadow_d.ok("status").out
        assert said.startswith(f"partly protected: {REASON}")
        assert REMEDY in said
        before = writes(repo, b"d2/f")
        repo.write("d2/f", "by a plain write that no hook tells of\n")
        until(lambda: writes(repo, b"d2/f") > before)
        Claude(shadow_d).write("d1/f", "by the agent\n")
        newest = {name: shadow_d.log("-n", "1", "--", name)[0] for name in _WRITTEN}
        who = {name: (row["agent"], row["confidence"]) for name, row in newest.items()}
        assert who == {"d1/f": ("claude-code", "certain"), "d2/f": (None, "unknown")}
        report = shadow_d.oops()
        assert report["status"] == "reversed"
        assert repo.read("d1/f") == b"as it was\n"
