"""`reindex` rebuilds what was recorded; it is no way to begin recording."""

import json
import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from gitshadow.errors import JournalError, NotInitialisedError
from gitshadow.service import in_process
from tests.support.repo import Repo, ten_lines
from tests.support.studio import Studio, layout_of, studio_of


def test_where_nothing_was_ever_recorded_it_refuses(repo: Repo) -> None:
    """KEEP-10: nobody who never said `init` is recorded from then on."""
    with pytest.raises(
        NotInitialisedError, match="nothing has ever been recorded"
    ) as told:
        in_process.run(layout_of(repo), "reindex", {})
    assert told.value.hint == "git agent-undo init"
    assert not repo.state_dir.exists()
    assert repo.shadow_refs() == {}


def test_where_others_history_was_fetched_by_git_it_refuses(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEEP-10: chains of another machine are no sign that this one was recorded."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
    shutil.rmtree(repo.state_dir)
    monkeypatch.setattr("gitshadow.store.machine._derived", lambda _: "f" * 12)
    with pytest.raises(NotInitialisedError):
        in_process.run(layout_of(repo), "reindex", {})
    assert not repo.state_dir.exists()


def test_a_lost_state_directory_is_built_anew(repo: Repo) -> None:
    """KEEP-10, LAW-07: the refs of this machine say that it was recorded."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
    shutil.rmtree(repo.state_dir)
    in_process.run(layout_of(repo), "reindex", {})
    with studio_of(repo) as studio:
        rows = studio.run("log", limit=9)["rows"]
        assert isinstance(rows, list)
        assert [row["path"] for row in rows if row["kind"] == "modify"] == ["a"]


def test_a_journal_of_an_older_version_is_set_aside_and_rebuilt(repo: Repo) -> None:
    """KEEP-10: it is refused until then; prompts and undo history are kept."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
        studio.write("S1", "b", "agent\n")
        studio.stop("S1")
        studio.run("undo", verb="oops", yes=True)
        studio.run("undo", verb="redo", yes=True)
        before = told(studio)
    with closing(sqlite3.connect(layout_of(repo).journal)) as old:
        old.execute("DROP TRIGGER turns_numbered")
        old.execute("DROP TRIGGER ops_numbered")
        old.execute("DROP TABLE short_ids")
        old.execute("ALTER TABLE turns DROP COLUMN prompt_digest")
        old.execute("PRAGMA user_version = 15")
    with pytest.raises(JournalError, match="its version 15 is older") as caught:
        in_process.run(layout_of(repo), "log", {})
    assert caught.value.hint == "git agent-undo reindex"
    answer = in_process.run(layout_of(repo), "reindex", {})
    assert answer["damaged"] == []
    assert str(answer["set_aside"]).endswith("/journal.db.damaged-1")
    with studio_of(repo) as studio:
        assert told(studio) == before
        assert [op["kind"] for op in before["ops"]] == ["redo", "oops"]
        assert [turn["prompt"] for turn in before["turns"]] == ["prompt of S1"]
        studio.run("undo", verb="oops", yes=True)
    assert repo.read("a") == ten_lines("a").encode()


def told(studio: Studio) -> Any:
    """Return what is known of turns and undos, as JSON."""
    found = {"turns": studio.run("turns")["rows"], "ops": studio.run("ops")["rows"]}
    return json.loads(json.dumps(found))
