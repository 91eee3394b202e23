"""The grammar of refs and commit messages (docs/format.md). Pure. parse(format(x)) = x."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import (
    LINK_MODE,
    Actor,
    Confidence,
    OpKind,
    RepoPath,
    ToolClass,
    format_mode,
)
from gitshadow.store.digests import digest
from gitshadow.store.paths import c_quoted, quote_text, split_quoted
from gitshadow.store.paths import display_path as display_path
from gitshadow.store.paths import parse_path as parse_path
from gitshadow.store.paths import quote as quote
from gitshadow.store.paths import unquote as unquote

REF_PREFIX = "refs/agent-undo/"
EXPOSED_PREFIX = "refs/remotes/agent-undo/"
PIN_PREFIX = "pin-"
MARK_PREFIX = "review-"
ARTIFACT_PREFIX = "artifacts-"
FETCHED = "fetched/"
"""Below it are the chains that other machines recorded."""
# A reader refuses commits of a newer format instead of guessing at them; new trailers need no new
# number, because unknown ones are ignored.
FORMAT = 1
MAIN_WORKTREE = "main"
_PREFIX = "Agent-Undo-"
_PROMPT_TRAILER = b"Agent-Undo-Prompt: "
_AGENT_CHARS = 14
_ID_CHARS = 40
# Control characters could change a terminal, bidirectional ones the order of what is read
# (CVE-2021-42574), and a lone surrogate cannot be encoded.
UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What no subject has."""
_KINDS = frozenset(
    {
        "baseline",
        "write",
        "sync",
        "restore",
        "head",
        "coverage",
        "pin",
        "review",
        "artifact",
        "correction",
    }
)
_SESSION = re.compile(r"[a-z0-9-]{1,40}")
_MACHINE = re.compile(r"[0-9a-f]{12}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_PERMISSIONS = re.compile(r"[0-7]{4}")
_MODE = re.compile(r"10[0-7]{4}|120000")


class PathNote(NamedTuple):
    """The exact mode of a path, and where it was before a rename."""

    mode: int
    path: RepoPath
    old_path: RepoPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCommit:
    """The message of one shadow commit, field by field (docs/format.md)."""

    subject: str
    kind: str
    time_ns: int
    session: str | None = None
    agent: str | None = None
    worktree: str = MAIN_WORKTREE
    seqs: tuple[int, int] | None = None
    files: int | None = None
    native: str | None = None
    actor: Actor | None = None
    parent: str | None = None
    started_ns: int | None = None
    machine: str | None = None
    modes: tuple[int, int] | None = None
    turn: str | None = None
    prompt: str | None = None
    turn_ordinal: int | None = None
    turn_started_ns: int | None = None
    call: str | None = None
    tool: str | None = None
    tool_class: ToolClass | None = None
    call_opened_ns: int | None = None
    confidence: Confidence | None = None
    reason: str | None = None
    candidates: tuple[str, ...] = ()
    burst: str | None = None
    flags: tuple[str, ...] = ()
    op: str | None = None
    op_kind: OpKind | None = None
    undoes: tuple[str, ...] = ()
    target: str | None = None
    token: str | None = None
    note: str | None = None
    pin: str | None = None
    owner: str | None = None
    corrects: tuple[str, ...] = ()
    paths: tuple[PathNote, ...] = ()


def exposed_ref(ref: str) -> str:
    """Return the remote branch as which a shadow ref is shown to other programs."""
    return EXPOSED_PREFIX + ref.removeprefix(REF_PREFIX)


def clean_name(name: str) -> str:
    """Return a name with only `[a-z0-9-]`, `x` where nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"


def session_id(
    agent: str, native: str, day_ns: int, *, machine: str = "", length: int = 6
) -> str:
    """Return the id of a session: `<agent>-<yyyymmdd>-<hex>`, at most 40 characters.

    Args:
        agent: Whose it is.
        native: Its id with that agent.
        day_ns: When it began, nanoseconds since the epoch.
        machine: What the hex digits end with, so that no other machine gives out the same id.
        length: How many of them before that, at most 12.
    """
    name = clean_name(agent)
    # An agent of that name would get refs that look like pins or marks.
    if f"{name}-".startswith((PIN_PREFIX, MARK_PREFIX, ARTIFACT_PREFIX)):
        name = f"agent-{name}"
    day = datetime.fromtimestamp(day_ns // 1_000_000_000, UTC).strftime("%Y%m%d")
    # Derived from the agent's own id, so the result does not depend on which process sees the
    # session first.
    digits = digest(f"{agent}\0{native}")[:length]
    return f"{name[:_AGENT_CHARS].strip('-')}-{day}-{digits}{machine}"


def chain_ref(session: str, worktree: str) -> str:
    """Return the ref of a session's chain in a worktree."""
    if worktree == MAIN_WORKTREE:
        return REF_PREFIX + session
    # The name of a worktree can be any text, and that of a ref cannot (git-check-ref-format(1)).
    # A long session id is unique by its end, so its beginning is cut.
    return REF_PREFIX + f"{session}-w{digest(worktree, 3)}"[-_ID_CHARS:].lstrip("-")


def is_pin(ref: str) -> bool:
    """Return whether a ref is that of a pin."""
    return ref.startswith(REF_PREFIX + PIN_PREFIX)


def is_mark(ref: str) -> bool:
    """Return whether a ref is that of a review mark."""
    return ref.startswith(REF_PREFIX + MARK_PREFIX)


def is_fetched(ref: str) -> bool:
    """Return whether a ref is that of a chain of another machine."""
    return ref.startswith(REF_PREFIX + FETCHED)


def is_apart(ref: str) -> bool:
    """Return whether a ref is in no table of the journal: marks, artifacts, others' chains."""
    return (
        is_mark(ref) or is_fetched(ref) or ref.startswith(REF_PREFIX + ARTIFACT_PREFIX)
    )


def is_chain(ref: str) -> bool:
    """Return whether a ref is that of a chain of ours."""
    return ref.startswith(REF_PREFIX) and not is_pin(ref) and not is_apart(ref)


def fetched_ref(ref: str) -> str:
    """Return the local ref of a chain that another machine has at a ref."""
    return REF_PREFIX + FETCHED + ref.removeprefix(REF_PREFIX)


def original_ref(ref: str) -> str:
    """Return the ref that `fetched_ref` was made from."""
    return REF_PREFIX + ref.removeprefix(REF_PREFIX + FETCHED)


def pin_ref(name: str) -> str:
    """Return the ref of a pin; its name is cleaned to what a ref may hold."""
    return REF_PREFIX + (PIN_PREFIX + clean_name(name))[:_ID_CHARS]


_TEXTS = (
    ("Session", "session"),
    ("Agent", "agent"),
    ("Worktree", "worktree"),
    ("Native", "native"),
    ("Actor", "actor"),
    ("Parent", "parent"),
    ("Machine", "machine"),
    ("Turn", "turn"),
    ("Prompt", "prompt"),
    ("Call", "call"),
    ("Tool", "tool"),
    ("Confidence", "confidence"),
    ("Reason", "reason"),
    ("Burst", "burst"),
    ("Op", "op"),
    ("Op-Kind", "op_kind"),
    ("Target", "target"),
    ("Token", "token"),
    ("Note", "note"),
    ("Pin", "pin"),
    ("Owner", "owner"),
)
_LISTS = (
    ("Candidate", "candidates"),
    ("Flag", "flags"),
    ("Undoes", "undoes"),
    ("Corrects", "corrects"),
)
_REPEATED = frozenset({"Path", *(name for name, _ in _LISTS)})
_ENUMS = {"actor": Actor, "confidence": Confidence, "op_kind": OpKind}


def format_message(commit: ShadowCommit) -> bytes:
    """Return the message of a shadow commit, UTF-8, ending in a newline."""
    subject = UNSAFE.sub("?", commit.subject).strip() or commit.kind.capitalize()
    lines = [subject, "", f"{_PREFIX}Format: {FORMAT}"]
    lines.append(f"{_PREFIX}Kind: {commit.kind}")
    lines.append(f"{_PREFIX}Time: {format_time(commit.time_ns)}")
    for name, field in _TEXTS:
        value = getattr(commit, field)
        if value is not None:
            # Quoted, a value is one line whatever it contains. A prompt with a line end could
            # otherwise forge a trailer.
            lines.append(f"{_PREFIX}{name}: {quote_text(str(value))}")
    for name, field in _LISTS:
        values = getattr(commit, field)
        lines += [f"{_PREFIX}{name}: {quote_text(value)}" for value in values]
    lines += _composed(commit)
    lines += [f"{_PREFIX}Path: {_path_note(note)}" for note in commit.paths]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _composed(commit: ShadowCommit) -> Iterable[str]:
    if commit.seqs is not None:
        first, last = commit.seqs
        yield f"{_PREFIX}Seq: {first}" + (f"-{last}" if last != first else "")
    if commit.files is not None:
        yield f"{_PREFIX}Files: {commit.files}"
    if commit.started_ns is not None:
        yield f"{_PREFIX}Started: {format_time(commit.started_ns)}"
    if commit.modes is not None:
        # Git's trees have two modes only; the usual permissions of a checkout depend on the umask,
        # so they are written once per chain.
        yield f"{_PREFIX}Modes: {commit.modes[0]:04o} {commit.modes[1]:04o}"
    if commit.turn_ordinal is not None and commit.turn_started_ns is not None:
        started = format_time(commit.turn_started_ns)
        yield f"{_PREFIX}Turn-Info: {commit.turn_ordinal} {started}"
    if commit.tool_class is not None and commit.call_opened_ns is not None:
        opened = format_time(commit.call_opened_ns)
        yield f"{_PREFIX}Call-Info: {commit.tool_class.value} {opened}"


def _path_note(note: PathNote) -> str:
    text = f"{format_mode(note.mode)} {c_quoted(note.path)}"
    return text if note.old_path is None else f"{text} {c_quoted(note.old_path)}"


def parse_message(message: bytes) -> ShadowCommit | None:
    """Parse the message of a commit; None if it is not ours.

    Raises:
        StoreError: it claims to be ours and cannot be read, or is of a newer format.
    """
    text = message.decode("utf-8", "surrogateescape")
    subject, _, body = text.partition("\n\n")
    found = _trailers(body)
    claimed = found.get("Format", [""])[0]
    if _NUMBER.fullmatch(claimed) is None:
        return None
    if int(claimed) != FORMAT:
        raise StoreError(
            f"could not read a shadow commit of the newer format {claimed}",
            hint="upgrade gitshadow",
        )
    try:
        return _parsed(subject, found)
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise StoreError(f"could not read a shadow commit: {error}") from error


def without_prompt(message: bytes) -> bytes | None:
    """Return a message of ours without the prompt in it; None if there is none."""
    lines = message.split(b"\n")
    kept = [line for line in lines if not line.startswith(_PROMPT_TRAILER)]
    return None if len(kept) == len(lines) else b"\n".join(kept)


def peek(message: bytes) -> tuple[str | None, int | None]:
    """Return the kind and the first sequence number of a message of ours, else None for both."""
    # A rebuild orders all commits by their numbers before it parses one, and this is much cheaper.
    body = message.decode("utf-8", "surrogateescape").partition("\n\n")[2]
    found = _trailers(body)
    if found.get("Format") != [str(FORMAT)] or "Kind" not in found:
        return None, None
    first = found.get("Seq", [""])[0].partition("-")[0]
    return found["Kind"][0], int(first) if _NUMBER.fullmatch(first) else None


def _trailers(body: str) -> dict[str, list[str]]:
    """Return our trailers of the last paragraph, each with its values in order."""
    block = body.rstrip("\n").rpartition("\n\n")[2]
    found: dict[str, list[str]] = {}
    for line in block.split("\n"):
        key, _, value = line.partition(": ")
        if key.startswith(_PREFIX):
            found.setdefault(key[len(_PREFIX) :], []).append(value)
    return found


def _parsed(subject: str, found: dict[str, list[str]]) -> ShadowCommit:
    for name, texts in found.items():
        # Two values for one field: which of them counts must not depend on the reader.
        if len(texts) > 1 and name not in _REPEATED:
            raise ValueError(f"{_PREFIX}{name} occurs twice")
    if found["Kind"][0] not in _KINDS:
        raise ValueError(f"unknown kind {found['Kind'][0][:20]!r}")
    values: dict[str, object] = {"subject": subject, "kind": found["Kind"][0]}
    values["time_ns"] = parse_time(found["Time"][0])
    for name, field in _TEXTS:
        if name in found:
            text = _decoded(unquote(found[name][0]))
            values[field] = _ENUMS[field](text) if field in _ENUMS else text
    for name, field in _LISTS:
        if name in found:
            values[field] = tuple(_decoded(unquote(text)) for text in found[name])
    values |= _parsed_composed(found)
    values["paths"] = tuple(_parsed_note(text) for text in found.get("Path", ()))
    # These become parts of refs and file names, and commits are fetched from others.
    session = values.get("session", "x")
    if not isinstance(session, str) or _SESSION.fullmatch(session) is None:
        raise ValueError(f"session {session!r}")
    machine = values.get("machine", "0" * 12)
    if not isinstance(machine, str) or _MACHINE.fullmatch(machine) is None:
        raise ValueError(f"machine {machine!r}")
    return ShadowCommit(**values)  # type: ignore[arg-type]


def _parsed_composed(found: dict[str, list[str]]) -> dict[str, object]:
    values: dict[str, object] = {}
    if "Seq" in found:
        first, _, last = found["Seq"][0].partition("-")
        values["seqs"] = seqs = (_number(first), _number(last or first))
        if not 0 < seqs[0] <= seqs[1]:
            raise ValueError(f"rows {found['Seq'][0]}")
    if "Files" in found:
        values["files"] = _number(found["Files"][0])
    if "Started" in found:
        values["started_ns"] = parse_time(found["Started"][0])
    if "Modes" in found:
        plain, _, executable = found["Modes"][0].partition(" ")
        values["modes"] = (
            _octal(plain, _PERMISSIONS),
            _octal(executable, _PERMISSIONS),
        )
    if "Turn-Info" in found:
        ordinal, _, started = found["Turn-Info"][0].partition(" ")
        values |= {
            "turn_ordinal": _number(ordinal),
            "turn_started_ns": parse_time(started),
        }
    if "Call-Info" in found:
        kind, _, opened = found["Call-Info"][0].partition(" ")
        values |= {"tool_class": ToolClass(kind), "call_opened_ns": parse_time(opened)}
    return values


def _parsed_note(text: str) -> PathNote:
    mode, _, rest = text.partition(" ")
    paths = [RepoPath(unquote(part)) for part in split_quoted(rest)]
    if len(paths) not in (1, 2):
        raise ValueError(f"path note {text[:60]!r}")
    old_path = paths[1] if len(paths) == 2 else None
    return PathNote(_octal(mode, _MODE), paths[0], old_path)


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"number {text[:20]!r}")
    return int(text)


def _octal(text: str, form: re.Pattern[str]) -> int:
    if form.fullmatch(text) is None:
        raise ValueError(f"mode {text[:20]!r}")
    return int(text, 8)


def format_rows(seqs: Iterable[int]) -> tuple[str, ...]:
    """Return sequence numbers as runs: `17`, `20-31`."""
    runs: list[list[int]] = []
    for seq in sorted(seqs):
        if runs and runs[-1][1] == seq - 1:
            runs[-1][1] = seq
        else:
            runs.append([seq, seq])
    return tuple(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def parse_rows(runs: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """Return the first and the last number of each run that `format_rows` made.

    Raises:
        StoreError: a text is no such run.
    """
    pairs = (text.partition("-") for text in runs)
    try:
        return tuple((_number(a), _number(b or a)) for a, _, b in pairs)
    except ValueError as error:
        raise StoreError(f"could not read a shadow commit: {error}") from error


def format_time(time_ns: int) -> str:
    """Format a time to the microsecond, RFC 3339, UTC."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    # `strftime` would look for the file of the local time zone each time.
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    clock = f"{hour:02}:{minute:02}:{second:02}.{rest // 1000:06}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def parse_time(text: str) -> int:
    """Return the nanoseconds of a time that `format_time` made.

    Raises:
        ValueError: it is no such time.
    """
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return seconds * 1_000_000_000 + moment.microsecond * 1000


def exact_mode(entry_mode: int, modes: tuple[int, int]) -> int:
    """Return the exact mode of a tree entry that has no path note."""
    if entry_mode == LINK_MODE:
        return LINK_MODE
    return 0o100000 | (modes[1] if entry_mode == 0o100755 else modes[0])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
