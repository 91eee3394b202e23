"""The document of `status`, in process."""

from dataclasses import replace

from gitshadow.store.journal import saga
from gitshadow.testing.samples import CALL
from tests.support.repo import Repo
from tests.support.studio import studio_of

_FAR_NS = 2_000_000_000_000_000_000


def test_status_names_the_next_window_to_close(repo: Repo) -> None:
    """AN-21: the soonest that is still open, of what can still be taken back."""
    with studio_of(repo) as s:
        assert s.run("status")["undo_window"] is None
        planned = replace(CALL, undo="planned", tool="card.charge")
        saga.save(
            s.desk.workspace.db,
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
