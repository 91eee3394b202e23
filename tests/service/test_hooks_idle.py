"""A call that was cancelled, and an agent that says no more than that it waits."""

import json
from collections.abc import Iterator

import pytest

from gitshadow.model import PathChange
from gitshadow.recording.context import RecorderContext
from gitshadow.service import hook_intake
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from tests.support.context import desk_of
from tests.support.repo import Repo


@pytest.fixture
def context(repo: Repo) -> Iterator[RecorderContext]:
    with desk_of(repo) as opened:
        yield opened


def send(context: RecorderContext, repo: Repo, event: str, **fields: object) -> None:
    payload = {
        "session_id": "s1",
        "cwd": str(repo.root),
        "hook_event_name": event,
        "prompt_id": "p1",
        **fields,
    }
    hook_intake.take_body(
        context, b"agent: claude-code\n\n" + json.dumps(payload).encode()
    )


@pytest.mark.parametrize(
    ("kind", "call"), [("idle_prompt", None), ("permission_prompt", "c1")]
)
def test_cancelled_call_claims_nothing_after_its_agent_said_that_it_waits(
    repo: Repo, context: RecorderContext, kind: str, call: str | None
) -> None:
    """ATT-12: a person edits the file that a cancelled edit had named."""
    send(context, repo, "UserPromptSubmit", prompt="go")
    path = str(repo.root / "a")
    tool = {"tool_name": "Edit", "tool_use_id": "c1", "tool_input": {"file_path": path}}
    send(context, repo, "PreToolUse", **tool)
    send(context, repo, "Notification", notification_type=kind, message="waiting")
    repo.write("a", "by hand\n")
    context.observer.settle()
    (row,) = events.rows(context.workspace.db, EventFilter(paths=None))[:1]
    assert isinstance(row, PathChange)
    assert row.path == b"a"
    assert row.attribution.call == call
