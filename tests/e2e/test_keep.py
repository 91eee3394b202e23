"""KEEP: what is recorded survives the user's own housekeeping."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.repo import Repo, ten_lines
from tests.support.reports import states
from tests.support.shadow import Shadow


def test_history_survives_the_users_housekeeping(
    shadow_d: Shadow, tmp_path: Path
) -> None:
    """KEEP-01: gc, pack-refs, repack, fetch and clone succeed; oops works; no ref is cloned."""
    shadow, repo = shadow_d, shadow_d.repo
    agent = Claude(shadow)
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "remote"))
    repo.git("remote", "add", "origin", str(tmp_path / "remote"))
    agent.prompt("go")
    for number in range(20):
        agent.write("a" if number % 2 else f"n{number}", f"version {number}\n")
    agent.stop()
    shadow.ok("flush")
    with kept(repo):
        refs = repo.shadow_refs()
    repo.git("gc", "-q", "--prune=now", "--aggressive")
    repo.git("pack-refs", "--all")
    repo.git("repack", "-adq")
    repo.git("prune", "--expire=now")
    repo.git("fetch", "-q", "origin")
    assert repo.shadow_refs() == refs
    repo.git("clone", "-q", ".", str(tmp_path / "clone"))
    clone = Repo(tmp_path / "clone")
    assert clone.shadow_refs() == {}
    assert clone.git("for-each-ref", "--format=%(refname)").count("agent-undo") == 0
    report = shadow.oops()
    assert report["status"] == "reversed"
    assert set(states(report)) == {"a", *(f"n{n}" for n in range(0, 20, 2))}
    assert repo.read("a") == ten_lines("a").encode()
    assert not [n for n in range(0, 20, 2) if repo.exists(f"n{n}")]
    agent.write("b", "after all that\n")
    assert shadow.oops()["status"] == "reversed"


def test_linked_chain_survives_when_its_worktree_goes(
    repo: Repo, shadow_d: Shadow, tmp_path: Path
) -> None:
    """KEEP-01, GIT-09: `worktree remove`, `prune` and `gc` leave the chain of a gone worktree."""
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Repo(tmp_path / "linked")
    theirs = Shadow(linked, daemon=False)
    theirs.ok("init")
    Claude(theirs, session="two").write("n", "written in the linked worktree\n")
    (row,) = [one for one in theirs.log() if one["path"] == "n"]
    repo.git("worktree", "remove", "--force", str(linked.root))
    repo.git("worktree", "prune")
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("cat-file", "-p", f"{row['commit']}:n") == (
        "written in the linked worktree"
    )
    listed = shadow_d.ok("log", "--all", "--json").rows()
    assert row["seq"] in [one["seq"] for one in listed]


def test_deleted_journal_is_said_to_be_missing(agent: Claude) -> None:
    """KEEP-10: without its journal `log` says so and shows no empty list."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    shadow.ok("flush")
    shadow.ok("stop")
    for suffix in ("", "-wal", "-shm"):
        path = f".git/agent-undo/journal.db{suffix}"
        if repo.exists(path):
            repo.delete(path)
    refs = repo.shadow_refs()
    with kept(repo):
        result = shadow("log")
        document = shadow("log", "--json")
    assert (result.code, result.out) == (1, "")
    first, *rest = result.err.splitlines()
    assert first.startswith("error: ")
    assert "journal" in first
    assert [line.endswith(": git agent-undo reindex") for line in rest] == [True]
    assert document.code == 1
    assert "git agent-undo reindex" in str(document.json()["hint"])
    assert repo.shadow_refs() == refs
    shadow.ok("reindex")
    assert [row["path"] for row in shadow.log()] == ["a"]
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()


def test_reindex_gives_daemons_of_linked_worktrees_the_new_journal(
    repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    """KEEP-10: a daemon that went on with the old journal would record into nothing."""
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    here = make_shadow(repo, daemon=True)
    linked = make_shadow(Repo(tmp_path / "linked"), daemon=True)
    for shadow in (here, linked):
        shadow.init()
        shadow.ok("start")
    linked.repo.write("a", "before\n")
    linked.ok("flush")
    here.ok("reindex")
    daemon = linked.status()["daemon"]
    assert isinstance(daemon, dict)
    assert daemon["running"] is True
    linked.repo.write("a", "after\n")
    linked.ok("flush")
    assert len(linked.log("a")) == 2
    assert here.ok("log", "--all", "--json").rows()[0]["path"] == "a"


def test_clean_takes_no_history(agent: Claude) -> None:
    """KEEP-11: `git clean -fdx` leaves the history, and what it deleted comes back."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent\n")
    agent.write("n", "untracked\n")
    before = shadow.log()
    repo.git("clean", "-fdxq")
    assert not repo.exists("n")
    assert [row for row in shadow.log() if row["kind"] != "delete"] == before
    report = shadow.oops()
    assert states(report)["a"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()


def test_new_baseline_holds_what_pruning_took_away(shadow_d: Shadow) -> None:
    """KEEP-13: after all refs and unreachable objects went, no tree names a missing blob."""
    shadow, repo = shadow_d, shadow_d.repo
    agent = Claude(shadow, session="one")
    agent.start()
    agent.write("n", "only the shadow history holds this\n")
    agent.end()
    shadow.ok("flush")
    blob = repo.blob("n")
    for name in repo.shadow_refs():
        repo.git("update-ref", "-d", name)
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("cat-file", "-t", blob, check=False) == ""
    Claude(shadow, session="two").write("a", "agent\n")
    shadow.ok("flush")
    repo.damaged = True  # the rows of what was deleted by hand name what is gone
    repo.git("gc", "-q", "--prune=now")
    repo.git("repack", "-adq")
    repo.fsck()
    assert shadow.ok("cat", "n").raw == b"only the shadow history holds this\n"
    (tip,) = [oid for name, oid in repo.shadow_refs().items() if "claude" in name]
    assert repo.git("cat-file", "-p", f"{tip}:n") == (
        "only the shadow history holds this"
    )


def test_nobody_created_a_file_whose_recorded_state_is_gone(
    shadow_d: Shadow,
) -> None:
    """KEEP-13: no undo deletes what was written where Git collected the state before."""
    shadow, repo = shadow_d, shadow_d.repo
    agent = Claude(shadow, session="one")
    agent.write("n", "only the shadow history holds this\n")
    agent.end()
    shadow.ok("stop")
    for name in repo.shadow_refs():
        repo.git("update-ref", "-d", name)
    repo.git("gc", "-q", "--prune=now")
    repo.damaged = True  # the rows of what was deleted by hand name what is gone
    repo.write("n", "a person wrote this while nothing watched\n")
    agent = Claude(shadow, session="two")
    agent.write("a", "agent\n")
    agent.write("n", "agent\n")
    agent.stop()
    shadow("oops", "--yes", "--json")
    assert repo.read("n") == b"a person wrote this while nothing watched\n"
    assert "n" in {row["path"] for row in shadow.log() if row["kind"] == "gap"}


def test_user_may_delete_a_ref_by_hand(agent: Claude) -> None:
    """KEEP-13: without a daemon too, a chain that is gone is a gap and recording goes on."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("n", "n\n")
    shadow.ok("flush")
    for name in repo.shadow_refs():
        repo.git("update-ref", "-d", name)
    repo.git("prune", "--expire=now")
    agent.write("a", "agent\n")
    rows = shadow.log()
    assert "a" in {row["path"] for row in rows}
    assert shadow.status()["gaps"] != 0
    repo.damaged = True  # as above
    repo.fsck()
    assert shadow.ok("cat", "n").raw == b"n\n"


@pytest.mark.kinds
def test_purge_takes_a_secret_out_of_the_whole_history(shadow_d: Shadow) -> None:
    """KEEP-09: refused without a yes; afterwards in no object, and recording goes on."""
    shadow, repo = shadow_d, shadow_d.repo
    agent = Claude(shadow)
    agent.write("k", "sk-live-0123456789abcdef\n")
    agent.write("a", "agent\n")
    agent.stop()
    shadow.ok("pack")
    blob, refs = repo.blob("k"), repo.shadow_refs()
    refused = shadow("purge", "k")
    assert (refused.code, repo.shadow_refs()) == (5, refs)
    assert "--yes" in refused.err
    done = shadow.ok("purge", "k", "--yes", "--json").json()
    assert (done["names"], done["contents"]) == (["k"], 1)
    assert len(shadow.daemons()) == 1
    repo.delete("k")
    shadow.ok("flush")
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("cat-file", "-t", blob, check=False) == ""
    left = shadow.ok("purge", "--check", "--json").json()["remains"]
    assert isinstance(left, dict)
    assert left["objects"] == 0
    report = shadow.oops()
    assert states(report)["a"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()
