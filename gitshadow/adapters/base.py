"""The one record that every agent's hook payload is read into.

Invariant: an adapter is a pure function of payload and environment. It never raises for what a
payload holds: what is wrong with one comes back as a `BadPayload`, what does not concern us as
None. Paths stay as the payload names them; `paths` and the intake make them repo-relative.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from gitshadow.model import ToolClass


class HookPhase(StrEnum):
    """Say what moment of a session a payload reports.

    A notice begins and ends nothing: what stands on its paths is to be recorded as it is. A
    continuation goes on with the last turn without a new request of the user.
    """

    SESSION_START = "session_start"
    PROMPT = "prompt"
    CONTINUATION = "continuation"
    BEFORE = "before"
    AFTER = "after"
    FAILED = "failed"
    DENIED = "denied"
    NOTICE = "notice"
    TURN_END = "turn_end"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_END = "subagent_end"
    SESSION_END = "session_end"


TOOL_PHASES = (HookPhase.BEFORE, HookPhase.AFTER, HookPhase.FAILED, HookPhase.DENIED)
"""What a payload reports of one call of a tool."""

IN_SUBAGENT: Mapping[HookPhase, HookPhase] = {
    HookPhase.SESSION_START: HookPhase.SUBAGENT_START,
    HookPhase.PROMPT: HookPhase.SUBAGENT_START,
    HookPhase.SESSION_END: HookPhase.SUBAGENT_END,
}
"""What an event of a subagent is: its prompt comes from its parent and begins no turn."""

END_PHASES = (HookPhase.TURN_END, HookPhase.SUBAGENT_END, HookPhase.SESSION_END)
"""After these nothing of the unit is to be outstanding: everything written is recorded first."""


class FileEdit(NamedTuple):
    """Hold the bytes that a file tool found in its file, and those that it left there."""

    found: bytes
    left: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """Hold one hook payload in the words of gitshadow.

    `agent` is who works, `host` the program whose hook system sent the payload. `call_id` is
    always there for a tool event; `call_derived` marks one that may come again for another call:
    hashed from the input because the agent sends none, or counted anew by the agent in each turn.
    `paths` are raw bytes, absolute or relative to `cwd`, only of tools that write what they name.
    An end without a tool closes a known call; for an unknown call it is ignored.
    `duration_ns` is how long the tool itself ran. `child_session` is the native id of a session
    that the call has started, `awaited` are those of sessions or tasks for whose end the call
    waits, without writing itself. `background_tasks` counts what goes on after the end of a turn.
    `edit` is what the tool did to the one path that it names, where the host says it.
    """

    agent: str
    host: str
    native_session: str
    phase: HookPhase
    raw_event: str
    parent_session: str | None = None
    subagent_id: str | None = None
    subagent_type: str | None = None
    turn_id: str | None = None
    call_id: str | None = None
    call_derived: bool = False
    tool: str | None = None
    tool_class: ToolClass = ToolClass.OTHER
    paths: tuple[bytes, ...] = ()
    cwd: bytes | None = None
    prompt: str | None = None
    model: str | None = None
    transcript_path: str | None = None
    reason: str | None = None
    duration_ns: int | None = None
    child_session: str | None = None
    awaited: tuple[str, ...] = ()
    background_tasks: int = 0
    edit: FileEdit | None = None


@dataclass(frozen=True, slots=True)
class BadPayload:
    """Say in one sentence why a payload could not be read; it leaves a gap row."""

    reason: str


class ContextChannel(StrEnum):
    """Say how a hook of an agent's prompt event can add to what the model reads.

    `TEXT`: what it prints; `JSON`: `hookSpecificOutput.additionalContext`. Agents whose vendor
    does not document it, or documents a decision alone, have `NONE`: nothing is printed there.
    """

    NONE = "none"
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Traits:
    """Say what an agent's hooks promise.

    `covers_all_tools`: every tool of the agent that can write opens a window, so a write outside
    one is hardly the agent's. `sequential`: it runs one tool at a time, so the next window ends
    the one before. `never_ends`: no event comes after a tool. `waits_unseen`: its hooks say
    neither when a person was asked for permission nor how long a tool ran; its shells are processes
    of its own, and its file tools write a file at once. `context` is its form for words to the
    model at a prompt.
    """

    covers_all_tools: bool = False
    sequential: bool = False
    never_ends: bool = False
    waits_unseen: bool = False
    context: ContextChannel = ContextChannel.NONE


Parsed = HookEvent | BadPayload | None


class Adapter(Protocol):
    """Read the payloads of one agent."""

    @property
    def name(self) -> str:
        """Return the agent's name as `hook AGENT` spells it."""
        ...

    @property
    def traits(self) -> Traits:
        """Return what this agent's hooks promise."""
        ...

    def parse(self, payload: Mapping[str, object], env: Mapping[str, str]) -> Parsed:
        """Read one payload.

        Args:
            payload: The decoded JSON object, unknown fields and wrong types included.
            env: The markers that the hook program found in its environment.

        Returns:
            The event, None for an event that does not concern us, or what is wrong with it.
        """
        ...
