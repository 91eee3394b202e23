"""What an editor shows of the authors of lines: runs of lines of one turn, a title, a hover.

Invariant: pure. Prompts and names come from anybody: they are shown as text, so that no link, tag
or command in them does anything.
"""

import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitshadow import words
from gitshadow.lsp.buffers import LineMap
from gitshadow.messages.blame import OwnerRow
from gitshadow.render.blame import BlameLine, name_of
from gitshadow.render.history import seconds_since
from gitshadow.render.style import printable, printable_line

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!<>|~&$:@])")
_TITLE_PROMPT = 60
_OLD_LINES = 12
UNSAVED = "yours, not saved yet"


class AuthorRun(NamedTuple):
    """Lines of a buffer, from `first` to `last`, that one turn wrote, or one author without turns.

    `owner` is that of the first line; `lines` are those of the file.
    """

    first: int
    last: int
    owner: OwnerRow
    lines: tuple[BlameLine, ...]

    @property
    def is_agents(self) -> bool:
        """Return whether an agent wrote it."""
        return self.owner.actor == "agent"


def runs_of(
    blamed: Sequence[BlameLine], owners: Sequence[OwnerRow], lines: LineMap
) -> list[AuthorRun]:
    """Return the runs of a buffer in order; lines that the editor changed are in none."""
    found: list[AuthorRun] = []
    for at, number in enumerate(lines.in_file):
        if number is None or number >= len(blamed):
            continue
        line = blamed[number]
        owner = owners[line.owner]
        last = found[-1] if found else None
        if (
            last is not None
            and last.last == at - 1
            and _unit(last.owner) == _unit(owner)
        ):
            found[-1] = last._replace(last=at, lines=(*last.lines, line))
        else:
            found.append(AuthorRun(at, at, owner, (line,)))
    return found


def _unit(owner: OwnerRow) -> tuple[object, ...]:
    if owner.actor == "agent" and owner.turn is not None:
        return owner.session, owner.turn
    return (
        owner.actor,
        owner.session,
        owner.agent,
        owner.author,
        owner.commit,
        owner.seq,
    )


def run_at(runs: Sequence[AuthorRun], line: int) -> AuthorRun | None:
    """Return the run that has a line of the buffer."""
    return next((run for run in runs if run.first <= line <= run.last), None)


def title(owner: OwnerRow) -> str:
    """Return a run's author in one line: name, confidence if it is not certain, age, prompt."""
    said = [printable(name_of(owner))]
    if owner.confidence not in ("certain", ""):
        said.append(owner.confidence)
    if age := _age(owner):
        said.append(age)
    if owner.prompt:
        said.append(words.shortened(printable(owner.prompt), _TITLE_PROMPT))
    return ", ".join(said)


def hover(owner: OwnerRow, turn: str, before: Sequence[str] | None) -> str:
    """Return what a person wants to know of a line, as Markdown.

    Args:
        owner: Who wrote it.
        turn: The short id of the turn, empty without one.
        before: The lines that its write replaced there; None if that is not known.
    """
    return "\n\n".join(_paragraphs(owner, turn, before))


def _paragraphs(
    owner: OwnerRow, turn: str, before: Sequence[str] | None
) -> Iterator[str]:
    head = [f"**{escaped(name_of(owner))}**"]
    head += [escaped(one) for one in (turn, _age(owner), owner.machine or "") if one]
    yield " · ".join(head)
    reason = f": {escaped(owner.reason)}" if owner.reason else ""
    yield f"*{escaped(owner.confidence)}*{reason}"
    if owner.prompt:
        yield fenced(owner.prompt)
    if owner.tool:
        yield f"by the tool {escaped(owner.tool)}"
    if before is not None:
        shown = [printable_line(line) for line in before[:_OLD_LINES]]
        shown += ["…"] if len(before) > _OLD_LINES else []
        yield f"before:\n\n{fenced(chr(10).join(shown))}" if before else "new here"


def escaped(text: str) -> str:
    """Return a text of one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def fenced(text: str) -> str:
    """Return a text as a block of code that it cannot end."""
    lines = [printable_line(line) for line in text.split("\n")]
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def _age(owner: OwnerRow) -> str:
    seconds = seconds_since(owner.ts, time.time())
    return "" if seconds is None else words.ago(seconds)
