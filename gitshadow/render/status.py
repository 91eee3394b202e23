"""The state of things as text: status, init, doctor.

Invariant: nothing reads as healthy beside a warning.
"""

from collections.abc import Iterator, Mapping, Sequence

from gitshadow.render.document import flag, inner, number, rows, text, texts
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import counted

_NEXT = "if an agent goes wrong: git agent-undo oops"
_LABEL = 13
_NAMED = 4
_GROUPS_SHOWN = 6
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count_bytes: int) -> str:
    """Return a number of bytes as people read it (`1.5 MiB`)."""
    amount, unit = float(count_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return (
        f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
    )


def status_lines(
    document: Mapping[str, object], view: View, *, whole: bool = False
) -> Iterator[str]:
    """Yield whether this is protected, by what, at what cost, and what is not covered.

    The first line answers; the last one says what to type next.

    Args:
        document: The engine's document, with the verdict as `protected`.
        view: How to show it.
        whole: Name each path that is not covered.
    """
    verdict = inner(document, "protected")
    style = "good" if text(verdict, "state") == "protected" else "warn"
    for line in view.fold(_answer(verdict), 2):
        yield view.paint(line, style)
    if "events" in document:
        for label, said in _facts(document, verdict):
            yield from view.fold(f"{label:<{_LABEL}}{said}", _LABEL)
        coverage = inner(document, "coverage")
        yield from _each(coverage, view) if whole else _grouped(coverage, view)
    yield from _hints(document, view)
    fix = printable(text(verdict, "fix"))
    yield f"next: {fix}" if fix else _NEXT


def _answer(verdict: Mapping[str, object]) -> str:
    state, why = text(verdict, "state"), printable(text(verdict, "why"))
    by = _by(texts(verdict, "by"))
    since = local_time(text(verdict, "since"))
    if state == "protected":
        return f"protected: since {since}, by {by}"
    if state == "partly":
        recorded = (
            f" (recorded since {since} by {by})" if text(verdict, "since") else ""
        )
        return f"partly protected: {why}{recorded}"
    return f"not protected: {why}"


def _by(names: Sequence[str]) -> str:
    agents = ", ".join(printable(name) for name in names if name != "daemon")
    parts = ["the daemon"] * ("daemon" in names)
    return " and ".join([*parts, *([f"the hooks of {agents}"] if agents else [])])


def _facts(
    document: Mapping[str, object], verdict: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield label and text of what there is to know, in the order in which it matters."""
    yield "worktree", printable(text(document, "root"))
    label = "hooks"
    for said in _hook_texts(verdict):
        yield label, said
        label = ""
    yield "history", _history(document)
    for session in rows(document, "current"):
        since = local_time(text(session, "started"))
        yield "active", f"{printable(text(session, 'id'))} since {since}"
    window = inner(document, "undo_window")
    if window:
        named = f"{text(window, 'tool')} {text(window, 'call')}"
        until = local_time(text(window, "closes"))
        whose = f"{named} of session {text(window, 'session')}"
        yield "effects", printable(f"can be undone until {until}: {whose}")
    disk = inner(document, "disk")
    yield (
        "disk",
        f"{size(number(disk, 'bytes'))} used by gitshadow; the repository has"
        f" {counted(number(disk, 'loose'), 'loose object')}"
        f" and {counted(number(disk, 'packed'), 'pack')}",
    )
    tracked = number(inner(document, "coverage"), "tracked")
    yield "recorded", counted(tracked, "file")


def _history(document: Mapping[str, object]) -> str:
    gaps = number(document, "gaps")
    more = f", {counted(gaps, 'gap')} (git agent-undo log --kind gap)" if gaps else ""
    return (
        f"{counted(number(document, 'events'), 'event')} in"
        f" {counted(number(document, 'sessions'), 'session')}{more}"
    )


def _hook_texts(verdict: Mapping[str, object]) -> Iterator[str]:
    found = rows(verdict, "hooks")
    for row in found:
        heard = text(row, "heard")
        last = f"last event {local_time(heard)}" if heard else "no event received yet"
        said = f"{text(row, 'agent')} ({text(row, 'scope')}): "
        problem = text(row, "problem")
        yield printable(said + (problem or f"installed, {last}"))
    unhooked = texts(verdict, "unhooked")
    if unhooked:
        names = " ".join(printable(name) for name in unhooked)
        yield f"none for {names}: git agent-undo hooks install {names}"
    elif not found:
        yield "none; no agent was found here"


def _grouped(coverage: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what is not covered, a line per reason with a few names."""
    groups: dict[str, list[Mapping[str, object]]] = {}
    for entry in rows(coverage, "excluded"):
        groups.setdefault(text(entry, "reason"), []).append(entry)
    largest = sorted(groups, key=lambda reason: -len(groups[reason]))
    label = "not recorded"
    for reason in largest[:_GROUPS_SHOWN]:
        entries = groups[reason]
        names = [view.path(text(one, "path")) for one in entries[:_NAMED]]
        rest = len(entries) - len(names)
        more = f" and {rest} more" if rest else ""
        said = f"{len(entries)} {printable(reason)}: {', '.join(names)}{more}"
        yield from view.fold(f"{label:<{_LABEL}}{said}", _LABEL)
        label = ""
    if groups:
        yield f"{'':<{_LABEL}}for the rules: git agent-undo status --all"


def _each(coverage: Mapping[str, object], view: View) -> Iterator[str]:
    for entry in rows(coverage, "excluded"):
        rule = printable(text(entry, "rule"))
        because = f" ({rule})" if rule else ""
        count = number(entry, "count")
        many = f", {counted(count, 'entry', 'entries')}" if count > 1 else ""
        path = view.path(text(entry, "path"))
        yield f"not recorded: {path}: {printable(text(entry, 'reason'))}{because}{many}"


def _hints(document: Mapping[str, object], view: View) -> Iterator[str]:
    for warning in texts(document, "warnings"):
        yield f"{view.paint('warning:', 'warn')} {printable(warning)}"
    for hint in texts(document, "hints"):
        yield f"hint: {printable(hint)}"


def init_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what `init` did."""
    files = number(document, "files")
    root = printable(text(document, "root"))
    if flag(document, "already"):
        yield f"already recording {root} (rescanned {counted(files, 'file')})"
    else:
        yield f"recording {root}: {counted(files, 'file')}"
    left_out = number(document, "excluded")
    if left_out:
        yield f"not recorded: {counted(left_out, 'path')} (to list them: git agent-undo status)"
    if not flag(document, "daemon"):
        yield (
            "no daemon: changes are recorded only at hooks and commands"
            " (to start it: git agent-undo start)"
        )
    yield from _hints(document, view)


def init_end_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what protects from now on, whom it is worth to tell of us, and what to type next."""
    by = _by(texts(document, "by"))
    if by:
        yield view.paint(f"protected by {by}", "good")
    for row in rows(document, "waiting"):
        agent, problem, fix = (
            printable(text(row, key)) for key in ("agent", "problem", "fix")
        )
        yield view.paint(
            f"the hooks of {agent} do not run yet: {problem}: {fix}", "warn"
        )
    names = ", ".join(printable(name) for name in texts(document, "unhooked"))
    if names:
        yield f"no hooks for {names}, so authorship is a guess: git agent-undo hooks install"
    yield _NEXT


def doctor_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what was mended, then one line per check, with its remedy where it failed."""
    yield from (f"fixed: {printable(said)}" for said in texts(document, "mended"))
    checks = rows(document, "checks")
    failed = 0
    for check in checks:
        fine = flag(check, "ok")
        failed += not fine
        mark = view.paint("ok  ", "good") if fine else view.paint("warn", "warn")
        name, message = (
            printable(text(check, "name")),
            printable(text(check, "message")),
        )
        said = f"{mark}  {name}: {message}" if message else f"{mark}  {name}"
        yield from view.fold(said, 6)
        remedy = printable(text(check, "remedy"))
        if remedy and not fine:
            yield f"      hint: {remedy}"
    yield f"{failed} of {counted(len(checks), 'check')} failed" if failed else "healthy"
