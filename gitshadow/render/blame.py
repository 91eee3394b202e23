"""blame as text, as Git's porcelain, and as rows.

The porcelain is that of git-blame(1) as builtin/blame.c writes it (git 2.39): header, facts of a
commit once (or for each line), `previous` and `filename`, then the line itself behind a tab.
Invariant: porcelain and rows hold the file's own bytes; text passes `printable_line`.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.render.document import inner, rows, text, texts
from gitshadow.render.style import View, is_plain, printable, printable_line
from gitshadow.render.text import local_time, short

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
_NOBODY = "0" * 40
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
    """Hold one line of a blamed file: numbers here and at its origin, owner's row, bytes."""

    number: int
    origin: int
    owner: int
    data: bytes


def lines_of(document: Mapping[str, object]) -> list[BlameLine]:
    """Return the lines of a document that were asked for.

    Raises:
        StoreError: it does not hold what it says.
    """
    try:
        content = base64.b64decode(text(document, "content_base64"), validate=True)
    except binascii.Error as error:
        raise StoreError("could not read the answer") from error
    every = content.split(b"\n")
    listed = document.get("lines")
    found: list[BlameLine] = []
    for entry in listed if isinstance(listed, list) else []:
        number, owner, origin = entry
        found.append(BlameLine(number, origin, owner, every[number - 1]))
    return found


# -- rows --------------------------------------------------------------------------------------


def blame_rows(document: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Yield one object per line; bytes that are not UTF-8 come as `text_base64` too."""
    owners = rows(document, "owners")
    for line in lines_of(document):
        row: dict[str, object] = {"line": line.number}
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


# -- porcelain ---------------------------------------------------------------------------------


def porcelain(document: Mapping[str, object], *, every_line: bool, now: int) -> bytes:
    """Return the document in Git's own format.

    Args:
        document: The engine's answer.
        every_line: Whether each line has all facts (`--line-porcelain`).
        now: The time, in seconds, that lines of no commit get.
    """
    owners = rows(document, "owners")
    found = lines_of(document)
    commits = [_commit(owner) for owner in owners]
    paths: dict[str, set[str]] = {}
    for line in found:
        paths.setdefault(commits[line.owner], set()).add(
            text(owners[line.owner], "path")
        )
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
                if first or len(paths[commit]) > 1:
                    out.append(_names(owner))
                shown.add(commit)
            out.append(b"\t" + line.data + b"\n")
    return b"".join(out)


def _groups(
    found: Sequence[BlameLine],
    commits: Sequence[str],
    owners: Sequence[Mapping[str, object]],
) -> Iterator[list[BlameLine]]:
    """Yield runs of neighbouring lines that neighbour in one file of one commit too."""
    group: list[BlameLine] = []
    for line in found:
        last = group[-1] if group else None
        follows = (
            last is not None
            and commits[last.owner] == commits[line.owner]
            and owners[last.owner].get("path") == owners[line.owner].get("path")
            and (line.number, line.origin) == (last.number + 1, last.origin + 1)
        )
        if group and not follows:
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _commit(owner: Mapping[str, object]) -> str:
    return text(owner, "commit") if inner(owner, "git") else _NOBODY


def _facts(owner: Mapping[str, object], now: int) -> bytes:
    git = inner(owner, "git") or {
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
    said = "".join(f"{key} {_one_line(text(git, key))}\n" for key in _FACTS)
    if "boundary" in git:
        said += "boundary\n"
    return said.encode("utf-8", "backslashreplace")


def _one_line(value: str) -> str:
    return value.replace("\n", " ").replace("\r", " ")


def _names(owner: Mapping[str, object]) -> bytes:
    said = b""
    previous = texts(owner, "previous")
    if len(previous) == 2:
        said = b"previous %b %b\n" % (previous[0].encode("ascii"), _name(previous[1]))
    return said + b"filename %b\n" % _name(text(owner, "path"))


def _name(path: str) -> bytes:
    """Return a path as Git writes it: C-quoted where a byte of it is not plain (quote.c)."""
    from gitshadow.store import paths

    real = paths.parse_path(path)
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in real):
        return real
    return paths.c_quoted(real).encode("ascii")


# -- text --------------------------------------------------------------------------------------


def blame_lines(
    document: Mapping[str, object], view: View, *, prompts: bool, reasons: bool
) -> Iterator[str]:
    """Yield one line of text per line, below it what was taken away and, if asked, why."""
    owners = rows(document, "owners")
    styles = _styles(owners)
    found = lines_of(document)
    width = len(str(found[-1].number)) if found else 1
    last: object = None
    for line in found:
        owner = owners[line.owner]
        turn = text(owner, "session"), text(owner, "turn")
        if prompts and turn != last and text(owner, "prompt"):
            yield view.paint(f"# {_said(owner)}", "faint")
        last = turn
        head = view.paint(_head(owner), styles[line.owner])
        shown = printable_line(line.data.decode("utf-8", "backslashreplace"))
        yield f"{head} {line.number:>{width}}) {shown}".rstrip()
    yield from _removed(document, view)
    if reasons:
        yield from _reasons(owners, found, view)


def _head(owner: Mapping[str, object]) -> str:
    name = name_of(owner)
    mark = text(owner, "seq") or short(text(owner, "commit"))[:8] or "-"
    when = local_time(text(owner, "ts")) if text(owner, "ts") else "-"
    sure = printable(text(owner, "confidence"))
    return f"{mark:>8}  {name:<{_NAME_WIDTH}}  {when:<19}  {sure:<9}"


def name_of(owner: Mapping[str, object]) -> str:
    """Return who wrote: an agent, the author that Git names, `you`, or `unknown`.

    An agent that somebody else claims it was has a question mark.
    """
    if text(owner, "confidence") == "ambiguous":
        return "ambiguous"
    actor = text(owner, "actor")
    if actor == "agent":
        name = text(owner, "agent") or "agent"
    elif actor == "human":
        name = text(owner, "author") or "you"
    else:
        claimed = text(inner(owner, "claimed"), "agent")
        name = f"{claimed}?" if claimed else "unknown"
    safe = name if is_plain(name) else printable(name)
    return safe if len(safe) <= _NAME_WIDTH else safe[: _NAME_WIDTH - 1] + "…"


def _styles(owners: Sequence[Mapping[str, object]]) -> list[str]:
    """Return a style for each owner: a colour for each agent's session, faint for no agent."""
    colours: dict[str, str] = {}
    styles: list[str] = []
    for owner in owners:
        if text(owner, "actor") != "agent":
            styles.append("plain" if text(owner, "actor") == "human" else "faint")
            continue
        session = text(owner, "session")
        colour = _PALETTE[len(colours) % len(_PALETTE)]
        styles.append(colours.setdefault(session, colour))
    return styles


def _said(owner: Mapping[str, object]) -> str:
    first, _, rest = text(owner, "prompt").partition("\n")
    return printable(first[:100]) + ("…" if rest or len(first) > 100 else "")


def _removed(document: Mapping[str, object], view: View) -> Iterator[str]:
    owners = rows(document, "owners")
    gone = rows(document, "removed")
    if gone:
        yield ""
    for row in gone:
        number = row.get("owner")
        owner = owners[number] if isinstance(number, int) else {}
        line = printable_line(text(row, "text"))
        by = name_of(inner(row, "by"))
        yield (
            f"{view.paint('removed', 'bad')} by {by} (event {text(row, 'seq')}),"
            f" written by {name_of(owner)}: {line}"
        )


def _reasons(
    owners: Sequence[Mapping[str, object]], found: Sequence[BlameLine], view: View
) -> Iterator[str]:
    """Say once for each reason which lines rest on it."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for line in found:
        owner = owners[line.owner]
        key = name_of(owner), printable(text(owner, "reason"))
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
