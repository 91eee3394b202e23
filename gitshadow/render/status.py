"""The state of things as text: status, init, doctor, disk use, upkeep.

Invariant: nothing reads as healthy beside a warning.
"""

from collections.abc import Iterator, Mapping

from gitshadow.render.document import flag, inner, number, rows, text, texts
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time

_SHOWN_ON_TERMINAL = 20
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count_bytes: int) -> str:
    """Return a number of bytes as people read it (`1.5 MiB`)."""
    amount, unit = float(count_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return (
        f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
    )


def status_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what is recorded, by whom, at what cost, and what is not covered."""
    yield f"worktree   {printable(text(document, 'root'))}"
    yield f"recording  {_recording(document, view)}"
    yield (
        f"history    {number(document, 'events')} events, "
        f"{number(document, 'sessions')} sessions "
        f"({number(document, 'open_sessions')} open), {number(document, 'gaps')} gaps"
    )
    for session in rows(document, "current"):
        since = local_time(text(session, "started"))
        yield f"  open: {printable(text(session, 'id'))} since {since}"
    disk = inner(document, "disk")
    yield (
        f"disk       {size(number(disk, 'bytes'))}, {number(disk, 'loose')} loose objects, "
        f"{number(disk, 'packed')} packed"
    )
    coverage = inner(document, "coverage")
    yield f"coverage   {number(coverage, 'tracked')} paths"
    yield from _excluded(coverage, view)
    yield from _window(inner(document, "undo_window"))
    yield from _hints(document, view)


def _window(window: Mapping[str, object]) -> Iterator[str]:
    """Yield until when the next effect of an agent program can be taken back."""
    if window:
        named = f"{text(window, 'tool')} {text(window, 'call')}"
        until = local_time(text(window, "closes"))
        yield printable(
            f"undo       until {until}: {named} of session {text(window, 'session')}"
        )


def _recording(document: Mapping[str, object], view: View) -> str:
    if document.get("enabled") is False:
        return view.paint("off (agent-undo.enabled is false)", "warn")
    degraded = printable(text(document, "degraded"))
    if degraded:
        return view.paint(f"degraded: {degraded}", "warn")
    daemon = inner(document, "daemon")
    if flag(daemon, "running"):
        return f"on, daemon {number(daemon, 'pid')}"
    return "on, without a daemon: at hooks and commands"


def _excluded(coverage: Mapping[str, object], view: View) -> Iterator[str]:
    entries = rows(coverage, "excluded")
    shown = entries[:_SHOWN_ON_TERMINAL] if view.terminal else entries
    for entry in shown:
        rule = printable(text(entry, "rule"))
        because = f" ({rule})" if rule else ""
        count = number(entry, "count")
        many = f", {count} entries" if count > 1 else ""
        path = view.path(text(entry, "path"))
        yield f"  not covered: {path}: {printable(text(entry, 'reason'))}{because}{many}"
    if len(shown) < len(entries):
        yield f"  … and {len(entries) - len(shown)} more"


def _hints(document: Mapping[str, object], view: View) -> Iterator[str]:
    for warning in texts(document, "warnings"):
        yield f"{view.paint('warning:', 'warn')} {printable(warning)}"
    for hint in texts(document, "hints"):
        yield f"hint: {printable(hint)}"


def init_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what `init` did, and what to type next."""
    files = number(document, "files")
    root = printable(text(document, "root"))
    if flag(document, "already"):
        yield f"already recording {root}, {files} files looked at again"
    else:
        yield f"recording {root} from now on: {files} files"
    left_out = number(document, "excluded")
    if left_out:
        yield f"not covered: {left_out} paths (git agent-undo status lists them)"
    if not flag(document, "daemon"):
        yield "no daemon: recorded at hooks and commands (git agent-undo start)"
    yield from _hints(document, view)
    yield "when an agent went wrong: git agent-undo oops"


def doctor_lines(document: Mapping[str, object], view: View) -> Iterator[str]:
    """Yield what was mended, then one line per check, with its remedy where it failed."""
    yield from (f"mended: {printable(said)}" for said in texts(document, "mended"))
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
        yield f"{mark}  {name}: {message}" if message else f"{mark}  {name}"
        remedy = printable(text(check, "remedy"))
        if remedy and not fine:
            yield f"      hint: {remedy}"
    yield f"{failed} of {len(checks)} checks failed" if failed else "healthy"
