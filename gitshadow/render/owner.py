"""The author of lines in one line of text, and at length as Markdown.

Invariant: prompts and names come from anybody: they are shown as text, so that no link, tag or
command in them does anything.
"""

import re
import time
from collections.abc import Iterator, Sequence

from gitshadow import words
from gitshadow.messages.blame import OwnerRow
from gitshadow.render.blame import name_of
from gitshadow.render.history import seconds_since
from gitshadow.render.style import printable, printable_line

# Inside a word a hyphen means nothing, and some editors would show the backslash before it.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+.!<>|~&$:@]|(?<!\w)-|-(?!\w))")
_TITLE_PROMPT = 60
_OLD_LINES = 12


def title(owner: OwnerRow) -> str:
    """Return a run's author in one line: name, confidence if it is not certain, age, prompt."""
    said = [printable(name_of(owner))]
    if owner.confidence not in ("certain", ""):
        said.append(owner.confidence)
    if age := _age(owner):
        said.append(age)
    if prompt := " ".join((owner.prompt or "").split()):
        said.append(printable(words.shortened(prompt, _TITLE_PROMPT)))
    return ", ".join(said)


def described(owner: OwnerRow, turn: str, before: Sequence[str] | None) -> str:
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
