"""The table-driven reading that most agents share: where which field stands, and nothing else.

Quirks stay in the agent's module, which calls `Shape.read` and `dataclasses.replace`s.
Invariant: reading never raises for what a payload holds, and ids come out printable and bounded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gitshadow.adapters import envelope, fields
from gitshadow.adapters.base import (
    IN_SUBAGENT,
    TOOL_PHASES,
    BadPayload,
    HookEvent,
    HookPhase,
    Parsed,
)
from gitshadow.model import ToolClass

Tools = Mapping[ToolClass, frozenset[str]]
Keys = tuple[str, ...]

CLAUDE_SETTINGS_PHASES: Mapping[str, HookPhase] = {
    "SessionStart": HookPhase.SESSION_START,
    "UserPromptSubmit": HookPhase.PROMPT,
    "PreToolUse": HookPhase.BEFORE,
    "PostToolUse": HookPhase.AFTER,
    "PostToolUseFailure": HookPhase.FAILED,
    "Stop": HookPhase.TURN_END,
    "SubagentStart": HookPhase.SUBAGENT_START,
    "SubagentStop": HookPhase.SUBAGENT_END,
    "SessionEnd": HookPhase.SESSION_END,
}
"""Events as Claude Code's settings name them; Cursor and VS Code send them by these names too."""

SUBAGENT_PHASES = (HookPhase.SUBAGENT_START, HookPhase.SUBAGENT_END)

_Value = TypeVar("_Value")


def _unchanged(tool: str) -> str:
    return tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Say under which keys an agent's payloads hold what.

    Keys may be dotted (`tool_info.file_path`); a JSON text on the way is read as the object it
    holds. Of several keys the first with a readable value counts.

    Attributes:
        agent: The agent's name, which is also the host's.
        event: Keys that name the event.
        phases: Event name -> phase; an event that is not listed does not concern us.
        session: Keys of the native session id; without one the payload is bad.
        turn: Keys of the agent's own turn id.
        call: Keys of the call id; without one it is derived from session, tool and input.
        tool: Keys of the tool's name; a tool event without one is bad.
        tool_input: Keys of the object, or JSON text of one, that the tool gets.
        cwd: Keys of the directory; of a list the first item counts.
        prompt: Keys of what the user wrote, read in the prompt phase alone.
        model: Keys of the model's name.
        transcript: Keys of the transcript's path.
        reason: Keys that say why something ended or failed.
        subagent: Keys of the id that tells a subagent's events from its parent's. Where there
            are none, subagent phases do not concern us.
        subagent_type: Keys of the subagent's kind.
        duration_ms: Keys of how long the tool ran.
        background_tasks: Keys of a list of what goes on after a turn.
        path_keys: Keys in the tool's input that name a path; `files[]` stands for the items of
            a list, `edits[].path` for a field of each.
        patch_keys: Keys in the tool's input that hold an apply_patch envelope.
        tools: Tool class -> names; a tool that is not listed may do anything (`OTHER`).
        tool_name: Makes the name to look up and to record from the one in the payload.
    """

    agent: str
    event: Keys
    phases: Mapping[str, HookPhase]
    session: Keys
    turn: Keys = ()
    call: Keys = ()
    tool: Keys = ("tool_name",)
    tool_input: Keys = ("tool_input",)
    cwd: Keys = ("cwd",)
    prompt: Keys = ("prompt",)
    model: Keys = ("model",)
    transcript: Keys = ("transcript_path",)
    reason: Keys = ("reason", "error")
    subagent: Keys = ()
    subagent_type: Keys = ()
    duration_ms: Keys = ()
    background_tasks: Keys = ()
    path_keys: Keys = ()
    patch_keys: Keys = ()
    tools: Tools
    tool_name: Callable[[str], str] = _unchanged

    def read(
        self, payload: Mapping[str, object], phase: HookPhase | None = None
    ) -> Parsed:
        """Read one payload.

        Args:
            payload: The decoded JSON object.
            phase: What the event is, where the agent's module knows better than `phases`.

        Returns:
            The event; None for one that does not concern us; or what is wrong with the payload.
            A tool that writes what it names, and names nothing here, is `OTHER`: it opens a
            window for any path, as a shell does.
        """
        raw_event = _first(fields.identifier, payload, self.event)
        if raw_event is None:
            return BadPayload("the payload has no hook event")
        phase = phase or self.phases.get(raw_event)
        if phase is None or (phase in SUBAGENT_PHASES and not self.subagent):
            return None
        session = _first(fields.native_id, payload, self.session)
        if session is None:
            return BadPayload(f"the {raw_event} payload has no session")
        subagent = _first(fields.identifier, payload, self.subagent)
        if subagent is None and phase in SUBAGENT_PHASES:
            return BadPayload(f"the {raw_event} payload has no subagent")
        if subagent is not None:
            phase = IN_SUBAGENT.get(phase, phase)
        tool = self._tool(payload) if phase in TOOL_PHASES else None
        if tool is None and phase in TOOL_PHASES:
            return BadPayload(f"the {raw_event} payload has no tool")
        return self._event(payload, phase, raw_event, (session, subagent), tool)

    def tool_class(self, tool: str) -> ToolClass:
        """Return what a tool can do to files; one that is not listed may do anything."""
        for kind, names in self.tools.items():
            if tool in names:
                return kind
        return ToolClass.OTHER

    def input_of(self, payload: Mapping[str, object]) -> Mapping[str, object]:
        """Return the tool's input, an empty one where there is none."""
        return next(
            (
                found
                for key in self.tool_input
                if (found := fields.mapping(payload, key))
            ),
            {},
        )

    def _tool(self, payload: Mapping[str, object]) -> str | None:
        named = _first(fields.identifier, payload, self.tool)
        return None if named is None else self.tool_name(named) or named

    def _event(
        self,
        payload: Mapping[str, object],
        phase: HookPhase,
        raw_event: str,
        who: tuple[str, str | None],
        tool: str | None,
    ) -> HookEvent:
        session, subagent = who
        native = session if subagent is None else f"{session}/{subagent}"
        call = None if tool is None else _first(fields.identifier, payload, self.call)
        derived = tool is not None and call is None
        if tool is not None and call is None:
            call = fields.derived_call_id(native, tool, self.input_of(payload))
        kind, paths = self._reach(payload, tool)
        asked = self.prompt if phase is HookPhase.PROMPT else ()
        return HookEvent(
            agent=self.agent,
            host=self.agent,
            native_session=native,
            phase=phase,
            raw_event=raw_event,
            parent_session=None if subagent is None else session,
            subagent_id=subagent,
            subagent_type=_first(fields.text, payload, self.subagent_type),
            turn_id=_first(fields.identifier, payload, self.turn),
            call_id=call,
            call_derived=derived,
            tool=tool,
            tool_class=kind,
            paths=paths,
            cwd=_first(fields.first_path, payload, self.cwd),
            prompt=_first(fields.prompt_text, payload, asked),
            model=_first(fields.text, payload, self.model),
            transcript_path=_first(fields.text, payload, self.transcript),
            reason=_first(fields.text, payload, self.reason),
            duration_ns=_first(fields.milliseconds, payload, self.duration_ms),
            background_tasks=max(
                (fields.count(payload, key) for key in self.background_tasks), default=0
            ),
        )

    def _reach(
        self, payload: Mapping[str, object], tool: str | None
    ) -> tuple[ToolClass, tuple[bytes, ...]]:
        kind = ToolClass.OTHER if tool is None else self.tool_class(tool)
        if kind is not ToolClass.WRITE:
            return kind, ()
        given = self.input_of(payload)
        patches = (fields.at(given, key) for key in self.patch_keys)
        named = fields.paths_at(given, self.path_keys)
        patched = (path for text in patches for path in envelope.patched_paths(text))
        paths = tuple(dict.fromkeys((*named, *patched)))
        return (kind if paths else ToolClass.OTHER), paths


def _first(
    read: Callable[[Mapping[str, object], str], _Value | None],
    payload: Mapping[str, object],
    keys: Keys,
) -> _Value | None:
    for key in keys:
        value = read(payload, key)
        if value is not None:
            return value
    return None
