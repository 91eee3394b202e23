"""One turn of a conversation, from the transcript that its agent writes.

The path comes from a payload, and a payload can be forged: only a regular file of this user is
read, in lines of a limited length. Nothing of it is stored.
Invariant: a line that is not understood is left out; it is never an error.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import BinaryIO

from gitshadow.adapters.payload import Payload
from gitshadow.errors import ShadowError, UnsupportedError
from gitshadow.messages.states import Said, TranscriptPlace
from gitshadow.words import shortened

_MOST_BYTES = 512 * 1024 * 1024
_MOST_LINE_BYTES = 16 * 1024 * 1024
_MOST_ITEMS = 2_000
_MOST_CHARACTERS = 20_000
_CALL_CHARACTERS = 160
# What says most about a call, in the order in which it is looked for.
_ARGUMENTS = (
    *("command", "cmd", "file_path", "notebook_path", "path", "pattern", "query"),
    *("url", "skill", "description", "prompt"),
)


def read(place: TranscriptPlace) -> Iterator[Said]:
    """Yield what was said and called in one turn, oldest first.

    Raises:
        UnsupportedError: the transcripts of this agent are not known.
        ShadowError: the file cannot be read.
    """
    reader = _READERS.get(place.agent or "")
    if reader is None:
        raise UnsupportedError(
            f"cannot read transcripts of {place.agent or 'an unknown agent'}",
            hint=f"known are those of {' and '.join(sorted(_READERS))}",
        )
    with closing(_opened(place.path)) as stream:
        for number, one in enumerate(reader(_records(stream), place.turn)):
            if number == _MOST_ITEMS:
                yield Said("note", f"only the first {_MOST_ITEMS} entries are shown")
                return
            yield one._replace(text=_limited(one.text))


def _limited(text: str) -> str:
    """Return a text, cut where it is too long for a terminal."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}…\n({len(text)} characters)"


def _opened(path: str) -> BinaryIO:
    # Without O_NONBLOCK, a FIFO in the place of the file would block until somebody writes.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        why = (reason or "it is not a path").lower()
        raise ShadowError(f"cannot read the transcript {path}: {why}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(descriptor)
        raise ShadowError(
            f"cannot read the transcript {path}: it is not a regular file of yours"
        )
    return os.fdopen(descriptor, "rb")


def _records(stream: BinaryIO) -> Iterator[Payload]:
    """Yield the JSON objects of a file, a line each; other lines are left out."""
    left, whole = _MOST_BYTES, True
    while left > 0 and (line := stream.readline(_MOST_LINE_BYTES)):
        left -= len(line)
        begins, whole = whole, line.endswith(b"\n")
        # The rest of a line that is too long would be read as a line of its own.
        if not begins or (not whole and len(line) == _MOST_LINE_BYTES):
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield Payload(found)


def _claude(records: Iterable[Payload], turn: str) -> Iterator[Said]:
    """Read Claude Code's: what a person sends has the id of its prompt (2.1.330)."""
    inside = False
    for record in records:
        kind = record.value("type")
        # Subagents had their lines in the same file once.
        if kind not in ("user", "assistant") or record.value("isSidechain") is True:
            continue
        if kind == "user" and record.text("promptId") is not None:
            inside = record.text("promptId") == turn
        if not inside or record.value("isMeta") is True:
            continue
        yield from _parts(str(kind), record.value("message.content"))


def _parts(who: str, content: object) -> Iterator[Said]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        text = part.get("text")
        if (
            str(part.get("type")).lower() in _TEXTS
            and isinstance(text, str)
            and text.strip()
        ):
            yield Said(who, text)
        elif part.get("type") == "tool_use":
            yield _call(str(part.get("name")), part.get("input"))


_TEXTS = frozenset({"text", "input_text", "output_text"})
_CODEX_CALLS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
}


def _codex(records: Iterable[Payload], turn: str) -> Iterator[Said]:
    """Read Codex's: the lines of a turn come after one with its id (0.169)."""
    inside = False
    for record in records:
        named = record.text("payload.turn_id")
        if record.value("type") in ("turn_context", "event_msg") and named is not None:
            inside = named == turn
        kind = record.value("payload.type")
        if not inside:
            continue
        item = record.object("payload.item")
        if item.value("type") == "UserMessage":
            yield from _parts("user", item.value("content"))
        elif record.value("type") != "response_item":
            continue
        elif kind == "message" and record.value("payload.role") == "assistant":
            yield from _parts("assistant", record.value("payload.content"))
        elif kind in _CODEX_CALLS:
            name = record.text("payload.name") or str(kind)
            yield _call(name, record.value(f"payload.{_CODEX_CALLS[str(kind)]}"))


def _call(name: str, given: object) -> Said:
    """Return a call in one line: its name, and the argument that says most."""
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
    said: object = given
    if isinstance(given, dict):
        said = next((given[key] for key in _ARGUMENTS if given.get(key)), given)
    if isinstance(said, list) and all(isinstance(word, str) for word in said):
        said = " ".join(said)
    if not isinstance(said, str):
        said = json.dumps(said, ensure_ascii=False) if said else ""
    return Said("tool", shortened(f"{name} {' '.join(said.split())}", _CALL_CHARACTERS))


_READERS: Mapping[str, Callable[[Iterable[Payload], str], Iterator[Said]]] = {
    "claude-code": _claude,
    "codex": _codex,
}
