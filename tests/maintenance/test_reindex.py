"""`reindex` rebuilds what was recorded; it is no way to begin recording."""

import shutil

import pytest

from gitshadow.errors import NotInitialisedError
from gitshadow.service import in_process
from tests.support.repo import Repo
from tests.support.studio import layout_of, studio_of


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
