"""Writes to what is not recorded: whose they are, and when they were."""

import time

import pytest

from gitshadow.model import RepoPath
from gitshadow.store.clock import StampClock
from gitshadow.store.journal import state
from gitshadow.store.journal.turns import SLACK_NS
from tests.support.repo import Repo
from tests.support.studio import studio_of


@pytest.mark.parametrize("deletes", [False, True])
def test_touch_is_the_calls_that_made_it_when_it_is_noticed_later(
    repo: Repo, deletes: bool
) -> None:
    repo.write(".gitignore", "hidden\n")
    repo.write("hidden", "first\n")
    repo.commit("start")
    told = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "t1"}
    with studio_of(repo) as studio:
        studio.start("S")
        studio.prompt("S", "go")
        studio.hook("S", "PreToolUse", **told)
        if deletes:
            repo.delete("hidden")
        else:
            repo.write("hidden", "agent\n")
        studio.hook("S", "PostToolUse", **told, tool_response={})
        time.sleep(3 * SLACK_NS / 1e9)
        studio.context.pipeline.touched([(RepoPath(b"hidden"), "ignored")])
        db, session = studio.context.workspace.db, studio.session("S")
        *_, last = state.touches_between(db, "main", 0, 2**62)
    assert (last.path, last.session, last.call) == (b"hidden", session, "t1")


def test_touch_after_the_last_call_is_nobodys(repo: Repo) -> None:
    repo.write(".gitignore", "hidden\n")
    with studio_of(repo) as studio:
        studio.write("S", "a", "agent\n")
        time.sleep(3 * SLACK_NS / 1e9)
        repo.write("hidden", "mine\n")
        studio.context.pipeline.touched([(RepoPath(b"hidden"), "ignored")])
        db = studio.context.workspace.db
        *_, last = state.touches_between(db, "main", 0, 2**62)
    assert (last.path, last.session) == (b"hidden", None)


def test_nothing_to_note_asks_no_clock(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question changes a file, and every barrier and batch comes by here."""
    with studio_of(repo) as studio, monkeypatch.context() as patch:
        patch.delattr(StampClock, "now_ns")
        studio.context.pipeline.touched(iter(()))
