"""Read and write trailers of commit messages: on request, the agents and sessions of a commit.

Trailers are those of the final block, as git-interpret-trailers(1) finds it: text elsewhere can be
a quotation or a forgery. Merges, squashes, amends and replayed commits keep their messages.
Invariant: off unless `agent-undo.trailers` is set. A message is replaced whole or not at all.
Values that are read are bounded.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.interchange.claims import bounded, identifier
from gitshadow.model import Actor
from gitshadow.recording.context import RecorderContext
from gitshadow.review import changes
from gitshadow.review.changes import Added, Additions
from gitshadow.store.digests import digest
from gitshadow.store.journal.sessions import model_at
from gitshadow.store.safe_files import replacing

CHECKPOINT = "Entire-Checkpoint"
_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)[ \t]*:[ \t]*(.*)")
_LONGEST = 20_000
_CUT = b" ------------------------ >8 ------------------------"
ASSISTED, SESSION = "Assisted-by", "Agent-Session"
# The source of a message that is given whole: `-m`, `-F` (githooks(5), prepare-commit-msg).
_WRITTEN = "message"
_WAITED_FOR = ("", "template")
_REPLAYS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG")
_REPLAYING = ("rebase-merge", "rebase-apply", "sequencer")
Trailer = tuple[str, str]


def final_block(message: bytes) -> Iterator[tuple[str, str]]:
    """Yield key and value of each trailer of a message's last paragraph.

    A paragraph in which any line is neither a trailer nor the continuation of one is none, and
    neither is the subject.
    """
    text = message[-_LONGEST:].decode("utf-8", "replace").rstrip()
    before, gap, block = text.rpartition("\n\n")
    if not gap or not before.strip():
        return
    found: list[tuple[str, str]] = []
    for line in block.split("\n"):
        if line[:1] in (" ", "\t") and found:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            return
        found.append((match[1], match[2].strip()))
    yield from found


def checkpoints(message: bytes) -> list[str]:
    """Return the ids of Entire's checkpoints that a commit names (entireio/cli, trailers.go)."""
    return [
        identifier(value)
        for key, value in final_block(message)
        if key.lower() == CHECKPOINT.lower() and value
    ]


def own_text(message: bytes, comment: bytes) -> bytes:
    """Return the part of a message that a person wrote: without comments and the cut-off diff.

    Args:
        message: The file that Git has edited (git-commit(1), --cleanup and --verbose).
        comment: The beginning of a comment line.
    """
    kept: list[bytes] = []
    for line in message.split(b"\n"):
        if line.startswith(comment):
            if _CUT in line:
                break
            continue
        kept.append(line.rstrip())
    return b"\n".join(kept).strip()


class _Writer(NamedTuple):
    agent: str
    session: str
    ts_ns: int


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The arguments of Git's hook: the message's file, its source, and the index."""

    message: str
    source: str = ""
    index: str | None = None


def prepare(context: RecorderContext, asked: MessageContext) -> None:
    """Add trailers to a message that is already written; otherwise keep them for `finish`.

    Raises:
        StoreError: the message could not be read or written, and is as it was.
    """
    _forget(context)
    known = (_WRITTEN, *_WAITED_FOR)
    if not context.workspace.config.trailers or asked.source not in known:
        return
    if _is_replaying(context.workspace.layout.git_dir):
        return
    found = trailers_of(context, asked.index)
    if not found:
        return
    if asked.source == _WRITTEN:
        _add(context, asked.message, found)
    else:
        # A message that has only trailers is not empty for Git, so a person who leaves the editor
        # with an empty message would commit after all (builtin/commit.c, rest_is_empty).
        _wait(context, found, _digest(context, _read(asked.message)))


def finish(context: RecorderContext, asked: MessageContext) -> None:
    """Add the trailers that `prepare` kept to the message that a person wrote.

    Raises:
        StoreError: the message could not be read or written, and is as it was.
    """
    waiting = _waiting(context)
    _forget(context)
    if waiting is None or not context.workspace.config.trailers:
        return
    found, before = waiting
    message = _read(asked.message)
    # A message that the person did not change may abort the commit; that is Git's decision.
    if own_text(message, _comment(context)) and _digest(context, message) != before:
        _add(context, asked.message, found)


def trailers_of(context: RecorderContext, index: str | None) -> list[Trailer]:
    """Return the trailers for what is staged: agents with models, then sessions, as they wrote."""
    ws = context.workspace
    change = changes.staged(ws, index)
    additions = Additions(context, change)
    agents: dict[str, None] = {}
    sessions: dict[str, None] = {}
    for one in change.files:
        for writer in _writers(additions.to(one)):
            model = model_at(ws.db, writer.session, writer.ts_ns)
            name = f"{writer.agent}:{model}" if model else writer.agent
            agents[bounded(name)] = None
            sessions[writer.session] = None
    return [(ASSISTED, agent) for agent in agents] + [
        (SESSION, session) for session in sessions
    ]


def _writers(added: Added | None) -> Iterator[_Writer]:
    """Yield the agents that wrote new lines of a file, each write once."""
    seen: set[int] = set()
    if added is None or added.is_binary:
        return
    for number in added.numbers:
        credit = added.credits[number - 1]
        if id(credit) in seen or credit.actor is not Actor.AGENT:
            continue
        seen.add(id(credit))
        if credit.session is not None and credit.event is not None:
            yield _Writer(credit.agent or "agent", credit.session, credit.event.ts_ns)


def _is_replaying(git_dir: str) -> bool:
    names = (*_REPLAYS, *_REPLAYING)
    return any(os.path.lexists(os.path.join(git_dir, name)) for name in names)


def _add(context: RecorderContext, path: str, found: list[Trailer]) -> None:
    message = _read(path)
    comment = _comment(context).decode("utf-8", "replace")
    made = context.workspace.git.with_trailers(message, found, comment)
    if made == message:
        return
    try:
        with replacing(path, 0o666) as out:
            out.write(made)
    except OSError as error:
        raise StoreError(f"could not write {path}: {error.strerror}") from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise StoreError(f"could not read {path}: {error.strerror}") from error


def _comment(context: RecorderContext) -> bytes:
    """Return the beginning of a comment line; `auto` is read as Git's default."""
    repo = context.workspace.repo
    names = ("core.commentString", "core.commentChar")
    found = next((value for name in names if (value := repo.config_get(name))), "#")
    return b"#" if found == "auto" else found.encode("utf-8", "replace")


def _digest(context: RecorderContext, message: bytes) -> str:
    return digest(own_text(message, _comment(context)))


def _wait(context: RecorderContext, found: list[Trailer], digest: str) -> None:
    path = context.workspace.layout.trailers
    # A link planted in the place of the file is not followed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as out:
            json.dump({"trailers": found, "before": digest}, out)
    except OSError as error:
        raise StoreError(f"could not write {path}: {error.strerror}") from error


def _waiting(context: RecorderContext) -> tuple[list[Trailer], str] | None:
    """Return the kept trailers and the digest of the text before; None if they are incomplete."""
    try:
        with open(context.workspace.layout.trailers, encoding="utf-8") as file:
            held = json.load(file)
        found = [(str(key), str(value)) for key, value in held["trailers"]]
        return found, str(held["before"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _forget(context: RecorderContext) -> None:
    with suppress(FileNotFoundError):
        os.unlink(context.workspace.layout.trailers)
