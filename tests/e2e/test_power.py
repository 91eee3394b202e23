"""After power loss: what the file system had not written yet is empty, and the boot is another."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo


@contextmanager
def power_loss(repo: Repo, *oids: str) -> Iterator[None]:
    """Empty loose objects and have the journal know another boot; the user's git fails there."""
    for oid in oids:
        path = repo.root / ".git" / "objects" / oid[:2] / oid[2:]
        os.chmod(path, 0o644)
        path.write_bytes(b"")
    journal = Path(repo.root, ".git", "agent-undo", "journal.db")
    with closing(connect(journal)) as db, db:
        db.execute("UPDATE meta SET value = 'another' WHERE key = 'boot_id'")
    yield


@pytest.mark.parametrize("what", ["commit", "tree"])
@pytest.mark.parametrize("first", ["hook", "log"])
def test_ref_goes_back_to_its_last_whole_commit(
    agent: Claude, what: str, first: str
) -> None:
    """ROB-17: a gap, the present recorded anew, and every git command of the user works."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "one\n")
    agent.write("d/b", "two\n")
    shadow.ok("flush")
    shadow.ok("stop")
    (ref,) = [name for name in repo.shadow_refs() if "claude" in name]
    gone = {"commit": f"{ref}", "tree": f"{ref}:d"}[what]
    with power_loss(repo, repo.git("rev-parse", gone)):
        if first == "hook":
            agent.write("c", "three\n")
        rows = shadow.log()
    repo.damaged = True  # the rows of what was lost name what is gone
    lost = [
        row for row in rows if row["kind"] == "gap" and "power" in str(row["reason"])
    ]
    # The newest tree is written again from the journal's states, so nothing is lost.
    assert bool(lost) == (what == "commit")
    assert repo.read("d/b") == b"two\n"
    for command in (["log", "--all", "--oneline"], ["gc", "-q"], ["fetch", "-q", "."]):
        repo.git(*command)
    assert shadow.ok("cat", "d/b").raw == b"two\n"
    repo.fsck()
