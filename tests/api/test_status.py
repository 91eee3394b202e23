"""The document of `status`, in process."""

from dataclasses import replace

import pytest

from gitshadow.attribution.lifecycle import Who, see_session
from gitshadow.model import EventKind
from gitshadow.query.rows import rfc3339
from gitshadow.sdk.testing.sample_rows import CALL
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.journal.saga import SagaTables
from tests.support.repo import Repo
from tests.support.studio import studio_of

_FAR_NS = 2_000_000_000_000_000_000


def test_status_names_the_format_of_the_object_ids(repo: Repo) -> None:
    with studio_of(repo) as s:
        form = repo.git("rev-parse", "--show-object-format")
        assert s.run("status", brief=True)["object_format"] == form


def test_status_names_the_next_window_to_close(repo: Repo) -> None:
    """AN-21: the soonest that is still open, of what can still be taken back."""
    with studio_of(repo) as s:
        assert s.run("status")["undo_window"] is None
        planned = replace(CALL, undo="planned", tool="card.charge")
        SagaTables(s.context.workspace.db).save(
            [
                replace(planned, id="past", expires_ns=1),
                replace(planned, id="done", undo="done", expires_ns=_FAR_NS),
                replace(planned, id="later", expires_ns=_FAR_NS + 2),
                replace(planned, id="soon", expires_ns=_FAR_NS + 1),
            ],
        )
        assert s.run("status")["undo_window"] == {
            "closes": "2033-05-18T03:33:20.000000Z",
            "session": "s",
            "turn": "t-1",
            "call": "soon",
            "tool": "card.charge",
        }


def test_status_says_when_each_agent_was_last_heard(repo: Repo) -> None:
    with studio_of(repo) as s:
        s.write("S1", "a", "x\n")
        status = s.run("status")
    assert isinstance(status["heard"], dict)
    assert list(status["heard"]) == status["heard_lately"] == ["claude-code"]


@pytest.mark.parametrize("native", ["pid-1-2", "exec-ab", "manual-ab"])
def test_agent_was_not_heard_when_no_hook_of_it_came(repo: Repo, native: str) -> None:
    """A process of it was seen, or a command of ours opened its session."""
    with studio_of(repo) as s:
        db, now_ns = s.context.workspace.db, s.context.workspace.clock.now_ns()
        who = Who(agent="droid", native_id=native)
        with db.write():
            see_session(db, who, now_ns, may_open=True)
        status = s.run("status")
    assert (status["heard"], status["heard_lately"]) == ({}, [])


def test_status_says_when_the_last_gap_was(repo: Repo) -> None:
    with studio_of(repo) as s:
        assert s.run("status")["last_gap"] is None
        s.run("journal_gap", why="a test")
        [gap] = events.rows(
            s.context.workspace.db, EventFilter(kinds=[EventKind.GAP], limit=1)
        )
        assert s.run("status")["last_gap"] == rfc3339(gap.ts_ns)
