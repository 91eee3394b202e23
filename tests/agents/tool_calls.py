"""An action as a call of one of the tools that the agent declares.

The tool is found by its name; its arguments are filled in by the names of its schema's
properties. An agent without a tool for files gets a shell command.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.agents.conversation import Conversation, DeclaredTool
from tests.agents.scripts import (
    Edit,
    Note,
    Read,
    Script,
    Search,
    Shell,
    Task,
    ToolAction,
    Wait,
    Write,
)

_WRITERS = (
    *("Write", "write", "create", "Create", "write_file", "write_to_file"),
    *("file_editor", "str_replace_editor", "editor", "apply_patch", "save"),
)
_EDITORS = (
    *("Edit", "edit", "str_replace", "search_replace", "replace", "replace_in_file"),
    *("file_editor", "str_replace_editor", "editor", "apply_patch", "patch"),
)
SHELLS = (
    *("Bash", "bash", "run_terminal_command", "exec_command", "shell_command"),
    *("shell", "Execute", "run_commands", "execute_command", "run_shell_command"),
    *("terminal", "execute_bash"),
)
_READERS = ("Read", "read", "view", "read_file", "file_editor", "str_replace_editor")
_TASKS = (
    "Agent",
    "Task",
    "task",
    "agent",
    "spawn_subagent",
    "spawn_agent",
    "invoke_agent",
)
_WAITS = ("multi_agent_v1wait_agent", "wait_agent", "get_command_or_subagent_output")
_SEARCHES = ("ToolSearch", "tool_search", "search_tool")
_PROXIES = {"tool_call": "mcp__notes__write_note", "use_tool": "notes__write_note"}
"""Tools that call a tool which the agent does not declare, and its name there."""
_PATHS = ("file_path", "path", "filePath", "filepath", "target_file", "absolute_path")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class ToolCall:
    """A call for the agent to make; `arguments` is plain text for a custom tool."""

    tool: DeclaredTool
    arguments: Mapping[str, object] | str


def is_needless(action: ToolAction, conversation: Conversation) -> bool:
    """Return whether an action is left out, as the agent has no tool that it would need."""
    if isinstance(action, Wait):
        return _find(conversation, _WAITS) is None
    if isinstance(action, Search):
        return _find(conversation, _SEARCHES) is None
    return isinstance(action, Read) and _find(conversation, _READERS) is None


def as_text(script: Script) -> str:
    """Return the files of a script as SEARCH/REPLACE blocks, for an agent without tools."""
    blocks = []
    for action in (one for actions in script for one in actions):
        if isinstance(action, Write):
            blocks.append((action.path, "", action.content))
        elif isinstance(action, Edit):
            blocks.append((action.path, f"{action.old}\n", f"{action.new}\n"))
    fence = "`" * 3
    return "\n".join(
        f"{path}\n{fence}\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n{fence}\n"
        for path, old, new in blocks
    )


def call_for(
    action: ToolAction, cwd: str, conversation: Conversation
) -> ToolCall | None:
    """Return the call that does an action; None where the agent has no tool for it."""
    match action:
        case Read(path):
            return _read(f"{cwd}/{path}", conversation)
        case Write(path, content):
            return _write(f"{cwd}/{path}", content, conversation)
        case Edit(path, old, new):
            return _edit(f"{cwd}/{path}", old, new, conversation)
        case Shell(command, background):
            return _shell(command.replace("{cwd}", cwd), background, conversation)
        case Task(script, background):
            return _task(f"[[{script} cwd={cwd}]] please", background, conversation)
        case Wait():
            return _wait(conversation)
        case Search(words):
            tool = _find(conversation, _SEARCHES)
            return None if tool is None else _call(tool, {("query",): words})
        case Note(path, content):
            return _note(f"{cwd}/{path}", content, conversation)


def end_for(conversation: Conversation) -> ToolCall | None:
    """Return the call that ends a turn; None for an agent that ends with words."""
    if conversation.ends_by is not None:
        return _shell(conversation.ends_by, False, conversation)
    tool = _find(conversation, ("complete",))
    return None if tool is None else _call(tool, {})


def _find(conversation: Conversation, names: Sequence[str]) -> DeclaredTool | None:
    tools = conversation.tools
    return next((tools[name] for name in names if name in tools), None)


def _read(path: str, conversation: Conversation) -> ToolCall | None:
    tool = _find(conversation, _READERS)
    return None if tool is None else _call(tool, {_PATHS: path, ("command",): "view"})


def _write(path: str, content: str, conversation: Conversation) -> ToolCall | None:
    tool = _find(conversation, _WRITERS)
    if tool is None:
        return _shell(f"printf %s '{content}' > {path}", False, conversation)
    if tool.name == "apply_patch":
        lines = "".join(f"+{line}\n" for line in content.splitlines())
        return _patch(tool, f"*** Add File: {path}\n{lines}")
    return _call(
        tool,
        {
            _PATHS: path,
            ("content", "file_text", "contents", "new_text"): content,
            ("command",): "create",
        },
    )


def _edit(path: str, old: str, new: str, conversation: Conversation) -> ToolCall | None:
    tool = _find(conversation, _EDITORS)
    if tool is None:
        command = f"grep -q '{old}' {path} && sed -i 's/{old}/{new}/' {path}"
        return _shell(command, False, conversation)
    if tool.name == "apply_patch":
        return _patch(tool, f"*** Update File: {path}\n@@\n-{old}\n+{new}\n")
    if tool.name == "patch":
        patch = f"<<<<<<< ORIGINAL\n{old}\n=======\n{new}\n>>>>>>> UPDATED"
        return _call(tool, {_PATHS: path, ("patch",): patch})
    replacement = {"oldText": old, "newText": new}
    return _call(
        tool,
        {
            _PATHS: path,
            ("old_string", "oldString", "old_str", "old_text", "oldText"): old,
            ("new_string", "newString", "new_str", "new_text", "newText"): new,
            ("edits",): [replacement],
            ("command",): "str_replace",
        },
    )


def _patch(tool: DeclaredTool, change: str) -> ToolCall:
    text = f"*** Begin Patch\n{change}*** End Patch\n"
    return ToolCall(tool, text if tool.custom else {"input": text, "patch": text})


def _shell(
    command: str, background: bool, conversation: Conversation
) -> ToolCall | None:
    tool = _find(conversation, SHELLS)
    if tool is None:
        return None
    return _call(
        tool,
        {
            ("command", "cmd", "commands"): command,
            ("background", "run_in_background", "is_background"): background,
        },
    )


def _task(prompt: str, background: bool, conversation: Conversation) -> ToolCall | None:
    tool = _find(conversation, _TASKS)
    if tool is None:
        return None
    given: dict[tuple[str, ...], object] = {
        ("prompt", "message", "task", "objective"): prompt,
        ("run_in_background", "background"): background,
        ("await",): not background,
        ("task_name",): "scripted",
    }
    if tool.name == "invoke_agent":
        given["agent_name",] = "generalist"
    elif tool.name != "spawn_agent":
        given["subagent_type", "agent_type"] = conversation.kind_of_subagent
    call = _call(tool, given)
    if tool.name == "spawn_agent" and isinstance(call.arguments, dict):
        call.arguments.pop("agent_type", None)
    return call


def _wait(conversation: Conversation) -> ToolCall | None:
    tool = _find(conversation, _WAITS)
    if tool is None:
        return None
    results = " ".join(
        item.text for item in conversation.items if item.kind == "result"
    )
    ids = _UUID.findall(results)
    return _call(
        tool, {("targets", "ids", "task_ids"): ids[:1], ("timeout_ms",): 20_000}
    )


def _note(path: str, content: str, conversation: Conversation) -> ToolCall | None:
    given = {"file": path, "note": content}
    for name, tool in conversation.tools.items():
        if name.endswith("write_note"):
            return _call(tool, {(key,): value for key, value in given.items()})
    proxy = _find(conversation, tuple(_PROXIES))
    if proxy is None:
        return None
    called: dict[tuple[str, ...], object] = {
        ("name", "tool_name"): _PROXIES[proxy.name],
        ("arguments", "tool_input"): given,
    }
    return _call(proxy, called)


def _call(tool: DeclaredTool, given: Mapping[tuple[str, ...], object]) -> ToolCall:
    """Fill in a tool's arguments; what is required and not given gets a harmless value."""
    properties = tool.schema.get("properties")
    required = tool.schema.get("required")
    filled: dict[str, object] = {}
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        value = next((v for names, v in given.items() if name in names), None)
        if value is not None:
            is_list = _type(schema) == "array" and not isinstance(value, list)
            filled[name] = [value] if is_list else value
        elif isinstance(required, list) and name in required:
            filled[name] = _harmless(schema)
    return ToolCall(tool, filled)


def _type(schema: Mapping[str, object]) -> str:
    found = schema.get("type")
    kind = found[0] if isinstance(found, list) else found
    return str(kind).lower()


def _harmless(schema: Mapping[str, object]) -> object:
    choices = schema.get("enum")
    if isinstance(choices, list):
        return "general-purpose" if "general-purpose" in choices else choices[0]
    return {
        "boolean": False,
        "number": 1000,
        "integer": 1000,
        "array": [],
        "object": {},
    }.get(_type(schema), "scripted")
