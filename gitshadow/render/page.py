"""A report as one HTML page that needs nothing else: no script, no network, no other file.

Every value that is printed passes the template engine's escaping and `_shown`.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gitshadow.messages.report import ReportAnswer
from gitshadow.render import timeline
from gitshadow.render.style import printable_line
from gitshadow.render.timeline import moment_of

_TEMPLATES = Path(__file__).parent / "templates"
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_OPEN_STEPS = 3
_TITLE_CHARACTERS = 90
_CLASSES: Mapping[str, str] = {"+": "add", "-": "del", "@": "hunk", "\\": "hunk"}
_KINDS: Mapping[str, str] = {
    "create": "new",
    "modify": "changed",
    "delete": "deleted",
    "rename": "renamed",
    "mode": "permissions",
}


class PageLine(NamedTuple):
    """One line of a patch; `number` is its line in the file, in the old one if it was removed."""

    kind: str
    number: str
    text: str


class Notice(NamedTuple):
    """One sentence that a reader should not miss, and the section with more about it."""

    text: str
    anchor: str


def page(report: ReportAnswer) -> str:
    """Return the page of a report; it is complete and ends with a newline."""
    # The policy allows this one inline style by its hash and nothing else: even a mistake in a
    # template could load or run nothing (https://www.w3.org/TR/CSP3/).
    style = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    drawing = timeline.draw(report.timeline)
    return (
        _environment()
        .get_template("report.html")
        .render(
            doc=report,
            style=Markup(style),
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
            "form-action 'none'",
            drawing=drawing,
            drawing_said=timeline.said(report.timeline),
            box=timeline,
            notices=list(_notices(report)),
            totals=_totals(report),
            open_steps=len(report.steps) <= _OPEN_STEPS,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        # A field that a template misspells is an error, not an empty place in the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "when": _when,
        "clock": _clock,
        "duration": duration,
        "lines": _lines,
        "title": _title,
        "count": count,
        "kind": lambda name: _KINDS.get(name, name),
    }
    return environment


def _shown(value: object) -> object:
    """Make a value safe to read: control characters are escapes, lines and tabs stay."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join(printable_line(line) for line in value.split("\n"))
    return "" if value is None else value


def _when(stamp: object) -> str:
    """Return a time with its day, local."""
    moment = moment_of(str(stamp))
    return f"{moment:%d %b %Y, %H:%M:%S}" if moment else str(stamp or "-")


def _clock(stamp: object) -> str:
    moment = moment_of(str(stamp))
    return f"{moment:%H:%M:%S}" if moment else str(stamp or "-")


def duration(seconds: int) -> str:
    """Return a length of time in its two largest units."""
    minutes, rest = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def count(amount: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{amount} {one if amount == 1 else many or one + 's'}"


def _title(prompt: str) -> str:
    """Return the first line of a prompt, cut."""
    lines = [line.strip() for line in prompt.split("\n") if line.strip()]
    first = lines[0] if lines else ""
    cut = len(lines) > 1 or len(first) > _TITLE_CHARACTERS
    return first[:_TITLE_CHARACTERS] + (" …" if cut else "")


def _lines(patch: str) -> Iterator[PageLine]:
    """Split a patch, with each line's number."""
    old = new = 0
    for line in patch.split("\n") if patch else ():
        kind = _CLASSES.get(line[:1], "same")
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            yield PageLine("hunk", "", line)
        elif kind == "hunk":
            yield PageLine("hunk", "", line)
        else:
            yield PageLine(kind, str(old if kind == "del" else new), line)
            old += kind != "add"
            new += kind != "del"


def _totals(report: ReportAnswer) -> Mapping[str, int]:
    return {
        "added": sum(one.change.added or 0 for one in report.files),
        "removed": sum(one.change.removed or 0 for one in report.files),
        "confident": sum(one.events for one in report.confidence),
    }


def _notices(report: ReportAnswer) -> Iterator[Notice]:
    """Yield what a reader should know first, the gravest first."""
    covered = report.not_covered
    gaps = len(covered.gaps)
    if gaps:
        yield Notice(f"{count(gaps, 'gap')} in the recording", "not-covered")
    back = [one for one in report.files if one.undone]
    if back:
        yield Notice(f"{count(len(back), 'file')} undone, or partly undone", "undone")
    changed = [
        one
        for one in report.files
        if (one.now or "").endswith("since") and not one.undone
    ]
    if changed:
        yield Notice(
            f"{count(len(changed), 'file')} changed again after the session", "files"
        )
    unsure = len(report.unsure)
    if unsure:
        yield Notice(f"{count(unsure, 'write')} possibly by someone else", "sure")
    touched = len(covered.touched)
    if touched:
        yield Notice(
            f"{count(touched, 'path')} changed but not recorded", "not-covered"
        )
    for one in report.left_out:
        yield Notice(f"not in this report: {one.what}", "about")
    if report.session.elsewhere:
        yield Notice("it also changed files in other worktrees", "about")
