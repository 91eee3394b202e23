"""Answers of the scripted model in the four protocols, whole or as server-sent events."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.agents.conversation import Protocol
from tests.agents.tool_calls import ToolCall

Json = dict[str, object]


@dataclass(frozen=True)
class Answer:
    """One answer: words, or calls side by side.

    `id` is unique among all answers of the server: Claude Code joins messages by their ids,
    and never ended when all of them had the same one.
    """

    id: str
    model: str
    text: str = ""
    calls: Sequence[ToolCall] = ()


def whole(spoken: Protocol, answer: Answer) -> str:
    """Return an answer as one document of JSON."""
    documents: dict[Protocol, Callable[[Answer], Json]] = {
        "messages": _message,
        "chat": lambda one: {
            **_chat_base(one),
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": _delta(one), "finish_reason": _end(one)}
            ],
            "usage": _CHAT_USAGE,
        },
        "responses": _response,
        "gemini": _candidate,
    }
    return json.dumps(documents[spoken](answer))


def streamed(spoken: Protocol, answer: Answer) -> str:
    """Return an answer as server-sent events."""
    if spoken == "gemini":
        return _data(_candidate(answer))
    if spoken == "messages":
        return _message_events(answer)
    if spoken == "responses":
        return _response_events(answer)
    base = {**_chat_base(answer), "object": "chat.completion.chunk"}
    choices: list[list[Json]] = [
        [{"index": 0, "delta": _delta(answer), "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": _end(answer)}],
    ]
    chunks = [_data({**base, "choices": one}) for one in choices]
    usage = _data({**base, "choices": [], "usage": _CHAT_USAGE})
    return "".join([*chunks, usage, "data: [DONE]\n\n"])


def _data(document: Mapping[str, object]) -> str:
    return f"data: {json.dumps(document)}\n\n"


def _event(kind: str, fields: Mapping[str, object]) -> str:
    return f"event: {kind}\n{_data({'type': kind, **fields})}"


def _call_ids(answer: Answer) -> list[tuple[str, ToolCall]]:
    return [(f"{answer.id}x{at}", call) for at, call in enumerate(answer.calls)]


# Anthropic Messages


def _blocks(answer: Answer) -> list[Json]:
    if not answer.calls:
        return [{"type": "text", "text": answer.text}]
    return [
        {
            "type": "tool_use",
            "id": f"toolu_{id_}",
            "name": call.tool.name,
            "input": call.arguments,
        }
        for id_, call in _call_ids(answer)
    ]


def _message(answer: Answer) -> Json:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _blocks(answer),
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _message_events(answer: Answer) -> str:
    message = _message(answer)
    begun = {**message, "content": [], "stop_reason": None}
    events = [_event("message_start", {"message": begun})]
    for at, block in enumerate(_blocks(answer)):
        if block["type"] == "text":
            empty: Json = {**block, "text": ""}
            delta: Json = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {
                "type": "input_json_delta",
                "partial_json": json.dumps(block["input"]),
            }
        events += [
            _event("content_block_start", {"index": at, "content_block": empty}),
            _event("content_block_delta", {"index": at, "delta": delta}),
            _event("content_block_stop", {"index": at}),
        ]
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append(
        _event("message_delta", {"delta": end, "usage": {"output_tokens": 5}})
    )
    return "".join([*events, _event("message_stop", {})])


# OpenAI Chat Completions

_CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _chat_base(answer: Answer) -> Json:
    return {"id": f"chatcmpl-{answer.id}", "created": 1, "model": answer.model}


def _delta(answer: Answer) -> Json:
    if not answer.calls:
        return {"role": "assistant", "content": answer.text}
    calls = [
        {
            "index": at,
            "id": f"call_{id_}",
            "type": "function",
            "function": {
                "name": call.tool.name,
                "arguments": json.dumps(call.arguments),
            },
        }
        for at, (id_, call) in enumerate(_call_ids(answer))
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _end(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


# OpenAI Responses


def _output(answer: Answer) -> list[Json]:
    if not answer.calls:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        said: Json = {"type": "message", "id": f"it_{answer.id}", "role": "assistant"}
        return [{**said, "status": "completed", "content": [part]}]
    return [_output_call(id_, call) for id_, call in _call_ids(answer)]


def _output_call(id_: str, call: ToolCall) -> Json:
    item: Json = {
        "id": f"it_{id_}",
        "call_id": f"call_{id_}",
        "name": call.tool.name,
        "status": "completed",
    }
    if call.tool.custom:
        return {**item, "type": "custom_tool_call", "input": call.arguments}
    if call.tool.namespace is not None:
        item["namespace"] = call.tool.namespace
    return {**item, "type": "function_call", "arguments": json.dumps(call.arguments)}


def _response(answer: Answer) -> Json:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": answer.model,
        "output": _output(answer),
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _response_events(answer: Answer) -> str:
    response = _response(answer)
    begun = {**response, "status": "in_progress", "output": []}
    events = [_event("response.created", {"response": begun})]
    for at, item in enumerate(_output(answer)):
        fields = {"output_index": at, "item": item}
        events.append(_event("response.output_item.added", fields))
        events.append(_event("response.output_item.done", fields))
    events.append(_event("response.completed", {"response": response}))
    return "".join(events)


# Gemini


def _candidate(answer: Answer) -> Json:
    parts: list[Json] = [
        {"functionCall": {"id": id_, "name": call.tool.name, "args": call.arguments}}
        for id_, call in _call_ids(answer)
    ]
    content = {"role": "model", "parts": parts or [{"text": answer.text}]}
    return {
        "responseId": answer.id,
        "modelVersion": answer.model,
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 5,
            "totalTokenCount": 15,
        },
    }
