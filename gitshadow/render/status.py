"""status, init and doctor as text."""

import shlex
from collections.abc import Iterator, Sequence

from gitshadow.messages.status import (
    AlertRow,
    Coverage,
    DoctorAnswer,
    ExcludedRow,
    InitAnswer,
    InitProtection,
    Protection,
    StatusAnswer,
)
from gitshadow.render.history import age_of
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import byte_size, counted

_NEXT = "if an agent goes wrong: git agent-undo oops"
_LABEL = 13
_NAMED = 4
_ALERTS_SHOWN = 3
_GROUPS_SHOWN = 6
_DATA = "untracked data"
_SUBMODULE = "submodule"


def status_lines(
    status: StatusAnswer | None, verdict: Protection, view: View, *, whole: bool = False
) -> Iterator[str]:
    """Yield whether this is protected, by what, at what cost, and what is not covered.

    The first line answers; the last one says what to type next.

    Args:
        status: What the engine knows; None if nothing is recorded.
        verdict: Whether this is protected.
        view: How to show it.
        whole: Name each path that is not covered.
    """
    style = "good" if verdict.state == "protected" else "warn"
    for line in view.fold(_answer(verdict), 2):
        yield view.paint(line, style)
    if status is not None:
        for label, said in _facts(status, verdict):
            yield from view.fold(f"{label:<{_LABEL}}{said}", _LABEL)
        coverage = status.coverage
        yield from _each(coverage, view) if whole else _grouped(coverage, view)
        yield from _alerts(status.alerts, view)
        yield from _hints(status.hints)
    fix = printable(verdict.fix or "")
    yield f"next: {fix}" if fix else _NEXT


def _answer(verdict: Protection) -> str:
    why, by = printable(verdict.why or ""), _by(verdict.by)
    since = local_time(verdict.since or "")
    if verdict.state == "protected":
        return f"protected: since {since}, by {by}"
    if verdict.state == "partly":
        recorded = f" (recorded since {since} by {by})" if verdict.since else ""
        return f"partly protected: {why}{recorded}"
    return f"not protected: {why}"


def _by(names: Sequence[str]) -> str:
    agents = ", ".join(printable(name) for name in names if name != "daemon")
    parts = ["the daemon"] * ("daemon" in names)
    return " and ".join([*parts, *([f"the hooks of {agents}"] if agents else [])])


def _facts(status: StatusAnswer, verdict: Protection) -> Iterator[tuple[str, str]]:
    """Yield label and text of what there is to know, in the order in which it matters."""
    yield "worktree", printable(status.root)
    label = "hooks"
    for said in _hook_texts(verdict):
        yield label, said
        label = ""
    yield "history", _history(status)
    for session in status.current:
        since = local_time(session.started or "")
        yield "active", f"{printable(session.id)} since {since}"
    window = status.undo_window
    if window is not None:
        until = local_time(window.closes or "")
        whose = f"{window.tool} {window.call} of session {window.session}"
        yield "effects", printable(f"can be undone until {until}: {whose}")
    disk = status.disk
    yield (
        "disk",
        f"{byte_size(disk.bytes)} used by gitshadow; the repository has"
        f" {counted(disk.loose, 'loose object')}"
        f" and {counted(disk.packed, 'pack')}",
    )
    yield "recorded", counted(status.coverage.tracked, "file")


def _history(status: StatusAnswer) -> str:
    gaps = status.gaps
    more = f", {counted(gaps, 'gap')} (git agent-undo log --kind gap)" if gaps else ""
    return (
        f"{counted(status.events, 'event')} in"
        f" {counted(status.sessions, 'session')}{more}"
    )


def _hook_texts(verdict: Protection) -> Iterator[str]:
    for row in verdict.hooks or ():
        last = (
            f"last event {local_time(row.heard)}"
            if row.heard
            else "no event received yet"
        )
        said = f"{row.agent} ({row.scope}): "
        yield printable(said + (row.problem or f"installed, {last}"))
    if verdict.unhooked:
        names = " ".join(printable(name) for name in verdict.unhooked)
        yield f"none for {names}: git agent-undo hooks install {names}"
    elif not verdict.hooks:
        yield "none; no agent was found here"


def _grouped(coverage: Coverage, view: View) -> Iterator[str]:
    """Yield what is not covered, a line per reason with a few names."""
    groups: dict[str, list[ExcludedRow]] = {}
    for entry in coverage.excluded:
        groups.setdefault(entry.reason, []).append(entry)
    for entry in groups.pop(_DATA, ()):
        yield from _data(entry, view)
    # A worktree can have thousands of ignored paths: they must not push the verdict off the screen.
    largest = sorted(groups, key=lambda reason: -len(groups[reason]))
    label = "not recorded"
    for reason in largest[:_GROUPS_SHOWN]:
        entries = groups[reason]
        names = [view.path(one.path) for one in entries[:_NAMED]]
        rest = len(entries) - len(names)
        more = f" and {rest} more" if rest else ""
        said = f"{len(entries)} {printable(reason)}: {', '.join(names)}{more}"
        yield from view.fold(f"{label:<{_LABEL}}{said}", _LABEL)
        if reason == _SUBMODULE:
            word = printable(shlex.quote(entries[0].path))
            yield f"{'':<{_LABEL}}to record it, too: git -C {word} agent-undo init"
        label = ""
    if groups:
        yield f"{'':<{_LABEL}}for the rules: git agent-undo status --all"


def _data(row: ExcludedRow, view: View) -> Iterator[str]:
    """Yield that untracked data is left out, and what to type about it."""
    count = (row.rule or "").partition(" ")[0]
    said = f"at least {byte_size(int(count))} of " if count.isdecimal() else ""
    name = printable(shlex.quote(f"/{row.path}"))
    yield view.paint(f"not recorded: {view.path(row.path)}: {said}{row.reason}", "warn")
    yield f"  to record it: git config --add agent-undo.include {name}"
    yield f"  to have Git ignore it: echo {name} >>.gitignore"


def _each(coverage: Coverage, view: View) -> Iterator[str]:
    for entry in coverage.excluded:
        rule = printable(entry.rule or "")
        because = f" ({rule})" if rule else ""
        count = entry.count_
        many = f", {counted(count, 'entry', 'entries')}" if count > 1 else ""
        path = view.path(entry.path)
        yield f"not recorded: {path}: {printable(entry.reason)}{because}{many}"


def _alerts(found: Sequence[AlertRow], view: View) -> Iterator[str]:
    """Yield what agents did that is alarming, the newest first, with how to look at it."""
    for row in found[:_ALERTS_SHOWN]:
        said = f"{printable(row.agent)} {printable(row.text)}, {age_of(row.ts)}"
        yield view.paint(f"alert: {said}", "warn")
        yield f"  to see it: git agent-undo show {printable(row.id)}"
    if len(found) > _ALERTS_SHOWN:
        yield f"  and {len(found) - _ALERTS_SHOWN} more: git agent-undo attention"


def _hints(hints: Sequence[str]) -> Iterator[str]:
    for hint in hints:
        yield f"hint: {printable(hint)}"


def init_lines(answer: InitAnswer, view: View) -> Iterator[str]:
    """Yield what `init` did."""
    files, root = answer.files, printable(answer.root)
    if answer.already:
        yield f"already recording {root} (rescanned {counted(files, 'file')})"
    else:
        stored = (
            f", {byte_size(answer.stored_bytes)} stored" if answer.stored_bytes else ""
        )
        yield f"recording {root}: {counted(files, 'file')}{stored}"
    yield from (line for row in answer.data for line in _data(row, view))
    left_out = answer.excluded
    if left_out:
        yield f"not recorded: {counted(left_out, 'path')} (to list them: git agent-undo status)"
    if not answer.daemon:
        yield (
            "no daemon: changes are recorded only at hooks and commands"
            " (to start it: git agent-undo daemon start)"
        )
    for warning in answer.warnings:
        yield f"{view.paint('warning:', 'warn')} {printable(warning)}"
    yield from _hints(answer.hints)


def init_end_lines(protection: InitProtection, view: View) -> Iterator[str]:
    """Yield what protects from now on, which agents have no hooks yet, and what to type next."""
    by = _by(protection.by)
    if by:
        yield view.paint(f"protected by {by}", "good")
    for row in protection.waiting:
        agent, problem, fix = map(printable, (row.agent, row.problem, row.fix or ""))
        yield view.paint(
            f"the hooks of {agent} do not run yet: {problem}: {fix}", "warn"
        )
    names = ", ".join(printable(name) for name in protection.unhooked)
    if names:
        yield f"no hooks for {names}, so authorship is a guess: git agent-undo hooks install"
    yield _NEXT


def doctor_lines(answer: DoctorAnswer, view: View) -> Iterator[str]:
    """Yield what was repaired, then one line per check, with its remedy if it failed."""
    yield from (f"fixed: {printable(said)}" for said in answer.mended)
    failed = 0
    for check in answer.checks:
        failed += not check.ok
        mark = view.paint("ok  ", "good") if check.ok else view.paint("warn", "warn")
        name, message = printable(check.name), printable(check.message)
        said = f"{mark}  {name}: {message}" if message else f"{mark}  {name}"
        yield from view.fold(said, 6)
        if check.remedy and not check.ok:
            yield f"      hint: {printable(check.remedy)}"
    checks = answer.checks
    yield f"{failed} of {counted(len(checks), 'check')} failed" if failed else "healthy"
