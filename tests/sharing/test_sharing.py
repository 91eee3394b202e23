"""Sessions go to a server and come to a colleague: looked at there, and kept apart."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from gitshadow.blame.line_owners import Owning
from gitshadow.errors import RefusedError, StoreError, UsageError
from gitshadow.maintenance.reindex import context_from_refs, reindex
from gitshadow.maintenance.startup_repair import mend
from gitshadow.model import Oid, RepoPath
from gitshadow.store import machine
from gitshadow.store.journal import events, sessions
from gitshadow.store.layout import machine_layout, machines
from tests.support.repo import Repo
from tests.support.sharing import rows_of, shared
from tests.support.studio import Studio, layout_of, studio_of

Open = Callable[[Repo], Studio]
Make = Callable[..., Repo]
SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


def written(studio: Studio, session: str) -> list[dict[str, object]]:
    """Return the writes of a session, newest first."""
    rows = rows_of(studio.run("log", session=session))
    return [row for row in rows if row["path"] is not None]


def owners_of(studio: Studio, path: str) -> list[dict[str, object]]:
    owners = studio.run("blame", path=path)["owners"]
    assert isinstance(owners, list)
    return owners


def test_fetched_session_is_listed_with_its_machine(ann: Studio, bob: Studio) -> None:
    session = shared(ann, bob)
    row = next(one for one in rows_of(bob.run("sessions")) if one["id"] == session)
    assert row["machine"] == machine.current(ann.context.workspace.db)
    assert row["ref"] == f"refs/agent-undo/fetched/{session}"
    assert bob.repo.git("rev-parse", str(row["ref"])) == row["tip"]


def test_log_diff_turns_and_show_work_on_a_fetched_session(
    ann: Studio, bob: Studio
) -> None:
    session = shared(ann, bob)
    log = written(bob, session)
    assert [(row["path"], row["kind"]) for row in log] == [("a", "modify")]
    theirs = written(ann, session)
    assert [row["commit"] for row in log] == [row["commit"] for row in theirs]
    assert "+two" in str(bob.run("diff", session=session)["patch"])
    [turn] = rows_of(bob.run("turns", session=session))
    shown = bob.run("show", id=turn["id"])
    assert (shown["type"], shown["session"]) == ("turn", session)
    numbered = f"{str(log[0]['machine'])[:6]}:{log[0]['seq']}"
    assert bob.run("show", id=numbered)["commit"] == log[0]["commit"]
    assert bob.run("show", id=log[0]["commit"])["session"] == session


def test_blame_names_the_colleagues_agent_for_what_was_pulled(
    ann: Studio, bob: Studio
) -> None:
    session = shared(ann, bob)
    assert [(row["session"], row["confidence"]) for row in owners_of(bob, "a")] == [
        (session, "certain")
    ]
    bob.write("S2", "a", "one\nmine\ntwo\n")
    found = {row["session"]: row.get("machine") for row in owners_of(bob, "a")}
    assert found == {
        session: machine.current(ann.context.workspace.db),
        bob.session("S2"): None,
    }


def test_lines_that_went_both_ways_keep_their_owners(ann: Studio, bob: Studio) -> None:
    first = shared(ann, bob)
    bob.write("S2", "a", "one\nmine\ntwo\n")
    bob.commit("third")
    bob.repo.git("push", "--quiet", "origin", "HEAD:refs/heads/main")
    bob.run("push", remote="origin")
    ann.repo.git("pull", "--quiet", "--ff-only", "origin", "main")
    ann.run("fetch", remote="origin")
    assert {row["session"] for row in owners_of(ann, "a")} == {first, bob.session("S2")}


def test_shares_count_what_a_colleagues_agent_wrote(ann: Studio, bob: Studio) -> None:
    shared(ann, bob)
    counted = bob.run("stats")
    assert "claude-code" in str(counted)


def test_nothing_of_others_enters_our_journal(ann: Studio, bob: Studio) -> None:
    before = [row.id for row in sessions.all_sessions(bob.context.workspace.db)]
    newest = events.last_seq(bob.context.workspace.db)
    ann.write("S1", "a", "one\n")
    ann.run("push", remote="origin")
    bob.run("fetch", remote="origin")
    assert [r.id for r in sessions.all_sessions(bob.context.workspace.db)] == before
    assert events.last_seq(bob.context.workspace.db) == newest
    with pytest.raises(UsageError):
        bob.run("undo", kind="undo", targets=[ann.session("S1")], apply=True)


def test_fetch_again_brings_what_is_new_alone(ann: Studio, bob: Studio) -> None:
    session = shared(ann, bob)
    assert bob.run("fetch", remote="origin")["sessions"] == []
    ann.write("S1", "b", "more\n")
    ann.run("push", remote="origin")
    assert bob.run("fetch", remote="origin")["sessions"] == [session]
    assert len(written(bob, session)) == 2


def test_history_that_was_rewritten_there_is_replaced_here(
    ann: Studio, bob: Studio
) -> None:
    session = shared(ann, bob)
    ann.write("S1", "b", "more\n")
    ann.run("push", remote="origin")
    bob.run("fetch", remote="origin")
    ref = f"refs/agent-undo/{session}"
    server = ann.repo.git("remote", "get-url", "origin")
    ann.repo.git("--git-dir", f"{server}/.git", "update-ref", ref, f"{ref}~1")
    bob.run("fetch", remote="origin")
    assert [row["path"] for row in written(bob, session)] == ["a"]


@pytest.mark.parametrize("damage", ["PRAGMA user_version = 15", "DROP TABLE chains"])
def test_fetched_journal_that_cannot_be_used_is_made_again(
    ann: Studio, bob: Studio, damage: str
) -> None:
    session = shared(ann, bob)
    layout = layout_of(bob.repo)
    (name,) = machines(layout)
    with closing(sqlite3.connect(machine_layout(layout, name).journal)) as old:
        old.execute(damage)
    bob.run("fetch", remote="origin")
    assert [row["path"] for row in written(bob, session)] == ["a"]


def test_two_machines_may_use_the_same_numbers(ann: Studio, bob: Studio) -> None:
    """Both journals count from 1."""
    shared(ann, bob)
    bob.write("S1", "c", "of bob\n")
    assert bob.session("S1") != ann.session("S1")
    bob.run("push", remote="origin")
    ann.run("fetch", remote="origin")
    theirs = written(ann, bob.session("S1"))
    assert [row["path"] for row in theirs] == ["c"]
    assert [row["path"] for row in written(ann, "S1")] == ["a"]


def test_one_session_may_be_fetched_alone(ann: Studio, bob: Studio) -> None:
    ann.write("S1", "a", "one\n")
    ann.write("S2", "b", "two\n")
    ann.run("push", remote="origin", sessions=["S1", "S2"])
    bob.run("fetch", remote="origin", sessions=[ann.session("S2")])
    native = {row["native_id"] for row in rows_of(bob.run("sessions"))}
    assert "S2" in native
    assert "S1" not in native
    with pytest.raises(UsageError, match="cannot find session nope"):
        bob.run("fetch", remote="origin", sessions=["nope"])


def test_chains_that_git_fetched_among_ours_are_moved_apart(
    ann: Studio, bob: Studio
) -> None:
    """A plain `git fetch` of all shadow refs: their sessions are not live here."""
    ann.write("S1", "a", "one\n")
    ann.run("push", remote="origin")
    bob.repo.git("fetch", "-q", "origin", "refs/agent-undo/*:refs/agent-undo/*")
    mend(bob.context)
    session, again = ann.session("S1"), bob
    assert f"refs/agent-undo/fetched/{session}" in again.context.workspace.repo.refs()
    assert f"refs/agent-undo/{session}" not in again.context.workspace.repo.refs()
    assert sessions.get(again.context.workspace.db, session) is None
    assert [row["path"] for row in written(again, session)] == ["a"]


def test_reindex_leaves_fetched_history_apart(
    ann: Studio, make_repo: Make, server: Repo
) -> None:
    other = make_repo("carl", files=())
    with studio_of(other) as carl:
        ann.write("S1", "a", "one\n")
        ann.commit("second")
        ann.repo.git("push", "-q", "origin", "HEAD:refs/heads/main")
        ann.run("push", remote="origin")
        other.git("pull", "-q", "--ff-only", str(server.root), "main")
        carl.run("fetch", remote=str(server.root))
        carl.run("flush")
    session = ann.session("S1")
    layout = layout_of(other)
    (name,) = machines(layout)
    # As a release leaves it that has another schema: all journals are made again.
    with closing(sqlite3.connect(machine_layout(layout, name).journal)) as old:
        old.execute("PRAGMA user_version = 15")
    reindex(layout)
    with studio_of(other) as again:
        assert sessions.get(again.context.workspace.db, session) is None
        assert [row["session"] for row in owners_of(again, "a")] == [session]


def test_history_of_others_is_not_sent_on(ann: Studio, bob: Studio) -> None:
    session = shared(ann, bob)
    bob.write("S2", "b", "of bob\n")
    pushed = bob.run("push", remote="origin")["pushed"]
    assert isinstance(pushed, list)
    assert not [ref for ref in pushed if session in ref or "fetched" in ref]


def test_review_of_a_colleagues_session_stays_when_ours_are_dropped(
    ann: Studio, bob: Studio
) -> None:
    """KEEP-07: a mark stays as long as one session that it names does, wherever that is from."""
    session = shared(ann, bob)
    mark = bob.run("review", targets=["a"])
    assert mark["sessions"] == [session]
    bob.write("S2", "b", "mine\n")
    bob.hook("S2", "SessionEnd", reason="other")
    assert bob.run("prune", all=True)["dropped"] != []
    assert [row["id"] for row in rows_of(bob.run("reviews"))] == [mark["id"]]


def test_push_refuses_content_that_looks_secret(ann: Studio, server: Repo) -> None:
    ann.write("S1", "conf.txt", f"key = {SECRET}\n")
    ann.write("S1", "conf.txt", "key = none\n")
    with pytest.raises(RefusedError) as caught:
        ann.run("push", remote="origin")
    assert "conf.txt:1: an AWS key" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert not server.git("for-each-ref", "refs/agent-undo").strip()
    ann.run("push", remote="origin", force_secrets=True)
    assert ann.session("S1") in server.git("for-each-ref", "refs/agent-undo")


def test_push_takes_a_session_whose_secret_was_purged(
    ann: Studio, server: Repo
) -> None:
    """The refusal names `purge PATH` as the way out, so the name that stays is no secret."""
    ann.write("S1", ".env", "password = none of yours\n")
    with pytest.raises(RefusedError, match=r"\.env in "):
        ann.run("push", remote="origin")
    ann.run("purge", paths=[".env"])
    ann.run("push", remote="origin")
    assert ann.session("S1") in server.git("for-each-ref", "refs/agent-undo")


def test_server_that_takes_branches_alone(ann: Studio, bob: Studio) -> None:
    """It hides or refuses all else: the error says what to do, and fetch finds them there."""
    ann.write("S1", "a", "one\n")
    server = ann.repo.git("remote", "get-url", "origin")
    ann.repo.git("--git-dir", f"{server}/.git", "config", "receive.hideRefs", "refs/a")
    ann.repo.git(
        "--git-dir",
        f"{server}/.git",
        "config",
        "--add",
        "transfer.hideRefs",
        "refs/agent-undo",
    )
    with pytest.raises(StoreError) as caught:
        ann.run("push", remote="origin")
    assert caught.value.hint is not None
    assert "--as-branches" in caught.value.hint
    ann.run("push", remote="origin", as_branches=True)
    assert ann.session("S1") in ann.repo.git("ls-remote", "origin", "refs/heads/*")
    fetched = bob.run("fetch", remote="origin")
    assert ann.session("S1") in str(fetched["sessions"])


def test_another_history_under_the_same_id_is_not_overwritten(ann: Studio) -> None:
    ann.write("S1", "a", "one\n")
    ann.repo.git("push", "-q", "origin", "HEAD:refs/heads/main")
    ann.run("push", remote="origin")
    ref = f"refs/agent-undo/{ann.session('S1')}"
    server = ann.repo.git("remote", "get-url", "origin")
    git_dir = f"{server}/.git"
    other = ann.repo.git("--git-dir", git_dir, "commit-tree", "main^{tree}", "-m", "x")
    ann.repo.git("--git-dir", git_dir, "update-ref", ref, other)
    with pytest.raises(StoreError) as caught:
        ann.run("push", remote="origin")
    assert caught.value.hint is not None
    assert "--force" in caught.value.hint
    ann.run("push", remote="origin", force=True)
    there = ann.repo.git("--git-dir", git_dir, "rev-parse", ref)
    assert there == ann.repo.git("rev-parse", ref)


def test_broken_chain_of_another_is_named_and_the_rest_comes(
    ann: Studio, bob: Studio
) -> None:
    ann.write("S1", "a", "one\n")
    ann.run("push", remote="origin")
    bad = "refs/agent-undo/claude-code-20261122-badbadbad0"
    ann.repo.git("push", "--quiet", "origin", f"HEAD:{bad}")
    document = bob.run("fetch", remote="origin")
    taken = document["sessions"]
    assert isinstance(taken, list)
    assert ann.session("S1") in taken
    assert bad in str(document["broken"])


def test_hostile_machine_id_leads_nowhere(ann: Studio, bob: Studio) -> None:
    """A baseline that names a path as its machine is no commit of ours."""
    ann.write("S1", "a", "one\n")
    ann.run("push", remote="origin")
    ref = f"refs/agent-undo/{ann.session('S1')}"
    root = ann.repo.git("rev-list", "--first-parent", ref, "--not", "HEAD").split()[-1]
    own = machine.current(ann.context.workspace.db)
    raw = ann.repo.git("cat-file", "commit", root).replace(str(own), "../../../../x")
    forged = ann.repo.git(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.encode()
    )
    ann.repo.git("push", "--quiet", "--force", "origin", f"{forged}:{ref}")
    document = bob.run("fetch", remote="origin")
    assert ref in str(document["broken"])
    taken = document["sessions"]
    assert isinstance(taken, list)
    assert ann.session("S1") not in taken
    assert machines(bob.context.workspace.layout) == [own]


def test_ids_of_two_copies_differ_and_stay(repo: Repo, open_studio: Open) -> None:
    studio = open_studio(repo)
    own = machine.current(studio.context.workspace.db)
    studio.write("S1", "a", "one\n")
    assert own is not None
    assert studio.session("S1").endswith(own[:4])
    assert machine.ours(studio.context.workspace.layout) == {own}
    message = repo.git(
        "log", "--format=%B", f"refs/agent-undo/{studio.session('S1')}", "--not", "HEAD"
    )
    assert f"Agent-Undo-Machine: {own}" in message


def test_copy_of_a_repository_is_another_machine(
    repo: Repo, make_repo: Make, open_studio: Open
) -> None:
    """What was recorded before it was copied is its own too; ids are its own from then on."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "one\n")
        session, own = (
            studio.session("S1"),
            machine.current(studio.context.workspace.db),
        )
    other = make_repo("copy", files=())
    shutil.rmtree(other.root / ".git")
    shutil.copytree(repo.root / ".git", other.root / ".git")
    again = open_studio(other)
    now = machine.current(again.context.workspace.db)
    assert now != own
    assert machine.ours(again.context.workspace.layout) == {own, now}
    assert sessions.get(again.context.workspace.db, session) is not None
    again.write("S9", "b", "two\n")
    assert again.session("S9").endswith(str(now)[:4])


def test_check_on_a_build_server_knows_the_agents_of_two_machines(
    ann: Studio, bob: Studio, make_repo: Make
) -> None:
    """Refs of both alone: their numbers are the same, their lines are not."""
    shared(ann, bob)
    bob.write("S2", "b", "of bob's agent\n")
    bob.commit("third")
    bob.repo.git("push", "--quiet", "origin", "HEAD:refs/heads/main")
    bob.run("push", remote="origin")
    build = make_repo("build", files=())
    url = ann.repo.git("remote", "get-url", "origin")
    build.git("fetch", "-q", url, "refs/agent-undo/*:refs/agent-undo/*")
    build.git("fetch", "-q", url, "main")
    build.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    head = Oid(build.git("rev-parse", "HEAD"))
    with context_from_refs(layout_of(build), os.environ) as context:
        owning = Owning(context)
        found = {
            path: [one.session for one in owning.committed(path, head).credits]
            for path in (RepoPath(b"a"), RepoPath(b"b"))
        }
    assert found == {b"a": [ann.session("S1")] * 2, b"b": [bob.session("S2")]}
