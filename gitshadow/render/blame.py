"""blame as text, as Git's porcelain, and as rows; stats as text."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from gitshadow.errors import StoreError
from gitshadow.messages.blame import (
    AgentShare,
    BlameAnswer,
    ClassShare,
    ModelShare,
    OwnerRow,
    ScopeRow,
    SessionShare,
    StatsAnswer,
    UnknownShare,
)
from gitshadow.messages.codec import JsonObject, encode
from gitshadow.render.style import View, is_plain, printable, printable_line
from gitshadow.render.text import local_time, short
from gitshadow.words import counted

# The porcelain is that of git-blame(1) as builtin/blame.c writes it (git 2.39): a header, the facts
# of a commit once (or for each line), `previous` and `filename`, then the line after a tab.
_FACTS = (
    "author",
    "author-mail",
    "author-time",
    "author-tz",
    "committer",
    "committer-mail",
    "committer-time",
    "committer-tz",
    "summary",
)
_PALETTE = ("hunk", "violet", "blue", "good", "warn")
_NAME_WIDTH = 18
_ROW_FIELDS = (
    "agent",
    "session",
    "turn",
    "call",
    "confidence",
    "commit",
    "ts",
    "prompt",
    "actor",
    "reason",
    "tool",
    "seq",
    "path",
    "author",
)
_EXTRA = ("candidates", "claimed")


class BlameLine(NamedTuple):
    """One line of a blamed file: numbers here and at its origin, owner's row, bytes."""

    number: int
    origin: int
    owner: int
    data: bytes


def lines_of(answer: BlameAnswer) -> list[BlameLine]:
    """Return the lines that were asked for.

    Raises:
        StoreError: the content cannot be decoded.
    """
    try:
        content = base64.b64decode(answer.content_base64, validate=True)
    except binascii.Error as error:
        raise StoreError("could not read the answer") from error
    every = content.split(b"\n")
    return [
        BlameLine(number, origin, owner, every[number - 1])
        for number, owner, origin in answer.lines
    ]


def blame_rows(answer: BlameAnswer) -> Iterator[JsonObject]:
    """Yield one object per line; bytes that are not UTF-8 come as `text_base64` too."""
    owners = [encode(owner) for owner in answer.owners]
    for line in lines_of(answer):
        row: JsonObject = {"line": line.number}
        # JSON has no bytes: text for who reads, and base64 for who needs the bytes.
        row["text"] = line.data.decode("utf-8", "backslashreplace")
        owner = owners[line.owner]
        row |= {key: owner.get(key) for key in _ROW_FIELDS}
        row["orig_line"] = line.origin
        row |= {key: owner[key] for key in _EXTRA if key in owner}
        if not _is_utf8(line.data):
            row["text_base64"] = base64.b64encode(line.data).decode("ascii")
        yield row


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def porcelain(answer: BlameAnswer, *, every_line: bool, now: int) -> bytes:
    """Return the answer in Git's own format.

    Args:
        answer: The lines and their owners.
        every_line: Whether each line has all facts (`--line-porcelain`).
        now: The time, in seconds, that lines of no commit get.
    """
    owners = answer.owners
    found = lines_of(answer)
    # Editors that read the porcelain know Git's name for lines of no commit.
    nobody = answer.no_commit
    commits = [owner.commit or "" if owner.git else nobody for owner in owners]
    paths: dict[str, set[str]] = {}
    for line in found:
        paths.setdefault(commits[line.owner], set()).add(owners[line.owner].path)
    out: list[bytes] = []
    shown: set[str] = set()
    for group in _groups(found, commits, owners):
        for place, line in enumerate(group):
            owner, commit = owners[line.owner], commits[line.owner]
            count = f" {len(group)}" if place == 0 else ""
            head = f"{commit} {line.origin} {line.number}{count}\n"
            out.append(head.encode("ascii"))
            if place == 0 or every_line:
                first = every_line or commit not in shown
                if first:
                    out.append(_facts(owner, now))
                # Git repeats the file name only where a commit has several: readers rely on it.
                if first or len(paths[commit]) > 1:
                    out.append(_names(owner))
                shown.add(commit)
            out.append(b"\t" + line.data + b"\n")
    return b"".join(out)


def _groups(
    found: Sequence[BlameLine],
    commits: Sequence[str],
    owners: Sequence[OwnerRow],
) -> Iterator[list[BlameLine]]:
    """Yield runs of neighbouring lines that neighbour in one file of one commit too."""
    group: list[BlameLine] = []
    for line in found:
        last = group[-1] if group else None
        follows = (
            last is not None
            and commits[last.owner] == commits[line.owner]
            and owners[last.owner].path == owners[line.owner].path
            and (line.number, line.origin) == (last.number + 1, last.origin + 1)
        )
        if group and not follows:
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _facts(owner: OwnerRow, now: int) -> bytes:
    git = owner.git or {
        "author": "Not Committed Yet",
        "author-mail": "<not.committed.yet>",
        "author-time": str(now),
        "author-tz": "+0000",
        "committer": "Not Committed Yet",
        "committer-mail": "<not.committed.yet>",
        "committer-time": str(now),
        "committer-tz": "+0000",
        "summary": "Not recorded",
    }
    said = "".join(f"{key} {_one_line(git.get(key, ''))}\n" for key in _FACTS)
    if "boundary" in git:
        said += "boundary\n"
    return said.encode("utf-8", "backslashreplace")


def _one_line(value: str) -> str:
    # The format has one fact per line: a line break in a name would be read as another fact.
    return value.replace("\n", " ").replace("\r", " ")


def _names(owner: OwnerRow) -> bytes:
    said = b""
    if owner.previous:
        commit, path = owner.previous
        said = b"previous %b %b\n" % (commit.encode("ascii"), _name(path))
    return said + b"filename %b\n" % _name(owner.path)


def _name(path: str) -> bytes:
    """Return a path as Git writes it: C-quoted where a byte of it is not plain (quote.c)."""
    from gitshadow.store import paths

    real = paths.parse_path(path)
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in real):
        return real
    return paths.c_quoted(real).encode("ascii")


def blame_lines(
    answer: BlameAnswer, view: View, *, prompts: bool, reasons: bool
) -> Iterator[str]:
    """Yield one line of text per line, then what was removed and, if asked, why."""
    owners = answer.owners
    styles = _styles(owners)
    found = lines_of(answer)
    width = len(str(found[-1].number)) if found else 1
    names = max((len(name_of(owner)) for owner in owners), default=0)
    last: object = None
    for line in found:
        owner = owners[line.owner]
        turn = owner.session, owner.turn
        if prompts and turn != last and owner.prompt:
            yield view.paint(f"# {_said(owner.prompt)}", "faint")
        last = turn
        head = view.paint(_head(owner, names), styles[line.owner])
        shown = printable_line(line.data.decode("utf-8", "backslashreplace"))
        yield f"{head} {line.number:>{width}}) {shown}".rstrip()
    yield from _removed(answer, view)
    if reasons:
        yield from _reasons(owners, found, view)


def _head(owner: OwnerRow, width: int) -> str:
    name = name_of(owner)
    mark = owner.seq or short(owner.commit or "")[:8] or "-"
    when = local_time(owner.ts) if owner.ts else "-"
    # A person's line from before the recording is as sure as Git is, which is no matter of doubt.
    is_gits = owner.seq is None and owner.actor == "human"
    sure = "git" if is_gits else printable(owner.confidence)
    return f"{mark:>8}  {name:<{width}}  {when:<19}  {sure:<9}"


def name_of(owner: OwnerRow) -> str:
    """Return who wrote: an agent, the author that Git names, `you`, or `unknown`.

    An agent that somebody else claims it was has a question mark.
    """
    if owner.confidence == "ambiguous":
        return "ambiguous"
    if owner.actor == "agent":
        name = owner.agent or "agent"
    elif owner.actor == "human":
        name = owner.author or "you"
    elif owner.claimed is not None and owner.claimed.agent:
        name = f"{owner.claimed.agent}?"
    else:
        name = "unknown"
    safe = name if is_plain(name) else printable(name)
    return safe if len(safe) <= _NAME_WIDTH else safe[: _NAME_WIDTH - 1] + "…"


def _styles(owners: Sequence[OwnerRow]) -> list[str]:
    """Return a style for each owner: a colour for each agent's session, faint for no agent."""
    colours: dict[str | None, str] = {}
    styles: list[str] = []
    for owner in owners:
        if owner.actor != "agent":
            styles.append("plain" if owner.actor == "human" else "faint")
            continue
        colour = _PALETTE[len(colours) % len(_PALETTE)]
        styles.append(colours.setdefault(owner.session, colour))
    return styles


def _said(prompt: str) -> str:
    first, _, rest = prompt.partition("\n")
    return printable(first[:100]) + ("…" if rest or len(first) > 100 else "")


def _removed(answer: BlameAnswer, view: View) -> Iterator[str]:
    if answer.removed:
        yield ""
    for row in answer.removed:
        owner = name_of(answer.owners[row.owner])
        yield (
            f"{view.paint('removed', 'bad')} by {name_of(row.by)} (event {row.seq}),"
            f" written by {owner}: {printable_line(row.text)}"
        )


def _reasons(
    owners: Sequence[OwnerRow], found: Sequence[BlameLine], view: View
) -> Iterator[str]:
    """Yield each reason once, with the lines that it explains."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for line in found:
        owner = owners[line.owner]
        key = name_of(owner), printable(owner.reason)
        numbers.setdefault(key, []).append(line.number)
    yield ""
    for (name, reason), which in numbers.items():
        noun = "line" if len(which) == 1 else "lines"
        yield f"{view.paint(name, 'bold')}, {noun} {_spans(which)}: {reason}"


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


_CLASSES = {"agent": "by agents", "human": "by people", "unknown": "unknown"}
_STYLES = {"agent": "hunk", "human": "plain", "unknown": "faint"}
_SHOWN = 10
_SAID = 60
_Share: TypeAlias = AgentShare | ClassShare | ModelShare | SessionShare | UnknownShare


def stats_lines(answer: StatsAnswer, view: View) -> Iterator[str]:
    """Yield the shares of all lines, then what they are made of."""
    yield view.paint(_answer(answer), "bold")
    if answer.lines:
        yield ""
        yield from _classes(answer, view)
        yield from _sessions(answer, view)
    yield from _left_out(answer, view)


def _answer(answer: StatsAnswer) -> str:
    where = _where(answer.scope)
    if not answer.lines:
        return f"no lines {where}"
    lines, files = counted(answer.lines, "line"), counted(answer.files, "file")
    said = (
        f"{_percent(row)} {_CLASSES.get(row.class_, '')}"
        for row in answer.classes
        if row.lines
    )
    return f"{lines} in {files} {where}: {', '.join(said)}"


def _where(scope: ScopeRow) -> str:
    commit = short(scope.commit or "")
    if scope.kind == "commit":
        return f"of commit {commit}"
    if scope.kind == "added":
        return f"added by commit {commit}"
    if scope.kind == "range":
        return f"in {commit} but not in {short(scope.base or '') or 'nothing'}"
    return "of the working tree"


def _classes(answer: StatsAnswer, view: View) -> Iterator[str]:
    for row in answer.classes:
        if not row.lines:
            continue
        yield view.paint(_line(row.class_, row, 0), _STYLES.get(row.class_, "plain"))
        if row.class_ == "agent":
            yield from _agents(answer)
        if row.class_ == "unknown":
            yield from _cut(_line(one.reason, one, 2) for one in answer.unknown)


def _agents(answer: StatsAnswer) -> Iterator[str]:
    for agent in answer.agents:
        yield _line(agent.agent, agent, 2)
        for model in agent.models:
            yield _line(model.model or "model not reported", model, 4)


def _sessions(answer: StatsAnswer, view: View) -> Iterator[str]:
    if not answer.sessions:
        return
    yield ""
    yield view.paint("sessions", "bold")
    yield from _cut(_session(row) for row in answer.sessions)


def _session(row: SessionShare) -> str:
    first = (row.prompt or "").partition("\n")[0]
    told = printable(first[:_SAID]) + ("…" if len(first) > _SAID else "")
    return f"{_line(row.session, row, 0)}  {told}".rstrip()


def _left_out(answer: StatsAnswer, view: View) -> Iterator[str]:
    left = answer.not_by_line
    if not left:
        return
    yield ""
    yield f"{counted(len(left), 'file')} not counted by line"
    yield from _cut(f"  {view.path(row.path)}: {printable(row.reason)}" for row in left)


def _cut(lines: Iterator[str]) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    found = list(lines)
    yield from found[:_SHOWN]
    if len(found) > _SHOWN:
        yield f"  … and {len(found) - _SHOWN} more (--json has all)"


def _line(name: str, row: _Share, indent: int) -> str:
    return f"{row.lines:>8}  {_percent(row):>7}  " + " " * indent + printable(name)


def _percent(row: _Share) -> str:
    said = f"{100 * row.share:.1f} %"
    if said == "0.0 %" and row.lines:
        return "<0.1 %"
    return ">99.9 %" if said == "100.0 %" and row.share < 1 else said
