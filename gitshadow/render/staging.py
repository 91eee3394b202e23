"""Plans and reports of staging, commits and moves by turn as text.

Invariant: the first lines say whose work it is and what happens to it; every file that is skipped
is listed with its reason.
"""

from collections.abc import Iterator, Mapping, Sequence

from gitshadow.messages.staging import StagingAnswer, StagingItem
from gitshadow.render.report import about_line, name_of, signed
from gitshadow.render.style import View, printable, printable_line
from gitshadow.words import counted

_VERBS: Mapping[str, tuple[str, str]] = {
    "stage": ("will stage", "staged"),
    "unstage": ("will unstage", "unstaged"),
    "commit": ("will commit", "committed"),
    "apply": ("will apply", "applied"),
    "move": ("will move", "moved"),
}
_REASONS: Mapping[str, str] = {
    "excluded": "not recorded",
    "other_repository": "in another repository",
    "purged": "its earlier content was purged",
    "head_moved": "changed by a checkout since",
    "no_baseline": "its earlier content was never recorded",
    "unsafe_path": "unsafe path",
    "io_error": "could not be read or written",
}
_SHOWN = 40
_MESSAGE_LINES = 12
_LEFT_SHOWN = 10
_WIDTH = len("skipped")
_OID_DIGITS = 10


def staging_lines(answer: StagingAnswer, view: View) -> Iterator[str]:
    """Yield a plan or a report line by line."""
    for row in answer.about if answer.status == "planned" else ():
        yield view.paint(about_line(row), "bold")
    yield view.paint(_headline(answer), _style(answer))
    for note in answer.notes:
        if note:
            yield f"note: {printable(note)}"
    if answer.kind in ("commit", "apply") and answer.status == "planned":
        for plan in answer.commits:
            yield from _message(plan.message)
    yield from _item_lines(answer.items, view, planned=answer.status == "planned")
    if answer.maybe:
        yield "uncertain, skipped (--include-low includes them):"
        yield from (f"  {view.path(path)}" for path in answer.maybe)
    yield from _onward(answer)


def split_lines(answer: StagingAnswer, view: View) -> Iterator[str]:
    """Yield the plan of a split, or what became of it."""
    planned = answer.status in ("planned", "refused")
    made = sum(plan.commit is not None for plan in answer.commits)
    if answer.status == "nothing_to_do":
        yield view.paint("nothing to commit: no turn has uncommitted changes", "bold")
    elif planned:
        commits = counted(len(answer.commits), "commit")
        yield view.paint(f"will make {commits}, the oldest turn first", "bold")
    else:
        style = "good" if made == len(answer.commits) else "warn"
        rest = len(answer.commits) - made
        words = f"made {counted(made, 'commit')}" + (
            f", {rest} not made" if rest else ""
        )
        yield view.paint(words, style)
    for number, plan in enumerate(answer.commits, 1):
        subject = printable(plan.message.split("\n", 1)[0])
        oid = (plan.commit or "")[:_OID_DIGITS]
        files = sum(item.state == "included" for item in plan.items)
        about = plan.about[0] if plan.about else None
        who = f"{printable(about.agent or '')}, " if about and about.agent else ""
        mark = oid or f"{number}."
        yield f"{view.paint(mark, 'bold')} {subject}  ({who}{counted(files, 'file')})"
        if planned:
            yield from _item_lines(plan.items, view, planned=True)
    for note in answer.notes:
        yield f"note: {printable(note)}"
    if answer.left:
        yield f"not part of any turn, {'stays' if planned else 'still'} uncommitted:"
        yield from (f"  {view.path(path)}" for path in answer.left[:_LEFT_SHOWN])
        if len(answer.left) > _LEFT_SHOWN:
            yield f"  … and {len(answer.left) - _LEFT_SHOWN} more"
    yield from _onward(answer)


def _headline(answer: StagingAnswer) -> str:
    future, past = _VERBS.get(answer.kind, ("will change", "changed"))
    count = sum(item.state == "included" for item in answer.items)
    skipped = sum(item.state == "skipped" for item in answer.items)
    if answer.status == "nothing_to_do":
        if answer.items:
            return f"nothing to {answer.kind}: already up to date"
        return f"nothing to {answer.kind}"
    is_done = answer.status in ("done", "partial")
    words = [f"{past if is_done else future} {counted(count, 'file')}"] if count else []
    if skipped:
        noun = counted(skipped, "file") if not words else str(skipped)
        words.append(f"{'skipped' if is_done else 'skip'} {noun}")
    made = next((plan.commit for plan in answer.commits if plan.commit), None)
    if made is not None:
        words[0] += f" as {made[:_OID_DIGITS]}"
    return ", ".join(words)


def _style(answer: StagingAnswer) -> str:
    return {"done": "good", "partial": "warn", "refused": "warn"}.get(
        answer.status, "bold"
    )


def _message(message: str) -> Iterator[str]:
    lines = message.rstrip("\n").split("\n")
    for line in lines[:_MESSAGE_LINES]:
        yield f"    {printable_line(line)}".rstrip()
    if len(lines) > _MESSAGE_LINES:
        yield f"    … and {counted(len(lines) - _MESSAGE_LINES, 'more line')}"


def _item_lines(
    items: Sequence[StagingItem], view: View, *, planned: bool
) -> Iterator[str]:
    for item in items:
        if item.state == "skipped":
            mark = view.paint(f"{'skip' if planned else 'skipped':<{_WIDTH}}", "warn")
            yield f"  {mark}  {view.path(item.path)}: {_why(item)}"
    shown = [item for item in items if item.state == "included"]
    cut = shown[:_SHOWN] if view.terminal else shown
    for item in cut:
        mark = view.paint(f"{item.action:<{_WIDTH}}", "good")
        yield f"  {mark}  {name_of(item, view)}{_how(item, view)}"
    if len(cut) < len(shown):
        yield f"  … and {len(shown) - len(cut)} more"


def _why(item: StagingItem) -> str:
    detail = printable(item.detail or "")
    plain = _REASONS.get(item.reason or "", "")
    if detail and plain:
        return f"{plain} ({detail})"
    return detail or plain or printable((item.reason or "").replace("_", " "))


def _how(item: StagingItem, view: View) -> str:
    words = [signed(item, view), printable(item.detail or "")]
    said = "; ".join(word for word in words if word)
    return f"  ({said})" if said else ""


def _onward(answer: StagingAnswer) -> Iterator[str]:
    if answer.token and answer.status == "planned":
        yield f"apply exactly this plan with: --token {printable(answer.token)}"
    if answer.way_back:
        yield f"undo this with: {printable(answer.way_back)}"
