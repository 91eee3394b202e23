"""KEEP-03, KEEP-07: what lies about at rest, and packing beside the work."""

import json
import os
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.support import audit
from tests.support.claude import Claude
from tests.support.packed import Shelf
from tests.support.shadow import Shadow
from tests.support.waiting import until

_WRITES = 3_000 if FULL else 150
_COMMITS = 30 if FULL else 3
_MOST_PACKS = 12


def maintenance(trace: Path) -> list[str]:
    """Return the children of Git's that tidy up, as its own trace names them."""
    found = []
    for line in trace.read_text().splitlines():
        event = json.loads(line)
        words = event.get("argv", []) if event["event"] == "child_start" else []
        if {"gc", "repack", "pack-objects", "prune"} & set(words):
            found.append(" ".join(words))
    return found


@pytest.mark.kinds
def test_little_lies_about_at_rest(shadow_d: Shadow, tmp_path: Path) -> None:
    """KEEP-03: one file of ours where Git looks, few packs, no maintenance because of us."""
    shadow, repo = shadow_d, shadow_d.repo
    trace = tmp_path / "trace"
    trace.touch()
    repo.write("mine", "the user's own file\n")
    for number in range(_WRITES):
        repo.write("a", f"version {number}\n")
        if number % 10 == 0:
            shadow.ok("flush")
        if number % (_WRITES // _COMMITS) == 0:
            repo.write("mine", f"the user's own file {number}\n")
            repo.git("add", "mine")
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("GIT_TRACE2_EVENT", str(trace))
                repo.git("commit", "-q", "-m", f"{number}", "--", "mine")
    shadow.ok("flush")
    shelf = Shelf(repo)
    until(lambda: len([one for one in lying(shelf) if one.startswith("17")]) <= 1)
    assert len(shelf.names()) <= _MOST_PACKS
    assert maintenance(trace) == []
    shadow.ok("pack")
    assert lying(shelf) == set()
    assert shadow.log("-n", "1", "a")[0]["kind"] == "modify"


def lying(shelf: Shelf) -> set[str]:
    """Return the loose objects that our refs hold and HEAD does not."""
    return shelf.ours() & shelf.loose()


def test_packing_beside_writers_loses_nothing(shadow_d: Shadow) -> None:
    """KEEP-07: while everything is recorded, packs are made; each row has its commit."""
    shadow, repo = shadow_d, shadow_d.repo
    for number in range(40):
        repo.write(f"d{number % 4}/f{number % 7}", f"version {number}\n")
        if number % 8 == 0:
            shadow.ok("pack")
    shadow.ok("pack")
    last = {f"d{n % 4}/f{n % 7}": f"version {n}\n".encode() for n in range(40)}
    newest = {str(row["path"]): row for row in reversed(shadow.log("-n", "1000"))}
    for path, data in last.items():
        assert repo.read(path) == data
        after = newest[path]["after"]
        assert isinstance(after, dict)
        assert after["oid"] == repo.blob(path)
    commits = {str(row["commit"]) for row in newest.values()}
    out = repo.git("cat-file", "--batch-check", stdin="\n".join(commits).encode())
    assert {line.split()[1] for line in out.splitlines()} == {"commit"}
    assert not os.path.exists(repo.state_dir / "packing")


def test_pruning_beside_writers_loses_nothing(shadow_d: Shadow) -> None:
    """KEEP-07: sessions go while others write; no write is lost, no row without its commit."""
    shadow, repo = shadow_d, shadow_d.repo
    for turn in range(4):
        agent = Claude(shadow, session=f"s{turn}")
        for number in range(4):
            agent.write("a", f"{turn} {number}\n")
            repo.write("b", f"mine {turn} {number}\n")
        agent.end()
        shadow.ok("prune", "--keep", "2", "--yes")
        shadow.ok("pack")
    agent = Claude(shadow, session="last")
    agent.write("a", "last\n")
    rows = shadow.log("-n", "1000")
    commits = "\n".join({str(row["commit"]) for row in rows if row["commit"]})
    out = repo.git("cat-file", "--batch-check", stdin=commits.encode())
    assert {line.split()[1] for line in out.splitlines()} == {"commit"}
    assert repo.read("a") == b"last\n"
    repo.damaged = True  # rows of what was dropped do not say how the rest came about
    audit.audit_states(repo)
    repo.fsck()


def test_new_session_holds_what_was_pruned(shadow_d: Shadow) -> None:
    """KEEP-13: nothing names what Git has collected; the user's gc and repack succeed."""
    shadow, repo = shadow_d, shadow_d.repo
    agent = Claude(shadow, session="one")
    agent.write("n", "only the history holds this\n")
    agent.end()
    dropped = shadow.ok("prune", "--all", "--yes", "--json").json()["dropped"]
    assert isinstance(dropped, list)
    assert dropped
    assert repo.shadow_refs() == {}
    repo.git("gc", "-q", "--prune=now")
    Claude(shadow, session="two").write("a", "agent\n")
    shadow.ok("flush")
    repo.git("gc", "-q", "--prune=now")
    repo.git("repack", "-adq")
    repo.fsck()
    assert shadow.ok("cat", "n").raw == b"only the history holds this\n"
    shadow.verify()
