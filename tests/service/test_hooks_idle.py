"""A call that was cancelled, and an agent that says no more than that it waits."""

import json
import os
from collections.abc import Iterator

import pytest

from gitshadow.maintenance import setup
from gitshadow.recording.context import Desk, open_desk
from gitshadow.service import hook_intake
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.layout import discover
from tests.support.repo import Repo


@pytest.fixture
def desk(repo: Repo) -> Iterator[Desk]:
    layout = discover(str(repo.root))
    assert layout is not None
    setup.initialise(layout, os.environ, force=True)
    opened = open_desk(layout, os.environ, lock_timeout_s=1.0)
    hook_intake.listen(opened)
    yield opened
    opened.close()


def send(desk: Desk, repo: Repo, event: str, **fields: object) -> None:
    payload = {
        "session_id": "s1",
        "cwd": str(repo.root),
        "hook_event_name": event,
        "prompt_id": "p1",
        **fields,
    }
    hook_intake.take_body(
        desk, b"agent: claude-code\n\n" + json.dumps(payload).encode()
    )


@pytest.mark.parametrize(
    ("kind", "call"), [("idle_prompt", None), ("permission_prompt", "c1")]
)
def test_cancelled_call_claims_nothing_after_its_agent_said_that_it_waits(
    repo: Repo, desk: Desk, kind: str, call: str | None
) -> None:
    """ATT-12: a person edits the file that a cancelled edit had named."""
    send(desk, repo, "UserPromptSubmit", prompt="go")
    path = str(repo.root / "a")
    tool = {"tool_name": "Edit", "tool_use_id": "c1", "tool_input": {"file_path": path}}
    send(desk, repo, "PreToolUse", **tool)
    send(desk, repo, "Notification", notification_type=kind, message="waiting")
    repo.write("a", "by hand\n")
    desk.observer.settle()
    (row,) = events.rows(desk.workspace.db, EventFilter(paths=None))[:1]
    assert row.path == b"a"
    assert row.attribution is not None
    assert row.attribution.call == call
