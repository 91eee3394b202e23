"""Claude Agent SDK: hooks for the agent's own tools, and in-process servers for the program's.

The agent runs in a process of its own. It calls our hooks before and after each tool, and the
tools of in-process servers themselves. Sources: claude-agent-sdk 0.2, "Hooks reference" of Claude
Code. Invariant: a hook never raises, because the agent would continue as if there were no hook;
an error denies the call.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

from claude_agent_sdk import (
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    McpSdkServerConfig,
    PostToolUseFailureHookInput,
    PostToolUseHookInput,
    PreToolUseHookInput,
    SdkMcpTool,
    StopHookInput,
    SubagentStartHookInput,
    SubagentStopHookInput,
    UserPromptSubmitHookInput,
    create_sdk_mcp_server,
)
from claude_agent_sdk.types import HookEvent, SyncHookJSONOutput
from pydantic import TypeAdapter

from gitshadow.adapters.claude_code import SHAPE
from gitshadow.messages.codec import JsonObject
from gitshadow.model import ToolClass
from gitshadow.sdk.integrations.hooks import registered
from gitshadow.sdk.integrations.runs import Asked, Runs, elsewhere
from gitshadow.sdk.integrations.tool_exposure import description, exposed, plain_name
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.tool import Tool, ToolOptions
from gitshadow.sdk.turns.values import Outcome, Reversibility

_DOMAIN = "claude"
_LABEL_CHARS = 120
# These write no file, but have external effects.
_OUTSIDE = frozenset({"CronCreate", "CronDelete", "SendMessage", "TaskStop"})

_Input = TypeVar("_Input", bound=HookInput)


class _Told(NamedTuple):
    """A call that the hook reported; the server will call its tool next."""

    name: str
    arguments: JsonObject
    call_id: str


class ClaudeUndo:
    """Connect an agent of the Claude Agent SDK to turns.

    A run inside `runs.turn(...)` is that turn. A prompt outside of one opens a turn, and the stop
    hook commits it; it is not rolled back automatically. The agent's own tools are declared as
    `claude.<name>`, those of other servers as `<server>.<name>`. Tools that edit files are undone
    with the files of the turn, tools that read have no effect, and all others (`claude.Bash`)
    count as non-reversible unless the registry declares an inverse.

    Args:
        runs: The session's turns.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._own: set[str] = set()
        self._told: list[_Told] = []
        for name, options in _built_in():
            if runs.registry.find(name) is None:
                runs.registry.add(name, elsewhere, **options)

    def hooks(self) -> dict[HookEvent, list[HookMatcher]]:
        """Return the hooks, for `ClaudeAgentOptions(hooks=...)`."""
        return {
            "UserPromptSubmit": [_hook(self._prompt)],
            "PreToolUse": [_hook(self._before)],
            "PostToolUse": [_hook(self._after)],
            "PostToolUseFailure": [_hook(self._failed)],
            "SubagentStart": [_hook(self._subagent)],
            "SubagentStop": [_hook(self._subagent)],
            "Stop": [_hook(self._stop)],
        }

    def server(
        self, name: str, tools: Sequence[SdkMcpTool[Any]] | None = None
    ) -> McpSdkServerConfig:
        """Return an in-process server, for `ClaudeAgentOptions(mcp_servers={name: ...})`.

        Args:
            name: The same name as its key there.
            tools: Its tools; None means the registered ones. An answer with `is_error` fails the
                call; an exception of a tool fails the turn.
        """
        found = tools
        if found is None:
            known, agents = self._runs.registry, f"{_DOMAIN}."
            declared = [one for one in known if not one.name.startswith(agents)]
            found = [_tool(tool) for tool in declared]
        return create_sdk_mcp_server(
            name,
            tools=[self._wrapped(f"mcp__{name}__{one.name}", one) for one in found],
        )

    def _wrapped(self, full_name: str, tool: SdkMcpTool[Any]) -> SdkMcpTool[Any]:
        self._own.add(full_name)

        async def handle(arguments: JsonObject) -> JsonObject:
            refused: list[JsonObject] = []

            async def execute() -> object:
                answer = await tool.handler(arguments)
                if answer.get("is_error"):
                    refused.append(answer)
                    raise ToolFailure(_text(answer))
                return answer

            asked = Asked(tool.name, arguments, self._id_of(full_name, arguments))
            done = await self._runs.call(asked, execute)
            if done.outcome.ok and done.answer is not None:
                answer: JsonObject = done.answer.value  # type: ignore[assignment]
                return answer
            return refused[0] if refused else _said(done.outcome, done.is_error)

        return replace(tool, handler=handle)

    def _id_of(self, name: str, arguments: JsonObject) -> str | None:
        """Return the id that the hook reported for a call, the oldest of several, or None."""
        # The server gets only the name of a tool and its arguments, but no id.
        for told in self._told:
            if (told.name, told.arguments) == (name, arguments):
                self._told.remove(told)
                return told.call_id
        return None

    async def _prompt(self, given: UserPromptSubmitHookInput) -> SyncHookJSONOutput:
        if self._runs.by_hooks is not False:
            first = given["prompt"].strip().partition("\n")[0]
            await self._runs.begin(first[:_LABEL_CHARS])
        return {}

    async def _before(self, given: PreToolUseHookInput) -> SyncHookJSONOutput:
        called = _Told(given["tool_name"], given["tool_input"], given["tool_use_id"])
        if self._runs.failed is not None:
            return {**_denied(_line(self._runs.failed)), **self._over()}
        if called.name in self._own:
            self._told.append(called)
            return {}
        asked = Asked(registered(called.name), called.arguments, called.call_id)
        try:
            outcome = await self._runs.announce(asked)
        except Exception as error:  # noqa: BLE001 - the agent would run the tool
            return {**_denied(_line(error)), **self._over()}
        return {} if outcome is None else _denied(outcome.text)

    async def _after(self, given: PostToolUseHookInput) -> SyncHookJSONOutput:
        return await self._ended(given, Outcome.success(given["tool_response"]))

    async def _failed(self, given: PostToolUseFailureHookInput) -> SyncHookJSONOutput:
        if given.get("is_interrupt"):
            return self._over()
        said = given["error"]
        tool = self._runs.registry.find(registered(given["tool_name"]))
        if tool is not None and (
            tool.options.get("files_only")
            or tool.reversibility is Reversibility.READ_ONLY
        ):
            return await self._ended(given, Outcome.failed(said))
        return await self._ended(given, RuntimeError(said))

    async def _ended(
        self,
        given: PostToolUseHookInput | PostToolUseFailureHookInput,
        ended: Outcome | Exception,
    ) -> SyncHookJSONOutput:
        call_id = given["tool_use_id"]
        self._told = [told for told in self._told if told.call_id != call_id]
        if given["tool_name"] not in self._own:
            await self._runs.conclude(call_id, ended)
        return self._over()

    async def _subagent(
        self, given: SubagentStartHookInput | SubagentStopHookInput
    ) -> SyncHookJSONOutput:
        text = "began" if given["hook_event_name"] == "SubagentStart" else "ended"
        await self._runs.note(given["agent_type"], f"{text}: {given['agent_id']}")
        return {}

    async def _stop(self, given: StopHookInput) -> SyncHookJSONOutput:
        await self._runs.end()
        return {}

    def _over(self) -> SyncHookJSONOutput:
        """Stop the agent if a tool has failed the turn."""
        error = self._runs.failed
        if error is None:
            return {}
        return {"continue_": False, "stopReason": f"the turn is over: {_line(error)}"}


def _hook(take: Callable[[_Input], Awaitable[SyncHookJSONOutput]]) -> HookMatcher:
    async def hook(
        given: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        # The SDK calls a matcher only with the input of the event it is registered for.
        return await take(cast(_Input, given))

    return HookMatcher(hooks=[hook])


def _built_in() -> list[tuple[str, ToolOptions]]:
    """Return the declarations of the agent's own tools that are known."""
    reading: ToolOptions = {"reversibility": Reversibility.READ_ONLY}
    editing: ToolOptions = {
        "reversibility": Reversibility.REVERSIBLE,
        "files_only": True,
        "paths": SHAPE.path_keys,
    }
    known = {
        ToolClass.WRITE: editing,
        ToolClass.READ: reading,
        ToolClass.AGENT: reading,
    }
    return [
        (f"{_DOMAIN}.{name}", options)
        for kind, options in known.items()
        for name in sorted(SHAPE.tools[kind] - _OUTSIDE)
    ]


def _tool(declared: Tool) -> SdkMcpTool[Any]:
    """Return a registered tool as one of an in-process server."""
    function = exposed(declared)
    schema = declared.options.get("schema") or _schema_of(function)

    async def handle(arguments: JsonObject) -> JsonObject:
        return _said(Outcome.success(await function(**arguments)), False)

    return SdkMcpTool(
        plain_name(declared.name), description(declared), dict(schema), handle
    )


def _schema_of(function: Callable[..., Awaitable[object]]) -> Mapping[str, Any]:
    """Return the JSON schema of a function's arguments; pydantic reads it from the function."""
    adapter: TypeAdapter[object] = TypeAdapter(function)  # type: ignore[arg-type]
    return adapter.json_schema()


def _said(outcome: Outcome, is_error: bool) -> JsonObject:
    """Return an outcome as a tool's answer."""
    content = [{"type": "text", "text": outcome.text}]
    return {"content": content, "is_error": is_error}


def _text(answer: Mapping[str, Any]) -> str:
    parts = answer.get("content") or ()
    return "\n".join(str(part["text"]) for part in parts if "text" in part)


def _denied(reason: str) -> SyncHookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
