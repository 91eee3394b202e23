"""An agent as the Claude Agent SDK talks to it, in this process: the other end of its protocol.

It speaks what Claude Code speaks over its pipes: control requests for hooks and for tools of
in-process servers, control responses, messages. What it does is a script.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

from claude_agent_sdk import Transport

from gitshadow.sdk.integrations.tool_exposure import plain_name
from tests.sdk.integrations.frameworks import Batches, Heard
from tests.sdk.integrations.toy import Step

Message = dict[str, Any]

SESSION = "7f3a9c10-0000-4000-8000-000000000001"
BASE: Message = {
    "session_id": SESSION,
    "transcript_path": "/home/dev/.claude/projects/x/s.jsonl",
    "cwd": "/home/dev/x",
}


Native: TypeAlias = Callable[..., object]


class InterruptedByUserError(Exception):
    """What a tool raises when a person stops the agent."""


class ScriptedAgent(Transport):
    """Answer a prompt with a script's calls, of the program's server or of tools of its own.

    `native` are the agent's own tools: what they raise is their failure, or, as
    `InterruptedByUserError`, a person's stop. `heard` is what the model read of each call,
    `stopped` why a hook ended the run.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        server: str = "shop",
        native: Mapping[str, Native] | None = None,
    ) -> None:
        self.heard: Heard = {}
        self.stopped: str | None = None
        self.interrupted = False
        self._batches = batches
        self._server = server
        self._native = native or {}
        self._out: asyncio.Queue[Message | None] = asyncio.Queue()
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._hooks: dict[str, list[str]] = {}
        self._numbers = itertools.count(1)
        self._work: list[asyncio.Task[None]] = []

    async def connect(self) -> None:
        """Nothing has to be started."""

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        """A pipe that is closed tells of the end; here `close` does."""

    async def close(self) -> None:
        for task in self._work:
            task.cancel()
        await self._out.put(None)

    async def read_messages(self) -> AsyncIterator[Message]:
        while (message := await self._out.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "user":
            prompt = str(message["message"]["content"])
            self._work.append(asyncio.create_task(self._run(prompt)))
        elif message["type"] == "control_response":
            answer = message["response"]
            waiting = self._waiting.pop(answer["request_id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        elif message["type"] == "control_request":
            await self._take(message)

    async def _take(self, message: Message) -> None:
        """Answer what the SDK asks: at the beginning, to know the hooks."""
        for event, matchers in (message["request"].get("hooks") or {}).items():
            ids = [one for matcher in matchers for one in matcher["hookCallbackIds"]]
            self._hooks[event] = ids
        answer = {
            "subtype": "success",
            "request_id": message["request_id"],
            "response": {},
        }
        await self._out.put({"type": "control_response", "response": answer})

    async def _run(self, prompt: str) -> None:
        await self.hook("UserPromptSubmit", prompt=prompt)
        await self._handshake()
        for batch in self._batches:
            await asyncio.gather(*(self._call(step) for step in batch))
            if self.stopped is not None or self.interrupted:
                break
        else:
            await self.hook("Stop", stop_hook_active=False)
        await self._out.put(
            {
                "type": "result",
                "subtype": "success",
                "duration_ms": 1,
                "duration_api_ms": 1,
                "is_error": False,
                "num_turns": 1,
                "session_id": SESSION,
                "result": "done",
            }
        )

    async def _call(self, step: Step) -> None:
        own = step.tool not in self._native
        name = f"mcp__{self._server}__{plain_name(step.tool)}" if own else step.tool
        about = {
            "tool_name": name,
            "tool_input": dict(step.arguments),
            "tool_use_id": step.call,
        }
        decision = await self.hook("PreToolUse", **about)
        specific = decision.get("hookSpecificOutput", {})
        if specific.get("permissionDecision") == "deny":
            self.heard[step.call] = specific["permissionDecisionReason"]
            return
        failed, answer = await self._serve(step) if own else self._do(step)
        self.heard[step.call] = answer
        if failed:
            stop = self.interrupted
            await self.hook(
                "PostToolUseFailure", **about, error=answer, is_interrupt=stop
            )
        else:
            await self.hook("PostToolUse", **about, tool_response=answer)

    def _do(self, step: Step) -> tuple[bool, str]:
        """Run a tool of the agent; return whether it failed, and its text."""
        try:
            return False, str(self._native[step.tool](**step.arguments))
        except InterruptedByUserError as error:
            self.interrupted = True
            return True, str(error)
        except OSError as error:
            return True, str(error)

    async def hook(self, event: str, **fields: object) -> Message:
        """Tell of an event; return the last hook's answer."""
        said: Message = {}
        for callback in self._hooks.get(event, ()):
            said = await self._ask(
                {
                    "subtype": "hook_callback",
                    "callback_id": callback,
                    "input": {**BASE, "hook_event_name": event, **fields},
                    "tool_use_id": fields.get("tool_use_id"),
                }
            )
            # Claude Code 2.1.330 does not look at it after a failure.
            if said.get("continue") is False and event != "PostToolUseFailure":
                self.stopped = said["stopReason"]
        return said

    async def _handshake(self) -> None:
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "scripted", "version": "1"},
        }
        await self._rpc("initialize", about)
        await self._rpc("notifications/initialized", None)

    async def _serve(self, step: Step) -> tuple[bool, str]:
        """Have the program's server run a tool; return whether it failed, and its text."""
        about = {"name": plain_name(step.tool), "arguments": dict(step.arguments)}
        result = (await self._rpc("tools/call", about))["result"]
        text = "\n".join(part["text"] for part in result["content"])
        return bool(result.get("isError")), text

    async def _rpc(self, method: str, params: Message | None) -> Message:
        message: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message |= {"id": next(self._numbers), "params": params}
        request = {
            "subtype": "mcp_message",
            "server_name": self._server,
            "message": message,
        }
        answer: Message = (await self._ask(request))["mcp_response"]
        return answer

    async def _ask(self, request: Message) -> Message:
        number = f"r{next(self._numbers)}"
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        await self._out.put(
            {"type": "control_request", "request_id": number, "request": request}
        )
        answer = await waiting
        if answer["subtype"] == "error":
            raise AssertionError(answer["error"])
        said: Message = answer["response"]
        return said
