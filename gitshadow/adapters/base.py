"""The one record that every agent's hook payload is read into.

Invariant: a parser is a pure function of payload and environment. It never raises for the content
of a payload: a wrong one gives a `BadPayload`, one that does not concern gitshadow gives None.
Paths are as in the payload; `paths` and the intake make them repo-relative.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from gitshadow.adapters.payload import Payload
from gitshadow.model import ToolClass

SAVED_WITHIN_NS = 2_000_000_000
"""How old the write may be that a "this file was just written" reports.

A hook program starts within some tens of milliseconds and may have to wait for its turn.
"""


class HookPhase(StrEnum):
    """The moment of a session that a payload reports.

    A notice begins and ends nothing: the present content of its paths is to be recorded. A
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
"""When one of these is reported, everything that the unit wrote is recorded first."""


class FileEdit(NamedTuple):
    """The bytes that a file tool found in its file, if they are known, and those that it left."""

    found: bytes | None
    left: bytes


class Replacement(NamedTuple):
    """The bytes that a file tool replaced in its file, once or everywhere, and the new ones."""

    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One hook payload in the words of gitshadow.

    Attributes:
        agent: The agent that works.
        host: The program whose hook system sent the payload.
        call_id: Never None for a tool event.
        call_derived: The id may come again for another call: it is hashed from the input, because
            the agent sends none, or the agent counts from the start in each turn.
        paths: Raw bytes, absolute or relative to `cwd`, only of tools that write what they name.
        duration_ns: How long the tool itself ran.
        only_writer: The process that writes all files of the session, itself or by those below it.
        child_session: The native id of a session that the call has started.
        calling_session: The native id of the session of which a call started this one.
        awaited: The sessions or tasks for whose end the call waits, without writing itself.
        background_tasks: How many tasks go on after the end of a turn or call.
        edit: What the tool did to its one path, if the host reports it.
        changed: The absolute paths of all files that were different after the tool, if the host
            compared the whole repository; empty if it did not, or lists only a part.

    An end without a tool closes a known call; for an unknown call it is ignored.
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
    prompt_digest: str | None = None
    model: str | None = None
    transcript_path: str | None = None
    reason: str | None = None
    duration_ns: int | None = None
    child_session: str | None = None
    calling_session: str | None = None
    awaited: tuple[str, ...] = ()
    background_tasks: int = 0
    edit: FileEdit | Replacement | None = None
    changed: tuple[bytes, ...] = ()
    only_writer: int | None = None


@dataclass(frozen=True, slots=True)
class BadPayload:
    """Why a payload could not be read, in one sentence; it leaves a gap row."""

    reason: str


class ContextChannel(StrEnum):
    """How a hook of an agent's prompt event can add to what the model reads.

    `TEXT`: what it prints; `JSON`: `hookSpecificOutput.additionalContext`. Agents whose vendor
    does not document it, or documents a decision alone, have `NONE`: nothing is printed there.
    """

    NONE = "none"
    TEXT = "text"
    JSON = "json"


class Traits(NamedTuple):
    """What an agent's hooks promise.

    Attributes:
        covers_all_tools: Every tool of the agent that can write opens a window, so a write outside
            all windows is probably not the agent's.
        sequential: The agent runs one tool at a time, so the next window ends the one before.
        never_ends: No event comes after a tool.
        waits_unseen: The hooks report neither when a person was asked for permission nor how long
            a tool ran; shells are processes of their own, and file tools write at once.
        cancels_unseen: No event comes when a person cancels a call; shells are new processes below
            the agent's.
        one_session: The events of subagents come in their parent's session, without a mark: a
            stop while a call that starts one is open is a subagent's.
        prompts_unseen: A run without a terminal reports no prompt, so a call outside every turn
            begins one.
        reports_turns: Each turn begins with a prompt event and ends with an event, also without a
            person, seen with the real program.
        shells_below: Its shells are processes that it started itself, seen with the real program;
            not those of an editor's terminal, of a server or of a container.
        context: The form of a text for the model at a prompt.
        rewind: How a person rewinds its conversation, and only that.
    """

    covers_all_tools: bool = False
    sequential: bool = False
    never_ends: bool = False
    waits_unseen: bool = False
    cancels_unseen: bool = False
    one_session: bool = False
    prompts_unseen: bool = False
    reports_turns: bool = False
    shells_below: bool = False
    context: ContextChannel = ContextChannel.NONE
    rewind: str = ""


Parsed: TypeAlias = HookEvent | BadPayload | None

Parser: TypeAlias = Callable[[Payload, Mapping[str, str]], Parsed]
"""Reads one payload, given the markers that the hook program found in its environment.

It returns the event, None for an event that does not concern gitshadow, or what is wrong with it.
"""
