"""An MCP server on standard input and output whose one tool writes a file.

It is a program, not a module of the tests: an agent starts it with a Python of its own choice, so
it needs nothing but the standard library. The protocol is that of 2025-06-18: one JSON-RPC message
per line.
"""

import json
import sys
from pathlib import Path

_SCHEMA = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "note": {"type": "string"}},
    "required": ["file", "note"],
}
_TOOL = {
    "name": "write_note",
    "description": "Write a note into a file.",
    "inputSchema": _SCHEMA,
}


def answer(method: str, params: dict[str, dict[str, str]]) -> dict[str, object] | None:
    """Return the result of a request, None for a method that the server does not have."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [_TOOL]}
    if method == "tools/call":
        given = params["arguments"]
        Path(given["file"]).write_text(given["note"])
        return {"content": [{"type": "text", "text": "noted"}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue  # a notification
    result = answer(message["method"], message.get("params") or {})
    reply: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
