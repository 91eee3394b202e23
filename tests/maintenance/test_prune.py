"""What is pruned is gone for good, and nothing else is."""

import os
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.errors import JournalError, LockedError
from gitshadow.maintenance import prune
from gitshadow.maintenance.retention import RetentionUnit
from gitshadow.maintenance.upkeep import pack_now, usage
from gitshadow.model import EventKind, RepoPath
from gitshadow.recording.context import RecorderContext
from gitshadow.sdk.testing import sample_rows
from gitshadow.store import artifacts
from gitshadow.store.journal import events, purge, turns
from gitshadow.store.journal import prune as journal
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.journal.saga_rows import SagaEntry
from gitshadow.store.layout import page_of
from gitshadow.store.lock import WriterLock
from tests.support.audit import audit, audit_states, open_journal
from tests.support.packed import Shelf
from tests.support.repo import Repo, ten_lines
from tests.support.studio import Studio, layout_of, studio_of

_TABLES = (
    "events",
    "sessions",
    "chains",
    "turns",
    "calls",
    "call_paths",
    "call_runs",
    "corrections",
    "bursts",
    "ops",
    "op_steps",
    "touches",
    "models",
)


def rows_left(repo: Repo) -> dict[str, int]:
    """Return how many rows the tables of sessions still have, but those that have none."""
    with closing(open_journal(repo)) as db:
        counted = {
            table: db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            for table in _TABLES
        }
    return {table: count for table, count in counted.items() if count}


def objects(repo: Repo) -> int:
    """Return how many objects the repository has."""
    listed = repo.git("cat-file", "--batch-all-objects", "--batch-check", "--unordered")
    return len(listed.splitlines())


@contextmanager
def played(repo: Repo, writes: int = 6) -> Iterator[Studio]:
    """Play two agents and a person; both agents have ended."""
    with studio_of(repo) as studio:
        for number in range(writes):
            studio.write("S1", "a", f"one {number}\n")
            studio.write("S2", f"n{number % 3}", f"two {number}\n")
            studio.hand("b", f"mine {number}\n")
        studio.end("S1", "S2")
        yield studio


@pytest.mark.parametrize("packed", [False, True])
def test_after_prune_of_all_the_repository_has_its_size_from_before(
    repo: Repo, packed: bool
) -> None:
    """KEEP-02: objects as before; refs and rows gone, packed refs and exposed ones too."""
    repo.git("gc", "-q", "--prune=now")
    before, refs = objects(repo), repo._refs()
    with played(repo, 20) as studio:
        studio.run("expose", session=studio.session("S1"))
        repo.git("pack-refs", "--all")
        if packed:
            pack_now(studio.context.workspace.layout, os.environ)
        studio.write("S3", "late", "three\n")
        studio.run("expose", session=studio.session("S3"))
        studio.end("S3")
        dropped = studio.run("prune", all=True)["dropped"]
        assert isinstance(dropped, list)
        assert len(dropped) == 4
        assert studio.run("sessions")["rows"] == []
        audit(repo)
    assert repo._refs() == refs
    repo.git("gc", "-q", "--prune=now")
    assert objects(repo) == before
    assert rows_left(repo) == {}


def test_what_was_corrected_or_measured_of_a_session_goes_with_it(repo: Repo) -> None:
    with played(repo) as studio:
        ws, session = studio.context.workspace, studio.session("S1")
        (call, *_) = turns.list_calls(ws.db, session)
        with ws.db.write():
            turns.open_call(ws.db, replace(call, began_ns=call.opened_ns))
        wanted = EventFilter(sessions=(session,), kinds=(EventKind.MODIFY,))
        row = events.changes(ws.db, wanted)[0]
        nobody = studio.context.claimant.nobody("judged again")
        ws.recorder.correct({row: nobody}, ws.clock.now_ns())
        left = rows_left(repo)
        assert (left["call_runs"], left["corrections"]) == (1, 1)
        purged = purge.find_texts(ws.db, (session.encode(),))
        assert ("corrections.chain", 1) in purged.names, "a purge leaves it as it is"
        list(prune.forget(studio.context, chosen(studio.context, session), wait_s=5))
        left = rows_left(repo)
        assert {"call_runs", "corrections"}.isdisjoint(left)
        audit(repo)


def test_recording_goes_on_after_everything_was_dropped(repo: Repo) -> None:
    """KEEP-13: what is on the disk is the new baseline, and the next write is one event."""
    with played(repo) as studio:
        studio.run("prune", all=True)
        repo.git("gc", "-q", "--prune=now")
        studio.run("log")
        assert repo.shadow_refs() == {}
        studio.write("S9", "n0", "nine\n")
        (row,) = [one for one in studio.rows("log") if one["agent"]]
        assert (row["path"], row["kind"]) == ("n0", "modify")
        audit(repo)
        repo.fsck()
        studio.end("S9")
        assert studio.undo(studio.session("S9"))["status"] == "reversed"
    assert repo.read("n0") == b"two 3\n"
    with studio_of(repo) as studio:
        repo.git("gc", "-q", "--prune=now")
        repo.git("repack", "-adq")
        audit(repo)
        assert studio.run("cat", path="n1")["oid"] == repo.blob("n1")
    repo.fsck()


def test_a_process_that_begins_after_it_looks_at_everything_anew(repo: Repo) -> None:
    """KEEP-13: without a daemon too: what is on the disk is rooted, and is no event."""
    with played(repo) as studio:
        studio.run("prune", all=True)
    repo.git("gc", "-q", "--prune=now")
    with studio_of(repo) as studio:
        assert [row["kind"] for row in studio.rows("log")] in ([], ["baseline"])
        studio.hand("n0", "changed\n")
        assert [r["kind"] for r in studio.rows("log") if r["path"]] == ["modify"]
        audit(repo)
    repo.fsck()


def test_dry_run_lists_what_would_go(repo: Repo) -> None:
    """KEEP-06: the same, oldest first, and drops nothing."""
    with played(repo) as studio:
        refs = repo.shadow_refs()
        planned = studio.run("prune", keep=1, dry_run=True)
        assert repo.shadow_refs() == refs
        done = studio.run("prune", keep=1)
        assert done["dropped"] == planned["dropped"]
        assert [row["id"] for row in rows_of(done)] == sorted(
            [row["id"] for row in rows_of(done)], key=lambda one: str(one)
        ) or len(rows_of(done)) == 2
        audit(repo)


def test_age_zero_drops_what_is_closed_and_says_what_stays(repo: Repo) -> None:
    """KEEP-06: both agents that ended; not the one at work, nor the person's own of today."""
    with played(repo) as studio:
        studio.write("S3", "c", "three\n")
        ended = {studio.session("S1"), studio.session("S2")}
        done = studio.run("prune", older_than=0)
        assert {row["id"] for row in rows_of(done)} == ended
        assert (done["open"], done["kept"]) == (1, 1)
        audit(repo)


def rows_of(document: dict[str, object]) -> list[dict[str, object]]:
    rows = document["dropped"]
    assert isinstance(rows, list)
    return rows


def test_open_sessions_stay(repo: Repo) -> None:
    """KEEP-06: also where everything else goes."""
    with played(repo) as studio:
        studio.write("S3", "c", "three\n")
        open_id = studio.session("S3")
        studio.run("prune", all=True)
        assert open_id in [row["id"] for row in studio.rows("sessions")]
        studio.write("S3", "c", "four\n")
        audit(repo)
        studio.stop("S3")
        assert studio.undo(open_id)["status"] == "reversed"
    assert repo.read("c") == ten_lines("c").encode()


def test_reports_of_a_dropped_session_go_also_where_it_is_compared(repo: Repo) -> None:
    with played(repo) as studio:
        studio.write("S3", "late", "three\n")
        layout = layout_of(repo)
        gone, kept = studio.session("S1"), studio.session("S3")
        os.mkdir(layout.pages_dir)
        for names in ((gone,), (kept,), (gone, kept), (kept, gone)):
            Path(page_of(layout, *names)).write_text("page")
        studio.run("prune", all=True)
    assert os.listdir(layout.pages_dir) == [f"{kept}.html"]


def test_a_pin_outlives_its_session(repo: Repo) -> None:
    """KEEP-05: all of it comes back after everything older was dropped; unpin takes the pin."""
    with studio_of(repo) as studio:
        for name in ("a", "b", "c"):
            studio.write("S1", name, f"good {name}\n")
        studio.run("pin", name="good")
        studio.write("S1", "a", "worse\n")
        studio.write("S1", "b", "worse\n")
        studio.end("S1")
        studio.run("prune", all=True)
        repo.git("gc", "-q", "--prune=now")
        studio.run("undo", verb="restore", pin="good", yes=True)
        for name in ("a", "b", "c"):
            assert repo.read(name) == f"good {name}\n".encode()
        before = repo.tree_snapshot()
        studio.run("unpin", name="good")
        assert repo.tree_snapshot() == before
        assert not [ref for ref in repo.shadow_refs() if "pin-" in ref]
        audit(repo)


def test_what_two_sessions_and_the_user_share_stays(repo: Repo) -> None:
    """KEEP-08: one of two goes; the other undoes in full, the user's commit is whole."""
    with studio_of(repo) as studio:
        layout = studio.context.workspace.layout
        studio.write("S1", "n", "the same bytes\n")
        studio.write("S2", "m", "the same bytes\n")
        pack_now(layout, os.environ)
        studio.commit("the agents' text")
        pack_now(layout, os.environ)
        studio.end("S1", "S2")
        one, two = studio.session("S1"), studio.session("S2")
        assert list(prune.forget(studio.context, chosen(studio.context, one), wait_s=5))
        repo.git("gc", "-q", "--prune=now")
        assert studio.undo(two)["status"] == "reversed"
        audit(repo)
    assert not repo.exists("m")
    repo.fsck()
    assert repo.git("show", "HEAD:m") == "the same bytes"


def chosen(context: RecorderContext, *ids: str) -> list[RetentionUnit]:
    units = prune.units_of(context.workspace)
    return [unit for unit in units if set(unit.ids) & set(ids)]


def test_packs_without_anything_of_it_stay_kept(repo: Repo) -> None:
    """KEEP-08: only what holds a part of a dropped session is given to Git."""
    with studio_of(repo) as studio:
        layout = studio.context.workspace.layout
        studio.write("S1", "n", "one\n")
        studio.end("S1")
        pack_now(layout, os.environ)
        for number in range(9):
            studio.write("S2", "m", f"two {number}\n")
        pack_now(layout, os.environ)
        shelf = Shelf(repo)
        assert len(shelf.names()) == 2
        going = chosen(studio.context, studio.session("S1"))
        list(prune.forget(studio.context, going, wait_s=5))
        assert len(shelf.names()) == 1


def test_a_crash_at_any_step_is_gone_on_with(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEEP-06: whole units only: the next process finishes what was begun."""
    monkeypatch.setattr(prune, "_ROWS", 4)
    steps, left = 0, True
    while left:
        with studio_of(repo) as studio:
            for number in range(5):
                studio.write(f"S{steps}", "a", f"{steps} {number}\n")
            studio.end(f"S{steps}")
            name = studio.session(f"S{steps}")
            going = chosen(studio.context, name)
            work = prune.forget(studio.context, going, wait_s=5)
            left = all(next(work, True) is None for _ in range(steps))
            interrupted = journal.under_way(studio.context.workspace.db) is not None
            assert interrupted == (left and steps > 0)
        with studio_of(repo) as studio:
            known = [row["id"] for row in studio.rows("sessions")]
            assert (name in known) == (steps == 0)
            gaps = [row for row in studio.rows("log") if row["kind"] == "gap"]
            assert gaps == []
            audit_states(repo)
        steps += 1
    assert steps > 3


def test_nothing_is_dropped_while_somebody_packs(repo: Repo) -> None:
    with played(repo) as studio:
        refs = repo.shadow_refs()
        layout = studio.context.workspace.layout
        with WriterLock(layout.packing_lock) as other:
            other.acquire(0)
            going = prune.units_of(studio.context.workspace)
            with pytest.raises(LockedError):
                list(prune.forget(studio.context, going, wait_s=0))
        assert repo.shadow_refs() == refs


def test_what_other_worktrees_know_goes_too(repo: Repo, tmp_path: Path) -> None:
    """KEEP-02: a chain per worktree; what stands there is looked at anew."""
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Repo(tmp_path / "linked")
    with studio_of(linked) as studio:
        studio.write("S1", "n", "in the linked worktree\n")
        studio.end("S1")
    with studio_of(repo) as studio:
        studio.hand("a", "mine\n")
        studio.run("prune", all=True)
        assert repo.shadow_refs() == {}
        audit(repo)
    assert os.path.exists(layout_of(linked).wt_dir)
    with studio_of(linked) as studio:
        studio.write("S2", "n", "again\n")
        audit(linked)
    linked.fsck()


def a_program(studio: Studio, name: str, *, ended: bool) -> None:
    """Leave what an agent program's session leaves: rows, a log, an artifact."""
    ws = studio.context.workspace
    turn = replace(
        sample_rows.TURN,
        session=name,
        ended_ns=9 if ended else None,
        status="committed",
    )
    call = replace(sample_rows.CALL, session=name, ended_ns=5, outcome="success")
    for kind in ("began", "ended"):
        note = SagaEntry(
            session=name, turn=None, call=None, kind=kind, ts_ns=1, body="{}"
        )
        SagaTables(ws.db).save([turn, call, note])
    artifacts.keep(ws.repo, name, RepoPath(b"plot/0"), name.encode(), 7)


def test_an_agent_programs_session_goes_with_all_it_left(repo: Repo) -> None:
    """KEEP-06: rows and artifacts; those of one at work stay, and the log stays a chain."""
    with studio_of(repo) as studio:
        db = studio.context.workspace.db
        a_program(studio, "one", ended=True)
        a_program(studio, "two", ended=False)
        a_program(studio, "three", ended=True)
        studio.run("prune", all=True)
        assert {turn.session for turn in SagaTables(db).turns()} == {"two"}
        assert [row.session for row in SagaTables(db).log()] == ["two", "two"]
        assert SagaTables(db).broken_at() is None
        assert list(repo.shadow_refs()) == [artifacts.artifact_ref("two")]
        SagaTables(db).save([replace(sample_rows.CALL, session="two")])
        a_program(studio, "two", ended=False)
        assert SagaTables(db).broken_at() is None
        with pytest.raises(JournalError, match="append-only"):
            db.run("DELETE FROM saga_log")


def test_size_counts_what_git_counts(repo: Repo) -> None:
    """KEEP-06: the oldest go, till what is left is no more than asked for."""
    with studio_of(repo) as studio:
        for number in range(4):
            who = f"S{number}"
            studio.write(who, f"n{number}", random.Random(number).randbytes(10_000))
            studio.end(who)
        layout = studio.context.workspace.layout
        limit = usage(layout, os.environ).total.bytes - 15_000
        planned = studio.run("prune", size=limit, dry_run=True)
        ids = [studio.session(f"S{number}") for number in range(4)]
        done = studio.run("prune", size=limit)
        assert done["dropped"] == planned["dropped"]
        gone = [row["id"] for row in rows_of(done) if row["id"] in ids]
        assert gone == ids[: len(gone)]
        assert gone
        assert usage(layout, os.environ).total.bytes <= limit
        audit_states(repo)
