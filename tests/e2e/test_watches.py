"""inotify has no watches left: a daemon in a user namespace that allows it but a few."""

import subprocess

import pytest

from tests.support.claude import Claude
from tests.support.shadow import COMMAND, Shadow

_LIMIT = "/proc/sys/user/max_inotify_watches"
_FEW = f'echo 4 >{_LIMIT} && exec "$0" start'

# The limits of inotify are lowered, which the other watcher meets in its own way.
pytestmark = pytest.mark.linux


def begin_with_few_watches(shadow: Shadow) -> None:
    """Start the daemon where four watches are all there is, namespaces(7)."""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", _FEW, str(COMMAND)],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    if not shadow.daemons():
        pytest.skip(f"no user namespace of our own to be had here: {done.stderr}")


def test_exhausted_watches_are_said_and_writes_are_recorded(shadow_d: Shadow) -> None:
    """ROB-16: degraded and not silent, found by walks, and not off for good."""
    repo = shadow_d.repo
    for number in range(8):
        repo.write(f"d{number}/f", "before\n")
    shadow_d.ok("flush")
    shadow_d.ok("stop")
    begin_with_few_watches(shadow_d)
    repo.write("d7/f", "by hand\n")
    Claude(shadow_d).write("d6/f", "agent\n")
    rows = {row["path"]: row for row in reversed(shadow_d.log())}
    assert rows["d7/f"]["kind"] == "modify"
    assert rows["d6/f"]["agent"] == "claude-code"
    status = shadow_d.status()
    assert "inotify has no watches left" in str(status["degraded"])
    assert shadow_d.ok("status").out.startswith("partly protected: inotify has no")
    shadow_d.ok("stop")
    shadow_d.ok("start")
    assert shadow_d.status()["degraded"] is None
