"""The table-driven reading that most agents share: which field has which key.

Quirks are in the agent's module, which `dataclasses.replace`s fields of what `Shape.read` returns.
Invariant: reading never raises for the content of a payload, and ids are printable and bounded.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from gitshadow.adapters.base import (
    IN_SUBAGENT,
    TOOL_PHASES,
    BadPayload,
    FileEdit,
    HookEvent,
    HookPhase,
    Parsed,
    Parser,
    Replacement,
)
from gitshadow.adapters.payload import Payload, derived_call_id, distinct, raw_path
from gitshadow.model import JsonValue, ToolClass
from gitshadow.store.paths import absolute

Tools: TypeAlias = Mapping[ToolClass, frozenset[str]]
Keys: TypeAlias = tuple[str, ...]

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

SNAKE_CASE_PHASES: Mapping[str, HookPhase] = {
    "session_start": HookPhase.SESSION_START,
    "user_prompt_submit": HookPhase.PROMPT,
    "pre_tool_use": HookPhase.BEFORE,
    "post_tool_use": HookPhase.AFTER,
    "stop": HookPhase.TURN_END,
    "session_end": HookPhase.SESSION_END,
}
"""The same events as Entire and OpenHands name them."""

SUBAGENT_PHASES = (HookPhase.SUBAGENT_START, HookPhase.SUBAGENT_END)

_PATCH_BEGIN = "*** Begin Patch"
_PATCH_HEADER = re.compile(
    r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (?P<path>[^\r\n]+)",
    re.MULTILINE,
)
_VIEW_COMMANDS = frozenset({"view", "read"})


def tool_classes(
    *, write: str = "", shell: str = "", agent: str = "", read: str = ""
) -> Tools:
    """Return the classes of an agent's tools, each given as names with blanks between."""
    return {
        ToolClass.WRITE: frozenset(write.split()),
        ToolClass.SHELL: frozenset(shell.split()),
        ToolClass.AGENT: frozenset(agent.split()),
        ToolClass.READ: frozenset(read.split()),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The keys under which an agent's payloads have their fields.

    Keys are those of `Payload`: they may be dotted (`tool_info.file_path`), and of several keys
    the first with a readable value counts.

    Attributes:
        agent: The agent's name, which is also the host's.
        event: Keys that name the event.
        phases: Event name -> phase; other events do not concern gitshadow.
        session: Keys of the native session id; without one the payload is bad.
        turn: Keys of the agent's own turn id.
        call: Keys of the call id; without one it is derived from session, tool and input.
        tool: Keys of the tool's name; a tool event without one is bad.
        tool_input: Keys of the object, or JSON text of one, that the tool gets.
        cwd: Keys of the directory; the first item of a list counts.
        prompt: Keys of what the user wrote, read only in the prompt phase.
        model: Keys of the model's name.
        transcript: Keys of the transcript's path.
        reason: Keys of why something ended or failed.
        subagent: Keys of the id that distinguishes a subagent's events from its parent's. If
            there are none, subagent phases do not concern gitshadow.
        subagent_type: Keys of the subagent's kind.
        duration_ms: Keys of how long the tool ran.
        background_tasks: Keys of a list of the tasks that go on after a turn.
        backgrounded: Keys that are set if a tool goes on after its end was reported.
        edit_texts: Keys of the whole texts that a writing tool found and left; both or none.
        content: Keys of a whole text in the input of a tool that writes it.
        replaced: Keys of the old and the new piece of text in the input of a tool that replaces
            it; both or none.
        path_keys: Keys of paths in the tool's input, as for `Payload.paths`.
        patch_keys: Keys of patches in the tool's input, as for `patched_paths`.
        tools: Tool class -> names; a tool that is not listed may do anything (`OTHER`).
        tool_name: Returns the name to look up and to record, given the one in the payload.
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
    backgrounded: Keys = ()
    edit_texts: Keys = ()
    content: Keys = ()
    replaced: Keys = ()
    path_keys: Keys = ()
    patch_keys: Keys = ()
    tools: Tools
    tool_name: Callable[[str], str] = lambda tool: tool

    def parse(self, payload: Payload, env: Mapping[str, str]) -> Parsed:
        """Read a payload of a host without quirks; a `base.Parser`."""
        return self.read(payload)

    def adjusted(
        self, adjust: Callable[[HookEvent, Payload, Mapping[str, str]], Parsed]
    ) -> Parser:
        """Make a parser of what changes an event once it is read."""

        def parse(payload: Payload, env: Mapping[str, str]) -> Parsed:
            found = self.read(payload)
            return (
                adjust(found, payload, env) if isinstance(found, HookEvent) else found
            )

        return parse

    def read(self, payload: Payload, phase: HookPhase | None = None) -> Parsed:
        """Read one payload.

        Args:
            payload: What the agent sent.
            phase: The phase of the event, if the agent's module knows better than `phases`.

        Returns:
            The event; None for one that does not concern gitshadow; or what is wrong with the
            payload.
        """
        raw_event = payload.identifier(*self.event)
        if raw_event is None:
            return BadPayload("the payload has no hook event")
        phase = phase or self.phases.get(raw_event)
        if phase is None or (phase in SUBAGENT_PHASES and not self.subagent):
            return None
        session = payload.native_id(*self.session)
        if session is None:
            return BadPayload(f"the {raw_event} payload has no session")
        subagent = payload.identifier(*self.subagent)
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

    def input_of(self, payload: Payload) -> Payload:
        """Return the tool's input, empty if there is none."""
        return payload.object(*self.tool_input)

    def _tool(self, payload: Payload) -> str | None:
        named = payload.identifier(*self.tool)
        return None if named is None else self.tool_name(named) or named

    def _event(
        self,
        payload: Payload,
        phase: HookPhase,
        raw_event: str,
        who: tuple[str, str | None],
        tool: str | None,
    ) -> HookEvent:
        session, subagent = who
        native = session if subagent is None else f"{session}/{subagent}"
        call = None if tool is None else payload.identifier(*self.call)
        derived = tool is not None and call is None
        if tool is not None and call is None:
            call = derived_call_id(native, tool, self.input_of(payload).fields)
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
            subagent_type=payload.text(*self.subagent_type),
            turn_id=payload.identifier(*self.turn),
            call_id=call,
            call_derived=derived,
            tool=tool,
            tool_class=kind,
            paths=paths,
            cwd=payload.path(*self.cwd),
            prompt=payload.prompt_text(*asked),
            model=payload.text(*self.model),
            transcript_path=payload.text(*self.transcript),
            reason=payload.text(*self.reason),
            duration_ns=payload.duration_ns(*self.duration_ms),
            background_tasks=self._tasks(payload, phase),
            edit=self._edit(payload, phase, kind),
        )

    def _tasks(self, payload: Payload, phase: HookPhase) -> int:
        goes_on = phase is HookPhase.AFTER and any(
            map(payload.value, self.backgrounded)
        )
        return max(int(goes_on), payload.count(*self.background_tasks))

    def _edit(
        self, payload: Payload, phase: HookPhase, kind: ToolClass
    ) -> FileEdit | Replacement | None:
        if phase is not HookPhase.AFTER or kind is not ToolClass.WRITE:
            return None
        if self.edit_texts:
            return file_edit(*map(payload.value, self.edit_texts))
        given = self.input_of(payload)
        texts = [_plain_text(given.value(key)) for key in self.replaced]
        if texts and texts[0] and texts[1] is not None:
            return Replacement(texts[0], texts[1])
        whole = _plain_text(next(filter(None, map(given.value, self.content)), None))
        return None if whole is None else FileEdit(None, whole)

    def _reach(
        self, payload: Payload, tool: str | None
    ) -> tuple[ToolClass, tuple[bytes, ...]]:
        kind = ToolClass.OTHER if tool is None else self.tool_class(tool)
        if kind is not ToolClass.WRITE:
            return kind, ()
        given = self.input_of(payload)
        named = given.paths(*self.path_keys)
        patches = (patched_paths(given.value(key)) for key in self.patch_keys)
        paths = tuple(dict.fromkeys((*named, *(p for patch in patches for p in patch))))
        # A writing tool that names no path here may have written any: as for a shell, its window is
        # open for all.
        return (kind if paths else ToolClass.OTHER), paths


def file_edit(found: JsonValue, left: JsonValue) -> FileEdit | None:
    """Return an edit by the texts before and after it, None where the bytes are not known.

    Agents show a text with LF line ends and no byte order mark, whatever the file has.
    """
    before, after = _plain_text(found), _plain_text(left)
    return None if before is None or after is None else FileEdit(before, after)


def _plain_text(text: JsonValue) -> bytes | None:
    if not isinstance(text, str) or "\r" in text:
        return None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def is_patch(text: object) -> bool:
    """Return whether a value is a patch itself, not a command or a file that contains one."""
    return isinstance(text, str) and text.lstrip().startswith(_PATCH_BEGIN)


def patched_paths(text: object) -> tuple[bytes, ...]:
    """Return the paths that a patch names, in order, each once, both names of a move.

    Codex, Droid, Cursor, opencode and Amp send a patch as one text: `*** Begin Patch`, one header
    line per file, hunks, `*** End Patch`. Hunk lines never look like a header. Paths are absolute
    or relative to the payload's cwd. A truncated patch names the files of what is left of it.
    """
    if not isinstance(text, str):
        return ()
    return distinct(
        raw_path(match["path"].strip()) for match in _PATCH_HEADER.finditer(text)
    )


def unless_viewing(found: Parsed, tool_input: Payload) -> Parsed:
    """Make the call of an editor tool a reading one if its `command` only looks at a file."""
    if not isinstance(found, HookEvent) or found.tool is None:
        return found
    if tool_input.text("command") not in _VIEW_COMMANDS:
        return found
    return replace(found, tool_class=ToolClass.READ, paths=())


def by_file(found: Parsed) -> Parsed:
    """Derive the id of a call without one from the one file that it writes.

    So the report that a file was saved ends the call that announced the same file, whatever
    else the two payloads contain.
    """
    if not isinstance(found, HookEvent) or not found.call_derived:
        return found
    if found.tool_class is not ToolClass.WRITE or len(found.paths) != 1:
        return found
    path = posixpath.normpath(absolute(found.paths[0], found.cwd, b"/"))
    return replace(
        found, call_id=derived_call_id(found.native_session, "file", path.hex())
    )
