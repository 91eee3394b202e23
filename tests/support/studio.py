"""A worktree recorded in this process, without a daemon: `studio.write("S1", "a", …)`.

Agents are played by the payloads of Claude Code's hooks, delivered to the engine itself.
"""

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gitshadow.api import run
from gitshadow.attribution.delivery import HookDelivery
from gitshadow.recording.context import RecorderContext
from gitshadow.service import hook_intake
from gitshadow.store.layout import Layout, discover
from tests.support.context import desk_of
from tests.support.repo import PathLike, Repo

Document = dict[str, object]


def layout_of(repo: Repo) -> Layout:
    """Return where the repository keeps what."""
    found = discover(str(repo.root))
    assert found is not None
    return found


@dataclass(slots=True)
class Studio:
    """One repository and the context that is open on it."""

    repo: Repo
    context: RecorderContext
    turns: dict[str, str] = field(default_factory=dict)

    def run(self, verb: str, /, **params: object) -> Document:
        """Run one verb of the engine as the command does, at the top of the worktree."""
        return run(self.context, verb, {"cwd": str(self.repo.root), **params})

    # -- agents ------------------------------------------------------------------------------

    def hook(self, who: str, event: str, **fields: object) -> None:
        """Deliver one hook of an agent's session."""
        payload: Mapping[str, object] = {
            "session_id": who,
            "cwd": str(self.repo.root),
            "hook_event_name": event,
            "prompt_id": self.turns.get(who),
            **fields,
        }
        raw = json.dumps({k: v for k, v in payload.items() if v is not None})
        delivery = HookDelivery(agent="claude-code", payload=raw.encode())
        hook_intake.take(self.context, delivery)

    def start(self, who: str, *, model: str = "claude-sonnet-5") -> None:
        """Begin a session."""
        self.hook(who, "SessionStart", source="startup", model=model)

    def prompt(self, who: str, text: str) -> None:
        """Begin a turn."""
        self.turns[who] = str(uuid.uuid4())
        self.hook(who, "UserPromptSubmit", prompt=text)

    def write(self, who: str, path: PathLike, data: str | bytes) -> None:
        """Let an agent write a file; session and turn begin if they are new."""
        if who not in self.turns:
            self.start(who)
            self.prompt(who, f"prompt of {who}")
        full = os.fsdecode(os.path.normpath(self.repo.path(path)))
        call = f"toolu_{uuid.uuid4().hex[:24]}"
        asked = {"file_path": full, "content": ""}
        told = {"tool_name": "Write", "tool_input": asked, "tool_use_id": call}
        self.hook(who, "PreToolUse", **told)
        self.repo.write(path, data)
        self.hook(who, "PostToolUse", **told, tool_response={"success": True})

    def stop(self, who: str) -> None:
        """End a turn."""
        self.hook(who, "Stop")

    def end(self, *who: str) -> None:
        """End turns and sessions."""
        for one in who:
            self.stop(one)
            self.hook(one, "SessionEnd", reason="other")

    # -- people ------------------------------------------------------------------------------

    def hand(self, path: PathLike, data: str | bytes) -> None:
        """Write outside every window, recorded."""
        self.repo.write(path, data)
        self.context.observer.settle()

    def commit(self, message: str) -> str:
        """Commit everything, recorded."""
        oid = self.repo.commit(message)
        self.context.observer.settle()
        return oid

    def oops(self, **params: object) -> Document:
        """Run `oops --yes`."""
        return self.run("undo", verb="oops", yes=True, **params)

    def undo(self, *targets: str, **params: object) -> Document:
        """Run `undo --yes`."""
        asked = [{"text": one} for one in targets]
        return self.run("undo", verb="undo", yes=True, targets=asked, **params)

    def rows(self, verb: str, /, **params: object) -> list[Document]:
        """Return the rows of a list."""
        found = self.run(verb, **params)["rows"]
        assert isinstance(found, list)
        return found

    def session(self, who: str) -> str:
        """Return our id of an agent's session."""
        rows = self.rows("sessions")
        return next(str(row["id"]) for row in rows if row["native_id"] == who)


@contextmanager
def studio_of(repo: Repo) -> Iterator[Studio]:
    """Open a repository for recording, initialised where it is not."""
    with desk_of(repo) as context:
        yield Studio(repo, context)
